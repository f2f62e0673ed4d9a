"""Workers' settings that cannot work are refused where they are read, by their names."""

import dataclasses

import pytest

from consumers.fold import Policy
from consumers.migrate_settings import MigrationSettings
from consumers.redelivery import Schedule
from consumers.settings import WorkerSettings
from consumers.stores.settings import CassandraSettings

NUMBERS = sorted(field.name for field in dataclasses.fields(WorkerSettings) if type(field.default) in {int, float})
MAY_BE_0 = {"drain_timeout_s", "grace_s", "broker_clock_skew_ms", "conflicts_per_minute_max", "metrics_port"}


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_is_negative_or_none_at_all(name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=name):
        WorkerSettings(**{name: wrong})


@pytest.mark.parametrize("name", NUMBERS)
def test_0_only_where_it_means_something(name: str) -> None:
    if name in MAY_BE_0:
        assert getattr(WorkerSettings(**{name: 0}), name) == 0
        return
    with pytest.raises(ValueError, match=name):
        WorkerSettings(**{name: 0})


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"tail_records": 1_000_000}, "tail_records .*block_window_offsets"),
        ({"records_in_flight_max": 990_000}, "records_in_flight_max .*block_window_offsets"),
        ({"policy": Policy(block_window_offsets=37_000)}, "block_window_offsets"),
        ({"retry_first_s": 11.0}, "retry_first_s .* retry_s_max"),
        ({"session_timeout_s": 301.0}, "session_timeout_s .* poll_interval_s_max"),
        ({"metrics_port": 65_536}, "metrics_port"),
        ({"partition_share_max": 1.1}, "partition_share_max"),
        ({"alert_webhook": "http://"}, "alert_webhook"),
        ({"alert_webhook": "http://ann:pw@x/"}, "alert_webhook"),
        ({"operators": ("ops", "")}, "an operator"),
    ],
)
def test_what_does_not_go_together(settings, names) -> None:
    with pytest.raises(ValueError, match=names):
        WorkerSettings(**settings)


def test_what_just_goes_together() -> None:
    assert WorkerSettings(policy=Policy(block_window_offsets=37_001)).tail_records == 20_000
    assert WorkerSettings(protocol="consumer", session_timeout_s=301.0).session_timeout_s == 301


@pytest.mark.parametrize(
    "name", ["recipients_max", "body_bytes_max", "delivery_timeout_s", "blocks_max", "parked_max", "id_ahead_ms_max"]
)
def test_limits_of_the_fold(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Policy(**{name: -1})


@pytest.mark.parametrize("name", ["first_wait_s", "wait_s_max", "factor", "jitter"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_schedules(name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=name):
        Schedule(**{name: wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"contact_points": ()},
        {"port": 0},
        {"port": 65_536},
        {"connect_timeout_s": 0.0},
        {"request_timeout_s": float("nan")},
        {"request_timeout_s": -1.0},
    ],
)
def test_where_cassandra_cannot_be(wrong) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CassandraSettings(**wrong)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_how_long_nobody_waits_for_a_migration(wrong: float) -> None:
    with pytest.raises(ValueError, match="lock_wait_s"):
        MigrationSettings(lock_wait_s=wrong)
