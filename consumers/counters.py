"""What a worker counts, since it started. Names are the metrics' names without `twotick_` and `_total`."""

from threading import Lock

from consumers.conflicts import ConflictKind, kind_of
from consumers.work import Tally


class Counters:
    """Plain numbers: counted on one thread, read from any; conflicts by kind are counted from any as well."""

    __slots__ = (
        "_conflicts_lock",
        "answers",
        "applied",
        "claims_lost",
        "cold_reads",
        "commit_errors",
        "commits",
        "conflicts",
        "conflicts_by_kind",
        "dead_letters",
        "deliveries",
        "duplicates",
        "events",
        "evictions",
        "expiries",
        "fenced_writes",
        "gateway_calls",
        "gateway_delivered",
        "gateway_given_up",
        "gateway_put_off",
        "kafka_errors",
        "lease_losses",
        "lost_ranges",
        "lost_records",
        "polls",
        "producer_rebuilds",
        "redeliveries",
        "refused",
        "republished",
        "row_writes",
        "skew_warnings",
        "spilled",
        "stale",
        "store_errors",
        "takeovers",
        "version_conflicts",
        "warm_ups",
    )

    LABELS = {"conflicts": "reason", "refused": "reason", "conflicts_by_kind": "kind"}  # noqa: RUF012 - never changed
    """What is counted by something, and by what."""

    def __init__(self) -> None:
        self.conflicts: dict[str, int] = {}
        self.conflicts_by_kind: dict[str, int] = {kind.value: 0 for kind in ConflictKind}
        self._conflicts_lock = Lock()
        self.refused: dict[str, int] = {}
        self.answers = self.deliveries = self.dead_letters = self.redeliveries = self.expiries = 0
        self.events = self.applied = self.duplicates = self.stale = self.warm_ups = 0
        self.row_writes = self.cold_reads = self.evictions = self.spilled = 0
        self.commits = self.commit_errors = self.polls = self.takeovers = self.lease_losses = 0
        self.kafka_errors = self.store_errors = self.producer_rebuilds = self.republished = 0
        self.lost_ranges = self.lost_records = self.skew_warnings = 0
        self.version_conflicts = self.fenced_writes = self.claims_lost = 0
        self.gateway_calls = self.gateway_delivered = self.gateway_given_up = self.gateway_put_off = 0

    def add(self, tally: Tally) -> None:
        """Add a batch's outcomes."""
        self.applied += tally.applied
        self.duplicates += tally.duplicates
        self.stale += tally.stale
        self.warm_ups += tally.warm
        for counted, by_reason in ((tally.conflicts, self.conflicts), (tally.refused, self.refused)):
            for reason, count in counted.items():
                by_reason[reason] = by_reason.get(reason, 0) + count
                if (kind := kind_of(reason)) is not None:
                    self.conflict(kind, count)

    def conflict(self, kind: ConflictKind, count: int = 1) -> None:
        """Count conflicts by kind; from any thread."""
        with self._conflicts_lock:
            self.conflicts_by_kind[kind.value] += count

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        """Return all counts by name."""
        return {
            name: dict(value) if isinstance(value := getattr(self, name), dict) else value
            for name in self.__slots__
            if not name.startswith("_")
        }
