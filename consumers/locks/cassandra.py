"""Locks of many machines, in Cassandra: every write is conditional, every read that decides is serial.

A lock is one row. Its holder's cells carry the lock's time to live, so they vanish by themselves; its token stands in a
cell without one, so it stays. Both are written by one conditional batch. An outcome that is unknown is settled by a
serial read of the holder's id. Times to live are counted in whole seconds by the nodes' clocks: a second is added, so
that a lock never ends early, and clocks that differ by more than that can let two hold it for a moment, which is what
the token is for.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from cassandra.cluster import Session

from consumers import clock
from consumers.errors import StoreUnavailableError
from consumers.locks.contract import LockStanding
from consumers.stores.cassandra_conditional import apply, read_each_serially, read_serially
from consumers.stores.cassandra_errors import translating

ATTEMPTS_MAX: Final = 5
"""Of one renewal or release whose outcome stays unknown."""

_TAKE: Final = (
    "BEGIN BATCH"
    " UPDATE {keyspace}.locks SET fence = ? WHERE name = ? IF fence = ? AND holder = ?;"
    " UPDATE {keyspace}.locks USING TTL ? SET holder = ?, owner = ?, since = ?, until = ? WHERE name = ?;"
    " APPLY BATCH"
)
_EXTEND: Final = (
    "UPDATE {keyspace}.locks USING TTL ? SET holder = ?, owner = ?, since = ?, until = ? WHERE name = ? IF holder = ?"
)
_GIVE_BACK: Final = "DELETE holder, owner, since, until FROM {keyspace}.locks WHERE name = ? IF holder = ?"
_FREE: Final = "DELETE holder, owner, since, until FROM {keyspace}.locks WHERE name = ? IF fence = ? AND holder != ?"
_READ: Final = (
    "SELECT name, fence, holder, owner, to_unix_timestamp(since), to_unix_timestamp(until) FROM {keyspace}.locks"
    " WHERE name = ?"
)
_NAMES: Final = "SELECT DISTINCT name FROM {keyspace}.locks"


class CassandraLockTable:
    """`LockTable` on Cassandra."""

    def __init__(
        self,
        session: Session,
        keyspace: str,
        *,
        check: Callable[[], None] = lambda: None,
        now_ms: Callable[[], int] = clock.now_ms,
    ) -> None:
        """Take a session and the keyspace, quoted; `check` raises where they may not be used any more."""
        self._session = session
        self._check = check
        self._now_ms = now_ms
        self._take = session.prepare(_TAKE.format(keyspace=keyspace))
        self._extend = session.prepare(_EXTEND.format(keyspace=keyspace))
        self._give_back = session.prepare(_GIVE_BACK.format(keyspace=keyspace))
        self._free = session.prepare(_FREE.format(keyspace=keyspace))
        self._read = session.prepare(_READ.format(keyspace=keyspace))
        self._names = session.prepare(_NAMES.format(keyspace=keyspace))

    def take(self, key: str, *, holder: str, owner: str, ttl_s: int) -> int | None:
        """Take it where it is free."""
        standing = self.standing(key)
        if standing is not None and standing.holder:
            return standing.token if standing.holder == holder else None
        known = standing.token if standing is not None else None
        now, token, own = self._now_ms(), (known or 0) + 1, UUID(holder)
        values = (token, key, known, None, ttl_s + 1, own, owner, now, now + ttl_s * 1000, key)
        if apply(self._session, self._take, values, f"the lock {key}"):
            return token
        # Unknown, or "not applied" because the driver's own repetition met what its first copy did.
        standing = self.standing(key)
        return standing.token if standing is not None and standing.holder == holder else None

    def extend(self, key: str, *, holder: str, owner: str, ttl_s: int) -> bool:
        """Let it end `ttl_s` from now where `holder` still holds it."""
        standing = self.standing(key)
        own = UUID(holder)
        since = standing.since if standing is not None else 0
        for _ in range(ATTEMPTS_MAX):
            until = self._now_ms() + ttl_s * 1000
            values = (ttl_s + 1, own, owner, since, until, key, own)
            applied = apply(self._session, self._extend, values, f"a renewal of the lock {key}")
            if applied is not None:
                return applied
            if not self._is_held_by(key, holder):
                return False
        raise _unknown(key)

    def give_back(self, key: str, holder: str) -> bool:
        """Free it where `holder` holds it."""
        for _ in range(ATTEMPTS_MAX):
            applied = apply(self._session, self._give_back, (key, UUID(holder)), f"a release of the lock {key}")
            if applied is not None:
                return applied
            if not self._is_held_by(key, holder):
                return False
        raise _unknown(key)

    def standing(self, key: str) -> LockStanding | None:
        """Read one, serially."""
        self._check()
        found = read_serially(self._session, self._read, (key,), f"the lock {key}")
        return _standing(found[0]) if found else None

    def glance(self, key: str) -> LockStanding | None:
        """Read one at the usual consistency."""
        self._check()
        with translating(f"the lock {key}"):
            found = list(self._session.execute(self._read, (key,)))
        return _standing(found[0]) if found else None

    def standings(self) -> Sequence[LockStanding]:
        """Read all that were ever taken, serially, by name."""
        self._check()
        return [_standing(row) for _, row in read_each_serially(self._session, self._names, self._read, "the locks")]

    def free(self, key: str, token: int) -> bool:
        """Free it, whoever holds it, where its token is still `token`."""
        self._check()
        applied = apply(self._session, self._free, (key, token, None), f"the breaking of the lock {key}")
        if applied is not None:
            return applied
        standing = self.standing(key)
        return standing is not None and standing.token == token and not standing.holder

    def _is_held_by(self, key: str, holder: str) -> bool:
        standing = self.standing(key)
        return standing is not None and standing.holder == holder


def _standing(row: tuple[Any, ...]) -> LockStanding:
    key, token, holder, owner, since, until = row
    return LockStanding(key, token or 0, holder.hex if holder else "", owner or "", since or 0, until or 0)


def _unknown(key: str) -> StoreUnavailableError:
    return StoreUnavailableError(f"Cassandra does not say what became of the lock {key}", hint="It ends by itself.")
