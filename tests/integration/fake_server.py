"""A server small enough to read: one thread that folds the events topic and answers into the inbox.

It keeps rows in memory and knows no takeover; faults are switched on by its attributes.
"""

# ruff: noqa: D102 - what stands in for Kafka is named after it

import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from consumers.fold import Policy, fold, fold_block, fold_membership
from consumers.rows import At, ConversationRow, MessageRow
from schemas.codec import Codec
from schemas.errors import UndecodableError
from schemas.lifecycle import CONVERSATION_KINDS, RECEIPTS, Kind, Outcome, State
from schemas.records import Acknowledgement, Delivery, Event
from schemas.topics import CONSUMER, EVENTS, INBOX, PRODUCER


class FakeServer:
    """Answers until it is closed; `pause` and `resume` stop it between records."""

    def __init__(self, bootstrap_servers: str, *, answers_each: int = 1, from_end: bool = False) -> None:
        self.rows: dict[bytes, MessageRow] = {}
        self.conversations: dict[str, ConversationRow] = {}
        self.events: list[Event] = []
        self.seen: Counter[str] = Counter()
        self.sequences: set[tuple[bytes, str, int]] = set()
        self.reuses: set[tuple[bytes, str, int]] = set()
        self.changed = threading.Condition()
        self.answers_each = answers_each
        self._bootstrap = bootstrap_servers
        self._codec = Codec()
        self._going = threading.Event()
        self._going.set()
        self._paused = threading.Event()
        self._started = threading.Event()
        self._from_end = from_end
        self._stop = threading.Event()
        self._producer = Producer({**PRODUCER, "bootstrap.servers": bootstrap_servers, "linger.ms": 0})
        self._thread = threading.Thread(target=self._run, name="fake-server")
        self._thread.start()
        self._started.wait(20)

    def pause(self) -> None:
        self._going.clear()
        self._paused.wait(10)

    def resume(self) -> None:
        self._going.set()

    def close(self) -> None:
        self._going.set()
        self._stop.set()
        self._thread.join(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_until(self, reached, timeout_s: float = 30.0) -> bool:
        """Wait until `reached(self)` is true of what has been folded."""
        with self.changed:
            return self.changed.wait_for(lambda: reached(self), timeout_s)

    def states(self) -> Counter[str]:
        return Counter(row.state for row in self.rows.values())

    def tell(self, user: str, record: Acknowledgement | Delivery, *, raw: bytes | None = None) -> None:
        """Write into a user's inbox."""
        self._producer.produce(INBOX, key=user, value=raw or self._codec.encode(record))
        self._producer.poll(0)

    def flush(self) -> None:
        self._producer.flush(10)

    def _run(self) -> None:
        consumer = Consumer(
            {**CONSUMER, "bootstrap.servers": self._bootstrap, "group.id": "fake", "fetch.wait.max.ms": 10}
        )
        partitions = len(consumer.list_topics(EVENTS, timeout=10).topics[EVENTS].partitions)
        places = [TopicPartition(EVENTS, number, 0) for number in range(partitions)]
        if self._from_end:
            for place in places:
                place.offset = self._end_of(consumer, place)
        consumer.assign(places)
        self._started.set()
        try:
            while not self._stop.is_set():
                if not self._going.is_set():
                    self._paused.set()
                    self._going.wait()
                    self._paused.clear()
                taken = consumer.consume(200, timeout=0.02)
                with self.changed:  # whoever waits looks at the rows meanwhile
                    for message in taken:
                        if message.error() is None:
                            self._take(message)
                    self.changed.notify_all()
                self._producer.poll(0)
        finally:
            self._producer.flush(5)
            consumer.close()

    def _end_of(self, consumer, place):
        """Return a partition's end; a topic that was just made has no leader for a moment."""
        for _ in range(100):
            try:
                return consumer.get_watermark_offsets(place, timeout=10)[1]
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
                    raise
            self._stop.wait(0.1)
        raise AssertionError(f"{place} got no leader")

    def _take(self, message) -> None:
        try:
            event = self._codec.decode_as(Event, message.value())
        except UndecodableError:
            self.seen["undecodable"] += 1
            return
        self.events.append(event)
        self.seen[event.kind] += 1
        if event.kind == Kind.HELLO:
            return
        appended_at = message.timestamp()[1]
        at = At(1, message.partition(), message.offset(), appended_at)
        conversation = self.conversations.get(event.conversation_id) or ConversationRow(event.conversation_id)
        if event.kind in CONVERSATION_KINDS:
            told = fold_block(event, conversation, at, Policy())
            self.conversations[event.conversation_id] = told.row
            self._answer(event, told.outcome, told.reason, None, at)
            return
        before = self.rows.get(event.message_id)
        after = fold(event, before, conversation, at, Policy())
        if after.row is not None:
            self.rows[event.message_id] = after.row
        reason = after.reason
        if event.kind == Kind.SEND and after.outcome == Outcome.APPLIED:
            self.conversations[event.conversation_id] = fold_membership(event, conversation, at)
            number = (event.install, event.conversation_id, event.seq)
            if number in self.sequences:
                self.reuses.add(number)
                reason = "SEQUENCE_REUSED"
            self.sequences.add(number)
        self._answer(event, after.outcome, reason, after.row, at)
        if after.outcome != Outcome.APPLIED or after.row is None:
            return
        if event.kind == Kind.SEND and after.row.state == State.SENT:
            receipts = zip(event.recipients, after.row.receipts, strict=True)
            self.deliver(event, [user for user, state in receipts if state == State.SENT], appended_at)
        if event.kind in RECEIPTS and (before is None or before.state != after.row.state):
            ack = self._ack(after.row.sender, event, after.outcome, "", after.row, at)
            self._tell_often(after.row.sender, ack._replace(install=after.row.install, seq=after.row.seq))

    def deliver(self, event: Event, users: Sequence[str], sent_at: int, attempt: int = 1) -> None:
        for user in users:
            delivery = Delivery(
                user,
                event.conversation_id,
                event.message_id,
                event.actor,
                event.recipients,
                event.body,
                event.content_type,
                sent_at,
                sent_at + 7 * 24 * 3600 * 1000,
                attempt,
            )
            self._tell_often(user, delivery)

    def _answer(self, event: Event, outcome: str, reason: str, row: MessageRow | None, at: At) -> None:
        self._tell_often(event.actor, self._ack(event.actor, event, outcome, reason, row, at))

    def _ack(self, user: str, event: Event, outcome: str, reason: str, row: MessageRow | None, at: At):
        return Acknowledgement(
            user,
            event.install,
            event.event_id,
            event.kind,
            event.actor,
            event.conversation_id,
            event.message_id,
            outcome,
            reason,
            row.state if row else State.PENDING,
            row.version if row else 0,
            event.seq,
            at.appended_at,
            at.partition,
            at.offset,
        )

    def _tell_often(self, user: str, record: Acknowledgement | Delivery) -> None:
        for _ in range(self.answers_each):
            self.tell(user, record)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
