"""What the stack needs to know of a server: a node has its own name, address, folder, ports, command and health check.

One Kafka node and one Cassandra node make the usual stack; a cluster is more nodes of the same classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import ClassVar, Final, Literal, Protocol

from compose.stacks.local.jars import Java
from consumers.addresses import PORT_MAX

NODES_MAX: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """How the local servers are sized and run; a port of 0 lets the stack choose one and keep it."""

    kafka_port: int = 0
    """Kafka's port on 127.0.0.1; 0: a free one is chosen at the first start and kept."""
    cassandra_port: int = 0
    """Cassandra's port on 127.0.0.1, likewise."""
    kafka_nodes: int = 1
    """How many Kafka nodes; with 3 each record has three copies, and two must have it before it is acknowledged."""
    cassandra_nodes: int = 1
    """How many Cassandra nodes; node N listens on 127.0.0.N, which Linux has and macOS has to be given."""
    kafka_heap_mib: int = 384
    """Kafka's heap in MiB."""
    cassandra_heap_mib: int = 768
    """Cassandra's heap in MiB."""
    commitlog_sync: Literal["batch", "periodic"] = "batch"
    """Whether Cassandra syncs its commit log before it answers, or every few seconds."""
    start_timeout_s: float = 120.0
    """How long a server may take to start."""
    jars_folder: Path | None = None
    """Where the jars are kept; unset: in the cache folder of the user."""

    def __post_init__(self) -> None:
        """Refuse numbers that make no stack. Raises ValueError."""
        if not (1 <= self.kafka_nodes <= NODES_MAX and 1 <= self.cassandra_nodes <= NODES_MAX):
            raise ValueError(f"kafka_nodes and cassandra_nodes must be from 1 to {NODES_MAX}")
        if not 0 < self.start_timeout_s < inf:  # nan is neither
            raise ValueError("start_timeout_s must be above 0")
        for name in ("kafka_port", "cassandra_port"):
            if not 0 <= getattr(self, name) <= PORT_MAX:
                raise ValueError(f"{name} must be from 0 to {PORT_MAX}")


@dataclass(frozen=True, slots=True)
class NodePlace:
    """Where one node lives: its name, its loopback address, its data folder and its ports by purpose."""

    name: str
    host: str
    folder: Path
    ports: Mapping[str, int]


class Node(Protocol):
    """One server process. Instances only hold values; the stack starts and stops them."""

    kind: ClassVar[str]
    """Which server it is; also the name of its jars."""
    port_purposes: ClassVar[tuple[str, ...]]
    """Names of the ports it needs; the first is the one that clients use."""

    @property
    def place(self) -> NodePlace:
        """Where it lives."""
        ...

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
