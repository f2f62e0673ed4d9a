"""How a client is doing: what its threads found out, for the threads of its caller."""

import threading
from dataclasses import dataclass, replace

from producers.errors import ClientError, UnreachableError


@dataclass(frozen=True, slots=True)
class Health:
    """A snapshot."""

    reachable: bool | None = None
    """Whether Kafka answered last; None before the first contact."""
    pumping: bool = False
    """This client holds the outbox's lock; else another process does the work."""
    error: ClientError | None = None
    """Why the client cannot work, until it can again."""
    sent: int = 0
    """Events that Kafka confirmed."""
    resent: int = 0
    """Times an event was handed over that had been before."""
    rebuilds: int = 0
    """Producers that had to be made anew."""
    gaps: int = 0
    """Times the inbox no longer held what had not been read."""
    undecodable: int = 0
    """Inbox records that were none of ours."""
    deliveries: int = 0
    """Messages that came in, each once."""
    duplicates: int = 0
    """Deliveries that had come before."""


class HealthBoard:
    """Where the threads write and read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._health = Health()

    def read(self) -> Health:
        """Return the latest snapshot."""
        return self._health

    def set(self, *, reachable: bool | None = None, pumping: bool | None = None) -> None:
        """Note what is given; an answer from Kafka also ends an error."""
        with self._lock:
            health = self._health
            if pumping is not None:
                health = replace(health, pumping=pumping)
            if reachable is not None and (reachable != health.reachable or (reachable and health.error)):
                health = replace(health, reachable=reachable, error=None if reachable else health.error)
            self._health = health

    def reached(self) -> None:
        """Note that Kafka answers again; why it was not reached is over, any other error stands."""
        with self._lock:
            error = None if isinstance(self._health.error, UnreachableError) else self._health.error
            self._health = replace(self._health, reachable=True, error=error)

    def over(self, error: ClientError) -> None:
        """Note that what caused an error is over; where another one came since, that one stands."""
        with self._lock:
            if self._health.error is error:
                self._health = replace(self._health, error=None)

    def fail(self, error: ClientError) -> None:
        """Note why the client cannot work."""
        with self._lock:
            self._health = replace(self._health, error=error)

    def count(self, **by: int) -> None:
        """Add to counters."""
        with self._lock:
            self._health = replace(self._health, **{name: getattr(self._health, name) + n for name, n in by.items()})
