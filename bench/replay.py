"""`python -m bench.replay`: replay beside live workers, and a poisoned conversation, on a local stack of its own.

1. A topic of three events a message is worked off by two workers into a keyspace.
2. While they run, the topic is replayed into the live store: how much was read and changed. Whatever was added to the
   inbox meanwhile is decoded and told by kind.
3. It is rebuilt into a fresh keyspace, and the two keyspaces are compared row by row, by CQL of this program's own.
4. A conversation is parked with records waiting in it, then released, while others are written to: `bench.poisoned`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cassandra.cluster import Cluster, Session

from bench import poisoned, worker
from bench.deployed import consuming, environment, migrate
from bench.topics import Topics
from compose.stacks.local import LocalStack, StackAddresses
from schemas.records import Acknowledgement, Delivery
from schemas.topics import DEAD_LETTERS, EVENTS, INBOX

KEYSPACE = "bench_replay"
REBUILT = "bench_rebuilt"
OPERATOR = "bench"
_SETTINGS = {"worker.group": KEYSPACE, "worker.operators": OPERATOR}
_QUIET_S = 5.0
Figures = dict[str, Any]


def until(true: Callable[[], bool], what: str, timeout_s: float = 600.0) -> None:
    """Wait until something is so. Raises SystemExit where it is not in time."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(0.25)


def command(environ: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a `twotick` command; what it says goes through."""
    done = subprocess.run(
        [sys.executable, "-m", "compose.main", *arguments], env=environ, capture_output=True, text=True, check=False
    )
    sys.stderr.write(done.stderr)
    return done


def replay_into_the_live_store(environ: Mapping[str, str], topics: Topics) -> Figures:
    """Replay beside the workers; return what that did."""
    before = topics.ends(INBOX), topics.ends(DEAD_LETTERS)
    begun = time.monotonic()
    done = command(environ, "replay", "--execute", "--output", "jsonl")
    seconds = time.monotonic() - begun
    after = topics.ends(INBOX), topics.ends(DEAD_LETTERS)
    return {
        "exit_code": done.returncode,
        "said": done.stderr.splitlines()[-2:],
        "differing": len(done.stdout.splitlines()),
        "events_a_second": round(sum(topics.ends(EVENTS).values()) / seconds),
        "seconds": round(seconds, 1),
        "added_to_inbox": dict(Counter(map(_kind, topics.read(INBOX, before[0], after[0])))),
        "added_to_dead_letters": sum(after[1].values()) - sum(before[1].values()),
    }


def _kind(record: object) -> str:
    match record:
        case Acknowledgement():
            return f"acknowledgement {record.kind} {record.outcome} {record.reason}".rstrip()
        case Delivery():
            return "first delivery" if record.attempt == 1 else f"delivery {record.attempt}"
        case _:
            return type(record).__name__


def rebuild(environ: Mapping[str, str], addresses: StackAddresses, topics: Topics) -> Figures:
    """Rebuild into a fresh keyspace; return how fast, and how the two differ."""
    begun = time.monotonic()
    done = command(environ, "replay", "--into-keyspace", REBUILT, "--no-compare", "--output", "jsonl")
    seconds = time.monotonic() - begun
    with Cluster(list(addresses.cassandra_contact_points), port=addresses.cassandra_port) as cluster:
        session = cluster.connect()
        return {
            "exit_code": done.returncode,
            "said": done.stderr.splitlines()[-2:],
            "events_a_second": round(sum(topics.ends(EVENTS).values()) / seconds),
            "seconds": round(seconds, 1),
            **{table: _differences(session, table) for table in ("messages", "conversations")},
        }


def _differences(session: Session, table: str) -> Mapping[str, int]:
    live, rebuilt = (dict(_rows(session, keyspace, table)) for keyspace in (KEYSPACE, REBUILT))
    differing = sum(live.get(key) != rebuilt.get(key) for key in live.keys() | rebuilt.keys())
    return {"live": len(live), "rebuilt": len(rebuilt), "differing": differing}


def _rows(session: Session, keyspace: str, table: str) -> Iterator[tuple[object, object]]:
    """Yield a table's rows by key; who wrote them is left out, and so are a conversation's seqs, which may lag."""
    key = 3 if table == "messages" else 1
    for row in session.execute(f"SELECT * FROM {keyspace}.{table}"):
        values = {name: value for name, value in row._asdict().items() if name not in {"owner", "sequences", "attempt"}}
        if "transitions" in values:
            values["transitions"] = {number: tuple(step)[:4] for number, step in (row.transitions or {}).items()}
        yield tuple(values.values())[:key], repr(values)


def main() -> None:
    """Run everything; print what was found as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--messages", type=int, default=66_667, help="each is three events")
    parser.add_argument("--waiting", type=int, default=100, help="records that wait in the parked conversation")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="twotick-bench-") as name:
        stack = LocalStack(Path(name) / "stack")
        try:
            addresses = stack.up(lambda line: print(line, file=sys.stderr))
            print(json.dumps(run(addresses, asked.messages, asked.waiting), indent=2))
        finally:
            stack.down(remove_data=True)


def run(addresses: StackAddresses, messages: int, waiting: int) -> Figures:
    """Measure on a stack that is up and holds nothing yet."""
    migrate(addresses, KEYSPACE)
    kafka, environ = addresses.kafka_bootstrap_servers, environment(addresses, KEYSPACE, _SETTINGS)
    worker.fill(kafka, messages)
    with consuming(environ, 2), Topics(kafka, KEYSPACE) as topics:
        until(topics.is_worked_off, "the workers have worked off the topic")
        _until_quiet(topics)
        found: Figures = {"events": sum(topics.ends(EVENTS).values())}
        found["live"] = replay_into_the_live_store(environ, topics)
        found["rebuild"] = rebuild(environ, addresses, topics)
        found["poisoned"] = poisoned.run(addresses, environ, KEYSPACE, OPERATOR, waiting)
        return found


def _until_quiet(topics: Topics) -> None:
    """Wait until nothing has come into the inbox for a while: what is owed from before is none of the replay's."""
    seen, since = topics.ends(INBOX), time.monotonic()
    while time.monotonic() - since < _QUIET_S:
        time.sleep(0.5)
        if (now := topics.ends(INBOX)) != seen:
            seen, since = now, time.monotonic()


if __name__ == "__main__":
    main()
