"""The addresses of the local stack: they count from `up` until `down`, all or none, and for a supervisor's workers."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compose.app import build_app
from compose.sections import StoreSettings
from compose.stacks.local import LocalSettings, LocalStack, processes, state
from compose.stacks.local.processes import ProcessIdentity
from compose.stacks.local.state import ServerRecord, StackState
from compose.wiring import Wiring
from consumers.errors import StoreUnavailableError

OURSELVES = processes.identify(os.getpid())
DEAD = ProcessIdentity(OURSELVES.pid if OURSELVES else 1, "of another boot")
KAFKA = "kafka.bootstrap.servers"
STORE = "store.kind"
PORTS = {"kafka": {"broker": 19001, "controller": 19002}, "cassandra": {"native": 19003, "storage": 19004}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "local"


def stack_of(folder: Path, **server_processes: ProcessIdentity | None) -> None:
    """Write the state of a stack of which these servers are known."""
    folder.mkdir(exist_ok=True)
    servers = {}
    for name, process in server_processes.items():
        kind, _, number = name.partition("_")
        ports = {purpose: port + 10 * int(number or 0) * (kind == "kafka") for purpose, port in PORTS[kind].items()}
        servers[name.replace("_", "-")] = ServerRecord(ports, process)
    state.save(folder / "state.json", StackState("id", servers))


def wiring(folder: Path, *flags: str) -> Wiring:
    return Wiring(flags=[f"stack.folder={folder}", *flags])


def counted(found: Wiring) -> dict[str, tuple[object, str]]:
    """Return each setting's value and source."""
    return {one.key: (one.value, one.source) for one in found.settings.effective()}


@pytest.mark.parametrize(("kafka", "cassandra"), [(OURSELVES, OURSELVES), (OURSELVES, DEAD), (DEAD, DEAD)])
def test_they_count_whether_or_not_the_servers_live(folder: Path, kafka, cassandra) -> None:
    stack_of(folder, kafka=kafka, cassandra=cassandra)
    found, source = counted(wiring(folder)), f"the local stack in {folder}"
    assert found[KAFKA] == ("127.0.0.1:19001", source)
    assert found[STORE] == ("cassandra", source)
    assert found["store.cassandra.port"] == (19003, source)


def test_after_down_the_defaults_count_again(folder: Path) -> None:
    stack_of(folder, kafka=DEAD, cassandra=DEAD)
    LocalStack(folder).down()
    found = counted(wiring(folder))
    assert (found[KAFKA], found[STORE]) == (("127.0.0.1:9092", "default"), ("sqlite", "default"))


@pytest.mark.parametrize("dead", [1, 2, 3])
def test_a_dead_node_of_a_cluster_changes_nothing(folder: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = {f"kafka_{number}": DEAD if number == dead else OURSELVES for number in (1, 2, 3)}
    stack_of(folder, **nodes, cassandra=OURSELVES)
    without = counted(wiring(folder))
    monkeypatch.setenv("TWOTICK_STACK__LOCAL__KAFKA_NODES", "3")
    assert counted(wiring(folder))[KAFKA] == without[KAFKA]
    assert without[KAFKA][0] == "127.0.0.1:19011,127.0.0.1:19021,127.0.0.1:19031"


def test_all_of_cassandra_count_by_their_hosts(folder: Path) -> None:
    stack_of(folder, kafka=OURSELVES, cassandra_1=OURSELVES, cassandra_2=DEAD)
    assert counted(wiring(folder))["store.cassandra.contact_points"][0] == ("127.0.0.1", "127.0.0.2")


@pytest.mark.parametrize(
    "known",
    [{}, {"kafka": None, "cassandra": None}, {"kafka": None}, {"cassandra": OURSELVES}],
    ids=["nothing", "nothing started", "no port for Cassandra", "one that was started by itself"],
)
def test_a_stack_that_did_not_come_up_does_not_count(folder: Path, known: dict[str, ProcessIdentity | None]) -> None:
    stack_of(folder, **known)
    assert counted(wiring(folder))[KAFKA] == ("127.0.0.1:9092", "default")


@pytest.mark.parametrize("known", [{"kafka": OURSELVES, "cassandra": None}, {"kafka": None, "cassandra": DEAD}])
def test_half_a_stack_counts_with_where_the_other_half_would_be(folder: Path, known) -> None:
    stack_of(folder, **known)
    store = wiring(folder).settings.section("store", StoreSettings)
    assert (store.kind, store.cassandra.port) == ("cassandra", 19003)
    assert wiring(folder).kafka()["bootstrap.servers"] == "127.0.0.1:19001"


@pytest.mark.parametrize(
    "own",
    [
        "kafka.bootstrap.servers=prod:9092",
        "kafka.metadata.broker.list=prod:9092",
        "store.cassandra.contact_points=db1.prod",
        "store.cassandra.port=9043",
        "store.cassandra.datacenter=west",
    ],
)
def test_none_counts_where_an_address_is_set(folder: Path, own: str) -> None:
    stack_of(folder, kafka=OURSELVES, cassandra=OURSELVES)
    found = wiring(folder, own)
    assert {source for _, source in counted(found).values()} == {
        "default",
        "--set stack.folder",
        f"--set {own.partition('=')[0]}",
    }
    assert not found.uses_stack


def test_other_settings_count_beside_them(folder: Path) -> None:
    stack_of(folder, kafka=OURSELVES, cassandra=OURSELVES)
    found = counted(wiring(folder, "store.kind=sqlite", "store.cassandra.keyspace=mine", "kafka.linger.ms=1"))
    assert found[KAFKA][0] == "127.0.0.1:19001"
    assert found[STORE] == ("sqlite", "--set store.kind")
    assert found["store.cassandra.keyspace"] == ("mine", "--set store.cassandra.keyspace")
    assert found["store.cassandra.port"][0] == 19003


def worker_of(supervisor: Wiring) -> Wiring:
    """Return what a worker process reads that this supervisor starts now."""
    command = supervisor.worker_command(0)
    return Wiring(flags=[value for option, value in pairwise(command) if option == "--set"])


@pytest.mark.parametrize("flags", [[], ["store.kind=sqlite"], ["store.cassandra.port=9043"]])
@pytest.mark.parametrize("before", [{}, {"kafka": OURSELVES, "cassandra_1": OURSELVES, "cassandra_2": OURSELVES}])
@pytest.mark.parametrize("after", [{}, {"kafka_1": OURSELVES, "cassandra": OURSELVES}])
def test_a_worker_has_the_servers_of_its_supervisor(folder: Path, flags, before, after) -> None:
    stack_of(folder, **before)
    supervisor = wiring(folder, *flags)
    expected = [supervisor.kafka(), supervisor.settings.section("store", StoreSettings)]
    stack_of(folder, **after)
    worker = worker_of(supervisor)
    assert [worker.kafka(), worker.settings.section("store", StoreSettings)] == expected


def test_what_the_user_has_set_elsewhere_is_on_no_command_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack_of(folder, kafka=OURSELVES, cassandra=OURSELVES)
    monkeypatch.setenv("TWOTICK_STORE__KIND", "sqlite")
    monkeypatch.setenv("TWOTICK_STORE__CASSANDRA__PASSWORD", "s3cret")
    command = wiring(folder).worker_command(0)
    assert "kafka.bootstrap.servers=127.0.0.1:19001" in command
    assert not [part for part in command if "s3cret" in part or part.startswith(STORE)]
    monkeypatch.setenv("TWOTICK_KAFKA__BOOTSTRAP_SERVERS", "prod:9092")
    assert not [part for part in wiring(folder).worker_command(0) if "prod" in part]


def test_a_command_that_misses_a_dead_server_says_what_brings_it_back(folder: Path) -> None:
    stack_of(folder, kafka=OURSELVES, cassandra=DEAD)
    flags = ["--set", f"stack.folder={folder}", "--set", "store.cassandra.connect_timeout_s=1"]
    missed = CliRunner().invoke(build_app(), [*flags, "history", "c"]).exception
    assert isinstance(missed, StoreUnavailableError)
    assert "Of the local stack cassandra died: `twotick up` mends it, `twotick status` shows more;" in missed.hint


def test_a_command_that_ended_with_5_on_its_own_says_it_too(folder: Path) -> None:
    stack_of(folder, kafka=DEAD, cassandra=DEAD)
    ran = CliRunner().invoke(build_app(), ["--set", f"stack.folder={folder}", "status"])
    assert (ran.exit_code, ran.stderr.startswith("hint: Of the local stack kafka, cassandra died")) == (5, True)


def test_an_address_of_ones_own_that_is_not_reached_is_no_matter_of_the_stack(folder: Path) -> None:
    stack_of(folder, kafka=DEAD, cassandra=DEAD)
    flags = [f"stack.folder={folder}", "store.kind=cassandra", "store.cassandra.port=1"]
    given = [part for flag in flags for part in ("--set", flag)]
    missed = CliRunner().invoke(build_app(), [*given, "history", "c"]).exception
    assert isinstance(missed, StoreUnavailableError)
    assert "twotick up" not in missed.hint


def test_the_whole_hint_reaches_the_terminal(folder: Path) -> None:
    stack_of(folder, kafka=OURSELVES, cassandra=DEAD)
    command = [sys.executable, "-m", "compose.main", "--set", f"stack.folder={folder}", "history", "c"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 5
    assert "`twotick up` mends it, `twotick status` shows more" in done.stderr.splitlines()[-1]


def test_a_stack_is_up_for_a_demo_too_where_a_server_died(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from compose.demo.stage import LocalStage  # noqa: PLC0415 - only here

    stack_of(folder, kafka=OURSELVES, cassandra=DEAD)
    stack = LocalStack(folder, LocalSettings())
    monkeypatch.setattr(stack, "up", lambda _say: stack.addresses())
    stage = LocalStage(stack, lambda _line: None, keep=False)
    stage.start()
    stage.stop()
    assert stack.started() == {"kafka": True, "cassandra": False}
