"""Reads dead letters, and sends their originals back to where they came from.

One idempotent producer, so the order in a partition is the order in which they are handed over. A letter is marked
once its original is in the log: a command that dies in between sends it again, which the fold takes for a copy. A
record that is still bad comes back as one new letter; nothing here sends it again by itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from secrets import randbits
from time import monotonic
from typing import Any, Final, Self

from confluent_kafka import KafkaException, Producer

from consumers import clock
from consumers.dead_letters_select import Letter, Place, RawRecord, original_of, place_of
from consumers.errors import KafkaUnavailableError
from consumers.kafka_clients import LOG as KAFKA_LOG
from consumers.kafka_clients import producer_config
from consumers.kafka_errors import translated
from consumers.parking import GIVE_UP
from consumers.replay.log import Log
from consumers.replay.spans import Span, Wish
from consumers.stores.contract import DeadLetterMark, Store
from schemas.codec import Codec
from schemas.errors import UndecodableError
from schemas.identity import uuid7
from schemas.records import NO_ID, DeadLetter, Event, Record
from schemas.topics import DEAD_LETTERS, EVENTS, Setting

TIMEOUT_S: Final = 30.0
CHUNK: Final = 500
"""Letters that are in the log before any of them is marked."""
_POLL_S: Final = 0.2
_BY_KEY: Final = -1
"""librdkafka's partition for "as the partitioner says"."""
REDRIVEN: Final = "redriven"
DISCARDED: Final = "discarded"


class Letters:
    """The dead-letters topic as far as it was read; each call reads what has come since."""

    def __init__(self, kafka: Mapping[str, Setting], codec: Codec) -> None:
        self._kafka = kafka
        self._codec = codec
        self._positions: dict[int, int] = {}
        self.strangers = 0
        """Records of the topic that are no dead letters."""

    def new(self) -> Iterator[DeadLetter]:
        """Yield the letters that were not yielded before. Raises WorkerError."""
        with Log(self._kafka, DEAD_LETTERS) as log:
            spans = [
                Span(each.partition, max(each.low, self._positions.get(each.partition, 0)), each.high, is_whole=False)
                for each in log.extents(Wish())
            ]
            for batch in log.batches(spans, CHUNK):
                for messages in batch.values():
                    yield from self._decoded(messages)
            self._positions |= {span.partition: span.end for span in spans}

    def partitions(self) -> frozenset[int]:
        """Return the partitions of the events topic, where the originals were. Raises WorkerError."""
        with Log(self._kafka, EVENTS) as log:
            return frozenset(each.partition for each in log.extents(Wish()))

    def decode(self, value: bytes | None) -> Record:
        """Return an original's value, decoded. Raises UndecodableError."""
        return self._codec.decode(value)

    def _decoded(self, messages: Iterable[Any]) -> Iterator[DeadLetter]:
        for message in messages:
            try:
                yield self._codec.decode_as(DeadLetter, message.value())
            except UndecodableError:
                self.strangers += 1


def marks_of(store: Store) -> dict[Place, DeadLetterMark]:
    """Return what was done about letters, by place."""
    return {(one.partition, one.offset, one.appended_at): one for one in store.dead_letter_marks()}


def mark(store: Store, letters: Sequence[Letter], deed: str, who: str) -> None:
    """Note what was done about letters. Raises the store's errors."""
    at = clock.now_ms()
    store.mark_dead_letters([DeadLetterMark(*place_of(each.letter), deed, who, at) for each in letters])


class LogWriter:
    """Writes into the events topic; a context that ends its producer."""

    def __init__(self, kafka: Mapping[str, Setting], codec: Codec) -> None:
        self._producer = Producer({**producer_config(kafka), "logger": KAFKA_LOG})
        self._codec = codec
        self._failed: list[Any] = []
        self._last = (-1, -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.purge()
        self._producer.flush(0)

    def command(self, kind: str, conversation_id: str, who: str, *, give_up: bool = False) -> tuple[int, int]:
        """Append a PARK or a RELEASE; return its partition and offset. Raises WorkerError."""
        event_id = uuid7(clock.now_ms(), randbits(80))
        event = Event(kind, event_id, conversation_id, NO_ID, who, NO_ID, GIVE_UP if give_up else 0)
        self._hand_over(RawRecord(conversation_id.encode(), self._codec.encode(event), []), _BY_KEY)
        self._insist(self._producer.flush(TIMEOUT_S))
        return self._last

    def redrive(self, store: Store, letters: Sequence[Letter], who: str) -> int:
        """Append the originals in this order, marking those of each few that are in the log; return how many.

        Raises WorkerError: those that are marked are in the log.
        """
        for start in range(0, len(letters), CHUNK):
            arrived: list[Letter] = []
            try:
                for each in letters[start : start + CHUNK]:
                    original = original_of(each.letter)
                    # Without a key it may be anywhere, so it goes to where it was.
                    partition = _BY_KEY if original.key else each.letter.log_partition
                    self._hand_over(original, partition, partial(arrived.append, each))
            finally:
                # One that is refused says nothing about the others.
                left = self._producer.flush(TIMEOUT_S)
                if arrived:
                    mark(store, arrived, REDRIVEN, who)
            self._insist(left)
        return len(letters)

    def _hand_over(self, original: RawRecord, partition: int, arrived: Callable[[], None] = lambda: None) -> None:
        """Hand a record over, waiting for room where the client's queue is full; `arrived` is called at its report."""
        key, value, headers = original
        told: list[tuple[str, str | bytes | None]] = [*headers]
        deadline = monotonic() + TIMEOUT_S
        while True:
            try:
                self._producer.produce(
                    EVENTS, value, key, partition, headers=told, on_delivery=partial(self._reported, arrived)
                )
            except BufferError as error:
                if monotonic() > deadline:
                    raise KafkaUnavailableError(f"a record cannot be handed over: {error}", "Try again.") from error
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                raise KafkaUnavailableError(f"a record cannot be handed over: {error}", "Try again.") from error
            else:
                break
        self._producer.poll(0)

    def _reported(self, arrived: Callable[[], None], error: Any, message: Any) -> None:  # noqa: ANN401 - the client's
        if error is not None:
            self._failed.append(error)
        else:
            self._last = (message.partition(), message.offset())
            arrived()

    def _insist(self, left: int) -> None:
        """Raise WorkerError where a record was refused, or some are not in the log yet."""
        if self._failed:
            raise translated(KafkaException(self._failed[0]), "appending to the log")
        if left:
            raise KafkaUnavailableError(f"{left} records are not in the log after {TIMEOUT_S:.0f} s", "Try again.")
