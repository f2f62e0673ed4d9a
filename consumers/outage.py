"""Servers that do not answer: when to try again, how long it counts. Pure: time and chance are given."""

from dataclasses import dataclass
from typing import Final

from consumers.backoff import backoff_s

HEARD_S: Final = 30.0
"""How long it counts that no broker is reached, in s. A consumer in a group tries its coordinator every 10 s."""


@dataclass(slots=True)
class Outage:
    """The store's: growing, jittered, bounded waits since the first failure; over with the first success."""

    first_s: float
    s_max: float
    attempts: int = 0
    until: float = 0.0
    """Monotonic time of the next attempt, in s."""
    cause: str = ""

    @property
    def active(self) -> bool:
        """Whether the last attempt failed."""
        return self.attempts > 0

    def failed(self, cause: str, now: float, chance: float) -> float:
        """Note a failure at monotonic `now`; `chance` is between 0 and 1. Return the wait in s."""
        wait_s = backoff_s(self.first_s, self.s_max, self.attempts, chance)
        self.attempts += 1
        self.until = now + wait_s
        self.cause = cause
        return wait_s

    def over(self) -> None:
        """Note a success."""
        self.attempts = 0
        self.cause = ""


@dataclass(slots=True)
class KafkaOutage:
    """Whether no broker can be reached.

    librdkafka says so at each attempt, and nothing when that is over: a record or a good report then does, or that
    it is not said any more. An idle producer makes no attempt, so its consumer is heard as well.
    """

    until: float = 0.0
    """Monotonic time in s."""

    def said(self, now: float) -> None:
        """Note that no broker was reached."""
        self.until = now + HEARD_S

    def over(self) -> None:
        """Note that one has answered."""
        self.until = 0.0

    def active(self, now: float) -> bool:
        """Say whether it still counts."""
        return now < self.until
