"""What the stack needs to know of a server: a node has its own folder, ports, command and health check.

One Kafka node and one Cassandra node make today's stack; a cluster is more nodes of the same classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from compose.stacks.local.jars import Java


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """How the local servers are sized and run; a port of 0 lets the stack choose one and keep it."""

    kafka_port: int = 0
    """Kafka's port on 127.0.0.1; 0: a free one is chosen at the first start and kept."""
    cassandra_port: int = 0
    """Cassandra's port on 127.0.0.1, likewise."""
    kafka_heap_mib: int = 384
    """Kafka's heap in MiB."""
    cassandra_heap_mib: int = 768
    """Cassandra's heap in MiB."""
    commitlog_sync: Literal["batch", "periodic"] = "batch"
    """Whether Cassandra syncs its commit log before it answers, or every few seconds."""
    start_timeout_s: float = 120.0
    """How long a server may take to start."""
    jars_folder: Path | None = None
    """Where the jars are kept; None for the cache folder of the user."""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where one node lives: its data folder and its ports by purpose."""

    folder: Path
    ports: Mapping[str, int]


class Node(Protocol):
    """One server process. Instances only hold values; the stack starts and stops them."""

    name: ClassVar[str]
    port_purposes: ClassVar[tuple[str, ...]]
    """Names of the ports it needs; the first is the one that clients use."""

    @property
    def address(self) -> str:
        """Where clients reach it, as host:port."""
        ...

    def prepare(self, java: Java, class_path: str) -> None:
        """Write its configuration and, the first time, its empty storage; raise StackError if that fails."""
        ...

    def command(self, java: Java, class_path: str) -> list[str]:
        """Return the command line that runs it in the foreground."""
        ...

    def check_health(self, timeout_s: float) -> None:
        """Make a real round trip; raise NotHealthyError if it fails or takes longer than `timeout_s` seconds."""
        ...
