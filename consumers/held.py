"""A partition that the group has given to this worker, and how far it has been taken over."""

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING

from consumers.statistics.observed import Counted
from consumers.statistics.traffic import Traffic

if TYPE_CHECKING:
    from consumers.flight import Flight
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
    """One partition's owner and its batches in flight."""

    __slots__ = (
        "attempts",
        "committed",
        "counted",
        "flights",
        "owner",
        "partition",
        "retry_at",
        "since_ms",
        "stage",
        "traffic",
    )

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.stage = Stage.TAKING
        self.owner: PartitionOwner | None = None
        self.flights: deque[Flight] = deque()
        self.committed = -1
        """The newest offset that was handed to a commit."""
        self.attempts = 0
        self.retry_at = 0.0
        """Monotonic time of the next attempt to take it."""
        self.since_ms = 0
        """Append time of the newest record folded, ms since 1970."""
        self.counted = Counted()
        self.traffic = Traffic(0.0)
        """Of the current owner; the shell begins it anew when the partition is taken."""

    def give_up(self) -> None:
        """Let go: nothing of it is written, answered or committed any more."""
        self.stage = Stage.GIVEN_UP
        self.flights.clear()
