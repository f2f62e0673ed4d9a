"""How many records may be unfinished at a time: no more than are finished in a given time. Pure.

What is read waits behind all that is unfinished, whichever partition that is of. So the bound that counts for others is
a time, not a number: a store that is slow gets less at a time, and no more late for it (Little's law).
"""

from typing import Final

LOOK_S: Final = 0.5


class Window:
    """Follows what is finished: up at once, down by half of the difference.

    It looks when something was finished: a batch is finished whole, and has taken all the time since the one before.
    """

    __slots__ = ("_at", "_finished", "limit")

    def __init__(self, least: int, now: float) -> None:
        """Begin with `least`; `now` is monotonic, in s."""
        self.limit = least
        self._finished = 0
        self._at = now

    def look(self, finished: int, now: float, *, least: int, most: int, within_s: float) -> int:
        """Return the limit: what is finished `within_s`, between `least` and `most`. `finished` only rises."""
        elapsed_s = now - self._at
        if elapsed_s >= LOOK_S and finished > self._finished:
            wanted = int((finished - self._finished) / elapsed_s * within_s)
            self.limit = max(wanted, (self.limit + wanted) // 2)
            self._finished, self._at = finished, now
        return max(1, min(max(self.limit, least), most))
