"""Which part of the log a replay reads."""

import pytest

from consumers.replay.spans import Extent, ReplayRefusedError, Span, Wish, records_in, spans_of

LOG = [Extent(0, 0, 100, from_time=40, to_time=60), Extent(1, 20, 50)]


def test_without_a_wish_it_is_all_that_is_left_up_to_the_end_now():
    assert spans_of(Wish(), LOG) == [Span(0, 0, 100, is_whole=True), Span(1, 20, 50, is_whole=False)]
    assert records_in(spans_of(Wish(), LOG)) == 130


def test_offsets_are_kept_within_what_the_log_has():
    assert spans_of(Wish(from_offset=10, to_offset=70), LOG) == [Span(0, 10, 70, False), Span(1, 20, 50, False)]


def test_a_time_after_the_last_record_reads_nothing_and_one_before_the_first_reads_all():
    spans = spans_of(Wish(from_ms=1), LOG)
    assert spans == [Span(0, 40, 100, False), Span(1, 50, 50, False)]
    assert spans_of(Wish(to_ms=1), LOG) == [Span(0, 0, 60, True), Span(1, 20, 50, False)]


def test_only_the_partitions_that_were_named():
    assert spans_of(Wish(partitions=frozenset({1})), LOG) == [Span(1, 20, 50, False)]
    with pytest.raises(ReplayRefusedError, match="no partition 7"):
        spans_of(Wish(partitions=frozenset({7})), LOG)


def test_what_contradicts_itself_is_refused():
    with pytest.raises(ReplayRefusedError, match="start"):
        Wish(from_offset=1, from_ms=1)
    with pytest.raises(ReplayRefusedError, match="end"):
        Wish(to_offset=1, to_ms=1)
    with pytest.raises(ReplayRefusedError, match="not behind"):
        Wish(from_offset=90, to_offset=30)
    with pytest.raises(ReplayRefusedError, match="not behind"):
        Wish(from_ms=90, to_ms=90)
