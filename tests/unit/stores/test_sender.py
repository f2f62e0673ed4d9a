"""Every request is told once: answered, failed or timed out; the connection is returned, and nothing is sent twice."""

from threading import Lock
from types import SimpleNamespace

import pytest
from cassandra import OperationTimedOut, WriteTimeout
from cassandra.connection import ConnectionBusy, ConnectionShutdown
from cassandra.pool import NoConnectionsAvailable
from cassandra.protocol import PreparedQueryNotFound, ResultMessage, WriteTimeoutErrorMessage

from consumers.errors import StoreUnavailableError
from consumers.stores.cassandra_batches import Batch
from consumers.stores.cassandra_errors import translated
from consumers.stores.cassandra_sender import Request, Sender
from consumers.stores.cassandra_wire import PackedBatch

BATCH = Batch([b"one", b"two"], b"key", None)
TIMEOUT_S = 10.0


class Connection:
    """Keeps what is sent; the test answers."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[SimpleNamespace] = []
        self.lock = Lock()
        self.request_ids: list[int] = []
        self._error = error

    def send_msg(self, message, request_id, *, cb, encoder, decoder, result_metadata) -> None:
        """Send, or fail."""
        if self._error is not None:
            raise self._error
        self.sent.append(SimpleNamespace(message=message, answer=cb))


class Pool:
    """A node's connections, of which there is one."""

    is_shutdown = False

    def __init__(self, connection: Connection, error: Exception | None = None) -> None:
        self._connection = connection
        self._error = error
        self.lent = 0

    def borrow_connection(self, timeout: float) -> tuple[Connection, int]:
        """Lend it, never waiting."""
        assert timeout == 0
        if self._error is not None:
            raise self._error
        self.lent += 1
        return self._connection, self.lent

    def return_connection(self, _connection: Connection) -> None:
        """Take it back."""
        self.lent -= 1


class Clock:
    """The time that the test says."""

    now = 100.0

    def __call__(self) -> float:
        """Tell it."""
        return self.now


class World:
    """A sender, its session's parts, and what it told."""

    def __init__(self, connection: Connection | None = None, pool_error: Exception | None = None) -> None:
        self.connection = connection or Connection()
        self.pool = Pool(self.connection, pool_error)
        self.by_driver: list[object] = []
        self.clock = Clock()
        self.told: list[Exception | None] = []
        session = SimpleNamespace(_pools={"node": self.pool}, execute_async=self._execute_async)
        self.sender = Sender(session, "keyspace", timeout_s=TIMEOUT_S, monotonic=self.clock)

    def _execute_async(self, statement):
        self.by_driver.append(statement)
        return SimpleNamespace(add_callbacks=lambda callback, errback: callback(None))

    def send(self, host: str | None = "node") -> None:
        """Send a batch."""
        self.sender.send(Request(BATCH, host), self.told.append)


def test_a_batch_goes_to_the_node_and_its_answer_is_told() -> None:
    world = World()
    world.send()
    [sent] = world.connection.sent
    assert list(sent.message.queries) == [b"one", b"two"]
    assert (world.told, world.pool.lent) == ([], 1)
    sent.answer(ResultMessage(1))
    assert (world.told, world.pool.lent, world.by_driver) == ([None], 0, [])


def test_an_error_is_told_as_the_driver_would() -> None:
    world = World()
    world.send()
    info = {"consistency": 6, "required_responses": 2, "received_responses": 1, "write_type": 1}
    world.connection.sent[0].answer(WriteTimeoutErrorMessage(0x1100, "slow", info))
    assert [type(error) for error in world.told] == [WriteTimeout]
    world.send()
    world.connection.sent[1].answer(ConnectionShutdown("gone"))
    assert [type(error) for error in world.told] == [WriteTimeout, ConnectionShutdown]
    assert world.pool.lent == 0


def test_what_gets_no_answer_in_time_is_ended_once_and_a_late_answer_only_returns_the_connection() -> None:
    world = World()
    world.send()
    world.clock.now += TIMEOUT_S - 1
    world.send()
    world.sender.sweep(world.clock.now)
    assert world.told == []
    world.clock.now += 2
    world.sender.sweep(world.clock.now)
    assert [type(error) for error in world.told] == [OperationTimedOut]
    assert world.pool.lent == 2
    world.connection.sent[0].answer(ResultMessage(1))
    assert (len(world.told), world.pool.lent) == (1, 1)
    world.connection.sent[1].answer(ResultMessage(1))
    assert (len(world.told), world.told[1], world.pool.lent) == (2, None, 0)


def test_a_statement_that_the_server_forgot_is_prepared_and_sent_again_by_the_driver() -> None:
    world = World()
    world.send()
    world.connection.sent[0].answer(PreparedQueryNotFound(0x2500, "forgotten", b"id"))
    assert [type(statement) for statement in world.by_driver] == [PackedBatch]
    assert world.told == [None]


@pytest.mark.parametrize("host", [None, "another"])
def test_where_no_node_is_known_the_driver_chooses(host: str | None) -> None:
    world = World()
    world.send(host)
    assert [statement.routing_key for statement in world.by_driver] == [b"key"]
    assert (world.told, world.connection.sent) == ([None], [])


def test_where_nothing_can_be_sent_it_is_told() -> None:
    world = World(pool_error=NoConnectionsAvailable("all are in use"))
    world.send()
    assert [type(error) for error in world.told] == [NoConnectionsAvailable]
    world = World(Connection(ConnectionShutdown("gone")))
    world.send()
    assert [type(error) for error in world.told] == [ConnectionShutdown]
    assert world.pool.lent == 0


def test_a_connection_whose_node_takes_no_more_bytes_is_told_and_keeps_its_numbers() -> None:
    # Seen with a node cut off the network: the worker ended with it.
    world = World(Connection(ConnectionBusy("overloaded")))
    world.send()
    [told] = world.told
    assert isinstance(told, ConnectionBusy)
    assert isinstance(translated(told, "the rows"), StoreUnavailableError)
    assert (world.connection.request_ids, world.pool.lent) == ([1], 0)


def test_closing_ends_what_is_out() -> None:
    world = World()
    world.sender.start()
    world.send()
    world.sender.close()
    assert [type(error) for error in world.told] == [OperationTimedOut]
