"""Claims of a lease against a Cassandra whose conditional writes time out: settled by reading, and bounded in time."""

# ruff: noqa: D102 - the fakes' methods are those of what they stand for

from typing import Any
from uuid import UUID

import pytest
from cassandra import OperationTimedOut

from consumers.errors import StoreUnavailableError
from consumers.stores.cassandra_conditional import CLAIM_S_MAX, Leases

TIMEOUT_S = 2.0


class Found:
    """An answer."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self._rows = rows

    def __iter__(self) -> Any:
        return iter(self._rows)


class Slow:
    """A session whose conditional writes are never answered; of them `lands` says which one took effect, if any."""

    def __init__(self, lands: int = 0) -> None:
        self.now = 0.0
        self.writes = 0
        self._lands = lands
        self._rows: list[tuple[Any, ...]] = []

    def prepare(self, query: str) -> str:
        return query

    def execute(self, query: str, values: tuple[Any, ...], **_: Any) -> Found:
        if query.startswith("SELECT"):
            return Found(self._rows)
        self.now += TIMEOUT_S
        self.writes += 1
        if self.writes == self._lands:
            epoch, node, since, claim = values[:4]
            assert isinstance(claim, UUID)
            self._rows = [(epoch, claim, node, since)]
        raise OperationTimedOut


def leases(session: Any) -> Leases:
    return Leases(session, "k", lambda: 7, sleep=lambda _: None, monotonic=lambda: session.now)


def test_one_that_took_effect_is_found() -> None:
    """Case C1."""
    session = Slow(lands=2)
    assert leases(session).claim(3, "n-0") == (3, 1, "n-0", 7)
    assert session.writes == 2


def test_a_worker_does_not_stand_still_for_all_attempts() -> None:
    """A hundred time-outs would take minutes, and the watchdog would end the worker for it."""
    session = Slow()
    with pytest.raises(StoreUnavailableError, match="partition 3"):
        leases(session).claim(3, "n-0")
    assert session.now <= CLAIM_S_MAX + TIMEOUT_S
