"""One measurement in a process of its own, so that its CPU time and memory are its own."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import consumers.fold


class Measured(NamedTuple):
    """What a child printed: one round's figures."""

    records: int
    """Records, events or messages worked off."""
    seconds: float
    cpu_seconds: float
    """User and system time of the measured part, all threads."""
    memory_mb: float
    """Largest resident size of the process, MB of 10^6 bytes."""

    @property
    def per_second(self) -> float:
        """Return the rate."""
        return self.records / self.seconds

    @property
    def cpu_us(self) -> float:
        """Return the CPU time of one record in µs."""
        return self.cpu_seconds / self.records * 1e6


def build() -> str:
    """Return how the hot path that is measured was built: `pure` or `compiled`."""
    return "pure" if consumers.fold.__file__.endswith(".py") else "compiled"


def cpu_seconds() -> float:
    """Return this process's user and system time so far, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def report(count: int, seconds: float, cpu_s: float) -> None:
    """Print this process's figures for the parent to read."""
    print(json.dumps(Measured(count, seconds, cpu_s, _peak_kib() * 1024 / 1e6)._asdict()))


def _peak_kib() -> int:
    """Return this program's largest resident size; `ru_maxrss` begins with that of the process that forked it."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise SystemExit("/proc/self/status has no VmHWM; the bench needs Linux")


def measure(module: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> Measured:
    """Run `python -m module arguments` and return what it reported; its errors go to our own standard error."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=600,
        env={**os.environ, **(environment or {})},
    )
    return Measured(**json.loads(done.stdout.splitlines()[-1]))
