"""How much goes through a partition, and which conversations most of it: bounded memory, next to no time an event.

Heavy hitters by Space-Saving (A. Metwally, D. Agrawal, A. El Abbadi, "Efficient computation of frequent and top-k
elements in data streams", ICDT 2005), fed in batches as P. Agarwal et al., "Mergeable summaries" (PODS 2012), merge
them: `counters` names are kept; what is not kept had at most 1/`counters` of the events, so no estimate is too low, and
none is too high by more than that. Of the events one in `STRIDE` is looked at; a prime, so that no rhythm of the
traffic hides a conversation.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import nlargest
from operator import itemgetter
from typing import Final

from consumers.intake import Entry
from consumers.statistics.contract import Hot

STRIDE: Final = 7
COUNTERS: Final = 64
BUFFERED_MAX: Final = 1_024
"""Sampled ids that are put aside before they are merged."""
WINDOW_S: Final = 10.0
"""Rates are over one to two of these."""


class SpaceSaving:
    """The most frequent of many names, in bounded memory."""

    __slots__ = ("_counters", "counts", "errors", "total")

    def __init__(self, counters: int = COUNTERS) -> None:
        self._counters = counters
        self.counts: dict[str, int] = {}
        """By name: never too low."""
        self.errors: dict[str, int] = {}
        """By name: by how much at most its count is too high."""
        self.total = 0

    @property
    def least(self) -> int:
        """The most that a name which is not kept can have been seen."""
        return min(self.counts.values()) if len(self.counts) >= self._counters else 0

    def merge(self, seen: Counter[str]) -> None:
        """Count names, each as often as it was seen."""
        counts, errors = self.counts, self.errors
        least = self.least
        for name, count in seen.items():
            known = counts.get(name)
            if known is None:
                counts[name] = least + count
                errors[name] = least
            else:
                counts[name] = known + count
        self.total += seen.total()
        if len(counts) > self._counters:
            kept = nlargest(self._counters, counts.items(), key=itemgetter(1))
            self.counts = dict(kept)
            self.errors = {name: errors[name] for name, _ in kept}


class _Window:
    """What was seen since a time."""

    __slots__ = ("events", "since", "top")

    def __init__(self, since: float) -> None:
        self.since = since
        self.events = 0
        self.top = SpaceSaving()


class Traffic:
    """One partition's rates. For one thread."""

    __slots__ = ("_before", "_buffer", "_now", "_phase", "events")

    def __init__(self, now: float) -> None:
        """`now` is monotonic, in s."""
        self.events = 0
        """All that was seen."""
        self._now = _Window(now)
        self._before: _Window | None = None
        self._buffer: list[str] = []
        self._phase = 0

    def saw(self, entries: Sequence[Entry]) -> None:
        """Take a batch: a few nanoseconds an event."""
        count = len(entries)
        self.events += count
        self._now.events += count
        phase = self._phase
        self._buffer += [entry.event.conversation_id for entry in entries[phase::STRIDE] if entry.event is not None]
        self._phase = (phase - count) % STRIDE
        if len(self._buffer) >= BUFFERED_MAX:
            self._merge()

    def _merge(self) -> None:
        self._now.top.merge(Counter(self._buffer))
        self._buffer.clear()

    def rates(self, now: float, most: int) -> tuple[float, tuple[Hot, ...]]:
        """Return events a second, and the `most` hottest conversations; `now` is monotonic."""
        self._merge()
        if now - self._now.since >= WINDOW_S:
            self._before, self._now = self._now, _Window(now)
        windows = [self._now] if self._before is None else [self._before, self._now]
        elapsed_s = max(now - windows[0].since, 1e-3)
        events_per_s = sum(window.events for window in windows) / elapsed_s
        rate = STRIDE / elapsed_s
        hottest = tuple(
            Hot(name, round(count * rate, 2), round(error * rate, 2))
            for name, count, error in _hottest([window.top for window in windows], most)
        )
        return round(events_per_s, 2), hottest


def _hottest(tops: Sequence[SpaceSaving], most: int) -> Sequence[tuple[str, int, int]]:
    """Return (name, count, error) of the most frequent, but none of which half the count may be error."""
    names = {name for top in tops for name in top.counts}
    found = []
    for name in names:
        count = sum(top.counts.get(name, top.least) for top in tops)
        error = sum(top.errors[name] if name in top.counts else top.least for top in tops)
        if 2 * error < count:
            found.append((name, count, error))
    return nlargest(most, found, key=itemgetter(1))
