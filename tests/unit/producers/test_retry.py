"""Waits grow, are jittered, and stay within bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.retry import RetryPolicy


def test_the_first_waits_are_those_of_the_docstring():
    policy = RetryPolicy()
    assert [policy.ack_wait_s(attempt, 0.5) for attempt in range(1, 8)] == [5, 10, 20, 40, 80, 120, 120]
    assert [round(policy.backoff_s(failures, 0.5), 3) for failures in range(1, 8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5]


@given(st.integers(1, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_wait_stays_within_its_bounds(attempt, chance):
    policy = RetryPolicy()
    assert policy.first_s * 0.75 <= policy.ack_wait_s(attempt, chance) <= policy.max_s * 1.25
    assert 0 < policy.backoff_s(attempt, chance) <= 6.25


@given(st.integers(1, 100), st.floats(0, 1, exclude_max=True))
def test_with_the_same_chance_a_later_attempt_never_waits_less(attempt, chance):
    policy = RetryPolicy()
    assert policy.ack_wait_s(attempt, chance) <= policy.ack_wait_s(attempt + 1, chance)


@pytest.mark.parametrize("values", [{"first_s": 0}, {"max_s": 1}, {"factor": 0.5}, {"jitter": 1}])
def test_a_policy_that_makes_no_sense_is_refused(values):
    with pytest.raises(ValueError, match="retry policy"):
        RetryPolicy(**values)
