"""The processes of a fault run: machines that run `twotick consume`, and clients; ended by their ids, never a name."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, Final

from compose.demo.processes import Process
from compose.workers_here import WorkerHere, workers
from consumers.life_line import LIFE_LINE

INJECTED: Final = Path(__file__).parent / "injected"
DRAIN_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a run keeps its files."""

    folder: Path

    @property
    def config(self) -> Path:
        """The deployment's settings."""
        return self.folder / "twotick.toml"

    @property
    def control(self) -> Path:
        """Orders to processes."""
        return self.folder / "control"

    @property
    def status(self) -> Path:
        """The workers' status files."""
        return self.folder / "status"

    def outbox(self, user: str) -> Path:
        """A user's outbox, in a folder that may be a disk of its own."""
        return self.folder / "outboxes" / user / "outbox.sqlite"

    def journal(self, user: str) -> Path:
        """What a user's program did."""
        return self.folder / "journals" / f"{user}.journal"

    def log(self, name: str) -> Path:
        """What a process said."""
        return self.folder / "logs" / f"{name}.log"

    def make(self, users: tuple[str, ...]) -> None:
        """Make all folders."""
        for folder in (self.control, self.status, self.folder / "journals", self.folder / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
        for user in users:
            self.outbox(user).parent.mkdir(parents=True, exist_ok=True)


def consume_command(places: Places, node: str, *more: str) -> list[str]:
    """Return the command line of a machine's supervisor, or with `--slot 0` of its worker."""
    settings = ["--set", f"worker.node={node}"]
    command = [sys.executable, "-m", "compose.main", "--config", str(places.config), *settings]
    return [*command, "consume", "--log", "json", *more]


def workers_environment(places: Places) -> dict[str, str]:
    """Return the environment of a machine's processes: it lets clocks and deaths in."""
    path = os.pathsep.join(filter(None, (str(INJECTED), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "FAULTS_CONTROL": str(places.control)}


class Machine:
    """A supervisor with one worker, under a name of its own."""

    def __init__(self, places: Places, node: str) -> None:
        self.node = node
        self.lock = RLock()
        """Held by whoever ends and starts its supervisor."""
        self.worker_name = f"{node}-0"
        self._places = places
        self._process = Process(node, consume_command(places, node), places.log(node), workers_environment(places))

    def start(self) -> None:
        """Start its supervisor, which starts its worker."""
        self._process.start()

    @property
    def running(self) -> bool:
        """Say whether its supervisor lives."""
        return self._process.running

    @property
    def supervisor(self) -> Process:
        """The process itself."""
        return self._process

    def worker(self) -> WorkerHere | None:
        """Return its worker if one lives."""
        found = {one.node: one for one in workers(self._places.status)}.get(self.worker_name)
        return None if found is None or found.state in {"gone", "stopped"} else found

    def children(self) -> list[int]:
        """Return the ids of its supervisor's child processes: its worker, also one that has said nothing yet."""
        pid = self._process.pid
        try:
            return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        except OSError:
            found = self.worker()
            return [] if found is None else [found.pid]

    def epochs(self) -> Mapping[int, int]:
        """Return the epoch of each partition that its worker says it owns."""
        found = self.worker()
        details = [] if found is None else found.status.get("details", [])
        return {each["partition"]: each["epoch"] for each in details}

    def signal_worker(self, number: int) -> bool:
        """Send its worker a signal; say whether there was one."""
        found = self.worker()
        if found is None:
            return False
        try:
            os.kill(found.pid, number)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> int:
        """Let the worker finish what it has begun, and end."""
        return self._process.stopped(DRAIN_S + 15)

    def lines(self, event: str) -> Iterator[Mapping[str, Any]]:
        """Yield what its processes logged of one event."""
        path = self._places.log(self.node)
        if not path.exists():
            return
        with path.open(errors="replace") as log:
            for line in log:
                if f'"{event}"' in line and line.startswith("{"):
                    try:
                        told = json.loads(line)
                    except ValueError:
                        continue
                    if told.get("event") == event:
                        yield told


class Phone:
    """A client's process."""

    def __init__(self, places: Places, user: str, users: tuple[str, ...], *, seed: int, rate: float) -> None:
        self.user = user
        self.lock = RLock()
        """Held by whoever ends and starts it."""
        command = [
            sys.executable, "-m", "tests.faults.client",
            "--config", str(places.config), "--control", str(places.control),
            "--user", user, "--users", ",".join(users), "--seed", str(seed), "--rate", str(rate),
            "--outbox", str(places.outbox(user)), "--journal", str(places.journal(user)),
        ]  # fmt: skip
        self.process = Process(user, command, places.log(user))

    def start(self) -> None:
        """Start it."""
        self.process.start()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self.process.signal(number)


def until(true: Any, timeout_s: float, poll_s: float = 0.1) -> bool:
    """Wait until something is so; return whether it came to be."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_s)
    return True


__all__ = ["LIFE_LINE", "Machine", "Phone", "Places", "consume_command", "signal", "until", "workers_environment"]
