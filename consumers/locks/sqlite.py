"""Locks of one machine, in a SQLite store's file.

Times are those of the clock that starts with the machine and that nobody can set: a wall clock that jumps neither ends
a lock early nor keeps it. After a restart of the machine that clock begins anew; then a lock that seems to have begun
in the future is free, and any other ends within its time to live.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from consumers import clock
from consumers.locks.contract import LockStanding
from consumers.stores.sqlite_shared import SharedConnection

_READ: Final = "SELECT name, fence, holder, owner, since, until, since_tick, until_tick FROM locks"
_TAKE: Final = (
    "INSERT INTO locks VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO UPDATE SET fence = fence + 1,"
    " holder = ?2, owner = ?3, since = ?4, until = ?5, since_tick = ?6, until_tick = ?7 RETURNING fence"
)


class SqliteLockTable:
    """`LockTable` on a SQLite file."""

    def __init__(
        self,
        shared: SharedConnection,
        *,
        now_ms: Callable[[], int] = clock.now_ms,
        tick_ms: Callable[[], int] = clock.machine_ms,
    ) -> None:
        self._shared = shared
        self._now_ms = now_ms
        self._tick_ms = tick_ms

    def take(self, key: str, *, holder: str, owner: str, ttl_s: int) -> int | None:
        """Take it where it is free."""
        with self._shared.transaction() as connection:
            found = connection.execute(f"{_READ} WHERE name = ?", (key,)).fetchone()
            if found is not None:
                standing = self._standing(found)
                if standing.holder:
                    return standing.token if standing.holder == holder else None
            taken = connection.execute(_TAKE, (key, holder, owner, *self._times(ttl_s))).fetchone()
            return int(taken[0])

    def extend(self, key: str, *, holder: str, owner: str, ttl_s: int) -> bool:
        """Let it end `ttl_s` from now where `holder` still holds it."""
        with self._shared.transaction() as connection:
            found = connection.execute(f"{_READ} WHERE name = ?", (key,)).fetchone()
            if found is None or self._standing(found).holder != holder:
                return False
            _, until, since_tick, until_tick = self._times(ttl_s)
            connection.execute(
                "UPDATE locks SET owner = ?, until = ?, since_tick = ?, until_tick = ? WHERE name = ?",
                (owner, until, since_tick, until_tick, key),
            )
        return True

    def give_back(self, key: str, holder: str) -> bool:
        """Free it where `holder` holds it."""
        with self._shared.transaction() as connection:
            found = connection.execute(f"{_READ} WHERE name = ?", (key,)).fetchone()
            if found is None or self._standing(found).holder != holder:
                return False
            connection.execute("UPDATE locks SET holder = NULL WHERE name = ?", (key,))
        return True

    def standing(self, key: str) -> LockStanding | None:
        """Read one."""
        found = self._shared.fetch(f"{_READ} WHERE name = ?", (key,))
        return self._standing(found[0]) if found else None

    glance = standing

    def standings(self) -> Sequence[LockStanding]:
        """Read all that were ever taken, by name."""
        return [self._standing(found) for found in self._shared.fetch(f"{_READ} ORDER BY name")]

    def free(self, key: str, token: int) -> bool:
        """Free it, whoever holds it, where its token is still `token`."""
        with self._shared.transaction() as connection:
            done = connection.execute(
                "UPDATE locks SET holder = NULL WHERE name = ? AND fence = ? AND holder IS NOT NULL", (key, token)
            )
            return done.rowcount == 1

    def _times(self, ttl_s: int) -> tuple[int, int, int, int]:
        """Return since and until, for people and by the machine's clock; its ms are cut, so one is added."""
        now, tick, ttl_ms = self._now_ms(), self._tick_ms(), ttl_s * 1000
        return now, now + ttl_ms, tick, tick + ttl_ms + 1

    def _standing(self, row: tuple[Any, ...]) -> LockStanding:
        key, token, holder, owner, since, until, since_tick, until_tick = row
        held = holder is not None and since_tick <= self._tick_ms() < until_tick
        return LockStanding(key, token, holder if held else "", owner, since, until)
