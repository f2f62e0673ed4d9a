"""A small Confluent Schema Registry for tests: a real HTTP server that keeps subjects and numbers schemas."""

import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit


class Request(NamedTuple):
    """One request."""

    subject: str
    action: str
    """`lookup` or `register`."""


class Registry:
    """What the server holds; a schema has the same id under each subject, as in the real one."""

    def __init__(self, first_id: int = 100_000) -> None:
        self.first_id = first_id
        self.subjects: dict[str, list[str]] = {}
        self.ids: dict[str, int] = {}
        self.requests: list[Request] = []
        self.password = ""
        """Where set, requests need it."""
        self.status = 0
        """Where set, every answer has it."""
        self.text = ""
        """Where set, every answer is it."""
        self.url = ""

    def answer(self, request: Request, schema: str, authorization: str) -> tuple[int, dict[str, Any]]:
        """Return status and body."""
        self.requests.append(request)
        if self.status:
            return self.status, {"error_code": self.status * 100 + 1, "message": "as the test says"}
        if self.password and b64decode(authorization.removeprefix("Basic ")) != f"tester:{self.password}".encode():
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        if request.action == "lookup":
            if request.subject not in self.subjects:
                return 404, {"error_code": 40401, "message": f"Subject '{request.subject}' not found."}
            if schema not in self.subjects[request.subject]:
                return 404, {"error_code": 40403, "message": "Schema not found"}
            versions = self.subjects[request.subject]
            number = versions.index(schema) + 1
            return 200, {"subject": request.subject, "id": self.ids[schema], "version": number, "schema": schema}
        versions = self.subjects.setdefault(request.subject, [])
        if schema not in versions:
            versions.append(schema)
        return 200, {"id": self.ids.setdefault(schema, self.first_id + len(self.ids))}


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            _, subjects, subject, *rest = unquote(urlsplit(self.path).path).split("/")
            assert subjects == "subjects"
            schema = json.dumps(json.loads(body["schema"]), sort_keys=True)
            request = Request(subject, "register" if rest == ["versions"] else "lookup")
            status, answer = registry.answer(request, schema, self.headers.get("Authorization", ""))
            data = registry.text.encode() or json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_told: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Serve a registry on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(registry))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
