"""A short fault run on servers of its own: kills, pauses, a server that dies, and then the checker's word."""

import json
import subprocess
import sys

import pytest

from compose.stacks.errors import ToolMissingError
from compose.stacks.local.jars import find_java
from tests.missing import missing

pytestmark = [pytest.mark.local_stack, pytest.mark.slow, pytest.mark.timeout(900)]

MINUTES = 0.45
SEED = 4


def test_a_short_run_finds_nothing(tmp_path):
    # cases K4, K7, K9, O4: workers and clients killed and paused under load, Kafka killed
    try:
        find_java()
    except ToolMissingError as error:
        missing("local_stack", error.message)
    report = tmp_path / "report.json"
    folder = tmp_path / "run"
    command = [
        sys.executable, "-m", "tests.faults", "--minutes", str(MINUTES), "--seed", str(SEED), "--rate", "40",
        "--folder", str(folder), "--report", str(report),
    ]  # fmt: skip
    ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=840)
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]
    told = json.loads(report.read_text())
    assert told["counts"]["acknowledged"] > 200
    assert told["counts"]["settled"] == told["counts"]["acknowledged"]
    assert (told["faults"], told["complaints"]) == ([], [])
    assert told["kills"] >= 2
    assert told["pauses"] >= 1
    assert told["deeds"]["Kafka killed and started"] == 1
