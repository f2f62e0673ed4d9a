"""The demo's workers: `twotick consume` as anyone would run it, and its worker processes to be killed."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from compose.demo.processes import Process
from compose.errors import ComposeError
from compose.workers_here import WorkerHere, workers


class Workers:
    """A supervisor with its workers."""

    def __init__(self, config: Path, count: int, status_folder: Path, log: Path) -> None:
        command = [sys.executable, "-m", "compose.main", "--config", str(config), "consume", "--workers", str(count)]
        self._supervisor = Process("workers", command, log)
        self._status_folder = status_folder

    def start(self) -> None:
        """Start the supervisor, which starts the workers."""
        self._supervisor.start()

    def at_work(self) -> bool:
        """Say whether any of them owns a partition: others may be in the same group."""
        return any(worker.partitions for worker in self._living())

    def _living(self) -> list[WorkerHere]:
        return [worker for worker in workers(self._status_folder) if worker.state not in {"gone", "stopped"}]

    def kill(self, node: str | None) -> str:
        """SIGKILL the worker of a node, or any that runs; return its name. The supervisor starts it again."""
        living = self._living()
        chosen = next((worker for worker in living if worker.node == node), max(living, key=_load, default=None))
        if chosen is None:
            raise ComposeError("there is no worker to kill", f"Look at {self._supervisor.log}.")
        os.kill(chosen.pid, signal.SIGKILL)
        return chosen.node

    def doing(self) -> Mapping[str, str]:
        """Return what each worker does."""
        return {
            worker.node: "killed" if worker.state == "gone" else "running" for worker in workers(self._status_folder)
        }

    def check(self) -> None:
        """Raise where the supervisor ended."""
        self._supervisor.check()

    def stop(self) -> None:
        """Let the workers finish what they have begun, and end."""
        self._supervisor.stopped()


def _load(worker: WorkerHere) -> int:
    return len(worker.partitions)
