"""The threads behind a client: whoever holds the outbox's lock pumps and listens, the others stand by.

The lock is the kernel's, on a file beside the outbox, so it is free the moment its holder is dead, however it died.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from producers.database import Database
from producers.errors import ClientError
from producers.health import HealthBoard
from producers.listener import Listener
from producers.pump import Pump

LOG = logging.getLogger(__name__)

STAND_BY_S = 0.25
"""How often those who stand by try the lock."""
PRUNE_EVERY_S = 6 * 3600.0
"""A program may run for months."""
_TROUBLE_WAIT_S = 0.5
_JOIN_S = 15.0


class Engine:
    """Starts and stops; both may be called twice."""

    def __init__(  # noqa: PLR0913 - what it is wired to
        self,
        *,
        database: Database,
        lock_path: Path,
        make_pump: Callable[[], Pump],
        make_listener: Callable[[], Listener],
        prune: Callable[[], int | None],
        health: HealthBoard,
        name: str,
    ) -> None:
        self._database = database
        # Two clients in one process are two holders.
        self._lock = FileLock(lock_path, timeout=0, is_singleton=False, thread_local=False)
        self._make_pump = make_pump
        self._make_listener = make_listener
        self._prune = prune
        self._health = health
        self._name = name
        self._stop = threading.Event()
        self._pid = os.getpid()
        self._thread: threading.Thread | None = None
        self._troubles: dict[Callable[[], object], ClientError] = {}
        """Why steps failed when they were last tried."""

    def start(self) -> None:
        """Start; a second call does nothing."""
        if self._thread is None:
            # Daemons, because all that matters is on disk: a program that forgets to close still ends.
            self._thread = threading.Thread(target=self._run, name=f"{self._name}-pump", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop both threads and give the lock back; a second call does nothing."""
        self._stop.set()
        if os.getpid() != self._pid or self._thread is None:
            return
        self._database.notify()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            LOG.error("the pump did not stop within %g s; what it had is still in the outbox", _JOIN_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._try_lock():
                self._stop.wait(STAND_BY_S)
                continue
            try:
                self._lead()
            except Exception as error:
                LOG.exception("the pump failed; it starts again")
                self._health.fail(ClientError(f"the pump failed: {error!r}", "See the log."))
                self._stop.wait(_TROUBLE_WAIT_S)
            finally:
                self._health.set(pumping=False)
                self._lock.release()

    def _try_lock(self) -> bool:
        try:
            self._lock.acquire()
        except Timeout:
            return False
        except OSError as error:
            self._health.fail(
                ClientError(f"the lock {self._lock.lock_file} cannot be had: {error}", "Check its folder.")
            )
            return False
        return True

    def _lead(self) -> None:
        """Pump and listen until told to stop."""
        self._health.set(pumping=True)
        pump = self._make_pump()
        stop_listening = threading.Event()
        listening = threading.Thread(
            target=self._listen, args=(stop_listening,), name=f"{self._name}-listener", daemon=True
        )
        while not self._stop.is_set() and self._patiently(pump.start) is None:
            pass
        listening.start()
        try:
            prune_at = 0.0
            while not self._stop.is_set():
                if time.monotonic() >= prune_at and self._patiently(self._prune) is not None:
                    prune_at = time.monotonic() + PRUNE_EVERY_S
                self._patiently(pump.turn)
        finally:
            stop_listening.set()
            try:
                pump.stop()
            finally:
                listening.join(_JOIN_S)

    def _patiently(self, step: Callable[[], object]) -> object:
        """Run a step that is safe to repeat; say so and wait where the outbox is busy or its disk full."""
        try:
            found = step()
        except ClientError as error:
            LOG.warning("%s: %s", self._name, error)
            self._health.fail(error)
            self._troubles[step] = error
            self._stop.wait(_TROUBLE_WAIT_S)
            return None
        if step in self._troubles:
            self._health.over(self._troubles.pop(step))
        return found

    def _listen(self, stop: threading.Event) -> None:
        while not stop.is_set():
            listener = self._make_listener()
            try:
                while not stop.is_set():
                    if not self._patiently(listener.turn):
                        stop.wait(_TROUBLE_WAIT_S)
            except Exception as error:
                LOG.exception("the listener failed; it starts again")
                self._health.fail(ClientError(f"the listener failed: {error!r}", "See the log."))
                stop.wait(_TROUBLE_WAIT_S)
            finally:
                listener.close()
