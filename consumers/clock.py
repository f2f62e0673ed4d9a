"""The clocks of a node: the wall's, by which rows and records are dated, and its machine's own, by which locks last."""

import time
from time import time_ns
from typing import Final

_MACHINE: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Where the system has no clock that goes on in its sleep, the one that does not."""


def now_ms() -> int:
    """Return whole ms since 1970 by the wall clock, which its keepers may set back."""
    return time_ns() // 1_000_000


def machine_s() -> float:
    """Return s since the machine started, its sleep included.

    Not `time.monotonic`: on Linux that stands still while a machine or a virtual one is suspended, and the holder of a
    lock would be sure of one that has long ended.
    """
    return time.clock_gettime(_MACHINE)


def machine_ms() -> int:
    """Return whole ms since the machine started."""
    return time.clock_gettime_ns(_MACHINE) // 1_000_000
