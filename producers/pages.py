"""What pump and backlog tell each other: pages of rows one way, reports of what became of them the other way."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from producers.clock import Estimate

AGAIN, FRESH = -1, 0
"""`next_attempt_at` of what must go again at once, before anything new, and of what was never tried."""


class Row(NamedTuple):
    """A row that is marked as handed over, to be given to Kafka."""

    position: int
    size: int
    """Of payload and key, in bytes."""
    conversation_id: str
    payload: bytes
    attempts: int
    """Before this one."""
    is_off: int
    """1 where its id or expiry must be made anew in the log's time; never in a row that leaves the backlog."""


class Room(NamedTuple):
    """How much a page may hold."""

    rows: int
    bytes: int
    fresh_rows: int
    """Of these, rows never tried before; less where much is unanswered."""
    only: int | None = None
    """Take this position or nothing."""


NO_ROOM = Room(0, 0, 0)


@dataclass(slots=True)
class Reports:
    """What delivery reports said, by position."""

    done: list[int] = field(default_factory=list)
    """Appended to the log."""
    again: list[int] = field(default_factory=list)
    """Not appended, or nobody knows: send at once."""
    refused: list[int] = field(default_factory=list)
    """This copy was surely not appended, but it may have shared its batch with the culprit: try it alone."""
    rejected: list[tuple[int, str]] = field(default_factory=list)
    """Refused alone, and why."""
    estimate: Estimate | None = None
    """The log's clock, where a report told it better."""

    def __bool__(self) -> bool:
        return bool(self.done or self.again or self.refused or self.rejected or self.estimate)

    def positions(self) -> Sequence[int]:
        """Return every position in here."""
        return [*self.done, *self.again, *self.refused, *(position for position, _ in self.rejected)]


class Due(NamedTuple):
    """When rows are due; each None where there is none."""

    first: int | None
    """The smallest `next_attempt_at`: AGAIN, FRESH or a time of the wall clock in ms."""
    timed: int | None
    """The earliest time."""
    expiring: int | None
    """The earliest expiry among what Kafka never had, in ms."""


class Unanswered(NamedTuple):
    """Rows that were tried and not answered."""

    rows: int
    bytes: int


def ranges(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending positions as (first, last) of each gapless run."""
    if not positions:
        return []
    first, last = positions[0], positions[-1]
    if last - first == len(positions) - 1:
        return [(first, last)]
    runs = []
    previous = first
    for position in positions[1:]:
        if position != previous + 1:
            runs.append((first, previous))
            first = position
        previous = position
    runs.append((first, previous))
    return runs
