"""How fast a replay may go. Pure but for the clock and the sleep that it is given."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final

_LOOK_S: Final = 0.5
"""How long somebody who wants it to end may wait while it waits."""


class Pace:
    """Holds a loop to a number of events a second; 0 means as fast as it goes. It waits for nothing once `stopping`."""

    def __init__(
        self,
        rate: float,
        stopping: Callable[[], bool],
        *,
        clock: Callable[[], float] = monotonic,
        wait: Callable[[float], None] = sleep,
    ) -> None:
        self._rate = rate
        self._stopping = stopping
        self._clock = clock
        self._wait = wait
        self._due_at = clock()
        """When what is done so far is due at that rate."""

    def spent(self, events: int) -> None:
        """Note events that are done; wait where they came too fast. Time that was not used is not made up for."""
        if not self._rate:
            return
        now = self._clock()
        self._due_at = max(self._due_at + events / self._rate, now)
        while (left_s := self._due_at - now) > 0 and not self._stopping():
            self._wait(min(left_s, _LOOK_S))
            now = self._clock()
