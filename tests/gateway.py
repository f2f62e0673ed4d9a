"""An outside gateway for tests: a real HTTP server that fails, stalls, drips, closes and answers twice as it is told.

It keeps to the idempotency key: the first call with a key takes effect, every further one gets the first one's answer.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

STALL_S_MAX = 20.0


class Call(NamedTuple):
    """One request."""

    key: str
    attempt: int
    body: dict[str, Any]
    headers: dict[str, str]


class Gateway:
    """What the server was asked, and how it is to answer: `plan` is used up one call at a time, then all is well.

    `200`, `503` ...: that status. `effect-...`: takes effect first. `stall`: no answer. `drip`: an answer without end.
    `close`: hangs up. `twice`: answers two times on the connection.
    """

    def __init__(self, *plan: str) -> None:
        self.plan = list(plan)
        self.retry_after = ""
        self.calls: list[Call] = []
        self.effects: list[str] = []
        """Keys whose call took effect: the first with each."""
        self.changed = threading.Condition()
        self.over = threading.Event()
        self.url = ""

    def take(self, call: Call) -> str:
        """Note a call; return how to answer it."""
        with self.changed:
            self.calls.append(call)
            answer = self.plan.pop(0) if self.plan else "200"
            has_effect = answer.startswith("effect-") or answer in {"200", "twice"}
            if has_effect and call.key not in self.effects:
                self.effects.append(call.key)
            self.changed.notify_all()
            return answer.removeprefix("effect-")

    def wait_for_calls(self, count: int, timeout_s: float = 30.0) -> None:
        """Wait until there were so many calls."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.calls) >= count, timeout_s), self.calls


def _handler(gateway: Gateway) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - one method an answer
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            key = self.headers["Idempotency-Key"]
            call = Call(key, int(self.headers["Twotick-Attempt"]), body, dict(self.headers.items()))
            answer = gateway.take(call)
            self.close_connection = answer != "twice"
            if answer == "stall":
                gateway.over.wait(STALL_S_MAX)
            elif answer == "drip":
                self._drip()
            elif answer == "twice":
                self._say(200)
                self._say(503)
            elif answer != "close":
                self._say(int(answer))

        def _say(self, status: int) -> None:
            self.send_response(status)
            if gateway.retry_after:
                self.send_header("Retry-After", gateway.retry_after)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def _drip(self) -> None:
            """Send a header without end, a byte at a time."""
            try:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while not gateway.over.wait(0.05):
                    self.wfile.write(b"x")
                    self.wfile.flush()
            except OSError:
                return

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing the server waits for them, and leaves no socket behind

    def handle_error(self, *_: Any) -> None:
        """Say nothing of clients that hang up."""


@contextmanager
def running(gateway: Gateway) -> Iterator[Gateway]:
    """Run the server for as long as the block takes."""
    server = _Server(("127.0.0.1", 0), _handler(gateway))
    gateway.url = f"http://127.0.0.1:{server.server_address[1]}/messages"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield gateway
    finally:
        gateway.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
