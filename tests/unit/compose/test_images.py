"""What the images are made of: pinned as everything else is, and the same servers as the local stack's."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from compose.images.build import server_version
from compose.images.file_tree import FileTree

ROOT = Path(__file__).parents[3]
HEALTHCHECK = ROOT / "compose/images/worker/healthcheck"


def locked(path: Path) -> dict[str, str]:
    """Return what a lock file holds by requirement: its hashes."""
    blocks = re.split(r"\n(?=\S)", path.read_text().strip())
    return {block.partition(" ")[0]: block for block in blocks}


def test_the_worker_has_what_development_has_with_the_same_hashes():
    worker, development = locked(ROOT / "compose/images/worker/requirements.lock"), locked(ROOT / "requirements.lock")
    hashes = {name: set(re.findall(r"sha256:\w+", block)) for name, block in worker.items()}
    assert all(hashes.values())
    assert hashes == {name: set(re.findall(r"sha256:\w+", development[name])) for name in worker}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[a-z-]+", each).group() for each in project["dependencies"]}
    assert needed <= {name.partition("==")[0] for name in worker}


def test_compose_names_the_servers_of_the_local_stack_and_this_version_of_the_worker():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for path in ("compose/compose.yaml", "compose/.env.example"):
        text = (ROOT / path).read_text()
        assert f"apache/kafka:{server_version('kafka')}" in text
        assert f"cassandra:{server_version('cassandra')}" in text
        assert f"twotick/worker:{version}" in text


def test_every_variable_of_the_compose_file_is_in_the_example_with_its_default():
    used = set(re.findall(r"\$\{(\w+):-([^}]*)\}", (ROOT / "compose/compose.yaml").read_text()))
    told = set(re.findall(r"^#(\w+)=(.*)$", (ROOT / "compose/.env.example").read_text(), re.MULTILINE))
    assert used
    assert used <= told


def test_kafka_is_asked_for_its_health_under_a_listener_that_no_setting_moves():
    # The other one tells clients a port of the host, KAFKA_PORT, on which nothing listens in the container.
    told = (ROOT / "compose/compose.yaml").read_text()
    listeners = dict(re.findall(r"(\w+)://:(\d+)", re.search("KAFKA_LISTENERS: (.*)", told).group(1)))
    advertised = dict(re.findall(r"(\w+)://([^,\s]+)", re.search("KAFKA_ADVERTISED_LISTENERS: (.*)", told).group(1)))
    (asked,) = re.findall(r"localhost:(\d+)", (ROOT / "compose/healthchecks/kafka").read_text())
    (name,) = (name for name, port in listeners.items() if port == asked)
    assert advertised[name] == f"kafka:{asked}"


@pytest.mark.parametrize(
    ("age_s", "state", "code"),
    [(1, "running", 0), (1, "store-down", 0), (60, "running", 1), (60, "stopped", 0), (None, "", 1)],
    ids=["lives", "lives while the store is down", "stands still", "stopped by itself", "has said nothing"],
)
def test_a_worker_is_healthy_while_its_loop_moves(tmp_path, age_s, state, code):
    if age_s is not None:
        told = {"node": "a-0", "state": state, "partitions": [1], "at_ms": (time.time() - age_s) * 1000}
        (tmp_path / "worker-a-0.json").write_text(json.dumps(told))
    environment = {**os.environ, "TWOTICK_WORKER__STATUS_FOLDER": str(tmp_path)}
    done = subprocess.run([sys.executable, HEALTHCHECK], env=environment, check=False, capture_output=True, timeout=60)
    assert done.returncode == code, done.stderr


def test_a_program_in_a_file_tree_runs_with_nothing_else_there(tmp_path):
    tree = FileTree(tmp_path)
    tree.lay()
    loader = next((tmp_path / "usr").glob("lib*/ld-linux*"))
    libraries = tmp_path / "usr/lib"
    command = [loader, "--inhibit-cache", "--library-path", libraries, tmp_path / "bin/bash", "-c", "echo $((6 * 7))"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout == "42\n"
    listed = subprocess.run(
        [loader, "--library-path", libraries, "--list", tmp_path / "bin/ls"],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    assert "not found" not in listed
