"""A poisoned conversation: parked with records waiting in it, released in order; how long others wait meanwhile."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from statistics import quantiles
from typing import Any
from uuid import UUID

from cassandra.cluster import Cluster
from confluent_kafka import Consumer, Producer, TopicPartition

from compose.stacks.local import StackAddresses
from schemas.codec import PLAIN
from schemas.identity import uuid7
from schemas.lifecycle import Kind
from schemas.records import Acknowledgement, Event
from schemas.topics import EVENTS, INBOX, PRODUCER

RATE = 100
"""Messages of other conversations a second."""
OTHERS = 200
PHASE_S = 10.0
POISONED = "poisoned"
_PATIENCE_S = 60.0


class Listener(threading.Thread):
    """Notes when each event is answered; made, then started; ended by `stopping`."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(daemon=True)
        self.answered_at: dict[bytes, float] = {}
        self.stopping = threading.Event()
        self._consumer: Any = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench-listen"})
        numbers = self._consumer.list_topics(INBOX, timeout=15).topics[INBOX].partitions
        ends = (self._consumer.get_watermark_offsets(TopicPartition(INBOX, number), timeout=15) for number in numbers)
        self._consumer.assign(
            [TopicPartition(INBOX, number, end) for number, (_, end) in zip(numbers, ends, strict=True)]
        )

    def run(self) -> None:
        """Read until told to stop."""
        while not self.stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                record = PLAIN.decode(message.value())
                if isinstance(record, Acknowledgement):
                    self.answered_at.setdefault(record.event_id, time.monotonic())
        self._consumer.close()


class Writer:
    """Writes messages as clients do, and knows when it did."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap_servers, "linger.ms": 0})
        self._chance = random.Random(1)
        self._seqs: dict[str, int] = {}

    def send(self, conversation: str) -> Event:
        """Write a message into a conversation."""
        seq = self._seqs[conversation] = self._seqs.get(conversation, 0) + 1
        event = Event(
            Kind.SEND, self._id(), conversation, self._id(), f"{conversation}-a", b"p" * 16, seq, (f"{conversation}-b",)
        )
        self._producer.produce(EVENTS, key=conversation.encode(), value=PLAIN.encode(event))
        self._producer.poll(0)
        return event

    def flush(self) -> None:
        """Wait until all is in the log."""
        if self._producer.flush(60):
            raise SystemExit("not all messages were written")

    def _id(self) -> bytes:
        return uuid7(time.time_ns() // 1_000_000, self._chance.getrandbits(80))

    def write_while(self, going: Callable[[], bool]) -> dict[bytes, float]:
        """Write to others at the rate while `going`; return each event's id with when it was handed over."""
        sent: dict[bytes, float] = {}
        begun = time.monotonic()
        while going():
            ahead_s = len(sent) / RATE - (time.monotonic() - begun)
            if ahead_s > 0:
                time.sleep(ahead_s)
            sent[self.send(f"other-{len(sent) % OTHERS}").event_id] = time.monotonic()
        self.flush()
        return sent


def _for_a_phase() -> Callable[[], bool]:
    end = time.monotonic() + PHASE_S
    return lambda: time.monotonic() < end


def run(
    addresses: StackAddresses, environ: Mapping[str, str], keyspace: str, operator: str, waiting: int
) -> dict[str, Any]:
    """Park, fill, release, all under traffic of others; return their delays and what became of the order."""
    listener, writer = Listener(addresses.kafka_bootstrap_servers), Writer(addresses.kafka_bootstrap_servers)
    listener.start()
    asked = [sys.executable, "-m", "compose.main", "dead-letters"]
    named = [POISONED, "--operator", operator, "--execute"]
    before = writer.write_while(_for_a_phase())
    subprocess.run([*asked, "park", *named], env=environ, check=True)
    poisoned = [writer.send(POISONED) for _ in range(waiting)]
    parked = writer.write_while(_for_a_phase())
    begun = time.monotonic()
    releasing = subprocess.Popen([*asked, "release", *named, "--output", "jsonl"], env=environ)
    meanwhile = writer.write_while(lambda: releasing.poll() is None)
    seconds = time.monotonic() - begun
    phases = {"before": before, "parked": parked, "releasing": meanwhile}
    _await_answers(listener, phases)
    listener.stopping.set()
    listener.join()
    return {
        "waiting": waiting,
        "release": {"exit_code": releasing.returncode, "seconds": round(seconds, 1)},
        "in_order": _in_order(addresses, keyspace, poisoned),
        "others": {name: _delays(sent, listener) for name, sent in phases.items()},
    }


def _await_answers(listener: Listener, phases: Mapping[str, Mapping[bytes, float]]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while any(event not in listener.answered_at for sent in phases.values() for event in sent):
        if time.monotonic() > deadline:
            raise SystemExit("not all messages of others were answered")
        time.sleep(0.1)


def _delays(sent: Mapping[bytes, float], listener: Listener) -> dict[str, float]:
    """Return how long others waited from the hand-over of a message to its answer."""
    waits = [1000 * (listener.answered_at[event] - at) for event, at in sent.items()]
    parts = quantiles(waits, n=100)
    return {"messages": len(waits), "p50_ms": round(parts[49]), "p99_ms": round(parts[98])}


def _in_order(addresses: StackAddresses, keyspace: str, poisoned: list[Event]) -> bool:
    """Say whether all that waited are in the store, in the order in which they were written."""
    with Cluster(list(addresses.cassandra_contact_points), port=addresses.cassandra_port) as cluster:
        found = cluster.connect(keyspace).execute("SELECT conversation_id, message_id, transitions FROM messages")
        offsets = {row.message_id: row.transitions[1][3] for row in found if row.conversation_id == POISONED}
    places = [offsets.get(UUID(bytes=event.message_id)) for event in poisoned]
    known = [place for place in places if place is not None]
    return len(known) == len(poisoned) == len(offsets) and known == sorted(known)
