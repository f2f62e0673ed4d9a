"""What a lock promises, and what a store must offer for it.

- At most one holder at a time, as the store sees time. A holder that stands still past its lock's end may still believe
  that it holds it (no lock can prevent that), so whatever is changed under a lock compares the **fencing token**: it
  rises with every acquisition, also after an expiry, a release or a break, and a resource that has seen a larger one
  refuses (M. Kleppmann, "How to do distributed locking", 2016).
- A lock ends by itself after its time to live: a holder that crashed blocks nobody for longer.
- Only its holder renews or releases it. `twotick locks break` is for people.
- A foreign error never comes out: LockTakenError, LockLostError, StoreUnavailableError, StoreRefusedError.
- On Cassandra all of this holds among those who talk to the same data centre: conditional writes are LOCAL_SERIAL.
- A lock's row is never removed, for its token must not fall: use keys of which there are few, not one a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from consumers.errors import WorkerError


class LockTakenError(WorkerError):
    """The lock was not had in time: `owner` holds it."""

    retriable = True

    def __init__(self, key: str, owner: str, until: int) -> None:
        super().__init__(
            f"the lock {key} is held by {owner or 'somebody'}",
            "Wait for it; it ends by itself. `twotick locks list` shows who holds what.",
        )
        self.key = key
        self.owner = owner
        self.until = until
        """When it ends, ms since 1970; 0 where it is not known."""


class LockLostError(WorkerError):
    """The lock ended, or was broken, while its holder believed to have it: what was begun under it must not go on."""

    def __init__(self, key: str, token: int) -> None:
        super().__init__(
            f"the lock {key} is no longer held with token {token}",
            "It ended before the work did: acquire it again, and look at what it guards anew.",
        )
        self.key = key
        self.token = token


@dataclass(frozen=True, slots=True)
class LockHandle:
    """A lock that was acquired; give it back to `renew` and `release`."""

    key: str
    token: int
    """The fencing token: no earlier acquisition of this key had one as large."""
    holder: str
    """The id of this acquisition: 32 hex digits."""
    owner: str
    ttl_s: int
    sure_until: float
    """Until when nobody else can have it, by `clock.machine_s`; counted from before it was first asked for."""


class LockMeta(NamedTuple):
    """A lock as people see it."""

    key: str
    token: int
    owner: str
    """Empty where it is free."""
    since: int
    """Of the acquisition, ms since 1970, by the holder's clock."""
    until: int
    """When it ends unless it is renewed, ms since 1970, by the holder's clock."""

    @property
    def is_held(self) -> bool:
        """Whether somebody has it."""
        return bool(self.owner)


class Locks(Protocol):
    """Locks by key, for one owner."""

    def acquire(self, key: str, *, ttl_s: int, wait_s: float = 0.0) -> LockHandle:
        """Take the lock, waiting at most `wait_s` with jitter. `ttl_s` (at least 1) is when it ends by itself.

        Raises LockTakenError; StoreUnavailableError, after which it may be held by nobody until it ends.
        """

    def renew(self, handle: LockHandle) -> LockHandle:
        """Let it end `ttl_s` from now. Raises LockLostError; StoreUnavailableError, where it may still be held."""

    def release(self, handle: LockHandle) -> bool:
        """Give it back; say whether nobody else has had it since it was acquired. Another's is left alone."""

    def is_locked(self, key: str) -> bool:
        """Say whether somebody has it."""

    def meta(self, key: str) -> LockMeta | None:
        """Return what is known of a lock; None where it was never taken."""


class LockStanding(NamedTuple):
    """A lock as the store has it now."""

    key: str
    token: int
    holder: str
    """Empty where it is free, be it by its time."""
    owner: str
    since: int
    until: int


class LockTable(Protocol):
    """What a store offers; safe to use from any thread. Each call raises StoreUnavailableError, StoreRefusedError."""

    def take(self, key: str, *, holder: str, owner: str, ttl_s: int) -> int | None:
        """Take it where it is free, token + 1; return the token, None where another holds it or was faster.

        A call that is made again with the same `holder` after its outcome was unknown finds what the first one did.
        """

    def extend(self, key: str, *, holder: str, owner: str, ttl_s: int) -> bool:
        """Let it end `ttl_s` from now where `holder` still holds it; say whether it does."""

    def give_back(self, key: str, holder: str) -> bool:
        """Free it where `holder` holds it; say whether this is known to have freed it."""

    def standing(self, key: str) -> LockStanding | None:
        """Read one, serially: what is returned is not stale. None where it was never taken."""

    def glance(self, key: str) -> LockStanding | None:
        """Read one cheaply: it may be stale by a moment."""

    def standings(self) -> Sequence[LockStanding]:
        """Read all that were ever taken, serially, by name."""

    def free(self, key: str, token: int) -> bool:
        """Free it, whoever holds it, where its token is still `token`; say whether it was. For people."""
