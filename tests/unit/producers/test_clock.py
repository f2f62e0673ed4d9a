"""The log's clock, estimated from append times."""

from hypothesis import given
from hypothesis import strategies as st

from producers.clock import EARLIEST_MS, Report, append_time, better, log_time, measured
from tests.unit.producers.world import START_MS, TurnedClock

HOUR_MS = 3_600_000


def test_unknown_means_the_wall_clock():
    now = log_time(TurnedClock(), None)
    assert (now.ms, now.known, now.shift_ms) == (START_MS, False, 0)


def test_the_estimate_of_another_boot_is_worth_nothing():
    clock = TurnedClock()
    assert not log_time(clock, measured(Report(0, 10, START_MS), "another")).known


def test_turning_the_wall_clock_does_not_move_the_logs_time():
    clock = TurnedClock()
    estimate = measured(Report(clock.steady - 5, clock.steady + 5, START_MS), clock.boot)
    clock.wall += HOUR_MS
    now = log_time(clock, estimate)
    assert abs(now.ms - START_MS) <= 1
    assert abs(now.shift_ms + HOUR_MS) <= 1


@given(
    offset=st.integers(-HOUR_MS, HOUR_MS),
    trips=st.lists(st.tuples(st.floats(0.1, 500), st.floats(0, 1)), min_size=1, max_size=20),
)
def test_the_error_is_never_larger_than_the_uncertainty_says(offset, trips):
    known, steady = None, 10_000.0
    for trip_ms, part in trips:
        appended_at = int(steady + trip_ms * part + offset + START_MS)
        known = better(known, measured(Report(steady, steady + trip_ms, appended_at), "boot"))
        steady += 1_000
    assert abs(known.offset_ms - (offset + START_MS)) <= known.uncertainty_at(steady) + 1e-3


def test_a_quicker_round_trip_is_surer_and_an_old_one_fades():
    slow, quick = measured(Report(0, 100, START_MS), "b"), measured(Report(200, 202, START_MS + 150), "b")
    assert better(slow, quick) is quick
    assert better(quick, measured(Report(300, 400, START_MS + 300), "b")) is quick
    late = measured(Report(2_000_000, 2_000_040, START_MS + 2_000_000 - 51), "b")
    assert better(quick, late) is late


def test_a_report_that_contradicts_is_believed():
    known = measured(Report(0, 2, START_MS), "b")
    moved = measured(Report(100, 200, START_MS + HOUR_MS), "b")
    assert better(known, moved) is moved


def test_a_broker_without_a_clock_has_ours():
    clock = TurnedClock()
    assert append_time(1234, clock, clock.steady - 10, clock.steady) == START_MS - 5
    assert append_time(EARLIEST_MS, clock, 0, 0) == EARLIEST_MS


@given(part=st.floats(0, 1), trip_ms=st.floats(0.1, 60_000))
def test_ids_are_not_made_ahead_of_the_log_however_slow_the_report(part, trip_ms):
    """The process may have stood still between produce and report (simulation, seed 52)."""
    clock = TurnedClock()
    appended_at = int(START_MS + trip_ms * part)  # the log's clock and ours agree
    estimate = measured(Report(clock.steady, clock.steady + trip_ms, appended_at), clock.boot)
    clock.pass_ms(trip_ms)
    now = log_time(clock, estimate)
    assert now.id_ms <= START_MS + trip_ms
    assert now.id_ms <= now.ms
