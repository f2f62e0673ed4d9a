"""What status files tell of this machine's workers, also of those that died without a word."""

import json
import os
import subprocess
import sys
from pathlib import Path

from compose.stacks.local import processes
from compose.workers_here import workers


def write(folder: Path, node: str, **status: object) -> None:
    told = {"node": node, "pid": os.getpid(), "state": "running", "partitions": [1, 2], "started_at": 5.0, **status}
    (folder / f"worker-{node}.json").write_text(json.dumps(told))


def test_workers_are_told_by_name(tmp_path: Path) -> None:
    write(tmp_path, "n-1", partitions=[])
    write(tmp_path, "n-0")
    found = workers(tmp_path)
    assert [(worker.node, worker.state, worker.partitions) for worker in found] == [
        ("n-0", "running", (1, 2)),
        ("n-1", "running", ()),
    ]


def test_a_worker_whose_process_is_not_there_is_gone(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    write(tmp_path, "dead", pid=ended.pid)
    write(tmp_path, "done", pid=ended.pid, state="stopped")
    assert [worker.state for worker in workers(tmp_path)] == ["gone", "stopped"]


def test_a_stranger_with_the_pid_of_a_worker_is_not_taken_for_it(tmp_path: Path) -> None:
    write(tmp_path, "before-the-reboot")
    own_start = processes.started_at(os.getpid())
    assert own_start is not None
    (path,) = tmp_path.glob("*.json")
    os.utime(path, (own_start - 10, own_start - 10))
    assert [worker.state for worker in workers(tmp_path)] == ["gone"]
    os.utime(path, (own_start + 1, own_start + 1))
    assert [worker.state for worker in workers(tmp_path)] == ["running"]


def test_what_is_no_status_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text("[]")
    (tmp_path / "c.json").write_text("{}")
    assert workers(tmp_path) == []
    assert workers(tmp_path / "nowhere") == []
