"""What a worker sees of itself, handed from its loop to the thread that writes it down."""

from collections.abc import Mapping
from typing import NamedTuple

from consumers.rows import Owner
from consumers.statistics.contract import COUNTS, Hot
from consumers.work import Work


class Counted:
    """One partition's counts since it was taken."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)

    def add(self, work: Work, events: int) -> None:
        """Add a batch that is finished; `events` is how many records it had."""
        counts, tally = self.counts, work.tally
        counts["events"] += events - tally.warm
        counts["applied"] += tally.applied
        counts["duplicates"] += tally.duplicates
        counts["stale"] += tally.stale
        counts["refused"] += sum(tally.refused.values())
        counts["conflicts"] += sum(tally.conflicts.values())
        counts["answers"] += len(work.acknowledgements)
        counts["deliveries"] += len(work.deliveries)


class Observed(NamedTuple):
    """One partition."""

    partition: int
    owner: Owner
    counts: Mapping[str, int]
    """Since it was taken."""
    low_water: int
    lag_records: int
    lag_s: float
    pending: int
    events_per_s: float
    hottest: tuple[Hot, ...]


class Observation(NamedTuple):
    """A worker at one moment."""

    at: int
    """ms since 1970."""
    state: str
    partitions: Mapping[int, Observed]


NOTHING_OBSERVED = Observation(0, "starting", {})
