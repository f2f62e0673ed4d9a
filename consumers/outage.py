"""A server that does not answer: when to try again. Pure but for the chance and time it is given."""

from dataclasses import dataclass

from consumers.backoff import backoff_s


@dataclass(slots=True)
class Outage:
    """Growing, jittered, bounded waits since the first failure; over with the first success."""

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
