"""What the stack reports: how each server is, and where clients reach it."""

import enum
from dataclasses import dataclass
from pathlib import Path


class ServerState(enum.Enum):
    """What a server is doing."""

    RUNNING = "running"
    """A round trip through it worked."""
    UNHEALTHY = "unhealthy"
    """Its process lives, but a round trip fails: it is starting, or stuck."""
    PAUSED = "paused"
    """Its process is stopped by a signal."""
    DIED = "died"
    """Its process ended without being asked to."""
    STOPPED = "stopped"
    """It was never started, or stopped on demand."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server as it is now; without a process uptime and memory are 0, before the first start it has no address."""

    name: str
    state: ServerState
    pid: int | None
    address: str | None
    uptime_s: float
    memory_bytes: int
    log_path: Path


@dataclass(frozen=True, slots=True)
class StackAddresses:
    """Where clients reach the servers."""

    kafka_bootstrap_servers: str
    cassandra_contact_points: tuple[str, ...]
    cassandra_port: int
    cassandra_datacenter: str
