"""`consume --workers N`: one process a worker, restarted with growing waits when it dies.

Workers are spawned, never forked: a client object does not survive a fork. Each holds a pipe from here as
its standard input; when this process is gone, however it went, the pipe closes and they finish and stop.
"""

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from time import monotonic
from types import FrameType
from typing import Final

from consumers.backoff import backoff_s
from consumers.errors import ExitCode
from consumers.life_line import LIFE_LINE, hold_life_line

LOG = logging.getLogger(__name__)

_LOOK_S: Final = 0.1
_ENDING_S: Final = 15.0
"""What a worker may take beyond its drain: to leave the group, write its last statistics, close the store."""

NOT_RESTARTED: Final = frozenset({ExitCode.DONE, ExitCode.USAGE, ExitCode.LOST_RANGE, ExitCode.TOPIC_CHANGED})
"""Codes after which a worker is not started again: it would end the same way."""


_WAITING: Final = frozenset({ExitCode.UNREACHABLE, ExitCode.UNRELEASED})


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How long to wait before a worker that died is started again."""

    first_s: float = 1.0
    s_max: float = 60.0
    waiting_s_max: float = 5.0
    """Longest wait after a worker found no server at its start, or its static member id still held for the process
    that died before it: as soon as that is over, its partitions wait for this."""
    fenced_s: float = 5.0
    """Wait after a worker was fenced for the first time. A static member can be fenced by itself: its request to join
    took effect, but the answer was lost with a broker, and it asked again under the id that it had before."""
    steady_s: float = 60.0
    """A worker that ran for so long begins with the first wait again."""

    def wait_s(self, code: int, deaths: int, fences: int = 1) -> float | None:
        """Return the wait after the `deaths`-th death in a row (from 1), None where it is not started again.

        `fences` of them were because another process has its static member id: at the second one there really is
        one, and of the two supervisors the one that is fenced twice gives up.
        """
        if code in NOT_RESTARTED:
            return None
        if code == ExitCode.FENCED:
            return self.fenced_s if fences <= 1 else None
        s_max = self.waiting_s_max if code in _WAITING else self.s_max
        return backoff_s(self.first_s, s_max, deaths - 1)


class Slot:
    """One worker's place: its number, and with it its name, stay over restarts."""

    __slots__ = ("child", "code", "deaths", "fences", "number", "start_at", "started_at")

    def __init__(self, number: int) -> None:
        self.number = number
        self.child: subprocess.Popen[bytes] | None = None
        self.code: int | None = None
        """How it ended for good."""
        self.deaths = 0
        self.fences = 0
        self.start_at = 0.0
        self.started_at = 0.0


class Supervisor:
    """Runs the workers of one machine. `run` returns when all have ended."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        workers: int,
        *,
        drain_timeout_s: float,
        policy: RestartPolicy | None = None,
    ) -> None:
        """Take what starts the worker of a slot (from 0), and how long workers may take to stop."""
        self._command = command
        self._slots = [Slot(number) for number in range(workers)]
        self._policy = policy or RestartPolicy()
        self._drain_timeout_s = drain_timeout_s
        self._woken = Event()
        self._signals = 0

    def run(self) -> int:
        """Start the workers, keep them running, and return the exit code; on the process's main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take_signal)
        hold_life_line(self._life_line_cut)
        try:
            while not self._signals and any(slot.code is None for slot in self._slots):
                for slot in self._slots:
                    self._look_after(slot)
                self._woken.wait(_LOOK_S)
            self._stop_all()
        finally:
            self._kill_all()
        return self._code()

    def _take_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1
        self._woken.set()

    def _life_line_cut(self) -> None:
        """Stop as after a first signal: who started us may well have sent that too."""
        self._signals = max(1, self._signals)
        self._woken.set()

    def _look_after(self, slot: Slot) -> None:
        """Start a worker that is to run, or note that it has died."""
        if slot.code is not None:
            return
        if slot.child is None:
            if monotonic() >= slot.start_at:
                self._start(slot)
            return
        code = slot.child.poll()
        if code is not None:
            self._died(slot, code)

    def _start(self, slot: Slot) -> None:
        slot.started_at = monotonic()
        try:
            slot.child = subprocess.Popen(  # noqa: S603 - our own command
                list(self._command(slot.number)),
                stdin=subprocess.PIPE,
                env={**os.environ, LIFE_LINE: "1"},
                # A session of its own: Ctrl-C in the terminal reaches it through us, once.
                start_new_session=True,
            )
        except OSError as error:
            # No process or file is to be had just now: no reason to end the workers that run.
            LOG.error("a worker process cannot be started", extra={"slot": slot.number, "error": str(error)})  # noqa: TRY400
            self._died(slot, ExitCode.FAILED)
            return
        LOG.info("worker process started", extra={"slot": slot.number, "pid": slot.child.pid})

    def _died(self, slot: Slot, code: int) -> None:
        _close(slot)
        if monotonic() - slot.started_at >= self._policy.steady_s:
            slot.deaths = slot.fences = 0
        slot.deaths += 1
        slot.fences += code == ExitCode.FENCED
        wait_s = self._policy.wait_s(code, slot.deaths, slot.fences)
        extra = {"slot": slot.number, "code": code, "deaths": slot.deaths, "restart_in_s": wait_s}
        LOG.error("worker process ended", extra=extra)
        if wait_s is None:
            slot.code = code
        else:
            slot.start_at = monotonic() + wait_s

    def _stop_all(self) -> None:
        """Pass the signal on and wait for the workers to drain; a second signal ends the wait."""
        running = [slot for slot in self._slots if slot.child is not None]
        for slot in running:
            _signal(slot, signal.SIGTERM)
        deadline = monotonic() + self._drain_timeout_s + _ENDING_S
        while self._signals < 2 and monotonic() < deadline:
            for slot in running:
                if slot.child is not None and (code := slot.child.poll()) is not None:
                    # One that our signal killed had not begun to heed signals: it has read nothing.
                    slot.code = ExitCode.DONE if code == -signal.SIGTERM else code
                    _close(slot)
            if all(slot.child is None for slot in running):
                return
            self._woken.clear()
            self._woken.wait(_LOOK_S)

    def _kill_all(self) -> None:
        for slot in self._slots:
            if slot.child is not None:
                _signal(slot, signal.SIGKILL)
                slot.child.wait()
                slot.code = ExitCode.INTERRUPTED if self._signals > 1 else ExitCode.UNDRAINED
                _close(slot)

    def _code(self) -> int:
        """Return the first worker's code that is not `DONE`; killed by a signal counts as failed."""
        codes = [slot.code for slot in self._slots if slot.code]
        return next((code if code > 0 else int(ExitCode.FAILED) for code in codes), int(ExitCode.DONE))


def _signal(slot: Slot, number: int) -> None:
    if slot.child is not None and slot.child.poll() is None:
        slot.child.send_signal(number)


def _close(slot: Slot) -> None:
    if slot.child is not None and slot.child.stdin is not None:
        slot.child.stdin.close()
    slot.child = None
