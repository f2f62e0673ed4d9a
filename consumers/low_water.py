"""The low-water mark: how far a partition is finished without a gap.

Batches begin in the order of their offsets and may finish in any; the mark passes only what is finished and has
nothing unfinished before it, so a committed offset never skips a record.
"""

from collections import deque


class BatchSpan:
    """One batch's part of the log."""

    __slots__ = ("finished", "next_offset")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        """The offset behind its last record."""
        self.finished = False


class LowWaterMark:
    """The contiguous finished prefix of one partition."""

    __slots__ = ("_spans", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        """Everything below it is finished."""
        self._spans: deque[BatchSpan] = deque()

    def begin(self, next_offset: int) -> BatchSpan:
        """Note a batch that reaches up to `next_offset`, after all those noted before."""
        span = BatchSpan(next_offset)
        self._spans.append(span)
        return span

    def finish(self, span: BatchSpan) -> None:
        """Note that a batch is finished, and move the mark as far as that allows."""
        span.finished = True
        spans = self._spans
        while spans and spans[0].finished:
            self.offset = spans.popleft().next_offset

    @property
    def unfinished(self) -> int:
        """How many batches have begun and are not behind the mark."""
        return len(self._spans)
