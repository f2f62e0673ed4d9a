"""Background processes that outlive their starter, and are recognised later without ever touching a stranger.

A pid alone says little: the kernel hands it out again. So a process is known by its pid together with the mark of its
start (ticks since boot, and which boot), and every signal checks both first.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Prints the pid of the server and leaves, so that the server becomes a child of init: no zombie waits for our caller.
_LAUNCH = 'log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!'

_POLL_S = 0.02

_ENDING = "X"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A pid, and the mark that tells this holder of the pid from earlier and later ones."""

    pid: int
    start_mark: str


@dataclass(frozen=True, slots=True)
class _ProcessFacts:
    start_mark: str
    kernel_state: str
    memory_bytes: int
    started_at: float


def launch(command: Sequence[str], *, log_path: Path, folder: Path, environment: Mapping[str, str]) -> ProcessIdentity:
    """Start `command` in a session of its own, its output appended to `log_path`; return its identity.

    Raises OSError if the shell or the folder is missing. A command that ends at once is still returned: its identity is
    simply dead.
    """
    shell = ["/bin/sh", "-c", _LAUNCH, "launch", str(log_path), *command]
    done = subprocess.run(  # noqa: S603 - the command is made by this package
        shell, cwd=folder, env=dict(environment), stdout=subprocess.PIPE, start_new_session=True, check=True, text=True
    )
    pid = int(done.stdout)
    return identify(pid) or ProcessIdentity(pid, "ended")


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of the process that has this pid now; None where it has ended."""
    facts = _facts(pid)
    return ProcessIdentity(pid, facts.start_mark) if facts else None


def started_at(pid: int) -> float | None:
    """Return when the process that has this pid now was started (s since 1970, to about a second); None if unknown."""
    facts = _facts(pid)
    return facts.started_at if facts else None


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether this very process still runs (a zombie does not)."""
    return _own_facts(identity) is not None


def is_paused(identity: ProcessIdentity) -> bool:
    """Return whether the process is stopped by SIGSTOP."""
    facts = _own_facts(identity)
    return facts is not None and facts.kernel_state.startswith("T")


def memory_bytes(identity: ProcessIdentity) -> int:
    """Return the resident memory in bytes, 0 for a process that is gone."""
    facts = _own_facts(identity)
    return facts.memory_bytes if facts else 0


def send_signal(identity: ProcessIdentity, signal_number: int) -> bool:
    """Send a signal if the process is still the one we mean; return whether it was."""
    if not is_alive(identity):
        return False
    try:
        os.kill(identity.pid, signal_number)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(identity: ProcessIdentity, timeout_s: float) -> bool:
    """Wait at most `timeout_s` seconds; return whether the process ended."""
    return _wait_until(lambda: not is_alive(identity), timeout_s)


def wait_until_paused(identity: ProcessIdentity, timeout_s: float) -> bool:
    """Wait at most `timeout_s` seconds for a SIGSTOP to take effect on all threads; return whether it did."""
    return _wait_until(lambda: is_paused(identity), timeout_s)


def terminate(identity: ProcessIdentity, *, grace_s: float) -> None:
    """Ask the process to end, and kill it if it has not done so after `grace_s` seconds."""
    if not send_signal(identity, signal.SIGTERM):
        return
    send_signal(identity, signal.SIGCONT)  # a paused process sees its SIGTERM only once it goes on
    if not wait_until_gone(identity, grace_s):
        send_signal(identity, signal.SIGKILL)
        wait_until_gone(identity, grace_s)


def _wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _own_facts(identity: ProcessIdentity) -> _ProcessFacts | None:
    facts = _facts(identity.pid)
    return facts if facts and facts.start_mark == identity.start_mark else None


def _facts(pid: int) -> _ProcessFacts | None:
    facts = _facts_from_proc(pid) if Path("/proc/self/stat").exists() else _facts_from_ps(pid)
    return None if facts is None or facts.kernel_state.startswith("Z") else facts


def _facts_from_proc(pid: int) -> _ProcessFacts | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, the second field, may hold spaces and brackets: count from its closing bracket (see proc(5)).
    fields = stat.rpartition(")")[2].split()
    state, threads, start_ticks, resident_pages = fields[0], int(fields[17]), fields[19], int(fields[21])
    if state == "Z" and threads > 1:
        state = _ENDING  # its first thread is a zombie, but others still hold its files and ports
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(start_ticks) / os.sysconf("SC_CLK_TCK")
    memory = resident_pages * os.sysconf("SC_PAGE_SIZE")
    return _ProcessFacts(f"{boot}:{start_ticks}", state, memory, time.time() - age_s)


def _facts_from_ps(pid: int) -> _ProcessFacts | None:
    columns = ["ps", "-o", "state=,rss=,lstart=", "-p", str(pid)]
    english = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(columns, env=english, capture_output=True, check=False, text=True)  # noqa: S603
    shown = done.stdout.split(maxsplit=2)
    if len(shown) < 3:
        return None
    state, resident_kib, started = shown
    started = started.strip()
    started_at_s = time.mktime(time.strptime(started, "%a %b %d %H:%M:%S %Y"))
    return _ProcessFacts(started, state, int(resident_kib) * 1024, started_at_s)
