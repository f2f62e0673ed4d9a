"""Writes partitions' shares: each goes on from the counts of the owner before, and a fenced owner's stops."""

from collections.abc import Callable, Container
from typing import Final, NamedTuple

from consumers.conflicts import ConflictKind
from consumers.statistics.contract import COUNTS, Share, StatisticsTable
from consumers.statistics.observed import Observed

ATTEMPTS_MAX: Final = 3


class _Taken(NamedTuple):
    """A partition as this writer knows it."""

    epoch: int
    base: Share | None
    """The share of the owner before, from whose counts ours go on."""
    last: Share | None
    """What stands there as far as we know."""
    fenced: bool = False


class ShareWriter:
    """For one thread."""

    def __init__(self, table: StatisticsTable, on_conflict: Callable[[ConflictKind], None]) -> None:
        self._table = table
        self._on_conflict = on_conflict
        self._taken: dict[int, _Taken] = {}

    def forget_others(self, partitions: Container[int]) -> None:
        """Forget partitions that are no longer ours."""
        self._taken = {number: taken for number, taken in self._taken.items() if number in partitions}

    def write(self, observed: Observed, at: int, snapshot: int) -> bool:
        """Write one partition's share; False where a later owner has written, or others were faster again and again.

        Raises StoreUnavailableError, StoreRefusedError.
        """
        taken = self._taken.get(observed.partition)
        if taken is None or taken.epoch != observed.owner.epoch:
            standing = self._table.share(observed.partition)
            taken = _Taken(observed.owner.epoch, standing, standing)
        for _ in range(ATTEMPTS_MAX):
            if taken.fenced or (taken.last is not None and taken.last.epoch > taken.epoch):
                return self._fenced(observed.partition, taken)
            share = _share(observed, taken, at, snapshot)
            if self._table.put(share, taken.last):
                self._taken[observed.partition] = taken._replace(last=share)
                return True
            self._on_conflict(ConflictKind.VERSION)
            standing = self._table.share(observed.partition)
            own = standing is not None and standing.epoch == taken.epoch
            taken = taken._replace(last=standing, base=taken.base if own else standing)
        return False

    def _fenced(self, partition: int, taken: _Taken) -> bool:
        if not taken.fenced:
            self._on_conflict(ConflictKind.LEASE)
        self._taken[partition] = taken._replace(fenced=True)
        return False


def _share(observed: Observed, taken: _Taken, at: int, snapshot: int) -> Share:
    base = taken.base.counts if taken.base else {}
    last = taken.last
    return Share(
        partition=observed.partition,
        epoch=taken.epoch,
        revision=last.revision + 1 if last else 1,
        snapshot=max(snapshot, last.snapshot if last else 0),
        node=observed.owner.node,
        at=at,
        counts={name: base.get(name, 0) + observed.counts.get(name, 0) for name in COUNTS},
        low_water=observed.low_water,
        lag_records=observed.lag_records,
        lag_s=observed.lag_s,
        events_per_s=observed.events_per_s,
        pending=observed.pending,
        hottest=observed.hottest,
    )
