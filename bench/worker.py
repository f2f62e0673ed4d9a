"""One worker against its floor, over the same log.

    python -m bench.worker fill BOOTSTRAP MESSAGES
    python -m bench.worker floor BOOTSTRAP CASSANDRA_PORT KEYSPACE EVENTS
    python -m bench.worker worker BOOTSTRAP CASSANDRA_PORT KEYSPACE EVENTS

The floor polls, decodes, and writes the rows that the fold makes of the same records, in the batches in which they
were folded; the fold itself ran before its clock started. The worker is the production one on a topic from its first
record: it folds, writes, answers into the inbox and commits. Its clock runs from its first record to the commit of the
last, and its answers are all in Kafka by then.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from queue import SimpleQueue
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from bench.child import cpu_seconds, report
from bench.workload import events
from consumers.intake import Entry, Intake
from consumers.owner import PartitionOwner
from consumers.partition_rows import Takeover
from consumers.process import quieten_collector
from consumers.rows import ConversationWrite, MessageWrite, Owner
from consumers.settings import WorkerSettings
from consumers.stores.cassandra import CassandraStore
from consumers.stores.contract import Rows
from consumers.stores.settings import CassandraSettings
from consumers.topic_check import check_topic
from consumers.worker import Worker
from schemas.codec import Codec
from schemas.topics import CONSUMER, EVENTS, PARTITIONS_LOCAL, PRODUCER, VALUE_BYTES_MAX

CONVERSATIONS = 5_000
_STATUS_INTERVAL_S = 0.05
_WRITES_IN_FLIGHT_MAX = 128
_SETTINGS = WorkerSettings(group="bench", static_members=False, commit_interval_s=0.2)
_ID_AGE_MS = 60_000
"""Ids are made a little before their records, as clients make them."""


class Poll(NamedTuple):
    """What the records of one poll come to."""

    records: int
    writes: list[tuple[list[MessageWrite], list[ConversationWrite]]]


def fill(bootstrap_servers: str, messages: int) -> None:
    """Write the workload to the events topic."""
    codec = Codec()
    producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap_servers, "linger.ms": 20})
    now_ms = time.time_ns() // 1_000_000 - _ID_AGE_MS
    for event in events(messages, CONVERSATIONS, now_ms=now_ms):
        while True:
            try:
                producer.produce(EVENTS, key=event.conversation_id.encode(), value=codec.encode(event))
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise SystemExit("not all events were written")


def floor(bootstrap_servers: str, store: CassandraStore, count: int) -> None:
    """Poll, decode, write the same rows in the same batches; nothing else."""
    polls = list(_folded(bootstrap_servers, count))
    decode, done = Codec().decode, SimpleQueue[Exception | None]()
    owner, in_flight, seen, ahead = Owner(1, "bench"), 0, 0, 0
    consumer = _reader(bootstrap_servers)
    pending = iter(polls)
    messages = consumer.consume(1, 30)
    start, cpu_start = time.perf_counter(), cpu_seconds()
    while seen < count:
        for message in messages:
            decode(message.value())
        seen += len(messages)
        while ahead < seen:
            poll = next(pending)
            ahead += poll.records
            for rows, conversations in poll.writes:
                while in_flight >= _WRITES_IN_FLIGHT_MAX:
                    in_flight -= _finished(done)
                store.write(owner, rows, conversations, done.put)
                in_flight += 1
        messages = consumer.consume(_SETTINGS.batch_records_max, 0.1) if seen < count else []
    while in_flight:
        in_flight -= _finished(done)
    report(count, time.perf_counter() - start, cpu_seconds() - cpu_start)
    consumer.close()


def _finished(done: SimpleQueue[Exception | None]) -> int:
    error = done.get(timeout=60)
    if error is not None:
        raise error
    return 1


def _folded(bootstrap_servers: str, count: int) -> Iterator[Poll]:
    """Yield what the production fold makes of the topic, poll by poll."""
    owners: dict[int | None, PartitionOwner] = {number: _owner(number) for number in range(PARTITIONS_LOCAL)}
    intake = Intake(Codec().decode, VALUE_BYTES_MAX)
    consumer, seen = _reader(bootstrap_servers), 0
    while seen < count:
        messages = consumer.consume(_SETTINGS.batch_records_max, 1)
        seen += len(messages)
        if not messages:
            continue
        batches: dict[int | None, list[Entry]] = {}
        for message in messages:
            batches.setdefault(message.partition(), []).append(_entry(intake, message))
        writes = []
        for partition, entries in batches.items():
            work = owners[partition].fold(entries, Rows({}, {}), time.time_ns() // 1_000_000)
            owners[partition].durable()
            writes.append((work.message_writes(), work.conversation_writes()))
        yield Poll(len(messages), writes)
    consumer.close()


def _entry(intake: Intake, message: Message) -> Entry:
    offset = message.offset()
    if offset is None:
        raise SystemExit(f"not a record: {message.error()}")
    return intake.admit(offset, message.timestamp()[1], message.key(), message.value())


def _owner(partition: int) -> PartitionOwner:
    takeover = Takeover(
        partition=partition,
        generation=1,
        owner=Owner(1, "bench"),
        position=0,
        committed=0,
        from_the_start=True,
        spilled_to=time.time_ns() // 60_000_000_000,
    )
    return PartitionOwner(_SETTINGS.owner_settings(PARTITIONS_LOCAL), takeover)


def _reader(bootstrap_servers: str) -> Consumer:
    consumer = Consumer({**CONSUMER, "bootstrap.servers": bootstrap_servers, "group.id": "bench-floor"})
    consumer.assign([TopicPartition(EVENTS, number, OFFSET_BEGINNING) for number in range(PARTITIONS_LOCAL)])
    return consumer


def worker(bootstrap_servers: str, store: CassandraStore, keyspace: str, count: int) -> None:
    """Run the production worker over the whole topic."""
    kafka = {"bootstrap.servers": bootstrap_servers}
    settings = WorkerSettings(
        group=keyspace, static_members=False, commit_interval_s=0.2, status_interval_s=_STATUS_INTERVAL_S
    )
    begun: list[tuple[float, float]] = []
    figures: list[tuple[int, float, float]] = []

    def look(status: Mapping[str, Any]) -> None:
        """Take the worker's own word, on its own thread: another thread would wait for Kafka's client."""
        if not begun:
            if running.counters.polls and running.counters.events:
                begun.append((time.perf_counter(), cpu_seconds()))
        elif sum(max(0, each["committed"]) for each in status["details"]) >= count and not figures:
            figures.append((count, time.perf_counter() - begun[0][0], cpu_seconds() - begun[0][1]))
            running.stop()

    running = Worker(
        kafka=kafka,
        store=store,
        settings=settings,
        topic=check_topic(kafka, store, settings),
        node="bench-0",
        codec=Codec(),
        report=look,
    )
    running.run()
    if running.counters.applied != count:
        raise SystemExit(f"{running.counters.applied} of {count} events were applied: {running.counters.as_dict()}")
    report(*figures[0])


def main(command: str, bootstrap_servers: str, *rest: str) -> None:
    """Run one command of the module's docstring."""
    if command == "fill":
        fill(bootstrap_servers, int(rest[0]))
        return
    port, keyspace, count = rest
    # Larger batches than Cassandra's default warning limits; the local stack's are set to allow them.
    settings = CassandraSettings(port=int(port), keyspace=keyspace, batch_bytes_max=20 * 1024, batch_partitions_max=30)
    store = CassandraStore.open(settings)
    quieten_collector()
    try:
        if command == "floor":
            floor(bootstrap_servers, store, int(count))
        else:
            worker(bootstrap_servers, store, keyspace, int(count))
    finally:
        store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
