"""Calling the program back for each tick, on one thread of its own and in order."""

import logging
import threading
from collections.abc import Callable

from producers.database import Database
from producers.errors import ClientError
from producers.views import Tick, Views

LOG = logging.getLogger(__name__)

_WAIT_S = 0.5
_JOIN_S = 5.0

OnTick = Callable[[Tick], object]


class Dispatcher:
    """Follows the outbox's ticks, whichever process wrote them; the thread starts with the first callback."""

    def __init__(self, database: Database, views: Views, name: str) -> None:
        self._database = database
        self._views = views
        self._name = name
        self._lock = threading.Lock()
        self._callbacks: tuple[tuple[int, OnTick], ...] = ()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, callback: OnTick) -> None:
        """Call `callback` for every tick from now on. What it raises is logged and stops nothing."""
        with self._lock:
            since = self._views.last_tick()
            self._callbacks = (*self._callbacks, (since, callback))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, args=(since,), name=f"{self._name}-ticks", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """End the thread; a second call does nothing."""
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def _run(self, last: int) -> None:
        while not self._stop.is_set():
            try:
                generation = self._database.generation
                ticks = self._views.ticks_after(last)
                for tick in ticks:
                    last = tick.number
                    self._call(tick)
                if not ticks:
                    self._database.wait_for_change(generation, _WAIT_S)
            except ClientError as error:
                if self._stop.is_set():
                    return
                LOG.warning("ticks cannot be read: %s", error)
                self._stop.wait(_WAIT_S)

    def _call(self, tick: Tick) -> None:
        for since, callback in self._callbacks:
            if self._stop.is_set():
                return
            if tick.number <= since:
                continue
            try:
                callback(tick)
            except (Exception, SystemExit):
                LOG.exception("a callback for ticks failed on %s; it is called again for the next", tick.message_id)
