"""A client works off a backlog, against a raw idempotent producer with a callback for each record.

    python -m bench.client_backlog fill OUTBOX COUNT
    python -m bench.client_backlog pump OUTBOX BOOTSTRAP
    python -m bench.client_backlog floor OUTBOX BOOTSTRAP

Both send the same keys and values in the same order: the floor reads them from the outbox before its clock starts.
The pump's window of unanswered events is opened wide, because no worker answers here; its bounds in flight stay.
"""

import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from bench.child import cpu_seconds, report
from bench.workload import BODY_BYTES
from producers import Client, Outgoing
from producers.retry import RetryPolicy
from producers.settings import ClientSettings
from schemas.topics import EVENTS, PRODUCER

CONVERSATIONS = 5_000
_PAGE = 5_000
_LINGER_MS = ClientSettings().linger_ms


def fill(outbox: Path, count: int) -> None:
    """Write `count` messages to an outbox."""
    body = "x" * BODY_BYTES
    with Client("bench-sender", outbox=outbox, offline=True) as me:
        for start in range(0, count, _PAGE):
            numbers = range(start, min(start + _PAGE, count))
            me.send_many(Outgoing(to=f"bench-user-{number % CONVERSATIONS}", body=body) for number in numbers)


def pump(outbox: Path, bootstrap_servers: str) -> None:
    """Work the outbox off: every row marked, produced, reported and settled on disk."""
    # Nobody answers here: nothing may wait for an answer, and nothing is sent again.
    settings = ClientSettings(
        unanswered_rows_max=10**9, unanswered_bytes_max=10**12, retry=RetryPolicy(first_s=600, max_s=600)
    )
    me = Client("bench-sender", outbox=outbox, bootstrap_servers=bootstrap_servers, settings=settings)
    count = _rows(outbox)
    start, cpu_start = time.perf_counter(), cpu_seconds()
    with me:
        left = me.flush(timeout_s=300)
        seconds, cpu_s = time.perf_counter() - start, cpu_seconds() - cpu_start
    if left:
        raise SystemExit(f"{left} of {count} rows were not handed over")
    report(count, seconds, cpu_s)


def floor(outbox: Path, bootstrap_servers: str) -> None:
    """Produce the same records with nothing around it."""
    with closing(sqlite3.connect(outbox)) as database:
        rows = database.execute("SELECT conversation_id, payload FROM events ORDER BY position").fetchall()
    records = [(key.encode(), bytes(value)) for key, value in rows]
    confirmed = 0

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        nonlocal confirmed
        if error is not None:
            raise SystemExit(f"the floor's record failed: {error}")
        confirmed += 1

    producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap_servers, "linger.ms": _LINGER_MS})
    start, cpu_start = time.perf_counter(), cpu_seconds()
    for key, value in records:
        while True:
            try:
                producer.produce(EVENTS, key=key, value=value, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(300)
    if confirmed != len(records):
        raise SystemExit(f"{confirmed} of {len(records)} records were confirmed")
    report(confirmed, time.perf_counter() - start, cpu_seconds() - cpu_start)


def _rows(outbox: Path) -> int:
    with closing(sqlite3.connect(outbox)) as database:
        return int(database.execute("SELECT count(*) FROM queue").fetchone()[0])


if __name__ == "__main__":
    command, file, last = sys.argv[1:]
    match command:
        case "fill":
            fill(Path(file), int(last))
        case "pump":
            pump(Path(file), last)
        case "floor":
            floor(Path(file), last)
        case _:
            raise SystemExit(f"unknown: {command}")
