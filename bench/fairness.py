"""Whether one hot conversation holds up the others.

    python -m bench.fairness BOOTSTRAP [BACKLOG]

One production worker, on SQLite, finds BACKLOG messages of one conversation waiting in one partition. While it works
them off, a few messages a second are sent in other conversations; told is how long their answers took, for those in
the other partitions, and for those that stand in the same partition, in the log behind the whole backlog.
"""

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from subprocess import Popen
from threading import Event as Signal
from threading import Thread
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from consumers.logs import configure
from consumers.process import run_worker
from consumers.settings import WorkerSettings
from consumers.stores.sqlite import SqliteStore
from consumers.topic_check import check_topic
from schemas.codec import PLAIN
from schemas.identity import uuid7
from schemas.partitioner import partition_of
from schemas.records import Acknowledgement, Event
from schemas.topics import CONSUMER, EVENTS, INBOX, PARTITIONS_LOCAL, PRODUCER

RATE: Final = 50
"""Messages a second in other conversations."""
_SENDER: Final = "fairness"


def work(bootstrap_servers: str, group: str, path: str, queued: str = "") -> int:
    """Be the worker. `queued` is librdkafka's queued.min.messages, where another than the worker's own is tried."""
    configure(node="fairness", json_lines=False, level="warning")
    settings = WorkerSettings(group=group, static_members=False, commit_interval_s=0.2, tail_records=100)
    kafka: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers}
    if queued:
        kafka["queued.min.messages"] = int(queued)
    return run_worker(
        kafka=kafka, open_store=lambda: SqliteStore.open(Path(path)), settings=settings, slot=0, codec=PLAIN
    )


class Writer:
    """Sends as a client would, without waiting for answers."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap_servers, "linger.ms": 5})
        self._seq: dict[str, int] = {}

    def send(self, conversation: str) -> bytes:
        """Send one message; return its event's id."""
        now_ms = time.time_ns() // 1_000_000
        seq = self._seq[conversation] = self._seq.get(conversation, 0) + 1
        ids = [uuid7(now_ms, random.getrandbits(80)) for _ in range(2)]
        event = Event("SEND", ids[0], conversation, ids[1], _SENDER, b"f" * 16, seq, ("reader",), b"x" * 100)
        while True:
            try:
                self._producer.produce(EVENTS, PLAIN.encode(event), conversation.encode())
                break
            except BufferError:
                self._producer.poll(0.05)
        self._producer.poll(0)
        return ids[0]

    def flush(self) -> None:
        """Wait until all is in the log."""
        if self._producer.flush(120):
            raise SystemExit("Kafka did not take the backlog")


def _ends(bootstrap_servers: str, topic: str) -> list[TopicPartition]:
    consumer = Consumer({**CONSUMER, "bootstrap.servers": bootstrap_servers, "group.id": "fairness-look"})
    try:
        return [
            TopicPartition(topic, n, consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=10)[1])
            for n in range(PARTITIONS_LOCAL)
        ]
    finally:
        consumer.close()


def _answers(bootstrap_servers: str, from_here: list[TopicPartition], into: dict[bytes, float], stop: Signal) -> None:
    consumer = Consumer({**CONSUMER, "bootstrap.servers": bootstrap_servers, "group.id": "fairness-answers"})
    consumer.assign(from_here)
    while not stop.is_set():
        for message in consumer.consume(1_000, 0.05):
            if message.key() == _SENDER.encode() and (value := message.value()) is not None:
                record = PLAIN.decode(value)
                if isinstance(record, Acknowledgement):
                    into.setdefault(record.event_id, time.monotonic())
    consumer.close()


def _told(delays_s: Sequence[float]) -> str:
    if len(delays_s) < 2:
        return "none"
    cuts = quantiles(delays_s, n=100, method="inclusive")
    return f"median {cuts[49] * 1e3:.0f} ms, p99 {cuts[98] * 1e3:.0f} ms, worst {max(delays_s) * 1e3:.0f} ms"


def _begin_at_the_end(bootstrap_servers: str, group: str, path: str) -> None:
    """Have a group begin behind what others have written; a worker refuses a store that was not there before."""
    store = SqliteStore.open(Path(path))
    try:
        check_topic({"bootstrap.servers": bootstrap_servers}, store, WorkerSettings(group=group))
    finally:
        store.close()
    group_offsets = ConsumerGroupTopicPartitions(group, _ends(bootstrap_servers, EVENTS))
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for done in admin.alter_consumer_group_offsets([group_offsets]).values():
        done.result(30)


def measure(bootstrap_servers: str, backlog: int, queued: str) -> None:
    """Run it once, and print what it came to."""
    with tempfile.TemporaryDirectory() as folder:
        _measure(bootstrap_servers, backlog, queued, f"{folder}/store.sqlite")


def _measure(bootstrap_servers: str, backlog: int, queued: str, path: str) -> None:
    run = f"{random.getrandbits(32):08x}"
    group, hot = f"fairness-{run}", f"hot-{run}"
    where = partition_of(hot.encode(), PARTITIONS_LOCAL)
    _begin_at_the_end(bootstrap_servers, group, path)
    writer, answered, stop = Writer(bootstrap_servers), dict[bytes, float](), Signal()
    reader = Thread(target=_answers, args=(bootstrap_servers, _ends(bootstrap_servers, INBOX), answered, stop))
    reader.start()
    last = [writer.send(hot) for _ in range(backlog)][-1:]
    writer.flush()
    command = [sys.executable, "-m", "bench.fairness", "worker", bootstrap_servers, group]
    worker = Popen([*command, path, queued])
    sent: dict[bytes, tuple[float, int]] = {}
    names = [f"other-{run}-{n}" for n in range(40)]
    try:
        warm = writer.send(names[0])
        while warm not in answered and not (last and answered):
            time.sleep(0.01)
        start, number = time.monotonic(), 0
        while (last and last[0] not in answered) or time.monotonic() < start + 3:
            name = names[number % len(names)]
            sent[writer.send(name)] = (time.monotonic(), partition_of(name.encode(), PARTITIONS_LOCAL))
            number += 1
            time.sleep(1 / RATE)
        elapsed_s = time.monotonic() - start
        deadline = time.monotonic() + 30
        while not sent.keys() <= answered.keys() and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        stop.set()
        reader.join()
        worker.terminate()
        worker.wait(60)
    delays = {True: list[float](), False: list[float]()}
    for event_id, (at, partition) in sent.items():
        delays[partition == where].append(answered[event_id] - at)
    sys.stdout.write(
        f"backlog {backlog} worked off in {elapsed_s:.1f} s\n"
        f"  other partitions: {_told(delays[False])} ({len(delays[False])} messages)\n"
        f"  same partition:   {_told(delays[True])} ({len(delays[True])} messages)\n"
    )


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        sys.exit(work(*sys.argv[2:]))
    measure(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100_000, sys.argv[3] if len(sys.argv) > 3 else "")
