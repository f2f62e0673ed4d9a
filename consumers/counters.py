"""What a worker counts, since it started. Names are the metrics' names without `twotick_` and `_total`."""

from consumers.work import Tally


class Counters:
    """Plain numbers: counted on one thread, read from any."""

    __slots__ = (
        "answers",
        "applied",
        "cold_reads",
        "commit_errors",
        "commits",
        "conflicts",
        "dead_letters",
        "deliveries",
        "duplicates",
        "events",
        "evictions",
        "expiries",
        "fenced_writes",
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
        "spilled",
        "stale",
        "store_errors",
        "takeovers",
        "version_conflicts",
        "warm_ups",
    )

    LABELLED = frozenset({"conflicts", "refused"})
    """Counted by reason."""

    def __init__(self) -> None:
        self.conflicts: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.answers = self.deliveries = self.dead_letters = self.redeliveries = self.expiries = 0
        self.events = self.applied = self.duplicates = self.stale = self.warm_ups = 0
        self.row_writes = self.cold_reads = self.evictions = self.spilled = 0
        self.commits = self.commit_errors = self.polls = self.takeovers = self.lease_losses = 0
        self.kafka_errors = self.store_errors = self.producer_rebuilds = self.republished = 0
        self.lost_ranges = self.lost_records = 0
        self.version_conflicts = self.fenced_writes = 0

    def add(self, tally: Tally) -> None:
        """Add a batch's outcomes."""
        self.applied += tally.applied
        self.duplicates += tally.duplicates
        self.stale += tally.stale
        self.warm_ups += tally.warm
        for reason, count in tally.conflicts.items():
            self.conflicts[reason] = self.conflicts.get(reason, 0) + count
        for reason, count in tally.refused.items():
            self.refused[reason] = self.refused.get(reason, 0) + count

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        """Return all counts by name."""
        return {
            name: dict(value) if isinstance(value := getattr(self, name), dict) else value for name in self.__slots__
        }
