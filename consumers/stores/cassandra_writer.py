"""Keeps a bounded number of requests in flight, and tells each call once, when its last request is through."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from consumers.stores.cassandra_errors import translated
from consumers.stores.cassandra_sender import Finished, Request
from consumers.stores.contract import Done

Send = Callable[[Request, Finished], None]
"""Sends a request and raises nothing; see `Sender.send`."""


class _Call:
    """One `write` or `spill`: counts its requests down."""

    __slots__ = ("_done", "_lock", "_waiting", "error")

    def __init__(self, requests: int, done: Done) -> None:
        self._waiting = requests
        self._done = done
        self._lock = threading.Lock()
        self.error: Exception | None = None

    def finished(self, error: Exception | None) -> None:
        """Note that one request is through; the last one tells."""
        with self._lock:
            self.error = self.error or error
            self._waiting -= 1
            is_last = self._waiting == 0
        if is_last:
            self._done(self.error)


class InFlight:
    """The requests of one store: up to `requests_max` are out, the others wait here in order."""

    def __init__(self, send: Send, requests_max: int) -> None:
        self._send_one = send
        self._requests_max = requests_max
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._queue: deque[tuple[Request, _Call]] = deque()
        self._out = 0
        self._sending = False

    def submit(self, requests: Sequence[Request], done: Done) -> None:
        """Send the requests; `done` is called once, with the first error if there was one."""
        if not requests:
            done(None)
            return
        call = _Call(len(requests), done)
        with self._lock:
            self._queue.extend((request, call) for request in requests)
        self._send_waiting()

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is out or waiting; say whether that came true in time."""
        with self._lock:
            return self._idle.wait_for(lambda: not self._out and not self._queue, timeout_s)

    def _send_waiting(self) -> None:
        """Send what may go out. One thread at a time, in a loop: a request that fails at once must not recurse."""
        with self._lock:
            if self._sending:
                return
            self._sending = True
        while (one := self._next()) is not None:
            self._send(*one)

    def _next(self) -> tuple[Request, _Call] | None:
        with self._lock:
            if self._queue and self._out < self._requests_max:
                self._out += 1
                return self._queue.popleft()
            self._sending = False
            return None

    def _send(self, request: Request, call: _Call) -> None:
        if call.error is not None:
            # The call fails anyway, and whoever made it makes it again whole.
            self._finished(call, None)
            return
        self._send_one(request, partial(self._finished, call))

    def _finished(self, call: _Call, error: Exception | None) -> None:
        with self._lock:
            self._out -= 1
            is_idle = not self._out and not self._queue
        call.finished(None if error is None else translated(error, "a write"))
        self._send_waiting()
        if is_idle:
            with self._lock:
                self._idle.notify_all()
