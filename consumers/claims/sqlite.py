"""Claims in a SQLite store's file."""

from collections.abc import Callable
from typing import Final

from consumers import clock
from consumers.claims.contract import Claim, ClaimKey, ClaimState
from consumers.rows import Owner
from consumers.stores.sqlite_shared import SharedConnection

FORGET_EVERY: Final = 500
"""Writes between two looks for rows that may be forgotten."""
_FIND: Final = (
    "SELECT version, fence, state, attempts, epoch, node, next_at, detail FROM delivery_claims"
    " WHERE conversation_id = ? AND message_id = ? AND recipient = ?"
)


class SqliteClaimTable:
    """`ClaimTable` on a SQLite file."""

    def __init__(self, shared: SharedConnection, *, now_ms: Callable[[], int] = clock.now_ms) -> None:
        self._shared = shared
        self._now_ms = now_ms
        self._puts = 0

    def find(self, key: ClaimKey) -> Claim | None:
        """Read a delivery's row."""
        found = self._shared.fetch(_FIND, key)
        return _claim(key, found[0]) if found else None

    def put(self, claim: Claim, before: Claim | None, keep_s: int) -> bool:
        """Write a row where `before` still stands and has no larger token."""
        now = self._now_ms()
        with self._shared.transaction() as connection:
            found = connection.execute(_FIND, claim.key).fetchone()
            standing = _claim(claim.key, found) if found else None
            if standing != before or (standing is not None and standing.token > claim.token):
                return False
            connection.execute(
                "INSERT OR REPLACE INTO delivery_claims VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*claim.key, *claim[1:5], *claim.owner, *claim[6:], now + keep_s * 1000),
            )
            if self._puts % FORGET_EVERY == 0:
                connection.execute("DELETE FROM delivery_claims WHERE forget_at < ?", (now,))
            self._puts += 1
        return True


def _claim(key: ClaimKey, found: tuple[int, int, str, int, int, str, int, str]) -> Claim:
    version, token, state, attempts, epoch, node, next_at, detail = found
    return Claim(key, version, token, ClaimState(state), attempts, Owner(epoch, node), next_at, detail)
