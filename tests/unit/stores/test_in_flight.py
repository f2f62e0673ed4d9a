"""Requests are bounded, every call is told once, and a failing server makes neither a recursion nor a pile."""

import threading

import pytest
from cassandra import OperationTimedOut
from cassandra.cluster import NoHostAvailable

from consumers.errors import StoreUnavailableError
from consumers.stores.cassandra_sender import Request, Sender
from consumers.stores.cassandra_writer import InFlight


class Future:
    """A request that the test answers."""

    def __init__(self, statement: str) -> None:
        self.statement = statement
        self._answer: tuple[Exception | None] | None = None
        self._told = None

    def add_callbacks(self, callback, errback, callback_args=(), errback_args=()) -> None:
        """Take whom to tell; tell at once where the answer is there already."""
        self._told = lambda error: callback(None, *callback_args) if error is None else errback(error, *errback_args)
        if self._answer is not None:
            self._told(*self._answer)

    def answer(self, error: Exception | None = None) -> None:
        """Answer, now or as soon as somebody asks."""
        self._answer = (error,)
        if self._told is not None:
            self._told(error)


class Session:
    """Hands out futures; answers at once where it has an answer."""

    def __init__(self, answer: tuple[Exception | None] | None = None) -> None:
        self.sent: list[Future] = []
        self._answer = answer

    def execute_async(self, query, *, host=None) -> Future:
        """Send."""
        self.sent.append(Future(query))
        if self._answer is not None:
            self.sent[-1].answer(*self._answer)
        return self.sent[-1]


def in_flight_of(session: Session, requests_max: int) -> InFlight:
    return InFlight(Sender(session, "keyspace", timeout_s=1).send, requests_max)


def requests(*names: str) -> list[Request]:
    return [Request(name) for name in names]


def test_no_more_than_the_bound_is_out_and_the_rest_follows_in_order() -> None:
    session, told = Session(), []
    in_flight = in_flight_of(session, 2)
    in_flight.submit(requests("a", "b", "c"), told.append)
    in_flight.submit(requests("d"), told.append)
    assert [one.statement for one in session.sent] == ["a", "b"]
    session.sent[1].answer()
    assert [one.statement for one in session.sent] == ["a", "b", "c"]
    session.sent[0].answer()
    assert told == []
    session.sent[2].answer()
    assert told == [None]
    session.sent[3].answer()
    assert told == [None, None]
    assert in_flight.wait_until_idle(0)


def test_a_call_is_told_its_first_error_once_all_of_it_is_through() -> None:
    session, told = Session(), []
    in_flight_of(session, 8).submit(requests("a", "b", "c"), told.append)
    session.sent[2].answer(OperationTimedOut())
    session.sent[0].answer(OperationTimedOut())
    assert told == []
    session.sent[1].answer()
    assert [type(error) for error in told] == [StoreUnavailableError]


def test_what_is_left_of_a_failed_call_is_not_sent() -> None:
    session, told = Session(), []
    in_flight = in_flight_of(session, 1)
    in_flight.submit(requests("a", "b", "c"), told.append)
    in_flight.submit(requests("x"), told.append)
    session.sent[0].answer(OperationTimedOut())
    assert [one.statement for one in session.sent] == ["a", "x"]
    assert len(told) == 1


# case C8
@pytest.mark.parametrize("error", [None, NoHostAvailable("down", {})])
def test_ten_thousand_requests_that_are_answered_at_once_do_not_recurse(error: Exception | None) -> None:
    session, told = Session((error,)), []
    in_flight = in_flight_of(session, 4)
    for _ in range(10):
        in_flight.submit(requests(*["a"] * 1_000), told.append)
    assert len(told) == 10
    assert in_flight.wait_until_idle(0)


def test_threads_may_submit_at_the_same_time() -> None:
    session, told = Session((None,)), []
    in_flight = in_flight_of(session, 3)

    def submit() -> None:
        for _ in range(200):
            in_flight.submit(requests("a", "b"), told.append)

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert in_flight.wait_until_idle(10)
    assert told == [None] * 800
    assert len(session.sent) == 1_600
