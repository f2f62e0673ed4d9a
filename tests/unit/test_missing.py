"""Without a container engine its tests are skipped with the reason, or fail where the run must not do without them."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(300)


def run(pytestconfig, monkeypatch, required):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("TWOTICK_TEST_REQUIRE", required)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/integration/containers"]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=pytestconfig.rootpath, timeout=280)


def test_the_last_lines_say_what_was_not_run_and_why(pytestconfig, monkeypatch):
    # case T2: every other tier runs
    done = run(pytestconfig, monkeypatch, "local_stack")
    assert done.returncode == 0, done.stdout
    told = [line for line in done.stdout.splitlines() if "tests were not run without containers:" in line]
    assert len(told) == 1
    assert "no container engine answers" in told[0]


def test_a_run_that_requires_containers_fails_without_them(pytestconfig, monkeypatch):
    done = run(pytestconfig, monkeypatch, "local_stack,containers")
    assert done.returncode == 1
    assert "containers is required, but no container engine answers" in done.stdout
