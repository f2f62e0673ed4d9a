"""A supervisor whose worker cannot be started, or is stopped before it heeds signals. Real processes, no servers."""

import signal
import subprocess
import sys

WAIT_S = 60.0
_SUPERVISOR = """
import sys
from consumers.logs import configure
from consumers.supervisor import RestartPolicy, Supervisor

configure(node="supervisor", json_lines=True, level="info")
commands = [line.split(" ", 2) for line in sys.argv[1:]]
policy = RestartPolicy(first_s=0.05)
taken = iter(commands)
sys.exit(Supervisor(lambda _: next(taken), 1, drain_timeout_s=30, policy=policy).run())
"""


def supervisor(*commands: str) -> subprocess.Popen[str]:
    """Start one whose only worker is started by each of the commands in turn."""
    return subprocess.Popen(
        [sys.executable, "-c", _SUPERVISOR, *commands], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_worker_that_cannot_be_started_is_tried_again() -> None:
    with supervisor("/nowhere/python", f"{sys.executable} -c pass") as process:
        _, told = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, told
    assert "cannot be started" in told
    assert "Traceback" not in told


def test_one_that_is_stopped_while_it_starts_has_failed_in_nothing() -> None:
    with supervisor(f"{sys.executable} -c print(1,flush=True);import\ttime;time.sleep(600)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, told
