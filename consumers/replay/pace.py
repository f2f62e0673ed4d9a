"""How fast a replay may go. Pure but for the clock and the sleep that it is given."""

from collections.abc import Callable
from time import monotonic, sleep


class Pace:
    """Holds a loop to a number of events a second; 0 means as fast as it goes."""

    def __init__(
        self, rate: float, *, clock: Callable[[], float] = monotonic, wait: Callable[[float], None] = sleep
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._wait = wait
        self._since = clock()
        self._count = 0

    def spent(self, events: int) -> None:
        """Note events that are done; wait where they came too fast."""
        if not self._rate:
            return
        self._count += events
        ahead_s = self._count / self._rate - (self._clock() - self._since)
        if ahead_s > 0:
            self._wait(ahead_s)
