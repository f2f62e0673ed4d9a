"""What owners and workers write about themselves, and what a store must offer for it.

A share is replaced whole and only by who read the one before: (epoch, revision) is compared. An owner that was fenced
finds a larger epoch and stops; the next owner goes on from the counts that it finds, so a partition's counts outlive
its owners. What an owner that was killed had counted since its last share is not in them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol, Self

COUNTS: Final = ("events", "applied", "duplicates", "stale", "refused", "conflicts", "answers", "deliveries")
"""What is counted for each partition."""


class Hot(NamedTuple):
    """A conversation with much traffic."""

    conversation_id: str
    events_per_s: float
    """At most: an estimate that never is too low."""
    error_per_s: float
    """By how much at most it is too high."""


class Share(NamedTuple):
    """One partition's part of the statistics."""

    partition: int
    epoch: int
    """Of the owner that wrote it."""
    revision: int
    """Rises by 1 with each write."""
    snapshot: int
    """The fencing token of the lock under which it was last asked for; 0: never."""
    node: str
    at: int
    """When the owner looked, ms since 1970."""
    counts: Mapping[str, int]
    """Since the statistics began, by the names in `COUNTS`."""
    low_water: int = 0
    """The offset below which every record is finished."""
    lag_records: int = 0
    lag_s: float = 0.0
    events_per_s: float = 0.0
    pending: int = 0
    """Deliveries that wait for their receipt in the owner's memory."""
    hottest: tuple[Hot, ...] = ()

    def text(self) -> str:
        """Return what a store keeps beside the columns that it compares."""
        told = self._asdict()
        return json.dumps({name: told[name] for name in _TOLD})

    @classmethod
    def of(cls, columns: tuple[int, int, int, int, str, int], text: str) -> Self:
        """Return a share from (partition, epoch, revision, snapshot, node, at) and its text."""
        told = json.loads(text)
        hottest = tuple(Hot(*each) for each in told.get("hottest", ()))
        known = {name: told[name] for name in _TOLD if name in told}
        return cls(*columns, **{"counts": {}, **known, "hottest": hottest})


_TOLD: Final = ("counts", "low_water", "lag_records", "lag_s", "events_per_s", "pending", "hottest")


STALE_MS: Final = 60_000
"""What is older says nothing about now."""
STOPPED: Final = "stopped"
SILENT: Final = "silent"


class NodeReport(NamedTuple):
    """What a worker says of itself."""

    node: str
    at: int
    """ms since 1970."""
    state: str = ""
    started_at: int = 0
    """ms since 1970; counts are since then."""
    config_version: int = 0
    """The version of the hot configuration that it runs."""
    conflicts: Mapping[str, int] = {}
    """By kind, a name of `ConflictKind`."""
    conflicts_per_minute: float = 0.0
    """In the last minute."""

    def state_at(self, now_ms: int) -> str:
        """Return what it said of itself, or that it has said nothing for long: then it may be gone, without a word."""
        return self.state if self.state == STOPPED or now_ms - self.at <= STALE_MS else SILENT

    def text(self) -> str:
        """Return what a store keeps beside node and time."""
        told = self._asdict()
        return json.dumps({name: told[name] for name in self._fields[2:]})

    @classmethod
    def of(cls, node: str, at: int, text: str) -> Self:
        """Return a report from its columns."""
        told = json.loads(text)
        return cls(node, at, **{name: told[name] for name in cls._fields[2:] if name in told})


NODE_TTL_S: Final = 7 * 86_400
"""How long a worker that is gone is remembered."""


class StatisticsTable(Protocol):
    """What a store offers; safe to use from any thread. Each call raises StoreUnavailableError, StoreRefusedError."""

    def share(self, partition: int) -> Share | None:
        """Read one partition's share, serially."""

    def shares(self, *, serially: bool) -> Sequence[Share]:
        """Read all shares, by partition; not serially they may be behind by a moment, and cost less."""

    def put(self, share: Share, before: Share | None) -> bool:
        """Replace `before` where it still stands (None: there is none); say whether it was replaced."""

    def put_node(self, report: NodeReport) -> None:
        """Replace a worker's report; an older one than there is changes nothing."""

    def nodes(self) -> Sequence[NodeReport]:
        """Read all workers' reports, by name."""
