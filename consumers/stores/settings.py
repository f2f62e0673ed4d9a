"""Where the stores are and how they are used; free of any driver, so that reading settings loads none."""

from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from consumers.addresses import PORT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class CassandraSettings:
    """Where Cassandra is, and how it is used."""

    contact_points: tuple[str, ...] = ("127.0.0.1",)
    """Hosts to ask first for the others."""
    port: int = 9042
    """The port of the native protocol."""
    keyspace: str = "twotick"
    """The keyspace of all tables."""
    datacenter: str = "datacenter1"
    """The data centre whose nodes this process talks to (LOCAL_QUORUM). The same for all workers and commands of a
    deployment: leases, locks and claims exclude each other within one data centre (LOCAL_SERIAL)."""
    username: str = ""
    """Empty for no authentication."""
    password: str = field(default="", repr=False)
    """Better `password_file`, the file that holds it."""
    ca_file: Path | None = None
    """Certificates that the servers' are checked against; TLS is used where it is set."""
    connect_timeout_s: float = 5.0
    """Longest wait for one connection."""
    request_timeout_s: float = 10.0
    """Longest wait for one answer; after it the outcome is unknown, and a worker writes again."""
    batches_in_flight_max: int = 64
    """Batches of one worker that are out at a time; further ones wait."""
    conditional_in_flight_max: int = 64
    """Strict mode: conversations of one worker that are written at a time; further ones wait."""
    reads_in_flight_max: int = 64
    """Queries of one cold read that are out at a time."""
    batch_bytes_max: int = 5 * 1024
    """A batch over several Cassandra partitions, as Cassandra weighs it: its `batch_size_warn_threshold`."""
    batch_partitions_max: int = 10
    """Cassandra partitions in a batch: its `unlogged_batch_across_partitions_warn_threshold`."""

    def __post_init__(self) -> None:
        """Raise ValueError for a bound of nothing, a wait that is none, or a place that cannot be."""
        if not self.contact_points:
            raise ValueError("contact_points is empty")
        if not 1 <= self.port <= PORT_MAX:
            raise ValueError(f"port is {self.port}, ports go from 1 to {PORT_MAX}")
        # Said so that nan, which is neither above nor below, is refused too.
        if not (0 < self.connect_timeout_s < inf and 0 < self.request_timeout_s < inf):
            raise ValueError("connect_timeout_s and request_timeout_s must be above 0")
        bounds = (
            self.batches_in_flight_max,
            self.conditional_in_flight_max,
            self.reads_in_flight_max,
            self.batch_bytes_max,
            self.batch_partitions_max,
        )
        if min(bounds) < 1:
            raise ValueError("the bounds of batches and reads must be at least 1")
