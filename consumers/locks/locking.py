"""Locks over any store's table: waiting with jitter up to a deadline, and what a holder may be sure of."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Final
from uuid import UUID

from consumers import clock
from consumers.errors import StoreUnavailableError, WorkerError
from consumers.locks.contract import LockHandle, LockLostError, LockMeta, Locks, LockStanding, LockTable, LockTakenError

LOG = logging.getLogger(__name__)

WAIT_S_FIRST: Final = 0.02
WAIT_S_MAX: Final = 0.5
"""Between two attempts; each wait is between nothing and this, which doubles up to here ("full jitter")."""


def _ignore(_what: str) -> None:
    """Count nothing."""


class TableLocks:
    """`Locks` for one owner; safe to use from any thread."""

    def __init__(  # noqa: PLR0913 - time and chance are arguments
        self,
        table: LockTable,
        owner: str,
        *,
        on_conflict: Callable[[str], None] = _ignore,
        monotonic: Callable[[], float] = clock.machine_s,
        sleep: Callable[[float], None] = time.sleep,
        chance: Random | None = None,
    ) -> None:
        """Take the table and the name under which locks are held; `on_conflict` is told `taken` or `lost`."""
        if not owner:
            raise ValueError("a lock needs an owner's name")
        self._table = table
        self._owner = owner
        self._on_conflict = on_conflict
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance or Random()  # noqa: S311 - spreads attempts, names acquisitions; guards nothing

    def acquire(self, key: str, *, ttl_s: int, wait_s: float = 0.0) -> LockHandle:
        """Take the lock, waiting at most `wait_s`."""
        if ttl_s < 1:
            raise ValueError("ttl_s must be at least 1")
        holder = UUID(int=self._chance.getrandbits(128), version=4).hex
        asked_at = self._monotonic()
        deadline = asked_at + wait_s
        longest_s = WAIT_S_FIRST
        while True:
            failure: StoreUnavailableError | None = None
            try:
                token = self._table.take(key, holder=holder, owner=self._owner, ttl_s=ttl_s)
            except StoreUnavailableError as error:
                failure, token = error, None
            if token is not None:
                return LockHandle(key, token, holder, self._owner, ttl_s, asked_at + ttl_s)
            left_s = deadline - self._monotonic()
            if left_s <= 0:
                raise failure or self._taken(key)
            self._sleep(min(left_s, self._chance.uniform(0, longest_s)))
            longest_s = min(WAIT_S_MAX, 2 * longest_s)
            if failure is None:
                # Else that attempt may have taken it all the same, and its time has run since.
                asked_at = self._monotonic()

    def _taken(self, key: str) -> LockTakenError:
        self._on_conflict("taken")
        standing = self._table.standing(key)
        return LockTakenError(key, standing.owner, standing.until) if standing else LockTakenError(key, "", 0)

    def renew(self, handle: LockHandle) -> LockHandle:
        """Let it end `ttl_s` from now."""
        asked_at = self._monotonic()
        if not self._table.extend(handle.key, holder=handle.holder, owner=handle.owner, ttl_s=handle.ttl_s):
            self._on_conflict("lost")
            raise LockLostError(handle.key, handle.token)
        return replace(handle, sure_until=asked_at + handle.ttl_s)

    def release(self, handle: LockHandle) -> bool:
        """Give it back; say whether nobody else has had it since."""
        if self._table.give_back(handle.key, handle.holder):
            return True
        standing = self._table.standing(handle.key)
        # It ended by itself, but nobody came: nothing happened in between.
        if standing is not None and standing.token == handle.token and not standing.holder:
            return True
        self._on_conflict("lost")
        return False

    def is_locked(self, key: str) -> bool:
        """Say whether somebody has it."""
        standing = self._table.standing(key)
        return standing is not None and bool(standing.holder)

    def meta(self, key: str) -> LockMeta | None:
        """Return what is known of a lock."""
        standing = self._table.standing(key)
        return meta_of(standing) if standing else None


def meta_of(standing: LockStanding) -> LockMeta:
    """Return a lock as people see it."""
    held = bool(standing.holder)
    times = (standing.since, standing.until) if held else (0, 0)
    return LockMeta(standing.key, standing.token, standing.owner if held else "", *times)


@contextmanager
def holding(locks: Locks, key: str, *, ttl_s: int, wait_s: float = 0.0) -> Iterator[LockHandle]:
    """Hold a lock for as long as the block takes, which must be less than `ttl_s`.

    Raises what `acquire` raises. A release that fails is logged: the lock ends by itself.
    """
    handle = locks.acquire(key, ttl_s=ttl_s, wait_s=wait_s)
    try:
        yield handle
    finally:
        try:
            if not locks.release(handle):
                LOG.warning("a lock ended before the work under it", extra={"key": key, "token": handle.token})
        except WorkerError as error:
            LOG.warning("a lock could not be released; it ends by itself", extra={"key": key, "error": str(error)})
