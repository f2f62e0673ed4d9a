"""Replay and verification on real Kafka and Cassandra beside two live workers, judged by CQL and SQL of their own."""

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cassandra.cluster import Session

from compose.stacks.local import LocalStack
from consumers.errors import TopicUnrecordedError
from consumers.settings import WorkerSettings
from consumers.stores.cassandra import CassandraStore
from consumers.stores.settings import CassandraSettings
from consumers.topic_check import check_topic
from schemas.codec import PLAIN
from schemas.identity import bucket_of
from schemas.partitioner import partition_of
from schemas.records import Acknowledgement, Delivery, Event
from schemas.topics import DEAD_LETTERS, EVENTS, INBOX, PARTITIONS_LOCAL
from tests.integration.deployment import until
from tests.integration.real import Real, real
from tests.keyspaces import forget

pytestmark = pytest.mark.timeout(300)
CONVERSATIONS, MESSAGES = 6, 12


class Lived:
    """A deployment with two workers, and what was written into it."""

    def __init__(self, deployment: Real) -> None:
        self.deployment = deployment
        self.sent: list[Event] = []

    def live(self) -> None:
        """Have two workers fold messages, receipts, a block and what is no event."""
        deployment = self.deployment
        for slot in (0, 1):
            deployment.start(slot)
        self.sent = [deployment.send(self.name(n % CONVERSATIONS), n) for n in range(CONVERSATIONS * MESSAGES)]
        deployment.flush()
        until(self.is_committed, "what was sent is committed, so that receipts have other append times", 60)
        for event in self.sent:
            deployment.receipt("DELIVERED", event)
            deployment.receipt("READ", event)
        deployment.block("BLOCK", self.name(1), "bob", "mallory")
        deployment.raw(b"no event", self.name(1).encode())
        deployment.flush()
        until(lambda: deployment.all_read(self.sent), "all is read", 120)
        until(self.is_committed, "all is committed", 60)

    def name(self, number: int) -> str:
        """Return the name of a conversation."""
        return f"{self.deployment.settings['group']}-{number}"

    def is_committed(self) -> bool:
        """Say whether the workers have committed the whole log."""
        return self.deployment.committed() == sum(self.ends(EVENTS))

    def ends(self, topic: str) -> list[int]:
        """Return where a topic's partitions end."""
        records = self.deployment.ends(topic)
        return [records[number] for number in sorted(records)]


@pytest.fixture(scope="module")
def lived(local_stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    with real(local_stack, tmp_path_factory.mktemp("replay"), "r", from_the_start=True) as deployment:
        made = Lived(deployment)
        made.live()
        yield made


_COLUMNS = "SELECT column_name FROM system_schema.columns WHERE keyspace_name = %s AND table_name = %s"


def cells(session: Session, keyspace: str, *, times: bool = False) -> dict[tuple[Any, ...], object]:
    """Return all messages and conversations of a keyspace but for who wrote them; with when each was written."""
    found: dict[tuple[Any, ...], object] = {}
    for table, key in (("messages", 3), ("conversations", 1)):
        written = ", WRITETIME(version) AS written_at" if times else ""
        names = [
            column
            # Not as the driver knows them, which hears late of what another process has only just made.
            for (column,) in session.execute(_COLUMNS, (keyspace, table))
            if column not in {"owner", "attempt", "sequences"}
        ]
        keys = [name for name in names if name in {"conversation_id", "bucket", "message_id"}]
        assert len(keys) == key
        for row in session.execute(f"SELECT {', '.join(names)}{written} FROM {keyspace}.{table}"):
            values = dict(zip([*names, "written_at"], row, strict=False))
            if values.get("transitions"):
                values["transitions"] = {number: tuple(step)[:4] for number, step in values["transitions"].items()}
            found[(table, *(values[name] for name in keys))] = repr(sorted(values.items()))
    return found


def of_messages(found: dict[tuple[Any, ...], object]) -> int:
    return sum(key[0] == "messages" for key in found)


def said_since(lived: Lived, before: dict[str, list[int]]) -> list[object]:
    """Return what was added to the inbox and the dead letters about this deployment's conversations."""
    found: list[object] = []
    for topic, ends in before.items():
        for message in lived.deployment.records(topic):
            if message.offset() >= ends[message.partition()]:
                record = PLAIN.decode(message.value())
                of_ours = getattr(record, "conversation_id", lived.name(0)).startswith(lived.name(0)[:-2])
                if of_ours or not isinstance(record, (Acknowledgement, Delivery)):
                    found.append(record)
    return found


def test_beside_live_workers_it_changes_nothing_and_says_nothing(lived: Lived) -> None:  # cases K16, M4
    deployment = lived.deployment
    before = cells(deployment.session, deployment.keyspace, times=True)
    ends = {topic: lived.ends(topic) for topic in (INBOX, DEAD_LETTERS)}
    ran = deployment.twotick("replay", "--execute", "--output", "jsonl")
    assert (ran.code, ran.rows) == (0, []), ran.told
    assert f"checked {len(before):,} rows: 0 differ; 0 changed" in ran.told
    assert f"of {sum(lived.ends(EVENTS)):,} records" in ran.told
    assert cells(deployment.session, deployment.keyspace, times=True) == before
    assert said_since(lived, ends) == []
    assert all(worker.process.poll() is None for worker in deployment.workers)


def test_a_rebuilt_keyspace_is_the_same_cell_for_cell(lived: Lived) -> None:
    deployment, fresh = lived.deployment, f"{lived.deployment.keyspace}_again"
    try:
        ran = deployment.twotick("replay", "--into-keyspace", fresh, "--output", "jsonl")
        assert (ran.code, ran.rows) == (0, []), ran.told
        ours = cells(deployment.session, fresh)
        assert ours == cells(deployment.session, deployment.keyspace)
        assert of_messages(ours) >= CONVERSATIONS * MESSAGES
        again = deployment.twotick("replay", "--into-keyspace", fresh)
        assert (again.code, "not empty" in again.told) == (2, True)
    finally:
        forget(deployment.session, fresh)


def test_a_keyspace_that_is_not_the_groups_is_not_recorded(lived: Lived) -> None:
    deployment, fresh = lived.deployment, f"{lived.deployment.keyspace}_other"
    mistaken = ("--set", f"store.cassandra.keyspace={fresh}")
    try:
        ran = deployment.twotick(*mistaken, "migrate", "--execute", "--output", "jsonl")
        assert (ran.code, ran.rows[-1]["kind"]) == (4, "difference"), ran.told
        assert "has committed offsets in" in ran.rows[-1]["what"]
        store = CassandraStore.open(CassandraSettings(**deployment.more["cassandra"], keyspace=fresh))
        try:
            with pytest.raises(TopicUnrecordedError):
                check_topic(deployment.kafka, store, WorkerSettings(group=deployment.settings["group"]))
            # What fills it is a group that has finished nothing yet.
            assert check_topic(deployment.kafka, store, WorkerSettings(group=fresh))
        finally:
            store.close()
    finally:
        forget(deployment.session, fresh)


def in_sqlite(path: Path) -> dict[bytes, tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT message_id, state, version, stamp FROM messages").fetchall()
    return {row[0]: row[1:] for row in found}


def in_cassandra(lived: Lived) -> dict[bytes, tuple[Any, ...]]:
    query = f"SELECT message_id, state, version, stamp FROM {lived.deployment.keyspace}.messages"
    return {row[0].bytes: tuple(row[1:]) for row in lived.deployment.session.execute(query)}


def test_interrupted_it_goes_on_where_it_was(lived: Lived, tmp_path: Path) -> None:
    file, state = tmp_path / "rebuilt.sqlite", tmp_path / "state"
    arguments = ("replay", "--into-sqlite", str(file), "--state", str(state), "--output", "jsonl")
    slow = [sys.executable, "-m", "compose.main", *lived.deployment.command(*arguments, "--rate", "100")]
    with subprocess.Popen(slow, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: file.exists() and _counted(file) > 0, "it has begun", 60)
            process.send_signal(signal.SIGINT)
            told = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert (process.returncode, "the same command goes on" in told) == (130, True), told
    done = sum(json.loads(state.read_text())["positions"].values())
    assert 0 < done < sum(lived.ends(EVENTS))
    assert len(in_sqlite(file)) < len(in_cassandra(lived))
    ran = lived.deployment.twotick(*arguments)
    assert (ran.code, ran.rows) == (0, []), ran.told
    assert f"of {sum(lived.ends(EVENTS)) - done:,} records" in ran.told
    assert in_sqlite(file) == in_cassandra(lived)


def _counted(path: Path) -> int:
    try:
        return len(in_sqlite(path))
    except sqlite3.OperationalError:  # its tables are being made
        return 0


@pytest.fixture(scope="module")
def records(lived: Lived) -> list[Any]:
    """Give the log as a consumer of the test's own reads it."""
    return lived.deployment.records(EVENTS)


@pytest.mark.parametrize("wish", ["all", "offset", "time", "since", "conversation"])
def test_json_lines_tell_the_records_that_were_asked_for(
    lived: Lived, records: list[Any], wish: str, tmp_path: Path
) -> None:
    middle = sorted(message.timestamp()[1] for message in records)[len(records) // 2]
    of_name = partition_of(lived.name(0).encode(), PARTITIONS_LOCAL)
    arguments, wanted = {
        "all": ([], lambda _: True),
        "offset": (["--from-offset", "15", "--to-offset", "40"], lambda m: 15 <= m.offset() < 40),
        "time": (["--from-datetime", _text(middle)], lambda m: m.timestamp()[1] >= middle),
        "since": (["--since", "3d", "--partition", str(of_name)], lambda m: m.partition() == of_name),
        "conversation": (["--conversation", lived.name(3)], lambda m: m.key() == lived.name(3).encode()),
    }[wish]
    path = tmp_path / "log.jsonl"
    ran = lived.deployment.twotick("replay", "--to-jsonl", str(path), *arguments)
    assert ran.code == 0, ran.told
    found = [json.loads(line) for line in path.read_text().splitlines()]
    expected = sorted((m.partition(), m.offset(), m.timestamp()[1]) for m in records if wanted(m))
    assert sorted((each["partition"], each["offset"], each["appended_at"]) for each in found) == expected
    assert expected
    assert (len(expected) < len(records)) == (wish != "all")


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


@pytest.mark.parametrize("wish", ["offset", "time", "conversation"])
def test_a_part_is_folded_on_what_was_there_before(lived: Lived, records: list[Any], wish: str) -> None:
    # In the partition of the first conversation, so that it begins between messages and their receipts.
    first = partition_of(lived.name(0).encode(), PARTITIONS_LOCAL)
    between = sorted((m.offset(), m.timestamp()[1]) for m in records if m.key() == lived.name(0).encode())[MESSAGES]
    arguments = {
        "offset": ["--from-offset", str(between[0]), "--partition", str(first)],
        "time": ["--from-datetime", _text(between[1])],
        "conversation": ["--conversation", lived.name(0), "--conversation", lived.name(1)],
    }[wish]
    ran = lived.deployment.twotick("replay", *arguments, "--output", "jsonl")
    assert (ran.code, ran.rows) == (0, []), ran.told
    if wish == "conversation":
        assert f"checked {2 * MESSAGES + 2} rows: 0 differ" in ran.told
    else:
        assert "not from the start" in ran.told


def test_verify_finds_nothing_and_then_what_is_gone_which_is_mended(lived: Lived) -> None:
    deployment = lived.deployment
    ran = deployment.twotick("verify", "--output", "jsonl")
    assert (ran.code, ran.rows) == (0, []), ran.told
    assert "nothing is missing, nothing is odd" in ran.told
    before = cells(deployment.session, deployment.keyspace, times=True)
    deployment.session.execute(f"TRUNCATE {deployment.keyspace}.messages", timeout=60)
    found = deployment.twotick("verify", "--output", "jsonl", "--conversation", lived.name(2))
    assert (found.code, [each["kind"] for each in found.rows]) == (1, ["missing"] * MESSAGES)
    assert {each["conversation_id"] for each in found.rows} == {lived.name(2)}
    mended = deployment.twotick("replay", "--execute", "--output", "jsonl")
    assert mended.code == 0, mended.told
    assert len(mended.rows) == of_messages(before)
    assert all(each["mended"] for each in mended.rows)
    assert cells(deployment.session, deployment.keyspace, times=True) == before
    assert deployment.twotick("verify", "--output", "jsonl").code == 0


def test_two_workers_went_on_all_the_while(lived: Lived) -> None:
    deployment = lived.deployment
    assert sum(len(worker.status()["partitions"]) for worker in deployment.workers) == PARTITIONS_LOCAL
    late = deployment.send(lived.name(0), MESSAGES + 1)
    deployment.flush()
    until(lambda: deployment.store.message((late.conversation_id, late.message_id)) is not None, "it is folded")


@pytest.fixture
def strict(local_stack: LocalStack, tmp_path: Path) -> Iterator[Real]:
    with real(local_stack, tmp_path, "s", "strict") as made:
        yield made


def test_in_strict_mode_rows_are_mended_on_condition(strict: Real) -> None:
    worker, session, keyspace = strict.start(0), strict.session, strict.keyspace
    sent = strict.write(1, 4)
    until(lambda: strict.all_read(sent), "all is read", 60)
    name = sent[0].conversation_id
    before = cells(session, keyspace)
    for event, change in zip(
        sent,
        (
            "UPDATE {0}.messages SET state = 'SENT', receipts = ['SENT'] {1} IF version = 3",
            "UPDATE {0}.messages SET state = 'DELIVERED', version = 9, attempt = {2} {1} IF version = 3",
            "DELETE FROM {0}.messages {1} IF version = 3",
        ),
        strict=False,
    ):
        key = (bucket_of(event.message_id), UUID(bytes=event.message_id))
        where = f"WHERE conversation_id = '{name}' AND bucket = {key[0]} AND message_id = {key[1]}"
        assert session.execute(change.format(keyspace, where, uuid4())).was_applied
    changed = f"UPDATE {keyspace}.conversations SET participants = ['x'] WHERE conversation_id = %s IF EXISTS"
    assert session.execute(changed, (name,)).was_applied
    found = strict.twotick("replay", "--conversation", name, "--output", "jsonl")
    assert (found.code, sorted(each["kind"] for each in found.rows)) == (1, ["differs"] * 3 + ["missing"])
    mended = strict.twotick("replay", "--conversation", name, "--execute", "--output", "jsonl")
    assert (mended.code, [each["mended"] for each in mended.rows]) == (0, [True] * 4), mended.told
    assert cells(session, keyspace) == before
    assert strict.twotick("replay", "--conversation", name).code == 0
    late = strict.write(1, 5)[-1]  # the first four again, under other ids: the worker goes on where it was
    until(lambda: strict.all_read([late]), "the worker goes on", 60)
    assert worker.process.poll() is None
