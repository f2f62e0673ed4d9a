"""The simulated log and the idempotent producers that write it.

A producer's records reach a partition in order, each once, or the rest never: that is what an idempotent producer
promises. When it dies, or turns fatal, what it had in flight may land a good while later.
"""

# ruff: noqa: D102 - what stands in for a library is named after it

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from schemas.partitioner import partition_of

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World

LEADER_SKEW_MS = 400
"""A leader's clock is off by at most this; two differ by less than the workers' broker_clock_skew_ms."""
_LOG_APPEND_TIME = 2


class Record:
    """A record of the log, as consumers and delivery reports show it."""

    __slots__ = ("_error", "_headers", "_key", "_offset", "_partition", "_time", "_topic", "_value")

    def __init__(
        self, topic: str, partition: int, offset: int, time: int, key: bytes, value: bytes, headers: Any = None
    ) -> None:
        self._topic, self._partition, self._offset, self._time = topic, partition, offset, time
        self._key, self._value, self._headers = key, value, headers
        self._error: KafkaError | None = None

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (_LOG_APPEND_TIME, self._time)

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def headers(self) -> Any:
        return self._headers

    def error(self) -> KafkaError | None:
        return self._error


def error_record(topic: str, partition: int, code: int) -> Record:
    """Return what a consumer gives in place of a record."""
    record = Record(topic, partition, -1, 0, b"", b"")
    record._error = KafkaError(code)
    return record


class Partition:
    """One partition's records; those below `low` are gone."""

    __slots__ = ("leader_ms", "low", "number", "records", "topic")

    def __init__(self, topic: str, number: int) -> None:
        self.topic, self.number = topic, number
        self.records: list[Record] = []
        self.low = 0
        self.leader_ms = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, handed: "Handed", now_ms: float) -> Record:
        time = int(now_ms) + self.leader_ms
        record = Record(self.topic, self.number, self.end, time, handed.key, handed.value, handed.headers)
        self.records.append(record)
        return record


class Handed(NamedTuple):
    """A record that was given to a producer."""

    topic: str
    key: bytes
    value: bytes
    report: Callable[[KafkaError | None, Any], None]
    headers: Any = None


class SimProducer:
    """Both faces of a producer: the client's `produce(topic, key=...)` and the worker's positional one."""

    def __init__(self, world: "World", process: "Process", on_error: Callable[[Any], None]) -> None:
        self._world = world
        self._process = process
        self._on_error = on_error
        self.queue: deque[Handed] = deque()
        self._reports: deque[tuple[Handed, KafkaError | None, Any]] = deque()
        self.fatal = False
        self._told_fatal = False
        self._purged = False
        world.producers.append(self)

    def produce(
        self,
        topic: str,
        value: bytes = b"",
        key: Any = b"",
        partition: int = -1,
        on_delivery: Any = None,
        headers: Any = None,
    ) -> None:
        self._process.touch("produce")
        if self.fatal:
            raise KafkaException(KafkaError(KafkaError._FATAL, "fatal", fatal=True))
        raw = key.encode() if isinstance(key, str) else key
        self.queue.append(Handed(topic, raw, value, on_delivery, headers))

    def poll(self, timeout: float = 0.0) -> int:
        self._process.touch("poll")
        if timeout and not self._reports:
            self._world.wait(timeout)
        if self.fatal and not self._told_fatal:
            self._told_fatal = True
            self._on_error(KafkaError(KafkaError._FATAL, "the producer is fenced", fatal=True))
        few = len(self._reports)
        if few > 1 and not self._purged:
            few = self._world.chance.whole("reports", 1, few)
        for _ in range(few):
            handed, error, record = self._reports.popleft()
            handed.report(error, record)
        return few

    def land(self) -> None:
        """Let some of what is queued reach the log."""
        for _ in range(self._world.chance.whole("land", 1, len(self.queue))):
            handed = self.queue.popleft()
            self._reports.append((handed, None, self._world.append(handed)))

    def purge(self) -> None:
        """Give up what is queued: nobody knows whether it lands."""
        self._purged = True
        for handed in self.queue:
            unknown = Record(handed.topic, -1, -1, 0, handed.key, handed.value)
            self._reports.append((handed, KafkaError(KafkaError._PURGE_INFLIGHT), unknown))
        self.let_go()

    def let_go(self) -> None:
        """Leave what is queued to the network."""
        self._world.leave_to_network(self.queue)
        self.queue = deque()
        if self in self._world.producers:
            self._world.producers.remove(self)

    def flush(self, timeout: float) -> int:
        return len(self)

    def __len__(self) -> int:
        return len(self.queue) + len(self._reports)


def partition_for(key: bytes, partitions: int) -> int:
    """Return where a key's records go."""
    return partition_of(key, partitions)
