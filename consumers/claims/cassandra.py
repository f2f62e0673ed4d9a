"""Claims in Cassandra: one conditional write to mark, one to settle; rows end by themselves."""

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID, uuid4

from cassandra.cluster import Session

from consumers.claims.contract import Claim, ClaimKey, ClaimState
from consumers.rows import Owner
from consumers.stores.cassandra_conditional import apply, read_serially

_WHERE: Final = "WHERE conversation_id = ? AND message_id = ? AND recipient = ?"
_FIND: Final = (
    "SELECT version, fence, state, attempts, owner, to_unix_timestamp(next_at), detail, attempt"
    f" FROM {{keyspace}}.delivery_claims {_WHERE}"
)
_PUT: Final = (
    "UPDATE {keyspace}.delivery_claims USING TTL ? SET version = ?, fence = ?, state = ?, attempts = ?, owner = ?,"
    f" next_at = ?, detail = ?, attempt = ? {_WHERE}"
)


class CassandraClaimTable:
    """`ClaimTable` on Cassandra."""

    def __init__(self, session: Session, keyspace: str, *, check: Callable[[], None] = lambda: None) -> None:
        """Take a session and the keyspace, quoted; `check` raises where they may not be used any more."""
        self._session = session
        self._check = check
        self._find = session.prepare(_FIND.format(keyspace=keyspace))
        self._first = session.prepare(f"{_PUT.format(keyspace=keyspace)} IF version = NULL")
        self._next = session.prepare(f"{_PUT.format(keyspace=keyspace)} IF version = ? AND fence <= ?")

    def find(self, key: ClaimKey) -> Claim | None:
        """Read a delivery's row, serially."""
        found = self._read(key)
        return _claim(key, found) if found else None

    def put(self, claim: Claim, before: Claim | None, keep_s: int) -> bool:
        """Write a row where `before` still stands and has no larger token."""
        self._check()
        attempt = uuid4()
        moving = (claim.version, claim.token, claim.state, claim.attempts, claim.owner, claim.next_at, claim.detail)
        values = (max(keep_s, 1), *moving, attempt, *_values(claim.key))
        if before is None:
            applied = apply(self._session, self._first, values, _doing(claim.key))
        else:
            expected = (before.version, claim.token)
            applied = apply(self._session, self._next, (*values, *expected), _doing(claim.key))
        if applied:
            return True
        found = self._read(claim.key)
        # Without the attempt's id the same write of an earlier call is known by all that it says.
        return found is not None and (found[-1] == attempt or _claim(claim.key, found) == claim)

    def _read(self, key: ClaimKey) -> tuple[Any, ...] | None:
        self._check()
        found = read_serially(self._session, self._find, _values(key), _doing(key))
        return found[0] if found and found[0][0] is not None else None


def _values(key: ClaimKey) -> tuple[str, UUID, str]:
    return key.conversation_id, UUID(bytes=key.message_id), key.recipient


def _doing(key: ClaimKey) -> str:
    return f"the claim of message {UUID(bytes=key.message_id)}"


def _claim(key: ClaimKey, found: tuple[Any, ...]) -> Claim:
    version, token, state, attempts, owner, next_at, detail, _ = found
    return Claim(key, version, token, ClaimState(state), attempts, Owner(*owner), next_at, detail)
