"""A small deployment for worker tests: a broker, a store, worker processes, and someone who writes and listens."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from consumers.stores.contract import StoredMessage
from schemas.codec import PLAIN
from schemas.identity import uuid7
from schemas.lifecycle import State
from schemas.records import NO_ID, Acknowledgement, DeadLetter, Delivery, Event
from schemas.topics import DEAD_LETTERS, EVENTS, INBOX

INSTALL = b"i" * 16
PARTITIONS = {EVENTS: 4, INBOX: 4, DEAD_LETTERS: 1}


def until(true: Callable[[], bool], what: str, timeout_s: float = 40.0) -> None:
    """Wait until something is so; fail with `what` if it never is."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(0.02)


@dataclass
class WorkerProcess:
    """One worker's process, its log lines and its status."""

    process: subprocess.Popen[str]
    log: Path
    status_file: Path

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of one event."""
        told = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in told if line["event"] == event]

    def status(self) -> dict[str, Any]:
        """Return what it last said of itself; empty before it said anything."""
        return json.loads(self.status_file.read_text()) if self.status_file.exists() else {}

    def counters(self) -> dict[str, Any]:
        """Return its counters."""
        return self.status().get("counters", {})

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 40.0) -> int:
        """Wait for its end; return its exit code."""
        return self.process.wait(timeout_s)

    def end(self) -> None:
        """End it if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


def dropped(worker: WorkerProcess) -> bool:
    """Say whether a worker noticed that its partitions are another's."""
    return bool(
        worker.lines("lease lost: another worker owns the partition; dropped") or worker.lines("partitions lost")
    )


def check_story(found: StoredMessage | None, event: Event) -> None:
    """A message went sent, delivered, read, and has its content."""
    assert found is not None
    assert [each.state for each, _ in found.transitions] == [State.SENT, State.DELIVERED, State.READ]
    assert found.row.version == 3
    assert found.content.body == event.body


@dataclass
class Deployment:
    """Worker processes on one broker and one store."""

    folder: Path
    kafka: Mapping[str, Any]
    settings: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)
    """What else the worker processes are told: which Cassandra, which keyspace."""
    partitions: int = PARTITIONS[EVENTS]
    workers: list[WorkerProcess] = field(default_factory=list)
    random: Random = field(default_factory=lambda: Random(7))

    def __post_init__(self) -> None:
        """Make the writer."""
        self.producer = Producer(
            {
                "bootstrap.servers": self.kafka["bootstrap.servers"],
                "partitioner": "murmur2",
                "enable.idempotence": True,
                "message.max.bytes": 2_000_000,
            }
        )

    @property
    def store_path(self) -> Path:
        """Where the SQLite store is."""
        return self.folder / "store.sqlite"

    @property
    def outage(self) -> Path:
        """The file that takes the store away while it exists."""
        return self.folder / "outage"

    def start(self, slot: int = 0, *, node: str = "n", **settings: Any) -> WorkerProcess:
        """Start a worker."""
        run = len(self.workers)
        log = self.folder / f"worker-{run}.log"
        folder = self.folder / f"status-{run}"
        told = {
            "slot": slot,
            "kafka": dict(self.kafka),
            "store": str(self.store_path),
            "outage": str(self.outage),
            "settings": {
                **self.settings,
                "node": node,
                "status_folder": str(folder),
                "status_interval_s": 0.2,
                **settings,
            },
            **self.more,
        }
        with log.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.worker_process", json.dumps(told)],
                stderr=stream,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        worker = WorkerProcess(process, log, folder / f"worker-{node}-{slot}.json")
        self.workers.append(worker)
        return worker

    def id(self) -> bytes:
        """Return a new id of now."""
        return uuid7(time.time_ns() // 1_000_000, self.random.getrandbits(80))

    def send(self, conversation: str, seq: int, *, message_id: bytes | None = None, body: bytes = b"hi") -> Event:
        """Write a SEND from alice to bob; return it."""
        event = Event("SEND", self.id(), conversation, message_id or self.id(), "alice", INSTALL, seq, ("bob",), body)
        self.put(event)
        return event

    def receipt(self, kind: str, sent: Event, actor: str = "bob") -> Event:
        """Write a receipt for a SEND; return it."""
        event = Event(kind, self.id(), sent.conversation_id, sent.message_id, actor, b"j" * 16)
        self.put(event)
        return event

    def block(self, kind: str, conversation: str, actor: str, subject: str) -> Event:
        """Write a BLOCK or UNBLOCK; return it."""
        event = Event(kind, self.id(), conversation, NO_ID, actor, b"j" * 16, subject=subject)
        self.put(event)
        return event

    def talk(self, names: Sequence[str], messages: int) -> list[Event]:
        """Write messages and their receipts, in turn in each of the named conversations; return the messages."""
        sent = []
        for seq in range(1, messages + 1):
            for name in names:
                event = self.send(name, seq)
                self.receipt("DELIVERED", event)
                self.receipt("READ", event)
                sent.append(event)
        self.flush()
        return sent

    def put(self, event: Event) -> None:
        """Write an event."""
        self.raw(PLAIN.encode(event), event.conversation_id.encode())

    def raw(
        self, value: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]] | None = None, **more: Any
    ) -> None:
        """Write whatever bytes."""
        self.producer.produce(EVENTS, value, key, headers=headers or [], **more)
        self.producer.poll(0)

    def flush(self) -> None:
        """Wait until all that was written is in the log."""
        assert self.producer.flush(30) == 0

    def ends(self, topic: str) -> dict[int, int]:
        """Return where a topic's partitions end."""
        consumer = Consumer({**self.kafka, "group.id": "listener", "enable.auto.commit": False})
        try:
            partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
            ask = consumer.get_watermark_offsets
            return {number: ask(TopicPartition(topic, number), timeout=10)[1] for number in partitions}
        finally:
            consumer.close()

    def records(self, topic: str, *partitions: int) -> list[Any]:
        """Return all records of a topic, or of some of its partitions."""
        consumer = Consumer({**self.kafka, "group.id": "listener", "enable.auto.commit": False})
        try:
            chosen = partitions or consumer.list_topics(topic, timeout=10).topics[topic].partitions
            asked = [TopicPartition(topic, n, 0) for n in chosen]
            ends = {}
            for each in asked:
                low, high = consumer.get_watermark_offsets(each, timeout=10)
                each.offset = low
                if high > low:
                    ends[each.partition] = high
            consumer.assign([each for each in asked if each.partition in ends])
            found = []
            while ends:
                message = consumer.poll(10)
                assert message is not None, f"{topic} does not answer"
                assert message.error() is None, message.error()
                found.append(message)
                # More may come of a partition whose end has been reached.
                if message.offset() + 1 >= ends.get(message.partition(), message.offset() + 2):
                    del ends[message.partition()]
            return found
        finally:
            consumer.close()

    def everything(self, topic: str) -> list[Any]:
        """Return all records of a topic, decoded."""
        return [PLAIN.decode(each.value()) for each in self.records(topic)]

    def answers(self) -> list[Acknowledgement]:
        """Return all answers and ticks."""
        return [each for each in self.everything(INBOX) if isinstance(each, Acknowledgement)]

    def deliveries(self) -> list[Delivery]:
        """Return all deliveries."""
        return [each for each in self.everything(INBOX) if isinstance(each, Delivery)]

    def dead_letters(self) -> list[DeadLetter]:
        """Return all dead letters."""
        return [each for each in self.everything(DEAD_LETTERS) if isinstance(each, DeadLetter)]

    def answered(self, event: Event) -> bool:
        """Say whether an event's actor has an answer."""
        return any(each.event_id == event.event_id and each.user == event.actor for each in self.answers())

    def committed(self) -> int:
        """Return the sum of the committed offsets."""
        group = {"group.id": self.settings["group"], "enable.auto.commit": False}
        consumer = Consumer({**self.kafka, **group})
        try:
            asked = [TopicPartition(EVENTS, n) for n in range(self.partitions)]
            return sum(max(0, each.offset) for each in consumer.committed(asked, timeout=10))
        finally:
            consumer.close()

    def begin_at_the_end(self) -> None:
        """Have the group begin behind what other tests have written to the topic."""
        reader = Consumer({**self.kafka, "group.id": self.settings["group"], "enable.auto.commit": False})
        try:
            asked = [TopicPartition(EVENTS, n) for n in range(self.partitions)]
            ends = [
                TopicPartition(EVENTS, each.partition, reader.get_watermark_offsets(each, timeout=10)[1])
                for each in asked
            ]
        finally:
            reader.close()
        group = ConsumerGroupTopicPartitions(self.settings["group"], ends)
        admin = AdminClient({"bootstrap.servers": self.kafka["bootstrap.servers"]})
        for done in admin.alter_consumer_group_offsets([group]).values():
            done.result(30)

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.end()
