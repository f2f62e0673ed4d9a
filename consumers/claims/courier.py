"""Runs claimed deliveries beside a worker's loop: threads that make the calls, and a queue by due time.

What it forgets, because its queue is full or its process ends, is delivered again when the owner is next due to
repeat it: a message is owed until its receipt is in the log.
"""

import logging
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import lru_cache
from heapq import heappop, heappush
from threading import Condition, Thread
from time import monotonic
from typing import Final

from consumers import clock
from consumers.claims.claiming import ClaimStep, Holding
from consumers.claims.contract import ClaimKey
from consumers.claims.partition_locks import PartitionLocks
from consumers.claims.settings import WebhookSettings
from consumers.conflicts import ConflictKind
from consumers.counters import Counters
from consumers.errors import WorkerError
from consumers.locks.contract import LockLostError, LockTakenError
from consumers.rows import Owner
from schemas.identity import text_of
from schemas.lifecycle import Kind
from schemas.records import Delivery, Event

LOG = logging.getLogger(__name__)

LATER_MS: Final = 1_000
"""Until the next attempt where a server or a lock was not to be had."""
LOOK_S_MAX: Final = 60.0
"""The longest wait without a look at the clock, which may have been set."""
_USERS_CACHED: Final = 100_000


class DeliveryTask:
    """A delivery in the courier's hands."""

    __slots__ = ("delivery", "dropped", "due_ms", "owner", "partition", "running")

    def __init__(self, partition: int, owner: Owner, delivery: Delivery) -> None:
        self.partition = partition
        self.owner = owner
        self.delivery = delivery
        self.due_ms = 0
        self.running = False
        self.dropped = False
        """Whether its partition went while it was running: then it ends with the step."""


class Courier:
    """`Gateway` of a worker."""

    def __init__(  # noqa: PLR0913 - the parts of a courier
        self,
        *,
        step: Callable[[Delivery, Holding], ClaimStep],
        locks: PartitionLocks,
        write: Callable[[Event], bool],
        settings: WebhookSettings,
        counters: Counters,
        now_ms: Callable[[], int] = clock.now_ms,
    ) -> None:
        """Take the parts; `write` puts an event into the log and says whether it is there."""
        self._step = step
        self._locks = locks
        self._write = write
        self._settings = settings
        self._counters = counters
        self._now_ms = now_ms
        self._changed = Condition()
        self._tasks: dict[ClaimKey, DeliveryTask] = {}
        self._due: list[tuple[int, int, ClaimKey]] = []
        self._numbers = 0
        self._waiting_for: set[int] = set()
        """Partitions whose lock another has."""
        self._gone: set[int] = set()
        """Partitions that were dropped and whose locks may still be held."""
        self._told: type[WorkerError] | None = None
        """The kind of error that was logged last, until a step goes well: an outage is not told for each delivery."""
        self._gateway_fails = False
        self._stopping = False
        self._threads = [
            Thread(target=self._run, name=f"courier-{number}", daemon=True)
            for number in range(settings.calls_in_flight_max)
        ]
        self.takes = lru_cache(_USERS_CACHED)(self._takes)

    def _takes(self, user: str) -> bool:
        return any(fnmatchcase(user, pattern) for pattern in self._settings.users)

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        """Begin nothing more, wait for the calls under way, and let go of the locks. Twice is as good as once."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        deadline = monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            self._locks.release_all()

    def submit(self, partition: int, owner: Owner, delivery: Delivery) -> None:
        """Take a delivery, unless it is in hand already or too many are."""
        key = ClaimKey.of(delivery)
        with self._changed:
            task = self._tasks.get(key)
            if task is not None:
                task.owner, task.dropped = owner, False
            elif len(self._tasks) >= self._settings.waiting_max:
                self._counters.gateway_put_off += 1
            else:
                task = self._tasks[key] = DeliveryTask(partition, owner, delivery)
                self._put(key, task, 0)

    def drop(self, partition: int) -> None:
        """Let go of a partition; a call under way is finished, then its lock is released by one of the threads."""
        with self._changed:
            for key, task in [(key, task) for key, task in self._tasks.items() if task.partition == partition]:
                # It stays known, so that no second thread takes it if the partition comes back meanwhile.
                task.dropped = task.running
                if not task.running:
                    del self._tasks[key]
            self._gone.add(partition)
            self._changed.notify_all()

    def _put(self, key: ClaimKey, task: DeliveryTask, due_ms: int) -> None:
        task.due_ms = due_ms
        self._numbers += 1
        heappush(self._due, (due_ms, self._numbers, key))
        self._changed.notify()

    def _run(self) -> None:
        while not self._stopping:
            self.release_gone()
            if (taken := self._take()) is not None:
                self._serve(*taken)

    def release_gone(self) -> None:
        """Let others have the locks of partitions that went; of one with a call under way when that has ended."""
        with self._changed:
            # What is still known of a partition is under way, or it has come back: then it needs its lock.
            free = self._gone.difference(task.partition for task in self._tasks.values())
            self._gone.clear()
            handles = [self._locks.take_out(partition) for partition in free]
        for handle in handles:
            if handle is not None:
                self._locks.release(handle)

    def _serve(self, key: ClaimKey, task: DeliveryTask) -> None:
        """Take one step of a task, and put it back for the next one."""
        try:
            again_at = self._go_on(task)
        except WorkerError as error:
            level = logging.WARNING if error.retriable else logging.ERROR
            level, self._told = logging.DEBUG if self._told is type(error) else level, type(error)
            LOG.log(level, "a delivery is put off", extra={"error": error.message, "hint": error.hint})
            again_at = self._now_ms() + LATER_MS
        except Exception:
            # What a gateway answers may break a library in ways that none of its errors names. This delivery is left
            # to its owner, who makes it again: if it ended the worker it would end the next ones too, one by one.
            LOG.exception("a delivery failed: an error that nothing here foresees")
            again_at = 0
        self._put_back(key, task, again_at)

    def _take(self) -> tuple[ClaimKey, DeliveryTask] | None:
        """Wait for the next task that is due; None where there is something else to do, or at the end."""
        with self._changed:
            while not self._stopping and not self._gone:
                while self._due and self._is_old(*self._due[0]):
                    heappop(self._due)
                if not self._due:
                    self._changed.wait()
                    continue
                due_ms, _, key = self._due[0]
                left_ms = due_ms - self._now_ms()
                if left_ms > 0:
                    self._changed.wait(min(left_ms / 1000, LOOK_S_MAX))
                    continue
                heappop(self._due)
                task = self._tasks[key]
                task.running = True
                return key, task
            return None

    def _is_old(self, due_ms: int, _number: int, key: ClaimKey) -> bool:
        task = self._tasks.get(key)
        return task is None or task.running or task.due_ms != due_ms

    def _go_on(self, task: DeliveryTask) -> int:
        """Take one step of a delivery; return when to take the next, 0 for never. Raises WorkerError."""
        try:
            token = self._locks.token(task.partition)
        except LockLostError:
            self._lost()
            return self._now_ms() + LATER_MS
        except LockTakenError as error:
            self._wait_for(task.partition, error)
            return self._now_ms() + LATER_MS
        self._waiting_for.discard(task.partition)
        step = self._step(task.delivery, Holding(task.owner, token))
        self._told = None
        if step.called:
            self._count("gateway_calls")
            self._tell_how_it_does(step)
        if step.lost:
            self._lost()
        if step.event is None:
            return step.again_at
        if not self._write(step.event):
            return self._now_ms() + LATER_MS
        if step.event.kind == Kind.DELIVERED:
            self._count("gateway_delivered")
        else:
            self._count("gateway_given_up")
            extra = {"message_id": text_of(step.event.message_id), "recipient": step.event.actor, "last": step.detail}
            LOG.warning("a delivery is given up: failed(undelivered)", extra=extra)
        return 0

    def _tell_how_it_does(self, step: ClaimStep) -> None:
        """Log that the gateway begins to fail, and that it is well again: once each, not for each delivery."""
        takes_it = step.event is not None and step.event.kind == Kind.DELIVERED
        if step.event is None and not step.lost and not self._gateway_fails:
            LOG.warning("the gateway fails; deliveries are tried again", extra={"call": step.detail})
            self._gateway_fails = True
        elif takes_it and self._gateway_fails:
            LOG.info("the gateway takes deliveries again")
            self._gateway_fails = False

    def _wait_for(self, partition: int, error: LockTakenError) -> None:
        """Note that another has a partition's lock: counted once until it was had, however many deliveries wait."""
        with self._changed:
            is_new = partition not in self._waiting_for
            self._waiting_for.add(partition)
        if is_new:
            self._counters.conflict(ConflictKind.LOCK)
            LOG.warning("deliveries wait for a lock", extra={"partition": partition, "error": error.message})

    def _lost(self) -> None:
        self._count("claims_lost")
        self._counters.conflict(ConflictKind.LOCK)

    def _count(self, name: str) -> None:
        with self._changed:
            setattr(self._counters, name, getattr(self._counters, name) + 1)

    def _put_back(self, key: ClaimKey, task: DeliveryTask, again_at: int) -> None:
        with self._changed:
            task.running = False
            if again_at and not task.dropped:
                self._put(key, task, again_at)
            else:
                del self._tasks[key]
            if task.dropped:
                self._gone.add(task.partition)
            self._changed.notify_all()
