"""What there is to know about a running worker: its status, as JSON takes it, and what goes into the statistics."""

from time import monotonic
from typing import Any, Final, Protocol

from confluent_kafka import TopicPartition

from consumers import clock
from consumers.assignment import Assignment
from consumers.counters import Counters
from consumers.held import HeldPartition, Stage
from consumers.outage import KafkaOutage, Outage
from consumers.owner import PartitionOwner
from consumers.statistics.observed import Observation, Observed
from schemas.topics import EVENTS

HOTTEST_MAX: Final = 5
"""Conversations told of each partition."""


class Watermarks(Protocol):
    """The part of Kafka's consumer that knows where a log ends."""

    def get_watermark_offsets(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int]:
        """Return the log's first and end offsets."""


class Status:
    """Looks at a worker's parts and changes nothing. For the worker's thread; `running` also for the metrics'."""

    def __init__(  # noqa: PLR0913 - the parts that are looked at
        self,
        *,
        node: str,
        generation: int,
        assignment: Assignment,
        outage: Outage,
        kafka_outage: KafkaOutage,
        counters: Counters,
    ) -> None:
        self._node = node
        self._generation = generation
        self._assignment = assignment
        self._outage = outage
        self._kafka_outage = kafka_outage
        self._counters = counters
        self._consumer: Watermarks | None = None

    def bind(self, consumer: Watermarks) -> None:
        """Take the consumer, once it is there."""
        self._consumer = consumer

    def end_of(self, held: HeldPartition) -> int:
        """Return the log's end as last heard, without asking.

        The client hears of it with what it fetches. Of a partition that it never fetches it hears nothing; then it is
        as it was when the partition was taken.
        """
        if self._consumer is None:
            return held.end
        heard = self._consumer.get_watermark_offsets(TopicPartition(EVENTS, held.partition), cached=True)[1]
        return heard if heard >= 0 else held.end

    def lag_records(self) -> int:
        """Return how many records of all its partitions are not finished."""
        return sum(max(0, self.end_of(held) - owner.low_water) for held, owner in self._assignment.owned())

    def _lag(self, held: HeldPartition, owner: PartitionOwner, now_ms: int) -> tuple[int, float]:
        """Return how many records are not finished, and for how many s at most the oldest of them waits."""
        lag = max(0, self.end_of(held) - max(owner.low_water, 0))
        if not lag:
            held.clear_ms = now_ms
        since_ms = max(held.since_ms, held.clear_ms)
        return lag, round((now_ms - since_ms) / 1000, 3) if lag and since_ms else 0.0

    def state(self, *, stopping: bool) -> str:
        """Return in one word how the worker is."""
        if stopping:
            return "draining"
        if self._outage.active:
            return "store-down"
        if self._kafka_outage.active:
            return "kafka-down"
        return "running" if self._assignment.owned() else "waiting"

    def running(self, *, turns: int, config_version: int, stopping: bool) -> dict[str, object]:
        """Return all of it."""
        now_ms, owned = clock.now_ms(), self._assignment.owned()
        every = list(self._assignment.held.values())  # in one step: more may come while the metrics are asked for
        return {
            **self._head(turns, now_ms),
            "state": self.state(stopping=stopping),
            "cause": self._outage.cause or ("no broker answers" if self._kafka_outage.active else ""),
            "generation": self._generation,
            "config_version": config_version,
            "waiting": sorted(held.partition for held in every if held.stage is Stage.TAKING),
            "partitions": [held.partition for held, _ in owned],
            "details": [self._details(held, owner, now_ms) for held, owner in owned],
            "counters": self._counters.as_dict(),
        }

    def stopped(self, *, turns: int) -> dict[str, object]:
        """Return the last of it: no partitions any more."""
        return {
            **self._head(turns, clock.now_ms()),
            "state": "stopped",
            "partitions": [],
            "details": [],
            "counters": self._counters.as_dict(),
        }

    def _head(self, turns: int, now_ms: int) -> dict[str, object]:
        return {"node": self._node, "at_ms": now_ms, "turns": turns}

    def _details(self, held: HeldPartition, owner: PartitionOwner, now_ms: int) -> dict[str, Any]:
        lag_records, lag_s = self._lag(held, owner, now_ms)
        return {
            "partition": held.partition,
            "epoch": owner.owner.epoch,
            "position": owner.position,
            "low_water": owner.low_water,
            "committed": held.committed,
            "lag_records": lag_records,
            "lag_s": lag_s,
            "warming_up": owner.warming_up,
            "cached": owner.cached,
            "pending": len(owner.pending.entries),
        }

    def observation(self, *, stopping: bool) -> Observation:
        """Return what goes into the statistics."""
        now, now_ms = monotonic(), clock.now_ms()
        owned = self._assignment.owned()
        seen = {held.partition: self._observed(held, owner, now, now_ms) for held, owner in owned}
        return Observation(now_ms, self.state(stopping=stopping), seen)

    def _observed(self, held: HeldPartition, owner: PartitionOwner, now: float, now_ms: int) -> Observed:
        events_per_s, hottest = held.traffic.rates(now, HOTTEST_MAX)
        return Observed(
            held.partition,
            owner.owner,
            dict(held.counted.counts),
            owner.low_water,
            *self._lag(held, owner, now_ms),
            len(owner.pending.entries),
            events_per_s,
            hottest,
        )
