"""Clients' settings that cannot work are refused where they are read, by their names."""

import dataclasses

import pytest

from producers.retry import RetryPolicy
from producers.settings import ClientSettings

NUMBERS = sorted(field.name for field in dataclasses.fields(ClientSettings) if type(field.default) in {int, float})


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_is_negative_or_none_at_all(name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=name):
        ClientSettings(**{name: wrong})


@pytest.mark.parametrize("name", [name for name in NUMBERS if name.endswith("_max")])
def test_a_window_holds_something(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ClientSettings(**{name: 0})


@pytest.mark.parametrize("name", ["first_s", "max_s", "factor", "jitter"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_retries(name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=name):
        RetryPolicy(**{name: wrong})
