"""The clock by which one machine knows how long a lock lasts: from its start, its sleep included, set by nobody."""

import time
from typing import Final

_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Where the system has no clock that goes on in its sleep, the one that does not."""


def machine_s() -> float:
    """Return s since the machine started.

    Not `time.monotonic`: on Linux that stands still while a machine or a virtual one is suspended, and a holder would
    be sure of a lock that has long ended.
    """
    return time.clock_gettime(_CLOCK)


def machine_ms() -> int:
    """Return whole ms since the machine started."""
    return time.clock_gettime_ns(_CLOCK) // 1_000_000
