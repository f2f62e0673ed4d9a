"""The demo's processes: started, killed, paused and ended by their ids, their output kept in files."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from compose.errors import ComposeError
from consumers.life_line import LIFE_LINE

_STOP_TIMEOUT_S = 30.0


class Process:
    """One child process; may be started again after it was killed."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Take what to run; `environment` instead of our own."""
        self.name = name
        self.log = log
        self._command = command
        self._environment = environment
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, its output appended to the log; in a process group of its own, so Ctrl-C is ours to pass on.

        Its standard input is a pipe that closes when this process is gone, however it went: then it stops too.
        """
        self._let_go()
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**(self._environment or os.environ), LIFE_LINE: "1"},
                start_new_session=True,
            )

    def _let_go(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()

    @property
    def running(self) -> bool:
        """Say whether it is alive."""
        return self._child is not None and self._child.poll() is None

    def kill(self) -> None:
        """SIGKILL: no goodbye of any kind."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._let_go()

    def signal(self, number: int) -> None:
        """Send it a signal if it is alive."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)

    def ask_to_stop(self) -> None:
        """SIGTERM, without waiting."""
        self.signal(signal.SIGTERM)

    @property
    def pid(self) -> int | None:
        """Its id while it is alive."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    @property
    def code(self) -> int | None:
        """How it ended, None while it runs or before it was started."""
        return None if self._child is None else self._child.poll()

    def stopped(self, timeout_s: float = _STOP_TIMEOUT_S) -> int:
        """Ask it to stop, wait for that, and kill it where it does not; return its exit code."""
        self.ask_to_stop()
        if self._child is None:
            return 0
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._let_go()
        return self._child.returncode

    def check(self) -> None:
        """Raise ComposeError where it ended although nobody asked it to."""
        if self._child is not None and (code := self._child.poll()) is not None:
            tail = self.log.read_text(errors="replace").strip().splitlines()[-3:]
            raise ComposeError(f"{self.name} ended with {code}: {' | '.join(tail)}", f"Its output is in {self.log}.")
