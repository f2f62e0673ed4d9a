"""What a migration is made of: steps as data, so that they can be shown before they are done."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol


class StepKind(StrEnum):
    """What a step is."""

    CHANGE = "change"
    """Done by `apply`."""
    DIFFERENCE = "difference"
    """Not as it should be, and left as it is."""
    OBSTACLE = "obstacle"
    """Nothing is applied until people have removed it."""


class Step(NamedTuple):
    """One thing to do, or to know."""

    kind: StepKind
    subject: str
    """Such as `topic twotick.events`."""
    what: str
    """Such as `create it with 8 partitions`."""
    hint: str = ""


class Target(Protocol):
    """Something that is migrated as a whole."""

    def plan(self) -> Sequence[Step]:
        """Return what is to be done. Changes nothing. Raises WorkerError."""

    def apply(self) -> Iterator[Step]:
        """Do it, yielding each step when it is done. Raises WorkerError."""
