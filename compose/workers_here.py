"""The workers of this machine, as their status files tell."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        gone = status["state"] != "stopped" and not _alive(pid)
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


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
