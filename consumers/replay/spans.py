"""Which part of which partition is read again. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumers.errors import WorkerError
from consumers.stores.contract import TopicRecord


class ReplayRefusedError(WorkerError):
    """What was asked for cannot be replayed."""

    exit_code = 2


class ReplayFileError(WorkerError):
    """A file could not be written or read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody asked for; what is None is not limited."""

    from_offset: int | None = None
    from_ms: int | None = None
    """Append time, ms since 1970."""
    since: str = ""
    """How long ago `from_ms` was, as it was typed; empty where it was not typed so."""
    to_offset: int | None = None
    """The first offset that is not read."""
    to_ms: int | None = None
    """The append time from which on nothing is read, ms since 1970."""
    partitions: frozenset[int] = frozenset()
    """Empty: all."""
    conversations: frozenset[str] = frozenset()
    """Empty: all."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself. Raises ReplayRefusedError."""
        for name, one, other in (("start", self.from_offset, self.from_ms), ("end", self.to_offset, self.to_ms)):
            if one is not None and other is not None:
                raise ReplayRefusedError(f"the {name} is given twice", "Give an offset or a time.")
        if min(self.from_offset or 0, self.to_offset or 0) < 0:
            raise ReplayRefusedError("an offset is negative", "Offsets begin at 0.")
        for one, other in ((self.from_offset, self.to_offset), (self.from_ms, self.to_ms)):
            if one is not None and other is not None and one >= other:
                raise ReplayRefusedError("the end is not behind the start", "The end itself is not read.")

    def __str__(self) -> str:
        """Return it as text, the same for what was typed the same; empty where all is asked for."""
        parts = {
            "from offset": self.from_offset,
            "since": self.since or None,
            "from ms": None if self.since else self.from_ms,
            "to offset": self.to_offset,
            "to ms": self.to_ms,
            "partitions": sorted(self.partitions) or None,
            "conversations": sorted(self.conversations) or None,
        }
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)


class Extent(NamedTuple):
    """What the log has of a partition."""

    partition: int
    low: int
    high: int
    """The end when the replay was planned."""
    from_time: int | None = None
    """The first offset at or after the wish's `from_ms`; None where it asks for none, or there is none."""
    to_time: int | None = None
    """The same for `to_ms`."""


class Span(NamedTuple):
    """The part of a partition that is read again."""

    partition: int
    start: int
    end: int
    """The first offset that is not read."""
    is_whole: bool
    """Whether it begins with the very first record that the partition ever had (in an era: in that generation)."""


def spans_of(wish: Wish, extents: Sequence[Extent]) -> list[Span]:
    """Return what is to be read, by partition; raise ReplayRefusedError where a partition is not there."""
    known = {extent.partition for extent in extents}
    if missing := sorted(wish.partitions - known):
        raise ReplayRefusedError(f"there is no partition {missing[0]}", f"There are 0 to {len(known) - 1}.")
    chosen = [extent for extent in extents if not wish.partitions or extent.partition in wish.partitions]
    return [_span(wish, extent) for extent in sorted(chosen)]


def _span(wish: Wish, extent: Extent) -> Span:
    start, end = extent.low, extent.high
    if wish.from_offset is not None:
        start = wish.from_offset
    elif wish.from_ms is not None:
        start = extent.high if extent.from_time is None else extent.from_time
    if wish.to_offset is not None:
        end = wish.to_offset
    elif wish.to_ms is not None and extent.to_time is not None:
        end = extent.to_time
    start = min(max(start, extent.low), extent.high)
    return Span(extent.partition, start, max(start, min(end, extent.high)), is_whole=start == 0)


class Era(NamedTuple):
    """The part of some spans that was folded in one generation of the topic."""

    generation: int
    partitions: int
    """How many there were then: they say which conversations belong where."""
    spans: tuple[Span, ...]

    @property
    def is_first(self) -> bool:
        """Whether nothing was folded before this generation."""
        return self.generation == 1


def eras_of(topic: TopicRecord, spans: Sequence[Span]) -> list[Era]:
    """Return spans cut where the topic's generation rose, oldest first; the last one is there though it is empty."""
    ends = [*topic.earlier, None]
    first = topic.generation - len(topic.earlier)
    starts: dict[int, int] = {}
    eras = []
    for generation, end in enumerate(ends, start=first):
        cut = tuple(_cut(span, starts.get(span.partition, 0), end) for span in spans)
        eras.append(Era(generation, topic.partitions if end is None else len(end), cut))
        starts |= dict(enumerate(end or ()))
    return [era for era in eras if records_in(era.spans) or era is eras[-1]]


def _cut(span: Span, begun: int, ends: Sequence[int] | None) -> Span:
    """Return the part of a span that is from `begun` on and before a generation's end there; None: it goes on."""
    start = max(span.start, begun)
    end = span.end if ends is None else min(span.end, ends[span.partition] if span.partition < len(ends) else 0)
    return Span(span.partition, start, max(start, end), is_whole=start == begun)


def records_in(spans: Iterable[Span]) -> int:
    """Return how many records there are to read, at most."""
    return sum(span.end - span.start for span in spans)
