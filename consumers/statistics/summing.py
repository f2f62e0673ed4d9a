"""One snapshot of a whole deployment: under a lock, whose token the owners answer.

Who asks takes the lock `statistics`; each worker sees its token within a second, looks at itself anew and writes its
partitions' shares with it. So all shares of a snapshot were made after it was asked for, within moments of each other,
each partition is in it once, and two who ask at the same time do not mix theirs.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from consumers.locks.contract import Locks
from consumers.locks.locking import holding
from consumers.statistics.contract import COUNTS, SILENT, STOPPED, NodeReport, Share, StatisticsTable

LOCK: Final = "statistics"
LOCK_TTL_S: Final = 30
LOCK_WAIT_S: Final = 20.0
_LOOK_S: Final = 0.1


class Snapshot(NamedTuple):
    """What all owners had counted."""

    token: int
    shares: Sequence[Share]
    nodes: Sequence[NodeReport]
    missing: Sequence[int]
    """Partitions that have an owner, which did not answer in time; their shares are older, or there is none."""

    def total(self, name: str) -> int:
        """Return the sum of one of `COUNTS`."""
        return sum(share.counts.get(name, 0) for share in self.shares)

    def running(self, now_ms: int) -> Sequence[NodeReport]:
        """Return the reports of workers that are there: those that stopped, or are silent, are remembered too."""
        return [report for report in self.nodes if report.state_at(now_ms) not in {STOPPED, SILENT}]

    def of_node(self, node: str) -> "Snapshot":
        """Return the part that one worker wrote."""
        shares = [share for share in self.shares if share.node == node]
        nodes = [report for report in self.nodes if report.node == node]
        own = {share.partition for share in shares}
        return Snapshot(self.token, shares, nodes, [each for each in self.missing if each in own])

    def counts(self) -> dict[str, int]:
        """Return all sums."""
        return {name: self.total(name) for name in COUNTS}


def snapshot(  # noqa: PLR0913 - time is an argument
    locks: Locks,
    table: StatisticsTable,
    owned: Sequence[int],
    *,
    wait_s: float,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Snapshot:
    """Ask all owners, wait at most `wait_s` for their answers, and read them. `owned` are the partitions with a lease.

    Raises LockTakenError, StoreUnavailableError, StoreRefusedError.
    """
    with holding(locks, LOCK, ttl_s=LOCK_TTL_S + int(wait_s), wait_s=LOCK_WAIT_S) as handle:
        deadline = monotonic() + wait_s
        while _missing(table.shares(serially=False), owned, handle.token) and monotonic() < deadline:
            sleep(_LOOK_S)
        shares = table.shares(serially=True)
        return Snapshot(handle.token, shares, table.nodes(), _missing(shares, owned, handle.token))


def _missing(shares: Sequence[Share], owned: Sequence[int], token: int) -> list[int]:
    answered = {share.partition for share in shares if share.snapshot >= token}
    return [partition for partition in owned if partition not in answered]
