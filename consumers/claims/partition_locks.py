"""The locks under which a worker delivers: one a partition, acquired when it is first needed, renewed in time."""

from contextlib import suppress
from threading import Lock
from typing import Final

from consumers import clock
from consumers.errors import StoreUnavailableError, WorkerError
from consumers.locks.contract import LockHandle, LockLostError, Locks, LockTakenError

ASK_AGAIN_S: Final = 0.5
"""Until a lock that another has is asked for again, however many deliveries wait for it; less than
what the courier waits with each of them."""


class PartitionLocks:
    """Acquires, renews and releases them; safe to use from any thread.

    A lock is had, or renewed, for at least half of its time, which is enough for one call. One that ended by itself
    while there was nothing to deliver is simply acquired again.
    """

    def __init__(self, locks: Locks, ttl_s: int) -> None:
        self._locks = locks
        self._ttl_s = ttl_s
        self._mutex = Lock()
        self._handles: dict[int, LockHandle] = {}
        self._taken: dict[int, tuple[float, LockTakenError]] = {}
        """Locks that another has, and when to ask for them again."""

    def token(self, partition: int) -> int:
        """Return the fencing token of a partition's lock, held for long enough for a call.

        Raises LockTakenError, LockLostError, StoreUnavailableError: all of them pass.
        """
        with self._mutex:
            handle = self._handles.get(partition)
            if handle is None:
                handle = self._acquired(partition)
            elif self._left_s(handle) < self._ttl_s / 2:
                handle = self._renewed(partition, handle)
            self._handles[partition] = handle
            if self._left_s(handle) < self._ttl_s / 2:
                raise StoreUnavailableError(
                    f"the store took too long over the lock {handle.key} for a call to be made under it",
                    hint="See why it is slow; the delivery is tried again.",
                )
            return handle.token

    def _left_s(self, handle: LockHandle) -> float:
        return handle.sure_until - clock.machine_s()

    def _acquired(self, partition: int) -> LockHandle:
        """Acquire a lock, but do not ask again and again for each of the deliveries that wait for it."""
        ask_at, refusal = self._taken.get(partition, (0.0, None))
        if refusal is not None and clock.machine_s() < ask_at:
            raise LockTakenError(refusal.key, refusal.owner, refusal.until)
        try:
            handle = self._locks.acquire(f"deliver/{partition}", ttl_s=self._ttl_s)
        except LockTakenError as error:
            self._taken[partition] = (clock.machine_s() + ASK_AGAIN_S, error)
            raise
        self._taken.pop(partition, None)
        return handle

    def _renewed(self, partition: int, handle: LockHandle) -> LockHandle:
        """Renew a lock; where the store does not answer it is kept, for it may be ours still."""
        has_ended = self._left_s(handle) <= 0
        try:
            return self._locks.renew(handle)
        except LockLostError:
            del self._handles[partition]
            if not has_ended:
                raise
        return self._acquired(partition)

    def take_out(self, partition: int) -> LockHandle | None:
        """Forget a partition's lock, without waiting, and return it to be released; None where it is not held."""
        return self._handles.pop(partition, None)

    def release(self, handle: LockHandle) -> None:
        """Let another worker have a lock at once; where that fails it ends by itself."""
        with suppress(WorkerError):
            self._locks.release(handle)

    def release_all(self) -> None:
        """Let go of all."""
        for partition in list(self._handles):
            if (handle := self.take_out(partition)) is not None:
                self.release(handle)
