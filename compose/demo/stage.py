"""The servers that a demo plays on: an in-process broker with SQLite, or real Kafka with Cassandra."""

import json
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from compose.layers import Value
from compose.stacks.embedded import EmbeddedBrokerProcess
from compose.stacks.local import LocalStack
from schemas.topics import PARTITIONS_LOCAL, TOPICS

UNANSWERED_ROWS_EMBEDDED = 500
"""A client's flow-control window on the embedded broker, which keeps no more than 5 MB a partition."""


class Stage(Protocol):
    """A stack, started and stopped by the demo."""

    name: str
    """`embedded` or `local`."""
    migrates: bool
    """Whether topics and tables have to be made; the embedded broker has its topics from the start."""

    def start(self) -> Mapping[str, Value]:
        """Start what does not run yet; return the settings with which clients and workers use it."""

    def stop(self) -> None:
        """Stop what `start` started, and nothing else."""


class EmbeddedStage:
    """A broker in a child process and a SQLite store: everything ends with the demo, but the files."""

    name = "embedded"
    migrates = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._broker: EmbeddedBrokerProcess | None = None

    def start(self) -> Mapping[str, Value]:
        """Start the broker."""
        self._broker = EmbeddedBrokerProcess(dict.fromkeys(TOPICS, PARTITIONS_LOCAL))
        return {
            "kafka.bootstrap.servers": self._broker.bootstrap_servers,
            "kafka.fetch.wait.max.ms": 10,
            "store.kind": "sqlite",
            "store.path": str(self._folder / "store.sqlite"),
            "client.unanswered_rows_max": UNANSWERED_ROWS_EMBEDDED,
            # KIP-848: the embedded broker hands a dead member's partitions on after 3 s.
            "worker.protocol": "consumer",
            "worker.static_members": False,
            # Its log keeps 5 MB a partition; outboxes send again what fell out of it.
            "worker.on_lost_range": "earliest",
            "worker.allow_new_topic": True,
            "worker.topic_identity": self._broker.cluster_id,
            "worker.log_append_time_required": False,
        }

    def stop(self) -> None:
        """End the broker, and with it its log."""
        if self._broker is not None:
            self._broker.close()


class LocalStage:
    """The local stack: left running where it was up already, or where the visitor wants to keep it."""

    name = "local"
    migrates = True

    def __init__(self, stack: LocalStack, say: Callable[[str], None], *, keep: bool) -> None:
        self._stack = stack
        self._say = say
        self._keep = keep
        self._started = False

    def start(self) -> Mapping[str, Value]:
        """Bring the stack up where it is not; one that is up with a server that died is the visitor's all the same."""
        self._started = not self._stack.started()
        addresses = self._stack.up(self._say)
        return {
            "kafka.bootstrap.servers": addresses.kafka_bootstrap_servers,
            "store.kind": "cassandra",
            "store.cassandra.contact_points": list(addresses.cassandra_contact_points),
            "store.cassandra.port": addresses.cassandra_port,
            "store.cassandra.datacenter": addresses.cassandra_datacenter,
            # Not this machine's name: the visitor's own workers may run here under it.
            "worker.node": f"demo-{secrets.token_hex(2)}",
            # The defaults are for machines that are far apart: here a dead worker's partitions move after seconds.
            "worker.session_timeout_s": 6.0,
        }

    def stop(self) -> None:
        """Bring it down where the demo brought it up."""
        if self._started and not self._keep:
            self._stack.down()


def config_text(settings: Mapping[str, Value]) -> str:
    """Return settings as a configuration file, which a visitor can go on using: `twotick --config FILE ...`."""
    tables: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.partition(".")
        inner, _, last = name.rpartition(".") if section != "kafka" else ("", "", f'"{name}"')
        # JSON writes texts, numbers, booleans and lists of texts as TOML does.
        tables.setdefault(f"{section}.{inner}".strip("."), []).append(f"{last} = {json.dumps(value)}")
    return "\n".join(f"[{table}]\n" + "\n".join(lines) + "\n" for table, lines in tables.items())
