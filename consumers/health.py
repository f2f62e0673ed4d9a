"""What a worker says about itself: a status file, and a watchdog for a loop that stands still.

Liveness means that the loop moves; a rebalance or a server that is down never fails it.
"""

import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Final

from consumers.errors import ExitCode

LOG = logging.getLogger(__name__)

TICK_S: Final = 1.0


def write_status(path: Path, status: Mapping[str, object]) -> None:
    """Replace a status file whole; a reader sees the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(status, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    fresh.replace(path)


class Watchdog:
    """Ends the process when the loop has not moved for `limit_s`: nothing in it can do so any more.

    It counts its own ticks, not the clock: a process that was stopped and goes on is not stuck.
    """

    def __init__(self, turns: Callable[[], int], limit_s: float, end: Callable[[int], None] = os._exit) -> None:
        self._turns = turns
        self._ticks_max = max(2, int(limit_s / TICK_S))
        self._end = end
        self._stopped = Event()
        self._thread = Thread(target=self._watch, name="watchdog", daemon=True)
        self._seen = -1
        self._still = 0

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; stopping twice does nothing."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(TICK_S):
            self.tick()

    def tick(self) -> None:
        """Look once."""
        turns = self._turns()
        self._still = self._still + 1 if turns == self._seen else 0
        self._seen = turns
        if self._still >= self._ticks_max:
            LOG.critical("the worker's loop stands still", extra={"seconds": self._still * TICK_S})
            logging.shutdown()
            self._end(ExitCode.STUCK)


class ProgressWatch:
    """Whether records wait and nothing moves though no server is known to be down."""

    __slots__ = ("_limit_s", "_moved_at", "_seen")

    def __init__(self, limit_s: float, now: float) -> None:
        self._limit_s = limit_s
        self._seen: object = None
        self._moved_at = now

    def excuse(self, now: float) -> None:
        """Begin to count anew: a server is down, or the process itself stood still."""
        self._moved_at = now

    def stuck_s(self, seen: object, lag: int, now: float) -> float:
        """Return for how many s nothing has moved over the limit; 0 while all is well. `seen` is all that can move."""
        if seen != self._seen or lag <= 0:
            self._seen, self._moved_at = seen, now
        standing_s = now - self._moved_at
        return standing_s if standing_s > self._limit_s else 0.0
