"""Reads records while more may be taken in; while not, pauses the partitions and goes on polling."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, Message, TopicPartition

from consumers.assignment import Assignment
from consumers.pipeline import Pipeline
from schemas.topics import EVENTS

if TYPE_CHECKING:
    from consumers.held import HeldPartition

PAUSE_AFTER_S: Final = 0.5
"""A worker that may not read for longer pauses its partitions and polls on."""
BUSY_WAIT_S: Final = 0.005
"""How long is waited at once while something is in flight."""
_IDLE_WAIT_S: Final = 0.1


class Reader:
    """Kafka's consumer as a worker's loop uses it. For one thread."""

    def __init__(self, consumer: Consumer, assignment: Assignment, pipeline: Pipeline) -> None:
        self._consumer = consumer
        self._assignment = assignment
        self._pipeline = pipeline
        self._strays: list[tuple[HeldPartition | None, Any]] = []
        """Records that came out while nothing was to be read, with the holding they were read under."""
        self._shut_since: float | None = None

    def read(self, most: int) -> Sequence[Any]:
        """Return up to `most` records; wait a little where there are none: for the store's answers first."""
        if self._assignment.paused:
            self._assignment.paused = False
            self._each_owned(self._consumer.resume)
        self._shut_since = None
        if self._strays:
            strays, self._strays = self._strays, []
            # A partition may have gone and come back since: its new owner starts further back than its stray.
            held = self._assignment.held
            return [stray for of, stray in strays if stray.error() or held.get(stray.partition()) is of]
        consumer = self._consumer
        messages: list[Message] = consumer.consume(most, 0)
        if messages:
            return messages
        if self._pipeline.unwritten:
            self._pipeline.serve(BUSY_WAIT_S)
            return ()
        first = consumer.poll(BUSY_WAIT_S if self._pipeline.unfinished else _IDLE_WAIT_S)
        if first is None:
            return ()
        return [first, *consumer.consume(most - 1, 0)] if most > 1 else [first]

    def keep_polling(self, now: float) -> None:
        """Wait for what is in flight; when that takes long, pause the partitions and poll without reading."""
        self._pipeline.serve(BUSY_WAIT_S)
        if self._shut_since is None:
            self._shut_since = now
        if now - self._shut_since < PAUSE_AFTER_S:
            return
        if not self._assignment.paused:
            self._assignment.paused = True
            self._each_owned(self._consumer.pause)
        stray: Any = self._consumer.poll(0)
        if stray is not None:
            self._strays.append((self._assignment.held.get(stray.partition()), stray))

    def _each_owned(self, do: Callable[[list[TopicPartition]], None]) -> None:
        owned = [TopicPartition(EVENTS, held.partition) for held, _ in self._assignment.owned()]
        if owned:
            do(owned)
