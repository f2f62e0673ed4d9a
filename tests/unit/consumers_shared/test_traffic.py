"""Rates and heavy hitters: never too low, bounded in memory, and next to no time an event."""

import random
from collections import Counter
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from consumers.intake import Entry
from consumers.statistics.contract import Share
from consumers.statistics.skew import load_shares, skewed
from consumers.statistics.traffic import COUNTERS, SpaceSaving, Traffic
from schemas.records import NO_ID, Event

NOW_MS = 1_800_000_000_000


def entry(offset: int, conversation_id: str | None) -> Entry:
    event = None if conversation_id is None else Event("SEND", NO_ID, conversation_id, NO_ID, "a", NO_ID)
    return Entry(offset, NOW_MS, event)


@given(st.lists(st.lists(st.integers(0, 40), max_size=60), max_size=20), st.integers(1, 8))
def test_estimates_are_never_too_low_and_too_high_by_their_error_at_most(batches, counters) -> None:
    saving, exact = SpaceSaving(counters), Counter()
    for batch in batches:
        names = [f"c{number}" for number in batch]
        saving.merge(Counter(names))
        exact.update(names)
    assert len(saving.counts) <= counters
    assert saving.total == exact.total()
    for name, count in saving.counts.items():
        assert exact[name] <= count <= exact[name] + saving.errors[name]
    for name, count in exact.items():
        if name not in saving.counts:
            assert count <= saving.least <= exact.total() / counters


def test_one_conversation_at_half_the_traffic_is_found_and_the_rest_is_not_made_up() -> None:
    chance = random.Random(3)
    traffic = Traffic(100.0)
    offset = 0
    for _ in range(300):
        size = chance.randrange(1, 200)
        names = ["hot" if chance.random() < 0.5 else f"c{chance.randrange(50_000)}" for _ in range(size)]
        traffic.saw([entry(offset + n, name) for n, name in enumerate(names)])
        offset += size
    events_per_s, hottest = traffic.rates(105.0, 5)
    assert events_per_s == round(offset / 5, 2)
    assert [each.conversation_id for each in hottest] == ["hot"]
    assert 0.45 < hottest[0].events_per_s / events_per_s < 0.55


def test_rates_follow_what_happens_now() -> None:
    traffic = Traffic(0.0)
    traffic.saw([entry(n, "early") for n in range(7_000)])
    assert traffic.rates(10.0, 1)[1][0].conversation_id == "early"
    traffic.saw([entry(n, "late") for n in range(3_500)])
    rate, hottest = traffic.rates(20.0, 2)
    assert (rate, [each.conversation_id for each in hottest]) == (350.0, ["late"])
    # Half a window later it is over one and a half; two windows later nothing is left.
    assert traffic.rates(25.0, 2)[0] == round(3_500 / 15, 2)
    assert traffic.rates(45.0, 2) == (0.0, ())


def test_records_that_are_no_events_are_counted_as_records_only() -> None:
    traffic = Traffic(0.0)
    traffic.saw([entry(n, None) for n in range(70)])
    assert traffic.rates(10.0, 3) == (7.0, ())


def test_memory_is_bounded() -> None:
    traffic = Traffic(0.0)
    for start in range(0, 200_000, 1_000):
        traffic.saw([entry(n, f"c{n}") for n in range(start, start + 1_000)])
    assert len(traffic._now.top.counts) <= COUNTERS
    assert len(traffic._buffer) <= 2_000


def test_counting_costs_less_than_half_a_microsecond_an_event() -> None:
    chance = random.Random(5)
    batches = [[entry(n, f"c{chance.randrange(100_000)}") for n in range(500)] for _ in range(100)]
    best_s = 1.0
    for _ in range(5):
        traffic = Traffic(0.0)
        start = process_time()
        for batch in batches:
            traffic.saw(batch)
        best_s = min(best_s, process_time() - start)
    assert best_s / 50_000 < 0.5e-6


def share(partition: int, rate: float, at: int = NOW_MS) -> Share:
    return Share(partition, 1, 1, 0, "n", at, {}, events_per_s=rate)


def test_a_partition_with_too_much_of_the_load_is_skewed() -> None:
    loads = load_shares([share(0, 60), share(1, 20), share(2, 20), share(3, 900, NOW_MS - 120_000)], NOW_MS)
    assert loads == {0: 0.6, 1: 0.2, 2: 0.2}
    assert skewed(loads, 0.5, 8) == {0: 0.6}
    assert skewed(loads, 0.7, 8) == {}


def test_an_even_spread_over_few_partitions_and_no_traffic_are_not_skewed() -> None:
    assert skewed(load_shares([share(0, 52), share(1, 48)], NOW_MS), 0.5, 2) == {}
    assert skewed(load_shares([share(0, 100)], NOW_MS), 0.5, 1) == {}
    assert load_shares([share(0, 5), share(1, 0.1)], NOW_MS) == {}
