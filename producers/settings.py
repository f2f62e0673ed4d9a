"""What can be set about a client."""

import math
from dataclasses import dataclass, field

from producers.checks import Limits
from producers.retry import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Everything about a client but its user, its outbox and its Kafka settings."""

    limits: Limits = field(default_factory=Limits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    unanswered_rows_max: int = 10_000
    """Events that may be in the log without an answer; beyond that the outbox waits for the server."""
    unanswered_bytes_max: int = 16 * 1024 * 1024
    """The same in bytes."""
    in_flight_rows_max: int = 10_000
    """Events given to Kafka whose delivery report has not come."""
    in_flight_bytes_max: int = 8 * 1024 * 1024
    """The same in bytes."""
    linger_ms: int = 2
    """How long Kafka's client waits for more records to share a request with."""
    inbox_from_start: bool = True
    """Whether an outbox that is new reads what the inbox topic still holds, or only what comes from now on."""
    busy_timeout_s: float = 60.0
    """How long a write waits while other processes hold the outbox."""
    close_timeout_s: float = 5.0
    """How long close() lets Kafka take what is pending; the rest goes out at the next start."""
    keep_days: float = 30.0
    """How long the outbox remembers messages that ended, and messages that came in and were handed to the program."""
    allow_network_outbox: bool = False
    """Whether the outbox may lie on a network file system, where SQLite can lose messages."""

    def __post_init__(self) -> None:
        for name in ("unanswered_rows_max", "unanswered_bytes_max", "in_flight_rows_max", "in_flight_bytes_max"):
            if not 1 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least 1")
        for name in ("busy_timeout_s", "close_timeout_s", "keep_days", "linger_ms"):
            # Said so that nan, which is neither above nor below, is refused too.
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}, it must not be negative")
