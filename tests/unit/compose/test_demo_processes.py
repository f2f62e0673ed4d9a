"""The demo's processes: killed, ended, started again, and told apart from those that end by themselves."""

import sys
import threading
from pathlib import Path

import pytest

from compose.demo.processes import Process
from compose.errors import ComposeError

WAITS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print('up', flush=True)
sys.stdin.read()
"""


def started(tmp_path: Path, code: str) -> Process:
    process = Process("child", [sys.executable, "-c", code], tmp_path / "child.log")
    process.start()
    return process


def wait_for(log: Path, text: str) -> None:
    tick = threading.Event()
    while text not in log.read_text():
        tick.wait(0.01)


def test_a_process_that_is_asked_ends_with_its_own_code(tmp_path: Path) -> None:
    process = started(tmp_path, WAITS)
    wait_for(process.log, "up")
    assert process.running
    assert process.stopped() == 7
    assert not process.running


def test_a_killed_process_can_start_again(tmp_path: Path) -> None:
    process = started(tmp_path, WAITS)
    process.kill()
    assert not process.running
    process.start()
    assert process.running
    process.kill()


def test_a_process_that_ended_by_itself_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    process = started(tmp_path, "print('last words'); raise SystemExit(3)")
    assert process._child is not None
    process._child.wait()
    with pytest.raises(ComposeError, match="child ended with 3: last words") as caught:
        process.check()
    assert str(process.log) in caught.value.hint
    assert process.stopped() == 3


def test_a_process_that_never_started_can_be_ended(tmp_path: Path) -> None:
    process = Process("child", [sys.executable], tmp_path / "child.log")
    assert process.stopped() == 0
    process.kill()
    process.check()
    assert not process.running
