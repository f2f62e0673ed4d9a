"""The demo, as a visitor runs it: real processes, a worker and a client killed, and no fault found.

That it finds faults is shown in tests/unit/compose/test_findings.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compose.stacks.local import LocalStack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]


def demo(*options: str, **environ: str) -> dict[str, object]:
    command = [sys.executable, "-m", "compose.main", *options]
    environment = {**os.environ, **environ}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=230)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    report: dict[str, object] = json.loads(done.stdout)
    return report


def faults(report: dict[str, object]) -> dict[str, object]:
    return {name: report[name] for name in ("lost", "duplicates", "regressions", "stuck", "conflicts", "failed")}


def test_the_embedded_demo_kills_and_loses_nothing() -> None:
    # What a visitor has set for servers of his own is none of the demo's business.
    others = {"TWOTICK_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1", "TWOTICK_STORE__KIND": "cassandra"}
    report = demo("demo", "--messages", "150", "--json", **others)
    assert faults(report) == dict.fromkeys(faults(report), 0)
    assert (report["stack"], report["messages"], report["read"]) == ("embedded", 150, 150)
    assert (report["workers_killed"], report["clients_cut_off"]) == (1, 1)


def test_the_local_demo_kills_and_loses_nothing(local_stack: LocalStack) -> None:
    report = demo(
        "--set", f"stack.folder={local_stack.data_folder}", "demo", "--stack", "local", "--messages", "400", "--json"
    )
    assert faults(report) == dict.fromkeys(faults(report), 0)
    assert (report["stack"], report["messages"], report["read"]) == ("local", 400, 400)
    assert (report["workers_killed"], report["clients_cut_off"]) == (1, 1)
    assert local_stack.is_running(), "the demo stopped a stack that it had not started"
