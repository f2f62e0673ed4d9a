"""One producer, and what its delivery reports said. Replaced as a whole: a dead one's late reports reach nobody."""

from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException

from producers.clock import Clock, Report, append_time
from producers.kafka import ErrorPort, Fate, MessagePort, OnError, ProducerPort, fate_of
from producers.pages import Row
from schemas.topics import EVENTS

MakeProducer = Callable[[OnError], ProducerPort]

HELLO = 0
"""Stands for a HELLO among positions; rows begin at 1."""
_QUEUE_FULL: ErrorPort = KafkaError(KafkaError._QUEUE_FULL)  # noqa: SLF001 - that is how the library names its own codes
"""What a BufferError of `produce` says; passes by itself."""


class Line:
    """The way to Kafka. Its callbacks only note what they hear, so nothing is ever raised out of poll."""

    def __init__(self, make: MakeProducer, on_error: OnError, clock: Clock) -> None:
        self.landed: list[int] = []
        """Positions in the log."""
        self.failed: list[tuple[int, ErrorPort]] = []
        """Positions that are not, or of which nobody knows."""
        self.fatal = False
        """The producer is of no more use."""
        self.greeting = False
        """A HELLO is out."""
        self._clock = clock
        self._on_error = on_error
        self._sample = 0
        self._produced_at = 0.0
        self._told: Report | None = None
        self.producer = make(self._hear)

    def _hear(self, error: ErrorPort) -> None:
        if fate_of(error) is Fate.FATAL:
            self.fatal = True
        self._on_error(error)

    def produce(self, rows: Sequence[Row]) -> None:
        """Hand rows over; each will be in `landed` or `failed` after some poll, or is in `failed` at once."""
        produce = self.producer.produce
        report = self._report
        for row in rows:
            try:
                produce(EVENTS, key=row.conversation_id, value=row.payload, on_delivery=partial(report, row.position))
            except KafkaException as error:
                self.failed.append((row.position, error.args[0]))
            except BufferError:
                # The rows in flight are bounded below the library's queue, so only settings passed through get here.
                self.producer.poll(0.1)
                self.failed.append((row.position, _QUEUE_FULL))
        if not self._sample:
            # The last: its report is the one to come soonest after its call.
            self._sample, self._produced_at = rows[-1].position, self._clock.steady_ms()

    def greet(self, key: str, value: bytes) -> None:
        """Produce a HELLO, whose report tells the log's time."""
        self.greeting = True
        produced_at = self._clock.steady_ms()
        try:
            self.producer.produce(EVENTS, key=key, value=value, on_delivery=partial(self._report_hello, produced_at))
        except (KafkaException, BufferError) as error:
            self._report_hello(produced_at, error.args[0] if isinstance(error, KafkaException) else _QUEUE_FULL, None)

    def _report(self, position: int, error: ErrorPort | None, message: MessagePort) -> None:
        if error is not None:
            self.failed.append((position, error))
        else:
            self.landed.append(position)
        if position == self._sample:
            self._sample = 0
            if error is None:
                self._note_time(self._produced_at, message)

    def _report_hello(self, produced_at: float, error: ErrorPort | None, message: MessagePort | None) -> None:
        self.greeting = False
        if error is not None:
            self.failed.append((HELLO, error))
        elif message is not None:
            self._note_time(produced_at, message)

    def _note_time(self, produced_at: float, message: MessagePort) -> None:
        now = self._clock.steady_ms()
        self._told = Report(produced_at, now, append_time(message.timestamp()[1], self._clock, produced_at, now))

    def told(self) -> Report | None:
        """Take what the last sampled report told about the log's time."""
        told, self._told = self._told, None
        return told

    def give_up(self) -> None:
        """Drop what the producer holds; what its log says to have landed still counts."""
        self.producer.purge()
        self.producer.poll(0)
