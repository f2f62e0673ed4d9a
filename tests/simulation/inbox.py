"""A client's consumer of its inbox partition."""

# ruff: noqa: D102 - what stands in for a library is named after it

from collections.abc import Sequence
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException

from producers.kafka import TopicFound
from tests.simulation.broker import Record, error_record

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World


class InboxConsumer:
    """What the listener uses of a consumer."""

    def __init__(self, world: "World", process: "Process") -> None:
        self._world = world
        self._process = process
        self._topic, self._partition, self._position = "", 0, 0

    def topic(self, name: str, timeout_s: float) -> TopicFound:
        self._question()
        return TopicFound("simulated", len(self._world.inbox))

    def watermarks(self, topic: str, partition: int, timeout_s: float) -> tuple[int, int]:
        self._question()
        log = self._world.inbox[partition]
        return (log.low, log.end)

    def _question(self) -> None:
        self._process.touch("question")
        if self._world.kafka_is_down():
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no broker answered"))

    def assign(self, topic: str, partition: int, offset: int) -> None:
        self._topic, self._partition, self._position = topic, partition, offset

    def read(self, most: int, timeout_s: float) -> Sequence[Record]:
        self._process.touch("read")
        if self._world.kafka_is_down():
            return []
        log = self._world.inbox[self._partition]
        if self._position < log.low:
            return [error_record(self._topic, self._partition, KafkaError._AUTO_OFFSET_RESET)]
        left = min(most, log.end - self._position)
        if left <= 0:
            return []
        count = self._world.chance.whole("inbox fetch", 1, left)
        found = log.records[self._position : self._position + count]
        self._position += count
        return found

    def has_news(self) -> bool:
        """Say whether a read would give something, or there is no place to read from yet."""
        if not self._topic:
            return True
        log = self._world.inbox[self._partition]
        return self._position < max(log.end, log.low)

    def close(self) -> None:
        return None
