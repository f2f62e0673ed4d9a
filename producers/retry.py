"""When to send again what nobody has answered."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential waits, jittered so that clients which were cut off together do not come back together."""

    first_s: float = 5.0
    """How long to wait for the answer to a first attempt; well above what a busy server takes."""
    factor: float = 2.0
    """How much longer each further wait is."""
    max_s: float = 120.0
    """The longest wait, before jitter."""
    jitter: float = 0.25
    """The largest part by which a wait is longer or shorter."""

    def __post_init__(self) -> None:
        if not (0 < self.first_s <= self.max_s < inf and 1 <= self.factor < inf and 0 <= self.jitter < 1):
            raise ValueError("a retry policy needs 0 < first_s <= max_s, factor >= 1 and 0 <= jitter < 1")

    def ack_wait_s(self, attempt: int, chance: float) -> float:
        """Return how many seconds to wait for an answer to attempt number `attempt` (from 1).

        `chance` is in [0, 1) and 0.5 means no jitter: then the first waits are 5, 10, 20, 40, 80 and 120 seconds, and
        120 from there on. Never less than `first_s * (1 - jitter)`, never more than `max_s * (1 + jitter)`.
        """
        # The exponent is bounded too: a row tried for months would overflow a float.
        wait_s = min(self.max_s, self.first_s * self.factor ** min(attempt - 1, 64))
        return wait_s * (1 + self.jitter * (2 * chance - 1))

    def backoff_s(self, failures: int, chance: float) -> float:
        """Return how many seconds to leave a server alone after `failures` failures in a row (from 1).

        Without jitter 0.1, 0.2, 0.4, 0.8, 1.6, 3.2 and 5 seconds.
        """
        return min(5.0, 0.1 * 2.0 ** min(failures - 1, 16)) * (1 + self.jitter * (2 * chance - 1))
