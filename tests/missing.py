"""What a test needs and this machine may not have: skipped out loud, or failed where the run must not do without."""

import os
from typing import NoReturn

import pytest

NOT_HERE = "not here: "
"""Begins the reason of every such skip; the run's last lines name them."""


def is_required(what: str) -> bool:
    """Say whether TWOTICK_TEST_REQUIRE names it."""
    return what in os.environ.get("TWOTICK_TEST_REQUIRE", "").split(",")


def missing(stack: str, why: str) -> NoReturn:
    """Skip the test that asked for `stack`, or fail it where TWOTICK_TEST_REQUIRE names it."""
    if is_required(stack):
        pytest.fail(f"{stack} is required, but {why}")
    pytest.skip(f"{NOT_HERE}{stack}: {why}")
