"""A Cassandra that stands still or dies: every write is told once, as unavailable, and the same store goes on after."""

import signal
import threading

import pytest

from compose.stacks.errors import ToolMissingError
from compose.stacks.local import LocalSettings, LocalStack, ServerStatus
from consumers.errors import StoreUnavailableError
from consumers.migrate_settings import MigrationSettings
from consumers.migrate_tables import CassandraTables
from consumers.rows import MessageWrite
from consumers.stores.cassandra import CassandraStore
from consumers.stores.settings import CassandraSettings
from tests.contract.made import OWNER, Written, id_of, made, row, write
from tests.missing import missing
from tests.stacks import throw_away

NODE = "cassandra"
WRITES = 4
ATTEMPTS = 60


class Returned:
    """Says when the driver has its node back."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def on_up(self, _host: object) -> None:
        """Hear that a node is up."""
        self.event.set()

    def on_down(self, _host: object) -> None:
        """Hear that a node is down."""

    on_add = on_remove = on_down


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory):
    """Give a Cassandra of our own to hurt."""
    stack = LocalStack(tmp_path_factory.mktemp("own"), LocalSettings(cassandra_heap_mib=512))
    try:
        stack.start(NODE)
    except ToolMissingError as error:
        missing("local_stack", error.message)
    yield stack
    throw_away(stack, NODE)


def started(store: CassandraStore, first: int) -> list[Written]:
    """Start some writes of many batches each."""
    all_written = [Written() for _ in range(WRITES)]
    for number, written in enumerate(all_written):
        store.write(OWNER, [made(f"c{first + number}-{each}", each) for each in range(100)], [], written.done)
    return all_written


def write_until_done(store: CassandraStore, messages: list[MessageWrite]) -> None:
    """Write the same again as a worker does; a server that comes back answers late at first."""
    for _ in range(ATTEMPTS):
        try:
            write(store, messages)
        except StoreUnavailableError:
            continue
        return
    pytest.fail("the store does not come back")


def _status(stack: LocalStack) -> ServerStatus:
    return next(server for server in stack.status() if server.name == NODE)


# case C8
@pytest.mark.local_stack
@pytest.mark.timeout(400)  # starts a Cassandra twice, on machines that do other things too
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_writes_to_a_cassandra_that_stands_still_or_dies(own_stack: LocalStack) -> None:
    settings = CassandraSettings(
        port=int(_status(own_stack).address.rpartition(":")[2]), request_timeout_s=1.0, batches_in_flight_max=8
    )
    list(CassandraTables(settings, MigrationSettings()).apply())
    store = CassandraStore.open(settings)
    returned = Returned()
    store._cluster.register_listener(returned)

    own_stack.kill(NODE, signal.SIGSTOP)
    for written in started(store, 0):
        with pytest.raises(StoreUnavailableError):
            written.wait()
    with pytest.raises(StoreUnavailableError):
        store.read([("c0-0", id_of(0))], [])
    own_stack.kill(NODE, signal.SIGCONT)
    write_until_done(store, [made("c0-0", 0)])

    own_stack.kill(NODE, signal.SIGKILL)
    for written in started(store, WRITES):
        with pytest.raises(StoreUnavailableError):
            written.wait()
    with pytest.raises(StoreUnavailableError):
        store.claim_lease(1, "node")
    with pytest.raises(StoreUnavailableError):
        store.ping()
    own_stack.start(NODE)
    assert returned.event.wait(60)
    write_until_done(store, [made("c0-0", 0), made("c1-0", 0)])
    assert store.read([("c0-0", id_of(0)), ("c1-0", id_of(0))], []).messages == {
        (f"c{number}-0", id_of(0)): row(f"c{number}-0", 0) for number in range(2)
    }
    store.close()
