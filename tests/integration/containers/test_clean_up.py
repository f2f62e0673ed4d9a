"""What a run starts is removed by label, whoever forgets it: at a run's end, and at the next one's begin."""

import os
import signal
import subprocess
import sys

import docker
import pytest

from tests.integration.containers.engine import LABEL, Engine
from tests.integration.containers.servers import IMAGES

pytestmark = pytest.mark.timeout(300)

FORGETFUL = """
import os, sys
from tests.integration.containers.engine import Engine
engine = Engine()
engine.network()
engine.container(sys.argv[1], entrypoint="sleep", command="600").start()
print(engine.run, flush=True)
sys.stdin.read()
"""


def of_run(run):
    client = docker.from_env()
    try:
        label = {"label": f"{LABEL}={run}"}
        return len(client.containers.list(all=True, filters=label)), len(client.networks.list(filters=label))
    finally:
        client.close()


def test_what_a_killed_run_left_is_removed_by_the_next(engine):
    # case T1: nobody cleans up after a SIGKILL, and there is no reaper
    with subprocess.Popen(
        [sys.executable, "-c", FORGETFUL, IMAGES["worker"]],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        name = run.stdout.readline().strip()
        assert name.startswith(f"{run.pid}.")
        assert of_run(name) == (1, 1)
        assert not any("sleep" in left for left in engine.clear_dead())
        assert of_run(name) == (1, 1), "a run that lives is left alone"
        run.send_signal(signal.SIGKILL)
        run.wait()
    left = engine.clear_dead()
    assert len(left) == 2
    assert of_run(name) == (0, 0)


def test_a_container_that_is_left_at_the_end_is_named_and_removed(engine):
    # case T1: the run's last step fails on what `clear` returns
    other = Engine(run=f"{os.getpid()}0000")
    try:
        other.container(IMAGES["worker"], entrypoint="sleep", command="600").start()
        (left,) = other.clear()
        assert IMAGES["worker"] in left
        assert other.clear() == []
    finally:
        other.clear()
        other.close()
