"""The migration lock on a server that answers late or not at all: waited for, and never left behind."""

from itertools import count
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from cassandra import OperationTimedOut
from cassandra.query import SimpleStatement

from consumers.errors import StoreUnavailableError
from consumers.migrate_lock import RELEASE_TRIES, SchemaLock


class Server:
    """One row; the next calls of a kind may fail, before or after they took effect."""

    def __init__(self) -> None:
        self.holder: UUID | None = None
        self.fails: dict[str, list[str]] = {}
        self.calls: list[str] = []

    def execute(self, statement: SimpleStatement, values: tuple[Any, ...] = ()) -> Any:
        """Stand in for the driver's session."""
        verb = str(statement.query_string).split(maxsplit=1)[0]
        self.calls.append(verb)
        fails = self.fails.get(verb) or [""]
        how = fails.pop(0)
        if how == "before":
            raise OperationTimedOut
        answer = getattr(self, f"_{verb.lower()}")(values)
        if how == "after":
            raise OperationTimedOut
        return answer

    def _select(self, _values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return [(self.holder, "node")] if self.holder else []

    def _insert(self, values: tuple[Any, ...]) -> Any:
        applied = self.holder is None
        if applied:
            self.holder = values[0]
        return SimpleNamespace(was_applied=applied)

    def _delete(self, values: tuple[Any, ...]) -> None:
        if self.holder == values[0]:
            self.holder = None


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def lock(server: Server) -> SchemaLock:
    seconds = count()
    return SchemaLock(server, "k", sleep=lambda _: None, monotonic=lambda: float(next(seconds)))


def test_a_server_that_does_not_answer_is_waited_for(server: Server, lock: SchemaLock) -> None:
    server.fails = {"SELECT": ["before", "before"], "INSERT": ["before", "after"]}
    with lock.held(10):
        assert server.holder
    assert server.holder is None


def test_what_was_taken_unheard_is_ours(server: Server, lock: SchemaLock) -> None:
    server.fails = {"INSERT": ["after"], "SELECT": ["", "before"]}
    with lock.held(10):
        assert server.holder
    assert server.calls.count("INSERT") == 1


def test_a_release_that_nobody_heard_is_made_again(server: Server, lock: SchemaLock) -> None:
    server.fails = {"DELETE": ["before", "after", "before"]}
    with lock.held(10):
        pass
    assert server.holder is None
    assert server.calls.count("DELETE") == 4


def test_a_server_that_is_gone_leaves_the_release_to_the_time_to_live(server: Server, lock: SchemaLock) -> None:
    with lock.held(10):
        server.fails = {"DELETE": ["before"] * 100}
    assert server.calls.count("DELETE") == RELEASE_TRIES


def test_who_gives_up_leaves_nothing_behind(server: Server, lock: SchemaLock) -> None:
    # The attempt took effect, but neither its answer nor that of the look after it came.
    server.fails = {"INSERT": ["after"], "SELECT": ["", *["before"] * 100]}
    with pytest.raises(StoreUnavailableError), lock.held(5):
        pass
    assert server.holder is None


def test_who_waits_for_another_only_looks(server: Server, lock: SchemaLock) -> None:
    server.holder = UUID(int=1)
    with pytest.raises(StoreUnavailableError, match="being migrated by node"), lock.held(5):
        pass
    assert "INSERT" not in server.calls
    assert server.holder == UUID(int=1)
