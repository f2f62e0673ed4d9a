"""Processes are known by pid and start; state survives in one file; a stranger with a recycled pid is never touched."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compose.stacks.errors import StackError
from compose.stacks.local import LocalStack, ServerState, processes, state
from compose.stacks.local.processes import ProcessIdentity

SLEEPER = [sys.executable, "-c", "print('here', flush=True); import time; time.sleep(60)"]


@pytest.fixture
def sleeper(tmp_path):
    os.mkfifo(tmp_path / "log")  # reading from it waits until the process runs its own program
    descriptor = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK)
    identity = processes.launch(SLEEPER, log_path=tmp_path / "log", folder=tmp_path, environment=os.environ)
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "rb") as log:
        assert log.readline() == b"here\n"
        yield identity
    processes.terminate(identity, grace_s=5)


def test_the_time_of_a_start_is_told_alike_by_the_kernel_and_by_ps(sleeper):
    if not Path("/proc/self/stat").exists() or shutil.which("ps") is None:
        pytest.skip("needs Linux and ps")
    now = time.time()
    assert processes.started_at(sleeper.pid) == pytest.approx(now, abs=30)
    assert processes._facts_from_ps(sleeper.pid).started_at == pytest.approx(processes.started_at(sleeper.pid), abs=2.5)
    assert processes.started_at(2**22 + 1) is None


def test_a_launched_process_lives_in_its_own_session_and_can_be_ended(sleeper):
    assert processes.is_alive(sleeper)
    assert processes.memory_bytes(sleeper) > 0
    assert os.getsid(sleeper.pid) != os.getsid(0)
    processes.terminate(sleeper, grace_s=5)
    assert not processes.is_alive(sleeper)
    assert processes.memory_bytes(sleeper) == 0


def test_a_paused_process_is_seen_and_can_be_ended(sleeper):
    processes.send_signal(sleeper, signal.SIGSTOP)
    assert processes.wait_until_paused(sleeper, 5)
    processes.terminate(sleeper, grace_s=5)
    assert not processes.is_alive(sleeper)


def test_output_goes_to_the_log(tmp_path):
    command = [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)"]
    identity = processes.launch(command, log_path=tmp_path / "log", folder=tmp_path, environment=os.environ)
    assert processes.wait_until_gone(identity, 5)
    assert set((tmp_path / "log").read_text().split()) == {"out", "err"}


def test_a_recycled_pid_is_never_signalled(tmp_path):
    with subprocess.Popen(SLEEPER, stdout=subprocess.PIPE) as stranger:
        stranger.stdout.readline()
        stale = ProcessIdentity(stranger.pid, "another boot:1")
        assert not processes.is_alive(stale)
        assert not processes.send_signal(stale, signal.SIGKILL)
        processes.terminate(stale, grace_s=1)

        known = state.new_state()
        known.servers["kafka"] = state.ServerRecord({"broker": 21001, "controller": 21002}, stale, 1.0)
        state.save(tmp_path / "state.json", known)
        stack = LocalStack(tmp_path)
        assert stack.status()[0].state is ServerState.DIED
        with pytest.raises(StackError, match="no process"):
            stack.kill("kafka")
        stack.down()
        assert stack.status()[0].state is ServerState.STOPPED

        assert stranger.poll() is None
        stranger.kill()


def test_state_comes_back_as_it_was_saved(tmp_path):
    known = state.new_state()
    known.servers["kafka"] = state.ServerRecord({"broker": 21001}, ProcessIdentity(7, "boot:8"), 9.5)
    known.servers["cassandra"] = state.ServerRecord({"native": 22001})
    state.save(tmp_path / "state.json", known)
    assert state.load(tmp_path / "state.json") == known


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 99}',
        '{"version": 1}',
        '{"version": 1, "cluster_id": "x", "servers": []}',
        '{"version": 1, "cluster_id": "x", "servers": {"kafka": {"ports": {}, "process": 7, "started_at_s": 0}}}',
        '{"version": 1, "cluster_id": "x", "servers": {"kafka": {"ports": {"a": "b"}, "process": null}}}',
    ],
)
def test_a_state_file_that_is_not_ours_says_what_to_do(tmp_path, text):
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(StackError) as raised:
        state.load(tmp_path / "state.json")
    assert "delete the file" in raised.value.hint


def test_cluster_ids_have_kafkas_form():
    ids = {state.new_cluster_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(made) == 22 and not made.startswith("-") for made in ids)
