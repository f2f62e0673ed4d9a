"""What a worker tells of itself: how much it lags, also where Kafka's client has heard nothing of a log."""

from types import SimpleNamespace
from typing import Any

from confluent_kafka import OFFSET_INVALID, TopicPartition

from consumers.counters import Counters
from consumers.held import HeldPartition, Stage
from consumers.outage import KafkaOutage
from consumers.status import Status
from tests.unit.consumers.world import owner_of


class Consumer:
    """Knows what it has heard of a log's end."""

    def __init__(self, heard: int) -> None:
        self.heard = heard

    def get_watermark_offsets(self, _partition: TopicPartition, *, cached: bool) -> tuple[int, int]:
        """Answer without asking anybody."""
        assert cached
        return (0, self.heard)


def lag(*, end: int, heard: int) -> int:
    """Return how many records wait, the log having ended at `end` when the partition was taken."""
    held = HeldPartition(0)
    held.stage, held.owner, held.end = Stage.OWNED, owner_of(), end
    assignment: Any = SimpleNamespace(owned=lambda: [(held, held.owner)], held={0: held})
    parts: dict[str, Any] = {"outage": None, "kafka_outage": None, "counters": None}
    status = Status(node="n", generation=1, assignment=assignment, **parts)
    status.bind(Consumer(heard))
    return status.lag_records()


def test_a_partition_that_is_never_fetched_lags_all_the_same() -> None:
    # case K20
    assert lag(end=7, heard=OFFSET_INVALID) == 7


def test_what_was_heard_since_counts_as_well() -> None:
    assert lag(end=7, heard=9) == 9


class Meanwhile:
    """A partition that is being taken; when it is looked at, the worker's thread takes another one."""

    partition = 0

    def __init__(self, held: dict[int, Any]) -> None:
        self._held = held

    @property
    def stage(self) -> Stage:
        """Say that it is not taken yet."""
        self._held[1] = HeldPartition(1)
        return Stage.TAKING


def test_partitions_may_come_while_the_metrics_are_asked_for() -> None:
    held: dict[int, Any] = {}
    held[0] = Meanwhile(held)
    assignment: Any = SimpleNamespace(owned=list, held=held)
    parts: dict[str, Any] = {
        "outage": SimpleNamespace(active=False, cause=""),
        "kafka_outage": KafkaOutage(),
        "counters": Counters(),
    }
    status = Status(node="n", generation=1, assignment=assignment, **parts)
    assert status.running(turns=1, config_version=0, stopping=False)["waiting"] == [0]


def test_a_burst_after_a_quiet_hour_has_not_waited_for_an_hour() -> None:
    held = HeldPartition(0)
    held.stage, held.owner, held.since_ms = Stage.OWNED, owner_of(), 1_000
    assignment: Any = SimpleNamespace(owned=lambda: [(held, held.owner)], held={0: held})
    parts: dict[str, Any] = {"outage": None, "kafka_outage": None, "counters": None}
    status = Status(node="n", generation=1, assignment=assignment, **parts)
    assert status._lag(held, held.owner, 3_601_000) == (0, 0.0)
    held.end = 140
    assert status._lag(held, held.owner, 3_601_500) == (140, 0.5)
    held.since_ms = 3_601_400
    assert status._lag(held, held.owner, 3_601_500) == (140, 0.1)
