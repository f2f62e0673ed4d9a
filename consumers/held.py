"""A partition that the group has given to this worker, and how far it has been taken over."""

from enum import Enum, auto
from typing import TYPE_CHECKING

from consumers.statistics.observed import Counted
from consumers.statistics.traffic import Traffic

if TYPE_CHECKING:
    from consumers.dead_letters import Original
    from consumers.flight import Flight
    from consumers.intake import Entry
    from consumers.owner import PartitionOwner


class Stage(Enum):
    """How far a partition is ours."""

    TAKING = auto()
    """Given by the group; its lease or its position is still to be had."""
    OWNED = auto()
    """Leased, positioned, being read."""
    GIVEN_UP = auto()
    """Revoked, lost or fenced: whatever of it still comes in is ignored."""


class HeldPartition:
    """One partition's owner, what was read for it, and its batches in flight.

    What is read waits while a batch is being written, and is the next batch then: each rests on rows that are in the
    store, writes no more than it changes, and is the larger the slower the store is.
    """

    __slots__ = (
        "attempts",
        "clear_ms",
        "committed",
        "counted",
        "end",
        "flights",
        "originals",
        "owner",
        "partition",
        "read_to",
        "retry_at",
        "since_ms",
        "stage",
        "traffic",
        "waiting",
        "writing",
    )

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.stage = Stage.TAKING
        self.owner: PartitionOwner | None = None
        self.end = 0
        """Of its log, when that was last asked for."""
        self.read_to = 0
        """The next offset that is to be read."""
        self.waiting: list[Entry] = []
        """What was read and is not folded, decoded."""
        self.originals: list[Original] = []
        """The same as it was in Kafka."""
        self.writing: Flight | None = None
        """The batch whose rows are not in the store."""
        self.flights: list[Flight] = []
        """Batches whose answers are on their way."""
        self.committed = -1
        """The newest offset that was handed to a commit."""
        self.attempts = 0
        self.retry_at = 0.0
        """Monotonic time of the next attempt to take it."""
        self.since_ms = 0
        """Append time of the newest record folded, ms since 1970."""
        self.clear_ms = 0
        """When it was last seen that nothing waits, ms since 1970."""
        self.counted = Counted()
        self.traffic = Traffic(0.0)
        """Of the current owner; the shell begins it anew when the partition is taken."""

    @property
    def unfinished(self) -> int:
        """Records that were read and are not finished."""
        in_flight = [*self.flights, self.writing] if self.writing else self.flights
        return len(self.waiting) + sum(flight.records for flight in in_flight)

    @property
    def in_flight(self) -> bool:
        """Whether a batch has begun and is not finished."""
        return self.writing is not None or bool(self.flights)

    def take_waiting(self, most: int) -> "tuple[list[Entry], list[Original]]":
        """Return the first `most` of what waits, which are a batch now: decoded, and as they were in Kafka."""
        taken = self.waiting[:most], self.originals[:most]
        self.waiting, self.originals = self.waiting[most:], self.originals[most:]
        return taken

    def give_up(self) -> None:
        """Let go: nothing of it is written, answered or committed any more."""
        self.stage = Stage.GIVEN_UP
        self.waiting, self.originals, self.writing = [], [], None
        self.flights.clear()
