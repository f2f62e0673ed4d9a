"""What a claim is, and what a store must offer for it.

A call to an outside gateway cannot be taken back, and whether one that was cut off took effect nobody here can know.
So each delivery has a row of its own that is marked before the call and settled after it, under the version that was
read; every call for one delivery carries one idempotency key, by which the gateway tells a repetition. Who may mark is
decided by a lock for each partition, whose fencing token goes into the row: a row that has seen a larger one refuses.
"""

from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import NAMESPACE_URL, UUID, uuid5

from consumers.rows import Owner
from schemas.identity import text_of
from schemas.records import Delivery


class ClaimKey(NamedTuple):
    """One message on its way to one recipient."""

    conversation_id: str
    message_id: bytes
    recipient: str

    @classmethod
    def of(cls, delivery: Delivery) -> "ClaimKey":
        """Return a delivery's key."""
        return cls(delivery.conversation_id, delivery.message_id, delivery.user)

    def idempotency_key(self) -> UUID:
        """Return the key that every call for this delivery carries, whoever makes it."""
        parts = (self.conversation_id, text_of(self.message_id), self.recipient)
        return uuid5(NAMESPACE_URL, "twotick:" + "\n".join(parts))


class ClaimState(StrEnum):
    """Where a claimed delivery stands."""

    CLAIMED = "CLAIMED"
    """A call is being made, or whoever made it is gone."""
    WAITING = "WAITING"
    """A call failed; another is due at `next_at`."""
    DELIVERED = "DELIVERED"
    UNDELIVERABLE = "UNDELIVERABLE"


class Claim(NamedTuple):
    """A delivery's row."""

    key: ClaimKey
    version: int
    """Writes so far."""
    token: int
    """The fencing token of the lock under which it was last written."""
    state: ClaimState
    attempts: int
    """Calls begun so far."""
    owner: Owner
    """Who wrote it last, by its lease of the partition."""
    next_at: int = 0
    """WAITING: when it is tried again, ms since 1970."""
    detail: str = ""
    """What came of the last call, for people."""


class ClaimTable(Protocol):
    """Claims in a store; safe to use from any thread. Raises StoreUnavailableError, StoreRefusedError."""

    def find(self, key: ClaimKey) -> Claim | None:
        """Read a delivery's row, serially: what is returned is not stale."""

    def put(self, claim: Claim, before: Claim | None, keep_s: int) -> bool:
        """Write a row where `before` (None: nothing) still stands and has no larger token; say whether it was.

        It may be forgotten after `keep_s`. A call that is made again after its outcome was unknown finds what the
        first one did.
        """


class Answer(NamedTuple):
    """What came of a call."""

    outcome: "CallOutcome"
    detail: str
    retry_after_s: float | None = None
    """How long the gateway asks to be left alone."""


class CallOutcome(StrEnum):
    """What a call's end means."""

    DONE = "DONE"
    """It took effect."""
    AGAIN = "AGAIN"
    """It may not have; the same call may do."""
    NEVER = "NEVER"
    """The gateway refuses this delivery, and will again."""


class Handler(Protocol):
    """Makes the calls; safe to use from several threads."""

    def __call__(self, delivery: Delivery, key: UUID, attempt: int) -> Answer:
        """Make one call, within the time that it was given. Raises nothing that can happen outside."""
