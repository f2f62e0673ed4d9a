"""The bound of what is unfinished is a time: a slow store gets less at once, a fast one as much as is set."""

import pytest

from consumers.window import Window

BOUNDS = {"least": 2_000, "most": 16_000, "within_s": 0.5}


def run(records_per_s: float, latency_s: float, seconds: int = 30) -> list[int]:
    """Return the limit second by second where a store finishes so many a second, none sooner than `latency_s`."""
    window, finished, limits = Window(16_000, 0.0), 0.0, []
    for step in range(1, 2 * seconds + 1):
        limit = limits[-1] if limits else 16_000
        finished += min(records_per_s, limit / latency_s) * 0.5
        limits.append(window.look(int(finished), step * 0.5, **BOUNDS))
    return limits


def test_a_fast_store_gets_as_much_as_is_set() -> None:
    assert run(60_000, 0.05)[-1] == 16_000


def test_a_usual_store_gets_what_it_finishes_in_the_time() -> None:
    assert run(24_000, 0.05)[-1] == 12_000


def test_a_slow_store_gets_two_batches() -> None:
    limits = run(1_500, 0.05)
    assert limits[-1] == 2_000
    assert limits == sorted(limits, reverse=True)


@pytest.mark.parametrize(("records_per_s", "settles_at"), [(600, 2_000), (3_000, 2_000), (10_000, 5_000)])
def test_batches_that_are_finished_whole_have_taken_all_their_time(records_per_s: float, settles_at: int) -> None:
    window, limit, finished, now = Window(16_000, 0.0), 16_000, 0, 0.0
    for _ in range(40):
        batch, done_at = limit, now + limit / records_per_s
        while now + 0.02 < done_at:
            now += 0.02
            window.look(finished, now, **BOUNDS)
        finished, now = finished + batch, done_at
        limit = window.look(finished, now, **BOUNDS)
    assert limit == pytest.approx(settles_at, rel=0.1)


def test_it_opens_again_at_once() -> None:
    window = Window(2_000, 0.0)
    assert [window.look(0, now, **BOUNDS) for now in (5.0, 10.0, 15.0, 20.0)][-1] == 2_000
    assert window.look(100, 20.5, **BOUNDS) == 2_000
    assert window.look(12_100, 21.0, **BOUNDS) == 12_000


def test_it_holds_between_looks_and_never_closes() -> None:
    window = Window(16_000, 0.0)
    assert window.look(0, 0.4, **BOUNDS) == 16_000
    assert window.look(0, 99.0, least=0, most=0, within_s=0.5) == 1
