"""`twotick consume` as people run it: which port each worker's metrics get."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import consumers.process
import consumers.supervisor
from compose.app import build_app


def _consume(tmp_path: Path, *arguments: str) -> int:
    flags = [f"stack.folder={tmp_path}", f"worker.status_folder={tmp_path}", f"store.path={tmp_path / 'store'}"]
    given = [part for flag in flags for part in ("--set", flag)]
    return CliRunner().invoke(build_app(), [*given, *arguments]).exit_code


def test_a_worker_takes_whatever_metrics_port_its_supervisor_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    class Supervisor:
        def __init__(self, command, workers: int, **_) -> None:
            commands.extend(command(number) for number in range(workers))

        def run(self) -> int:
            return 0

    ports = []

    def run_worker(*, settings, slot: int, **_) -> int:
        ports.append(settings.metrics_port + slot)
        return 0

    monkeypatch.setattr(consumers.supervisor, "Supervisor", Supervisor)
    monkeypatch.setattr(consumers.process, "run_worker", run_worker)
    monkeypatch.setattr("consumers.logs.configure", lambda **_: None)
    assert _consume(tmp_path, "--set", "worker.metrics_port=65534", "consume", "--workers=2") == 0
    codes = [_consume(tmp_path, *command[3:]) for command in commands]
    assert (codes, ports) == ([0, 0], [65534, 65535])


def test_workers_of_whom_the_last_would_have_no_metrics_port_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers.supervisor, "Supervisor", None)  # nothing is started
    monkeypatch.setattr("consumers.logs.configure", lambda **_: None)
    assert _consume(tmp_path, "consume", "--workers=2", "--metrics-port=65535") == 2
    assert _consume(tmp_path, "--set", "worker.metrics_port=65535", "consume", "--workers=2") == 2
