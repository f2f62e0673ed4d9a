"""What a deployment can set about deliveries to an outside gateway."""

import math
from dataclasses import dataclass, field

from consumers.addresses import check_url


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Deliveries by HTTP POST: to whom, how long a call may take, and how often it is made again."""

    url: str = ""
    """Where deliveries are posted (http or https); empty: nowhere, they go to the recipients' inboxes. A redirect is an
    answer, not followed. `url_file` is a file that holds it, where it is a secret."""
    users: tuple[str, ...] = ("*",)
    """For which recipients: patterns with * and ?; the others have inboxes."""
    authorization: str = field(default="", repr=False)
    """Value of the Authorization header; better `authorization_file`, the file that holds it."""
    timeout_s: float = 10.0
    """Longest time that one call may take from its start to the end of its answer."""
    attempts_max: int = 8
    """Calls made for one delivery; after the last one it is failed(undelivered). With the defaults that is after one to
    two minutes of failures."""
    first_wait_s: float = 1.0
    """From the first call to the second; each further wait is twice as long, with a jitter of a half."""
    wait_s_max: float = 60.0
    """The longest of these waits; a gateway that asks for more by Retry-After gets it, up to an hour."""
    claim_ttl_s: int = 30
    """After this long without a sign of life a worker's claims are taken over: two to three times `timeout_s`."""
    calls_in_flight_max: int = 8
    """Calls of one worker that are made at a time."""
    waiting_max: int = 10_000
    """Deliveries that wait in a worker's memory; what is over is delivered when it is next due."""

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises ValueError."""
        if self.url:
            check_url("url", self.url)
        if not (self.authorization.isascii() and self.authorization.isprintable()):
            raise ValueError("authorization must be one line of ASCII, as a header field is")
        if min(self.attempts_max, self.calls_in_flight_max, self.waiting_max) < 1:
            raise ValueError("attempts_max, calls_in_flight_max and waiting_max must be at least 1")
        if not (0 <= self.first_wait_s < math.inf and 0 <= self.wait_s_max < math.inf):
            raise ValueError("first_wait_s and wait_s_max must be numbers from 0")
        if not 0 < self.timeout_s < math.inf or self.claim_ttl_s < 2 * self.timeout_s:
            raise ValueError("claim_ttl_s must be at least twice timeout_s, and timeout_s more than 0")
