"""Which run a container belongs to: its process, told apart from others of the same number.

Several runs may share one engine, each in a container or on a machine of its own, and none sees the others' processes.
So a run's name says where its number counts, and when its process started, as numbers are given again.
"""

import os
import platform
from pathlib import Path
from typing import Final
from zlib import crc32

from compose.stacks.local.processes import identify

_PROC: Final = Path("/proc")


def own_run() -> str:
    """Return the name of this process's run: its number, its start and its place."""
    return f"{os.getpid()}.{_start_of(os.getpid())}.{own_place()}"


def own_place() -> str:
    """Return where the numbers of this process count: a pid namespace since a boot; the host where no kernel tells."""
    if not (_PROC / "self/ns/pid").exists():
        return platform.node()
    namespace = (_PROC / "self/ns/pid").readlink().name.strip("pid:[]")
    boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{namespace}.{boot}"


def is_known_dead(run: str) -> bool:
    """Say whether a run's process is gone for sure: never of a run in another place, whose processes are not seen."""
    pid, _, rest = run.partition(".")
    start, _, place = rest.partition(".")
    return place == own_place() and pid.isdecimal() and _start_of(int(pid)) != start


def _start_of(pid: int) -> str:
    """Return a number for when a process started, which may stand in names of the engine; empty where it is gone."""
    found = identify(pid)
    return str(crc32(found.start_mark.encode())) if found else ""
