"""How each deed is done, to processes and servers that this run has started."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from compose.demo.processes import Process
from compose.stacks.local import LocalStack
from compose.wiring import Wiring
from consumers.errors import ExitCode
from schemas.topics import EVENTS, INBOX, PARTITIONS_LOCAL
from tests.faults.crew import Machine, Phone, Places, consume_command, until, workers_environment
from tests.faults.schedule import DISTURBING, Act, Deed
from tests.faults.stage import NODES_OF_CLUSTER, Disk, settings_of, write_config

ORDER_WAIT_S: Final = 15.0
ENDS_WITHIN_S: Final = 120.0
"""Longest wait for a process or a group to come to what it must: generous, for machines that are busy."""
WORKED_OFF_WITHIN_S: Final = 300.0
CLOCK_SHIFT_S: Final = 3600.0
PARTITIONS_ADDED: Final = 4
NOBODY: Final = "there was none"
NO_MOMENT: Final = "the moment did not come"
_MISSED: Final = frozenset({NOBODY, NO_MOMENT})


class Kill(NamedTuple):
    """A worker's death, and what it owned."""

    at: float
    """s since 1970."""
    node: str
    epochs: Mapping[int, int]
    """By partition."""


class Done(NamedTuple):
    """A deed that was done."""

    at_s: float
    deed: Deed
    target: str
    note: str = ""
    missed: bool = False
    """There was nobody to do it to."""


@dataclass
class Ground:
    """All that deeds are done to, and what has been done."""

    places: Places
    stack: LocalStack
    machines: list[Machine]
    phones: list[Phone]
    disk: Disk
    protocol: str
    began: float = field(default_factory=time.monotonic)
    done: list[Done] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    disturbed: list[tuple[float, float]] = field(default_factory=list)
    """When servers were away or workers were stopped in good order, s since 1970."""
    complaints: list[str] = field(default_factory=list)
    """What did not behave as it must, beside what the checker finds."""
    boundaries: dict[int, int] = field(default_factory=dict)
    """Where each partition ended when partitions were added; empty before."""
    generations_at: list[int] = field(default_factory=list)
    """When that was, ms since 1970."""

    def perform(self, act: Act) -> None:
        """Do one deed and note it."""
        began, began_at = time.monotonic() - self.began, time.time()
        target, note = _DEEDS[act.deed](self, act)
        if act.deed in DISTURBING:
            self.disturbed.append((began_at, time.time()))
        self.done.append(Done(round(began, 1), act.deed, target, note, note in _MISSED))

    def complain(self, text: str) -> None:
        """Note what did not behave as it must."""
        self.complaints.append(f"{time.monotonic() - self.began:.1f} s: {text}")


Told = tuple[str, str]
"""To whom it was done, and what is worth a note."""


# -- workers


def _alive(ground: Ground, act: Act) -> Machine:
    """Return the machine that is meant, or the next one whose worker lives."""
    count = len(ground.machines)
    turn = [ground.machines[(act.target + step) % count] for step in range(count)]
    return next((machine for machine in turn if machine.epochs()), turn[0])


def _kill_worker(ground: Ground, act: Act) -> Told:
    return _killed(ground, _alive(ground, act))


def _killed(ground: Ground, machine: Machine) -> Told:
    epochs = machine.epochs()
    at = time.time()
    if not machine.signal_worker(signal.SIGKILL):
        return machine.node, NOBODY
    ground.kills.append(Kill(at, machine.worker_name, epochs))
    return machine.node, f"owned {len(epochs)} partitions"


def _kill_worker_on_order(moment: str) -> Callable[[Ground, Act], Told]:
    def deed(ground: Ground, act: Act) -> Told:
        machine = _alive(ground, act)
        order = ground.places.control / f"die-{moment}-{machine.node}"
        order.touch()
        if moment == "after-lease":
            _killed(ground, machine)  # so that there is a lease to claim
        epochs = dict(machine.epochs())

        def obeyed() -> bool:
            epochs.update(machine.epochs())
            return not order.exists()

        came = until(obeyed, ORDER_WAIT_S, 0.05)
        order.unlink(missing_ok=True)
        if came:
            ground.kills.append(Kill(time.time(), machine.worker_name, epochs))
        return machine.node, "" if came else NO_MOMENT

    return deed


def _kill_supervisor(ground: Ground, act: Act) -> Told:
    machine = ground.machines[act.target]
    with machine.lock:
        orphans = machine.children()
        machine.supervisor.kill()
        drained = until(lambda: not any(map(_lives, orphans)), 45.0)
        for orphan in orphans:
            _signal(orphan, signal.SIGKILL)
        machine.start()
    return machine.node, "its worker drained" if drained else "its worker had to be killed too"


def _pause_worker(ground: Ground, act: Act) -> Told:
    machine = _alive(ground, act)
    worker = machine.worker()
    if worker is None:
        return machine.node, NOBODY
    _signal(worker.pid, signal.SIGSTOP)
    time.sleep(act.seconds)
    _signal(worker.pid, signal.SIGCONT)
    return machine.node, f"{act.seconds} s"


def _shift_clock(ground: Ground, act: Act) -> Told:
    machine = ground.machines[act.target]
    shift_s = CLOCK_SHIFT_S if round(act.seconds * 10) % 2 else -CLOCK_SHIFT_S
    order = ground.places.control / f"clock-{machine.node}"
    order.write_text(str(shift_s))
    time.sleep(act.seconds)
    order.unlink()
    return machine.node, f"{shift_s:+.0f} s for {act.seconds} s"


def _rolling_restart(ground: Ground, _act: Act) -> Told:
    codes = []
    for machine in ground.machines:
        with machine.lock:
            codes.append(machine.stop())
            machine.start()
        until(lambda machine=machine: bool(machine.epochs()), 30.0)
    return "all", f"exit codes {codes}"


def _double_member(ground: Ground, act: Act) -> Told:
    machine = ground.machines[act.target]
    log = ground.places.log(f"double-{machine.node}")
    command = consume_command(ground.places, machine.node, "--slot", "0")
    double = Process("double", command, log, workers_environment(ground.places))
    with machine.lock:
        double.start()
        ended = until(lambda: not (double.running and machine.running), ENDS_WITHIN_S)
        codes = {machine.supervisor.code, double.code}
        note = f"supervisor {machine.supervisor.code}, double {double.code}"
        if not ended:
            ground.complain(f"two members named {machine.worker_name} go on beside each other")
        # A deed that waits for this machine's worker to come to some point may find the double there, and kill it.
        elif not codes & {ExitCode.FENCED, ExitCode.UNRELEASED, -signal.SIGKILL}:
            ground.complain(f"two members named {machine.worker_name}: {note}")
        double.stopped()
        if not machine.running:
            machine.start()
    return machine.node, note


# -- clients


def _kill_client(ground: Ground, act: Act) -> Told:
    phone = ground.phones[act.target]
    with phone.lock:
        phone.process.kill()
        time.sleep(act.seconds / 8)
        phone.start()
    return phone.user, ""


def _kill_client_after_send(ground: Ground, act: Act) -> Told:
    phone = ground.phones[act.target]
    order = ground.places.control / f"die-{phone.user}"
    with phone.lock:
        order.touch()
        came = until(lambda: not phone.process.running, ORDER_WAIT_S, 0.05)
        order.unlink(missing_ok=True)
        if not phone.process.running:
            phone.start()
    return phone.user, "" if came else NO_MOMENT


def _pause_client(ground: Ground, act: Act) -> Told:
    phone = ground.phones[act.target]
    phone.signal(signal.SIGSTOP)
    time.sleep(act.seconds)
    phone.signal(signal.SIGCONT)
    return phone.user, f"{act.seconds} s"


def _fill_disk(ground: Ground, act: Act) -> Told:
    phone = ground.phones[act.target]
    pid = phone.process.pid
    if pid is None:
        return phone.user, "it did not run"
    ground.disk.fill(pid)
    time.sleep(act.seconds)
    ground.disk.free()
    return phone.user, f"{ground.disk.kind} for {act.seconds} s"


# -- servers


def _server(ground: Ground, kind: str, act: Act) -> str:
    nodes = ground.stack.settings.kafka_nodes
    return kind if nodes == 1 else f"{kind}-{act.target + 1}"


def _kill_server(kind: str) -> Callable[[Ground, Act], Told]:
    def deed(ground: Ground, act: Act) -> Told:
        name = _server(ground, kind, act)
        ground.stack.kill(name)
        time.sleep(act.seconds)
        began = time.monotonic()
        ground.stack.start(name)
        if ground.stack.settings.kafka_nodes > 1:
            until(lambda: copies_in_sync(ground), 90.0, 0.5)
        return name, f"gone for {act.seconds} s, {time.monotonic() - began:.0f} s to be back"

    return deed


def _restart_server(kind: str) -> Callable[[Ground, Act], Told]:
    def deed(ground: Ground, act: Act) -> Told:
        name = _server(ground, kind, act)
        ground.stack.stop(name)
        ground.stack.start(name)
        return name, ""

    return deed


def _pause_server(kind: str) -> Callable[[Ground, Act], Told]:
    def deed(ground: Ground, act: Act) -> Told:
        name = _server(ground, kind, act)
        ground.stack.kill(name, signal.SIGSTOP)
        time.sleep(act.seconds)
        ground.stack.kill(name, signal.SIGCONT)
        return name, f"{act.seconds} s"

    return deed


def _kill_both(ground: Ground, act: Act) -> Told:
    for kind in ("kafka", "cassandra"):
        ground.stack.kill(kind)
    time.sleep(act.seconds)
    ground.stack.up(lambda _line: None)
    return "both", f"{act.seconds} s"


def copies_in_sync(ground: Ground) -> bool:
    """Say whether every partition has all of its copies."""
    admin = AdminClient({"bootstrap.servers": ground.stack.addresses().kafka_bootstrap_servers, "log_level": 0})
    topics = admin.list_topics(timeout=10).topics
    copies = min(ground.stack.settings.kafka_nodes, NODES_OF_CLUSTER)
    return all(len(each.isrs) >= copies for name in (EVENTS, INBOX) for each in topics[name].partitions.values())


# -- the deployment


def _add_partitions(ground: Ground, _act: Act) -> Told:
    """Give the events topic more partitions: workers refuse it until `migrate --execute` has accepted it.

    1. Clients stop; workers work off what is in the log. 2. The topic grows. 3. A worker that is killed does not come
    back, and none of the others starts again: each says what to do. 4. The change is accepted, and all go on.
    """
    with ExitStack() as locks:
        for lock in (*(one.lock for one in ground.phones), *(one.lock for one in ground.machines)):
            locks.enter_context(lock)
        _stop_clients(ground)
        ground.boundaries = ends(ground)
        ground.generations_at = [time.time_ns() // 1_000_000]
        _grow(ground)
        ground.machines[0].signal_worker(signal.SIGKILL)
        for machine in ground.machines[1:]:
            machine.stop()
            machine.start()
        codes = [_refusal(ground, machine) for machine in ground.machines]
        _migrate(ground)
        _go_on(ground)
    return EVENTS, f"refused with codes {codes}, then accepted as generation 2"


def _stop_clients(ground: Ground) -> None:
    """Stop all clients, and wait until what they have written is worked off."""
    for phone in ground.phones:
        phone.process.ask_to_stop()
    for phone in ground.phones:
        phone.process.stopped()
    if not until(lambda: settled_log(ground), WORKED_OFF_WITHIN_S, 0.5):
        ground.complain(
            f"workers did not work off the log within {WORKED_OFF_WITHIN_S:.0f} s after all clients stopped"
        )


def _go_on(ground: Ground) -> None:
    for machine in ground.machines:
        machine.start()
    total = PARTITIONS_LOCAL + PARTITIONS_ADDED
    if not until(lambda: sum(len(one.epochs()) for one in ground.machines) == total, ENDS_WITHIN_S):
        ground.complain(f"not all of {total} partitions are owned after the change was accepted")
    for phone in ground.phones:
        phone.start()


def _refusal(ground: Ground, machine: Machine) -> int | None:
    until(lambda: not machine.running, ENDS_WITHIN_S)
    said = list(machine.lines("the worker ends"))
    last: Mapping[str, Any] = said[-1] if said else {}
    if machine.supervisor.code != ExitCode.TOPIC_CHANGED or "migrate" not in str(last.get("hint")):
        ground.complain(f"{machine.node} does not refuse a changed partition count: {machine.supervisor.code}, {last}")
        machine.stop()
    return machine.supervisor.code


def _grow(ground: Ground) -> None:
    admin = AdminClient({"bootstrap.servers": ground.stack.addresses().kafka_bootstrap_servers})
    total = PARTITIONS_LOCAL + PARTITIONS_ADDED
    for done in admin.create_partitions([NewPartitions(EVENTS, total)]).values():
        done.result(30)
    until(lambda: len(admin.list_topics(EVENTS, timeout=10).topics[EVENTS].partitions) == total, 15.0)


def _migrate(ground: Ground) -> None:
    places = ground.places
    total = PARTITIONS_LOCAL + PARTITIONS_ADDED
    write_config(places.config, settings_of(ground.stack, places.status, protocol=ground.protocol, partitions=total))
    command = [sys.executable, "-m", "compose.main", "--config", str(places.config), "migrate", "--execute"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    if ran.returncode not in {ExitCode.DONE, ExitCode.UNDRAINED}:
        ground.complain(f"migrate --execute ended with {ran.returncode}: {ran.stderr[-500:]}")


def ends(ground: Ground) -> dict[int, int]:
    """Return where each partition of the events topic ends."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    reader = Consumer({**Wiring(config=ground.places.config).kafka(), "group.id": "faults-ends"})
    try:
        partitions = reader.list_topics(EVENTS, timeout=20).topics[EVENTS].partitions
        return {n: reader.get_watermark_offsets(TopicPartition(EVENTS, n), timeout=20)[1] for n in sorted(partitions)}
    finally:
        reader.close()


def settled_log(ground: Ground) -> bool:
    """Say whether owners have finished everything that is in the log."""
    finished: dict[int, int] = {}
    for machine in ground.machines:
        worker = machine.worker()
        if worker is not None:
            finished |= {each["partition"]: each["low_water"] for each in worker.status.get("details", [])}
    return all(finished.get(partition, -1) >= end for partition, end in ends(ground).items() if end)


def _lives(pid: int) -> bool:
    try:
        # A child that nobody has waited for any more is gone, though its id is still taken.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


_DEEDS: Final[Mapping[Deed, Callable[[Ground, Act], Told]]] = {
    Deed.KILL_WORKER: _kill_worker,
    Deed.KILL_WORKER_AFTER_ROWS: _kill_worker_on_order("after-rows"),
    Deed.KILL_WORKER_AFTER_LEASE: _kill_worker_on_order("after-lease"),
    Deed.KILL_SUPERVISOR: _kill_supervisor,
    Deed.KILL_CLIENT: _kill_client,
    Deed.KILL_CLIENT_AFTER_SEND: _kill_client_after_send,
    Deed.PAUSE_WORKER: _pause_worker,
    Deed.PAUSE_CLIENT: _pause_client,
    Deed.KILL_KAFKA: _kill_server("kafka"),
    Deed.RESTART_KAFKA: _restart_server("kafka"),
    Deed.PAUSE_KAFKA: _pause_server("kafka"),
    Deed.KILL_CASSANDRA: _kill_server("cassandra"),
    Deed.RESTART_CASSANDRA: _restart_server("cassandra"),
    Deed.PAUSE_CASSANDRA: _pause_server("cassandra"),
    Deed.KILL_BOTH: _kill_both,
    Deed.FILL_DISK: _fill_disk,
    Deed.SHIFT_CLOCK: _shift_clock,
    Deed.ROLLING_RESTART: _rolling_restart,
    Deed.DOUBLE_MEMBER: _double_member,
    Deed.ADD_PARTITIONS: _add_partitions,
}
