"""Servers that do not answer: when to try again, how long it counts. Pure: time and chance are given."""

from dataclasses import dataclass
from typing import Final

from consumers.backoff import backoff_s

ASK_AFTER_S: Final = 10.0
"""After how long without a word Kafka is asked whether it is back, in s."""


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

    librdkafka says when that begins, sometimes again, and never when it is over. A good report tells; where nothing is
    written, whoever minds has to ask.
    """

    active: bool = False
    ask_at: float = 0.0
    """Monotonic time in s."""

    def said(self, now: float) -> None:
        """Note at monotonic `now` that no broker was reached."""
        self.active, self.ask_at = True, now + ASK_AFTER_S

    def over(self) -> None:
        """Note that one has answered."""
        self.active = False

    def is_to_be_asked(self, now: float) -> bool:
        """Say whether it is time to ask whether one answers again."""
        return self.active and now >= self.ask_at
