"""The stack's memory between commands: one JSON file with ports and processes, replaced in one step."""

import json
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compose.stacks.errors import StackError
from compose.stacks.local.processes import ProcessIdentity

_VERSION = 1


@dataclass(slots=True)
class ServerRecord:
    """One server's ports by their purpose, and its process if one was started and not stopped since."""

    ports: dict[str, int] = field(default_factory=dict)
    process: ProcessIdentity | None = None
    started_at_s: float = 0.0


@dataclass(slots=True)
class StackState:
    """What is known of all servers, and the id of the Kafka cluster whose data lie in the folder."""

    cluster_id: str
    servers: dict[str, ServerRecord] = field(default_factory=dict)

    def server(self, name: str) -> ServerRecord:
        """Return the record of a server, made empty on first use."""
        return self.servers.setdefault(name, ServerRecord())

    def ports_in_use(self) -> set[int]:
        """Return the ports given to any server."""
        return {port for record in self.servers.values() for port in record.ports.values()}


def new_state() -> StackState:
    """Return the state of a stack that never ran, with a fresh cluster id."""
    return StackState(cluster_id=new_cluster_id())


def new_cluster_id() -> str:
    """Return a random id in Kafka's notation: 16 bytes as 22 URL-safe characters, the first of them no dash.

    Kafka's tools take an id that starts with a dash (one in 64) for an option, so Kafka makes none of these either.
    """
    while True:
        text = urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def load(path: Path) -> StackState:
    """Read the state; a missing file is a new stack. Raises StackError for a file that is not ours to read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return new_state()
    except ValueError as error:
        raise _unreadable(path, str(error)) from error
    version = document.get("version") if isinstance(document, dict) else None
    if version != _VERSION:
        raise _unreadable(path, f"version {version} instead of {_VERSION}")
    try:
        servers = {str(name): _record_from_json(record) for name, record in document["servers"].items()}
        return StackState(cluster_id=str(document["cluster_id"]), servers=servers)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(path, f"it has another shape: {error!r}") from error


def save(path: Path, state: StackState) -> None:
    """Write the state so that a reader sees the old file or the new one, never a part."""
    servers = {name: _record_to_json(record) for name, record in state.servers.items()}
    document = {"version": _VERSION, "cluster_id": state.cluster_id, "servers": servers}
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    partial.replace(path)


def _record_to_json(record: ServerRecord) -> dict[str, Any]:
    process = record.process and {"pid": record.process.pid, "start_mark": record.process.start_mark}
    return {"ports": record.ports, "process": process, "started_at_s": record.started_at_s}


def _record_from_json(record: dict[str, Any]) -> ServerRecord:
    process = record["process"]
    return ServerRecord(
        ports={str(purpose): int(port) for purpose, port in record["ports"].items()},
        process=process and ProcessIdentity(int(process["pid"]), str(process["start_mark"])),
        started_at_s=float(record["started_at_s"]),
    )


def _unreadable(path: Path, why: str) -> StackError:
    hint = "end the servers it names by hand, then delete the file: ports are chosen anew and the data stay"
    return StackError(f"the state file {path} cannot be read: {why}", hint=hint)
