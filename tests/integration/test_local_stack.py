"""The local stack with real servers: it comes up, mends itself, keeps what it acknowledged, and leaves nothing behind.

These tests kill servers, so they have a stack of their own.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compose.stacks.errors import PortTakenError, ToolMissingError
from compose.stacks.local import LocalSettings, LocalStack, ServerState, state
from tests.missing import missing

pytestmark = [pytest.mark.local_stack, pytest.mark.slow, pytest.mark.timeout(600)]

SMALL = LocalSettings(kafka_heap_mib=256, cassandra_heap_mib=512)
AT_ONCE_S = 5.0
PATIENCE_S = 180
UNREACHABLE = 5
LISTENING = "0A"


def no_progress(_line):
    pass


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    stack = LocalStack(tmp_path_factory.mktemp("own-stack"), SMALL)
    try:
        stack.up(no_progress)
    except ToolMissingError as error:
        missing("local_stack", error.message)
    yield stack
    stack.down(remove_data=True)


@contextmanager
def cassandra_session(stack):
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile  # noqa: PLC0415 - an optional extra
    from cassandra.policies import DCAwareRoundRobinPolicy  # noqa: PLC0415

    addresses = stack.addresses()
    policy = DCAwareRoundRobinPolicy(local_dc=addresses.cassandra_datacenter)
    cluster = Cluster(
        list(addresses.cassandra_contact_points),
        port=addresses.cassandra_port,
        protocol_version=5,
        execution_profiles={EXEC_PROFILE_DEFAULT: ExecutionProfile(load_balancing_policy=policy)},
    )
    try:
        yield cluster.connect()
    finally:
        cluster.shutdown()


def states(stack):
    return {status.name: status.state for status in stack.status()}


def pids(stack):
    return {status.name: status.pid for status in stack.status()}


def test_up_again_returns_at_once_and_touches_nothing(stack):
    before = pids(stack)
    began = time.monotonic()
    addresses = stack.up(no_progress)
    assert time.monotonic() - began < AT_ONCE_S
    assert pids(stack) == before
    assert addresses == stack.addresses()


def test_status_tells_of_living_servers(stack):
    for status in stack.status():
        assert status.state is ServerState.RUNNING
        assert status.memory_bytes > 50 * 1024 * 1024
        assert status.uptime_s > 0
        assert status.log_path.stat().st_size > 0


def listening_addresses(pid):
    """Return (address in hex, port) of what the process listens on, from the kernel's own tables."""
    sockets = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                address, _, port = fields[1].rpartition(":")
                found.append((address, int(port, 16)))
    return found


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="not here: the kernel's socket tables (/proc)")
def test_every_port_is_on_loopback_only(stack):
    loopback = {
        "0100007F",  # 127.0.0.1
        "0000000000000000FFFF00000100007F",  # the same, seen through IPv6
        "00000000000000000000000001000000",  # ::1
    }
    for status in stack.status():
        listening = listening_addresses(status.pid)
        assert {address for address, _ in listening} <= loopback, (status.name, listening)
        ports = set(state.load(stack.data_folder / "state.json").server(status.name).ports.values())
        assert ports <= {port for _, port in listening}


def test_acknowledged_records_survive_the_kill_of_kafka(stack):
    common = {"bootstrap.servers": stack.addresses().kafka_bootstrap_servers, "log_level": 0}
    admin = AdminClient(common)
    admin.create_topics([NewTopic("survival", 1, 1)])["survival"].result(10)
    acknowledged = []
    producer = Producer({**common, "enable.idempotence": True})
    for number in range(500):
        producer.produce("survival", str(number), on_delivery=lambda error, _message: acknowledged.append(error))
    assert producer.flush(30) == 0
    stack.kill("kafka")
    stack.start("kafka")
    assert acknowledged == [None] * 500
    reader = Consumer({**common, "group.id": "survival", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition("survival", 0, 0)])
    kept = [int(message.value()) for message in reader.consume(500, timeout=30)]
    reader.close()
    assert kept == list(range(500))


def test_a_killed_kafka_is_noticed_and_mended(stack):
    before = pids(stack)
    stack.kill("kafka")
    assert states(stack) == {"kafka": ServerState.DIED, "cassandra": ServerState.RUNNING}
    addresses = stack.addresses()
    assert stack.up(no_progress) == addresses
    assert states(stack) == {"kafka": ServerState.RUNNING, "cassandra": ServerState.RUNNING}
    after = pids(stack)
    assert after["kafka"] != before["kafka"]
    assert after["cassandra"] == before["cassandra"]


def test_a_paused_server_is_seen_and_goes_on(stack):
    before = pids(stack)
    stack.kill("kafka", signal.SIGSTOP)
    assert states(stack)["kafka"] is ServerState.PAUSED
    stack.up(no_progress)
    assert states(stack)["kafka"] is ServerState.RUNNING
    assert pids(stack) == before


def test_acknowledged_writes_survive_the_kill_of_cassandra(stack):
    with cassandra_session(stack) as session:
        session.execute(
            "CREATE KEYSPACE IF NOT EXISTS survival "
            "WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}"
        )
        session.execute("CREATE TABLE IF NOT EXISTS survival.writes (id int PRIMARY KEY)")
        insert = session.prepare("INSERT INTO survival.writes (id) VALUES (?)")
        for number in range(500):
            session.execute(insert, (number,))
        stack.kill("cassandra")  # right after the last acknowledgement
    assert states(stack)["cassandra"] is ServerState.DIED
    stack.start("cassandra")
    with cassandra_session(stack) as session:
        kept = {row.id for row in session.execute("SELECT id FROM survival.writes")}
    assert kept == set(range(500))


def test_a_server_can_be_stopped_and_started_alone(stack):
    stack.stop("kafka")
    assert states(stack) == {"kafka": ServerState.STOPPED, "cassandra": ServerState.RUNNING}
    assert not stack.is_running()
    stack.start("kafka")
    assert stack.is_running()


def test_a_port_taken_meanwhile_is_named(stack):
    stack.stop("kafka")
    host, _, port = stack.addresses().kafka_bootstrap_servers.rpartition(":")
    with socket.create_server((host, int(port))), pytest.raises(PortTakenError, match=port):
        stack.up(no_progress)
    stack.up(no_progress)
    assert stack.is_running()


def test_two_processes_that_call_up_at_once_start_one_stack(stack):
    stack.down()
    code = """
import sys
from pathlib import Path
from compose.stacks.local import LocalSettings, LocalStack
settings = LocalSettings(kafka_heap_mib=256, cassandra_heap_mib=512)
print(LocalStack(Path(sys.argv[1]), settings).up(lambda line: None))
"""
    command = [sys.executable, "-c", code, str(stack.data_folder)]
    callers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [caller.communicate(timeout=300)[0] for caller in callers]
    assert [caller.returncode for caller in callers] == [0, 0]
    assert answers[0] == answers[1]
    # The callers are gone and the servers are not; each was started once.
    assert stack.is_running()
    assert len(processes_in(stack.data_folder)) == 2


def processes_in(folder):
    """Return the pids of all processes whose command line names the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(folder) in text and "java" in text.partition("\0")[0]:
            found.append(int(path.parent.name))
    return found


class Commands:
    """`twotick` on a stack, as its user runs it: nothing but the folders and sizes is set."""

    def __init__(self, stack, home):
        self.home = home
        sizes = {"KAFKA_HEAP_MIB": SMALL.kafka_heap_mib, "CASSANDRA_HEAP_MIB": SMALL.cassandra_heap_mib}
        self._environment = {
            **os.environ,
            "XDG_DATA_HOME": str(home),
            "TWOTICK_STACK__FOLDER": str(stack.data_folder),
            "TWOTICK_WORKER__SESSION_TIMEOUT_S": "6",
            **{f"TWOTICK_STACK__LOCAL__{name}": str(size) for name, size in sizes.items()},
        }

    def begin(self, *arguments, stderr=None):
        """Start a command."""
        command = [sys.executable, "-m", "compose.main", *arguments]
        return subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL, stderr=stderr)

    def run(self, *arguments):
        """Run a command that goes well."""
        assert self.begin(*arguments).wait(PATIENCE_S) == 0, arguments

    @contextmanager
    def consuming(self, log):
        """Run a worker and its supervisor."""
        with log.open("wb") as written:
            supervisor = self.begin("consume", "--workers", "1", "--log", "json", stderr=written)
        try:
            yield
        finally:
            supervisor.terminate()
            supervisor.wait(60)


def logged(log, text, **told):
    """Return the first log line of a text, with what it tells, once it is there."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for line in log.read_text().rpartition("\n")[0].splitlines():
            found = json.loads(line)
            if found["event"] == text and told.items() <= found.items():
                return found
        time.sleep(0.05)
    pytest.fail(f"{text} {told} was not logged: {log.read_text()}")


def test_workers_wait_for_a_cassandra_that_died_with_them(stack, tmp_path):
    twotick, log = Commands(stack, tmp_path), tmp_path / "workers.log"
    twotick.run("up")
    with twotick.consuming(log):
        twotick.run("send", "--as", "ann", "--to", "ben", "one", "--wait", "sent", "--timeout", str(PATIENCE_S))
        pid = logged(log, "worker process started")["pid"]
        stack.kill("cassandra")
        os.kill(pid, signal.SIGKILL)
        logged(log, "worker process ended", code=-signal.SIGKILL)
        logged(log, "worker process ended", code=UNREACHABLE)
        second = twotick.begin("send", "--as", "ann", "--to", "ben", "two", "--wait", "sent", "--timeout", "180")
        twotick.run("up")
        assert second.wait(PATIENCE_S) == 0, "nobody answered"
    with cassandra_session(stack) as session:
        assert {row.body for row in session.execute("SELECT body FROM twotick.messages")} == {b"one", b"two"}
    assert not list(tmp_path.rglob("store.sqlite*"))


def test_down_leaves_no_process_and_keeps_the_data_unless_told(stack):
    stack.down()
    assert processes_in(stack.data_folder) == []
    assert set(states(stack).values()) == {ServerState.STOPPED}
    assert (stack.data_folder / "kafka" / "data").is_dir()
    stack.down(remove_data=True)
    assert sorted(path.name for path in stack.data_folder.iterdir()) == ["lock", "state.json"]
