"""How a replay is watched, held back and ended."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from consumers.replay.progress_file import Progress

Report = Callable[[int, int | None], None]
"""Told (done, in all) now and then; None where nobody knows how many there are in all."""


def unseen(_done: int, _all: int | None) -> None:
    """Be told, where nobody watches."""


@dataclass(slots=True)
class Control:
    """What somebody wants of a replay while it goes on."""

    rate: float = 0.0
    """Events, and then rows compared, a second at most; 0: as fast as it goes."""
    state: Path | None = None
    """Where it keeps how far it got."""
    report: Report = unseen
    stopping: Callable[[], bool] = lambda: False
    """Whether somebody wants it to end; it can be gone on with later."""

    def keep(self, progress: Progress) -> None:
        """Save how far it got, where that was asked for. Raises OSError."""
        if self.state is not None:
            progress.save(self.state)

    def at_once(self, most: int) -> int:
        """Return how many to take at once, `most` at most: at a rate about a quarter of a second's."""
        return max(1, min(most, int(self.rate / 4))) if self.rate else most
