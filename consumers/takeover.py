"""Where a new owner starts to read: pure."""

from typing import NamedTuple


class Start(NamedTuple):
    """The first position to read, and what is finished."""

    position: int
    committed: int
    """Everything below it is finished; equal to `position` where there is nothing to warm up with."""
    lost: tuple[int, int] | None
    """The range of offsets, the second exclusive, that nobody has finished and the log no longer holds."""
    replays: bool
    """Whether there was no committed position at all, so that everything is folded again."""


def start_of(committed: int | None, low: int, high: int, tail_records: int) -> Start:
    """Return where to start, given the committed offset (None: none) and the log's first and end offsets.

    A position that the log no longer holds is told as a lost range and never skipped in silence; so is one beyond the
    log's end, where the log was cut off: what was finished there may come again under other offsets.
    """
    if committed is None:
        return Start(low, low, None, replays=True)
    if committed < low:
        return Start(low, low, (committed, low), replays=False)
    if committed > high:
        return Start(low, low, (high, committed), replays=False)
    return Start(max(low, committed - tail_records), committed, None, replays=False)
