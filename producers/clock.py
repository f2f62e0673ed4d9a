"""The log's clock as a client sees it.

Ids and expiries are made in the log's time, so a wrong phone clock harms nobody.
Each delivery report brings the append time of a record, and that moment lies between its produce call and its
report: an offset between the log's clock and ours, known to half that span. The estimate is kept against a clock
that nobody sets (since boot), not against the wall clock, so turning the wall clock does not spoil it. It is good
for one boot: another process may read it from the outbox as long as `boot` is the same.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

EARLIEST_MS = 1_577_836_800_000
"""2020. The librdkafka library's in-process broker, which has no clock, reports 1234 for every record."""

DRIFT = 1e-4
"""How fast two clocks may part: 100 ppm is a bad quartz."""


class Clock(Protocol):
    """The time, injected."""

    boot: str
    """Names the run of the machine for which `steady_ms` counts."""

    def wall_ms(self) -> int:
        """Return ms since 1970 by the machine's clock, right or wrong."""

    def steady_ms(self) -> float:
        """Return ms since some start, never set back."""


class SystemClock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        self._steady = getattr(time, "CLOCK_BOOTTIME", None)
        self.boot = _boot_id() if self._steady is not None else str(uuid4())

    def wall_ms(self) -> int:
        """Return ms since 1970."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> float:
        """Return ms since boot where the system tells them, else of the monotonic clock."""
        return (time.monotonic() if self._steady is None else time.clock_gettime(self._steady)) * 1000


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(uuid4())


class Estimate(NamedTuple):
    """The log's clock minus our steady clock, in ms, as of one report."""

    offset_ms: float
    uncertainty_ms: float
    measured_at: float
    """Steady ms."""
    boot: str

    def uncertainty_at(self, steady_ms: float) -> float:
        """Return how far off the estimate may be by now, in ms."""
        return self.uncertainty_ms + max(0.0, steady_ms - self.measured_at) * DRIFT


class Report(NamedTuple):
    """What one delivery report tells: all in ms."""

    produced_at: float
    """Steady."""
    reported_at: float
    """Steady."""
    appended_at: int
    """By the log."""


def append_time(told_ms: int, clock: Clock, produced_at: float, reported_at: float) -> int:
    """Return the append time that a report tells; by our own clock where the broker has none."""
    if told_ms >= EARLIEST_MS:
        return told_ms
    return round(clock.wall_ms() - (clock.steady_ms() - (produced_at + reported_at) / 2))


def measured(report: Report, boot: str) -> Estimate:
    """Return the estimate that one report alone gives; the append time itself is cut to whole ms."""
    middle = (report.produced_at + report.reported_at) / 2
    span = max(0.0, report.reported_at - report.produced_at) / 2
    return Estimate(report.appended_at + 0.5 - middle, span + 0.5, report.reported_at, boot)


def better(known: Estimate | None, new: Estimate) -> Estimate:
    """Return the one of two estimates that is surer now; one that the new one contradicts is worth nothing."""
    if known is None or known.boot != new.boot:
        return new
    age_ms = known.uncertainty_at(new.measured_at)
    if abs(known.offset_ms - new.offset_ms) > age_ms + new.uncertainty_ms:
        return new
    return known if age_ms <= new.uncertainty_ms else new


@dataclass(frozen=True, slots=True)
class LogTime:
    """The log's time now."""

    ms: int
    """Since 1970."""
    known: bool
    """False: no report has told it yet, this is the machine's own time."""
    shift_ms: int
    """What to add to a time of the wall clock; 0 where unknown."""
    id_ms: int
    """The log's time at least: what ids are made of, for one that is ahead of the log is put off, and passed by."""


def log_time(clock: Clock, estimate: Estimate | None) -> LogTime:
    """Return the log's time by an estimate, the wall clock's where there is none of this boot."""
    wall = clock.wall_ms()
    if estimate is None or estimate.boot != clock.boot:
        return LogTime(wall, known=False, shift_ms=0, id_ms=wall)
    steady = clock.steady_ms()
    now = round(steady + estimate.offset_ms)
    surely = int(steady + estimate.offset_ms - estimate.uncertainty_at(steady))
    return LogTime(now, known=True, shift_ms=now - wall, id_ms=surely)
