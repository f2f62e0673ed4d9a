"""The local stack: real Kafka and Cassandra as plain background processes, without Docker.

One server of each unless the settings ask for a cluster.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_data_dir

from compose.stacks.errors import NotHealthyError, ServerDiedError, StackError
from compose.stacks.local import ports, processes, state
from compose.stacks.local.cassandra import DATACENTER, CassandraNode
from compose.stacks.local.jars import Java, class_path, default_jars_folder, find_java
from compose.stacks.local.kafka import KafkaNode
from compose.stacks.local.logs import fresh_log, log_tail, remove_logs
from compose.stacks.local.members import Member, first_of, member_named, members, possible_members, waves
from compose.stacks.local.node import LocalSettings, Node, NodePlace
from compose.stacks.local.status import ServerState, ServerStatus, StackAddresses

_LOCK_TIMEOUT_S = 600.0
_HEALTH_TIMEOUT_S = 5.0
_STOP_GRACE_S = 30.0
_KILL_TIMEOUT_S = 10.0
_POLL_S = 0.1

Progress = Callable[[str], None]


def default_data_folder() -> Path:
    """Return where the stack lives unless told otherwise."""
    return Path(user_data_dir("twotick")) / "local"


class LocalStack:
    """Kafka and Cassandra living in `data_folder`; any number of processes may hold such an object for one folder.

    The servers outlive the process that starts them. Every changing call takes a file lock on the folder, so callers
    wait for each other; all calls raise StackError, whose hint names the next step.
    """

    def __init__(self, data_folder: Path, settings: LocalSettings | None = None) -> None:
        self.data_folder = data_folder.absolute()
        self.settings = settings or LocalSettings()
        self._reservations = ports.Reservations()

    def up(self, progress: Progress) -> StackAddresses:
        """Bring every server up and return their addresses; at once if all are healthy.

        What died is started again, what is paused goes on, what does not answer is restarted; data are kept. `progress`
        gets a line for each step. Raises ToolMissingError, PortTakenError, ServerDiedError or NotHealthyError.
        """
        with self._locked() as known:
            java = find_java()
            for wave in waves(self.settings):
                nodes = [self._node(member, known) for member in wave]
                # All of them are launched before any is waited for: they start beside each other.
                launched = [node for node in nodes if self._launch_unless_healthy(node, known, java, progress)]
                for node in launched:
                    self._wait_until_healthy(node, known)
                    progress(f"{node.place.name}: ready at {node.address}")
            return _addresses(known, members(self.settings), self.data_folder)

    def down(self, *, remove_data: bool = False) -> None:
        """Stop every server; with `remove_data`, delete what they stored, their logs and their ports too."""
        with self._locked() as known:
            # Clients of both are quieter when the log of record goes first. All that ever ran, whatever is set now.
            names = sorted(known.servers, key=lambda name: not name.startswith(KafkaNode.kind))
            for name in names:
                self._stop(name, known)
            if remove_data:
                known.servers.clear()
                known.cluster_id = state.new_cluster_id()
                for name in names:
                    shutil.rmtree(self.data_folder / name, ignore_errors=True)
                    remove_logs(self._log_path(name))

    def start(self, name: str, progress: Progress | None = None) -> None:
        """Start one server, or mend it, and wait until it is healthy."""
        say: Progress = progress or (lambda _line: None)
        with self._locked() as known:
            node = self._node(member_named(self.settings, name), known)
            if self._launch_unless_healthy(node, known, find_java(), say):
                self._wait_until_healthy(node, known)

    def stop(self, name: str) -> None:
        """Stop one server in good order; nothing happens if it does not run."""
        with self._locked() as known:
            self._stop(member_named(self.settings, name).name, known)

    def kill(self, name: str, signal_number: int = signal.SIGKILL) -> None:
        """Send a signal to one server, for fault tests; SIGKILL and SIGSTOP have taken effect when this returns.

        Takes no lock: a fault may strike during a start. Raises StackError if the server has no process.
        """
        process = state.load(self._state_path).server(member_named(self.settings, name).name).process
        if process is None or not processes.send_signal(process, signal_number):
            raise StackError(f"{name} has no process to signal", hint="start the stack first")
        if signal_number == signal.SIGKILL:
            processes.wait_until_gone(process, _KILL_TIMEOUT_S)
        if signal_number == signal.SIGSTOP:
            processes.wait_until_paused(process, _KILL_TIMEOUT_S)

    def status(self) -> list[ServerStatus]:
        """Return how each server is, found out by a round trip through those that live."""
        known = state.load(self._state_path)
        return [self._status(member, known) for member in members(self.settings)]

    def is_running(self) -> bool:
        """Return whether every server's process lives, without asking the servers anything."""
        lives = self.started()
        return all(lives.get(member.name, False) for member in members(self.settings))

    def started(self) -> Mapping[str, bool]:
        """Return which servers were started and not stopped since, and of each whether its process lives.

        One that crashed is among them, also after a reboot of the machine.
        """
        servers = state.load(self._state_path).servers
        return {name: processes.is_alive(record.process) for name, record in servers.items() if record.process}

    def known_servers(self) -> Sequence[str]:
        """Return every server that has ports here, and with them perhaps data and logs, whatever is set now."""
        return tuple(state.load(self._state_path).servers)

    def addresses(self) -> StackAddresses:
        """Return where the servers are (or were, if they are stopped); raise StackError if they never ran."""
        return _addresses(state.load(self._state_path), members(self.settings), self.data_folder)

    def addresses_until_down(self) -> StackAddresses | None:
        """Return where the servers are from `up` until `down`, whether or not they live; None before and after.

        They are those that were started, however many the settings ask for now.
        """
        known = state.load(self._state_path)
        started = [member for member in possible_members() if _is_started(known, member)]
        if not started:
            return None
        # All of one kind may have been stopped by name, or not have come to their first start.
        kinds = {member.kind for member in started}
        others = [member for member in members(self.settings) if member.kind not in kinds]
        try:
            return _addresses(known, [*started, *others], self.data_folder)
        except StackError:  # one kind was started by name, and the other never was
            return None

    @property
    def _state_path(self) -> Path:
        return self.data_folder / "state.json"

    def _log_path(self, name: str) -> Path:
        return self.data_folder / "logs" / f"{name}.log"

    @contextmanager
    def _locked(self) -> Iterator[state.StackState]:
        """Hold the folder's lock, lend the state, and save it however the work ends."""
        self.data_folder.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.data_folder / "lock", timeout=_LOCK_TIMEOUT_S):
                known = state.load(self._state_path)
                try:
                    yield known
                finally:
                    state.save(self._state_path, known)
                    self._reservations.let_go()
        except Timeout as error:
            message = f"another process is busy with the stack in {self.data_folder}"
            raise StackError(message, hint="wait for it to end, then retry", retriable=True) from error

    def _node(self, member: Member, known: state.StackState) -> Node:
        """Return the node with its ports, choosing those it does not have yet."""
        self._choose_ports(member, known)
        place = NodePlace(member.name, member.host, self.data_folder / member.name, known.server(member.name).ports)
        if member.kind is CassandraNode:
            settings = self.settings
            return CassandraNode(
                place, settings.cassandra_heap_mib, settings.commitlog_sync, nodes=settings.cassandra_nodes
            )
        return KafkaNode(place, known.cluster_id, self.settings.kafka_heap_mib, member.number, self._controllers(known))

    def _choose_ports(self, member: Member, known: state.StackState) -> None:
        record = known.server(member.name)
        self._apply_asked_port(member, record)
        for purpose in member.kind.port_purposes:
            if purpose not in record.ports:
                record.ports[purpose] = self._chosen_port(member, purpose, known)

    def _chosen_port(self, member: Member, purpose: str, known: state.StackState) -> int:
        if member.shares_port(purpose):
            return known.server(first_of(self.settings, member.kind).name).ports[purpose]
        return self._reservations.choose(known.ports_in_use())

    def _controllers(self, known: state.StackState) -> dict[int, str]:
        """Return the controller addresses of all Kafka nodes, choosing those that are not chosen yet."""
        found = {}
        for member in members(self.settings):
            if member.kind is KafkaNode:
                self._choose_ports(member, known)
                found[member.number] = f"{member.host}:{known.server(member.name).ports['controller']}"
        return found

    def _apply_asked_port(self, member: Member, record: state.ServerRecord) -> None:
        settings = self.settings
        asked = settings.kafka_port if member.kind is KafkaNode else settings.cassandra_port
        purpose = member.kind.port_purposes[0]
        if not asked or member.number > 1 or record.ports.get(purpose) == asked:
            return
        if record.process is not None and processes.is_alive(record.process):
            message = f"{member.name} already runs on port {record.ports[purpose]}, port {asked} was asked for"
            raise StackError(message, hint="stop it first (`twotick down`), or ask for no port")
        record.ports[purpose] = asked

    def _launch_unless_healthy(self, node: Node, known: state.StackState, java: Java, progress: Progress) -> bool:
        """Return True if the node was launched and has to be waited for."""
        process = known.server(node.place.name).process
        if process is not None and processes.is_alive(process):
            processes.send_signal(process, signal.SIGCONT)
            if _is_healthy(node):
                return False
            progress(f"{node.place.name}: does not answer, restarting it")
            self._stop(node.place.name, known)
        self._launch(node, known, java, progress)
        return True

    def _launch(self, node: Node, known: state.StackState, java: Java, progress: Progress) -> None:
        jars = class_path(node.kind, jars_folder=self.settings.jars_folder or default_jars_folder(), progress=progress)
        record = known.server(node.place.name)
        ports.require_free(node.place.name, record.ports.values(), node.place.host)
        progress(f"{node.place.name}: starting at {node.address}")
        node.prepare(java, jars)
        log_path = fresh_log(self._log_path(node.place.name))
        record.process = processes.launch(
            node.command(java, jars), log_path=log_path, folder=node.place.folder, environment=os.environ
        )
        record.started_at_s = time.time()
        # At once, so that a caller that dies while waiting leaves no server that nobody knows.
        state.save(self._state_path, known)

    def _wait_until_healthy(self, node: Node, known: state.StackState) -> None:
        process = known.server(node.place.name).process
        port = node.place.ports[node.port_purposes[0]]
        deadline = time.monotonic() + self.settings.start_timeout_s
        while True:
            if process is None or not processes.is_alive(process):
                raise self._died(node.place.name)
            if ports.accepts_connections(port, node.place.host) and _is_healthy(node):
                return
            if time.monotonic() >= deadline:
                raise self._not_healthy_in_time(node.place.name)
            time.sleep(_POLL_S)

    def _stop(self, name: str, known: state.StackState) -> None:
        record = known.server(name)
        if record.process is not None:
            processes.terminate(record.process, grace_s=_STOP_GRACE_S)
        record.process, record.started_at_s = None, 0.0

    def _status(self, member: Member, known: state.StackState) -> ServerStatus:
        name = member.name
        record = known.server(name)
        log_path = self._log_path(name)
        port = record.ports.get(member.kind.port_purposes[0])
        address = f"{member.host}:{port}" if port else None
        process = record.process
        if process is None or not processes.is_alive(process):
            gone = ServerState.STOPPED if process is None else ServerState.DIED
            return ServerStatus(name, gone, None, address, 0.0, 0, log_path)
        living = self._living_state(process, self._node(member, known))
        uptime_s = max(time.time() - record.started_at_s, 0.0)
        return ServerStatus(name, living, process.pid, address, uptime_s, processes.memory_bytes(process), log_path)

    def _living_state(self, process: processes.ProcessIdentity, node: Node) -> ServerState:
        if processes.is_paused(process):
            return ServerState.PAUSED
        return ServerState.RUNNING if _is_healthy(node) else ServerState.UNHEALTHY

    def _died(self, name: str) -> ServerDiedError:
        hint = (
            f"the whole log is {self._log_path(name)}; if the data are damaged and dispensable, remove them with `down`"
        )
        return ServerDiedError(f"{name} ended while starting", hint=hint, log_tail=log_tail(self._log_path(name)))

    def _not_healthy_in_time(self, name: str) -> NotHealthyError:
        message = (
            f"{name} did not answer within {self.settings.start_timeout_s:.0f} s\n{log_tail(self._log_path(name))}"
        )
        return NotHealthyError(message, hint=f"look into {self._log_path(name)}, or allow a longer start")


def _is_started(known: state.StackState, member: Member) -> bool:
    return member.name in known.servers and known.servers[member.name].process is not None


def _addresses(known: state.StackState, everyone: Sequence[Member], folder: Path) -> StackAddresses:
    kafka = [member for member in everyone if member.kind is KafkaNode]
    cassandra = [member for member in everyone if member.kind is CassandraNode]
    try:
        brokers = [f"{member.host}:{known.server(member.name).ports['broker']}" for member in kafka]
        cassandra_port = known.server(cassandra[0].name).ports["native"]
    except KeyError as error:
        raise StackError(f"no stack has run in {folder}", hint="bring it up first") from error
    return StackAddresses(
        kafka_bootstrap_servers=",".join(brokers),
        cassandra_contact_points=tuple(member.host for member in cassandra),
        cassandra_port=cassandra_port,
        cassandra_datacenter=DATACENTER,
    )


def _is_healthy(node: Node) -> bool:
    try:
        node.check_health(_HEALTH_TIMEOUT_S)
    except NotHealthyError:
        return False
    return True
