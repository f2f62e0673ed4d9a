"""What the commands of the local stack refuse or only show, and how they say what to do instead."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from compose.app import build_app
from compose.stacks.errors import StackError
from compose.stacks.local import LocalSettings, LocalStack, processes, state
from compose.stacks.local.kafka import KafkaNode
from compose.stacks.local.members import first_of
from compose.stacks.local.state import ServerRecord, StackState
from compose.wiring import Wiring
from consumers.migrate_steps import Step, StepKind


def test_execute_is_refused_where_it_would_do_nothing(tmp_path: Path) -> None:
    ran = CliRunner().invoke(build_app(), ["--set", f"stack.folder={tmp_path / 'local'}", "down", "--execute"])
    assert (ran.exit_code, "--remove-data" in ran.stderr) == (2, True)
    assert not (tmp_path / "local").exists()


def test_another_port_is_refused_to_what_runs_and_the_way_to_it_is_told(tmp_path: Path) -> None:
    stack = LocalStack(tmp_path, LocalSettings(kafka_port=9192))
    kafka = first_of(stack.settings, KafkaNode)
    runs = ServerRecord(ports={KafkaNode.port_purposes[0]: 9092}, process=processes.identify(os.getpid()))
    with pytest.raises(StackError, match="9192") as refused:
        stack._apply_asked_port(kafka, runs)
    assert "`twotick down`" in refused.value.hint


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that stands for a server."""
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process
    process.kill()
    process.wait()


def running(folder: Path, server: "subprocess.Popen[bytes]") -> None:
    """Make a stack of one living server, which has stored something."""
    (folder / "kafka").mkdir(parents=True)
    (folder / "kafka" / "log").touch()
    kafka = ServerRecord({"broker": 19001, "controller": 19002}, processes.identify(server.pid))
    cassandra = ServerRecord({"native": 19003, "storage": 19004})
    state.save(folder / "state.json", StackState("id", {"kafka": kafka, "cassandra": cassandra}))


def down(tmp_path: Path, *options: str) -> Result:
    flags = ["--set", f"stack.folder={tmp_path / 'local'}", "--set", f"worker.status_folder={tmp_path}"]
    return CliRunner().invoke(build_app(), [*flags, "down", *options])


def test_data_are_removed_and_servers_stopped_only_with_execute(
    tmp_path: Path, server: "subprocess.Popen[bytes]"
) -> None:
    running(tmp_path / "local", server)
    ran = down(tmp_path, "--remove-data")
    assert (ran.exit_code, ran.stderr.splitlines()) == (
        0,
        [
            "would stop kafka",
            f"would delete all data, logs and ports of kafka, cassandra in {tmp_path / 'local'}",
            "nothing is done yet: add --execute",
        ],
    )
    assert server.poll() is None
    assert (tmp_path / "local" / "kafka" / "log").exists()
    assert Wiring(flags=[f"stack.folder={tmp_path / 'local'}"]).uses_stack
    assert down(tmp_path, "--remove-data", "--execute").exit_code == 0
    assert server.poll() is not None
    assert not (tmp_path / "local" / "kafka").exists()
    assert "nothing to stop or delete" in down(tmp_path, "--remove-data").stderr


def test_down_alone_stops_and_keeps(tmp_path: Path, server: "subprocess.Popen[bytes]") -> None:
    running(tmp_path / "local", server)
    ran = down(tmp_path)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert server.poll() is not None
    assert (tmp_path / "local" / "kafka" / "log").exists()


def worker_says(folder: Path, **told: str) -> None:
    for node, state_told in told.items():
        status = {"node": node, "pid": os.getpid(), "state": state_told, "partitions": [], "started_at": 5.0}
        (folder / f"worker-{node}.json").write_text(json.dumps(status))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ([], "wait for these servers until they are up again"),
        (["--remove-data"], "have to be ended"),
        (["--remove-data", "--execute"], "have to be ended"),
    ],
)
def test_down_names_the_workers_that_run(
    tmp_path: Path, server: "subprocess.Popen[bytes]", options: list[str], what: str
) -> None:
    running(tmp_path / "local", server)
    worker_says(tmp_path, a="running", b="stopped")
    assert down(tmp_path, *options).stderr.splitlines()[0] == f"workers that run here {what}: a"


def test_workers_on_other_servers_are_not_named(tmp_path: Path, server: "subprocess.Popen[bytes]") -> None:
    running(tmp_path / "local", server)
    worker_says(tmp_path, a="running")
    flags = ["--set", f"stack.folder={tmp_path / 'local'}", "--set", f"worker.status_folder={tmp_path}"]
    ran = CliRunner().invoke(build_app(), [*flags, "--set", "kafka.bootstrap.servers=prod:9092", "down"])
    assert (ran.exit_code, ran.stderr) == (0, "")


def test_up_is_not_ready_where_something_is_not_as_it_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Step(StepKind.DIFFERENCE, "topic twotick.events", "the store has no record of it", "Look at its settings.")
    monkeypatch.setattr(LocalStack, "up", lambda *_: running_nowhere(tmp_path))
    monkeypatch.setattr("consumers.migrate.apply", lambda _: [odd])
    ran = CliRunner().invoke(build_app(), ["--set", f"stack.folder={tmp_path}", "up"])
    assert ran.exit_code == 4
    assert "hint: Look at its settings." in ran.stderr
    assert "ready" not in ran.stderr


def running_nowhere(folder: Path) -> None:
    """Record servers, as `up` does."""
    gone = processes.ProcessIdentity(2**22, "none")
    kafka = ServerRecord({"broker": 19001, "controller": 19002}, gone)
    state.save(
        folder / "state.json",
        StackState("id", {"kafka": kafka, "cassandra": ServerRecord({"native": 19003, "storage": 19004}, gone)}),
    )


def test_up_makes_nothing_on_servers_that_the_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStack, "up", lambda *_: None)
    monkeypatch.setattr("consumers.migrate.apply", lambda _: pytest.fail("it migrates"))
    flags = ["--set", f"stack.folder={tmp_path}", "--set", "kafka.bootstrap.servers=prod:9092"]
    ran = CliRunner().invoke(build_app(), [*flags, "up"])
    assert (ran.exit_code, "the settings name other servers" in ran.stderr) == (0, True)
