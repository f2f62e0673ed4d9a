"""The workers of this machine, as their status files tell."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from compose.stacks.local import processes

_CLOCK_SLACK_S: Final = 2.0
"""By which the times of starts and of files may be apart."""


@dataclass(frozen=True, slots=True)
class WorkerHere:
    """One worker."""

    node: str
    """Its name in leases and rows."""
    pid: int
    state: str
    """As it says itself; `gone` where its process is not there any more."""
    partitions: tuple[int, ...]
    started_at: float
    """s since 1970."""
    status: dict[str, Any]
    """All that it says."""


def workers(folder: Path) -> list[WorkerHere]:
    """Return the workers whose status files are in `folder`, by name; files that are none are left out."""
    found = (_read(path) for path in sorted(folder.glob("*.json")))
    return [worker for worker in found if worker is not None]


def _read(path: Path) -> WorkerHere | None:
    try:
        status = json.loads(path.read_text())
        pid = int(status["pid"])
        gone = status["state"] != "stopped" and not _alive(pid, path.stat().st_mtime)
        return WorkerHere(
            node=str(status["node"]),
            pid=pid,
            state="gone" if gone else str(status["state"]),
            partitions=tuple(map(int, status["partitions"])),
            started_at=float(status["started_at"]),
            status=status,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _alive(pid: int, wrote_at: float) -> bool:
    """Say whether the process is there that last wrote its status at `wrote_at` (s since 1970).

    One that was started after that has the pid of a worker that is gone. Not compared with when the worker says that
    it started: the clock may have been set since.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    started_at = processes.started_at(pid)
    return started_at is None or started_at <= wrote_at + _CLOCK_SLACK_S
