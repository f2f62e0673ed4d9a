"""Hot settings: which there are, what they take, and a worker's settings with them."""

import pytest

from consumers.hot.keys import KEYS, HotValueError, check_fits, parsed, taken_up, value_of, with_hot_values
from consumers.settings import WorkerSettings

OWN = WorkerSettings(batch_records_max=7)


def test_every_hot_key_is_a_setting_and_takes_its_default() -> None:
    for key in KEYS:
        default = value_of(WorkerSettings(), key)
        assert parsed(key, str(default)) == default


def test_values_take_the_place_of_the_workers_own_and_the_rest_stays() -> None:
    settings = with_hot_values(OWN, {"worker.schedule.wait_s_max": "60", "worker.log_level": "DEBUG"})
    assert (settings.schedule.wait_s_max, settings.log_level, settings.batch_records_max) == (60.0, "debug", 7)
    assert settings.schedule.bucket_s == OWN.schedule.bucket_s


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("worker.batch_records_max", "0"),
        ("worker.batch_records_max", "1.5"),
        ("worker.batch_records_max", "100001"),
        ("worker.schedule.first_wait_s", "nan"),
        ("worker.partition_share_max", "1.1"),
        ("worker.log_level", "loud"),
        ("worker.group", "other"),
        ("worker.schedule.bucket_s", "5"),
    ],
)
def test_what_is_not_hot_or_out_of_bounds_is_refused_and_left_out(key: str, text: str) -> None:
    with pytest.raises(HotValueError) as refused:
        parsed(key, text)
    assert refused.value.exit_code == 2
    assert refused.value.hint
    assert with_hot_values(OWN, {key: text}) == OWN
    assert len(taken_up(OWN, {key: text, "worker.records_in_flight_max": "3"})[1]) == 1


def test_what_does_not_go_with_the_workers_own_settings_or_the_other_hot_ones_is_refused_and_left_out() -> None:
    hot = {"worker.batch_records_max": "100000", "worker.records_in_flight_max": "900000"}
    settings, left_out = taken_up(OWN, hot)
    assert (settings.batch_records_max, settings.records_in_flight_max) == (100_000, OWN.records_in_flight_max)
    assert ["block_window_offsets" in error.message for error in left_out] == [True]
    with pytest.raises(HotValueError, match="block_window_offsets"):
        check_fits(OWN, hot, "worker.records_in_flight_max", "900000")
    check_fits(OWN, {"worker.records_in_flight_max": "900000"}, "worker.records_in_flight_max", "800000")


def test_values_that_go_together_are_all_taken_up_in_whatever_order_they_stand() -> None:
    """`config set` has let them in one after the other; they are kept by name."""
    own = WorkerSettings(records_in_flight_max=900_000)
    values = {"worker.batch_records_max": "90000", "worker.records_in_flight_max": "100000"}
    first, second = reversed(values.items())
    check_fits(own, dict([first]), *second)
    settings, left_out = taken_up(own, values)
    assert (settings.batch_records_max, settings.records_in_flight_max, left_out) == (90_000, 100_000, [])


def test_a_typo_gets_a_guess() -> None:
    with pytest.raises(HotValueError) as refused:
        parsed("worker.batch_record_max", "5")
    assert "worker.batch_records_max" in refused.value.hint
