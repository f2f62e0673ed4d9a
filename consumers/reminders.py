"""Deliveries whose receipt does not come, between owner, store and Kafka: repeated, spilled, worked off."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Final

from consumers.counters import Counters
from consumers.errors import OwnerFencedError, StoreUnavailableError
from consumers.held import HeldPartition, Stage
from consumers.owner import PartitionOwner
from consumers.pending import Spill
from consumers.pipeline import Pipeline
from consumers.redelivery import Redelivery, redeliver
from consumers.stores.contract import MessageKey, Pending, Store

if TYPE_CHECKING:
    from consumers.rows import MessageRow, Owner

DUE_MAX: Final = 200
"""Deliveries looked at in one go, per partition."""
EMPTY_MAX: Final = 20
"""Buckets looked into in one go, per partition: after a long downtime most of them are empty."""
SPILL_MAX: Final = 1_000
"""Deliveries spilled in one go, per partition."""
_PUT_OFF_MS: Final = 1_000


class Bucket:
    """One time bucket of spilled deliveries that is being worked off; forgotten when all of it is safe."""

    __slots__ = ("failed", "number", "pages", "read_out", "unsafe")

    def __init__(self, number: int, pages: Iterator[Pending]) -> None:
        self.number = number
        self.pages = pages
        self.read_out = False
        self.unsafe = 0
        """Spills and publications that are not confirmed."""
        self.failed = False


class Spilling:
    """A spill on its way into the store, one bucket at a time."""

    __slots__ = ("by_bucket", "owner", "spill")

    def __init__(self, owner: "Owner", spill: Spill, by_bucket: Mapping[int, Sequence[Pending]]) -> None:
        self.owner = owner
        """As whose it is written: the partition's owner when it was taken out of memory."""
        self.spill = spill
        self.by_bucket = dict(by_bucket)
        """What is not in the store, by the time bucket that it is to be kept in."""


class Reminders:
    """For one thread. Store errors are raised to the caller, and the next call takes up where it can."""

    def __init__(self, store: Store, pipeline: Pipeline, counters: Counters) -> None:
        self._store = store
        self._pipeline = pipeline
        self._counters = counters
        self._buckets: dict[int, Bucket] = {}
        self._spilling: dict[int, Spilling] = {}
        """By partition."""

    def forget(self, partition: int) -> None:
        """Let go of a partition."""
        self._buckets.pop(partition, None)
        self._spilling.pop(partition, None)

    def remind(self, held: HeldPartition, owner: PartitionOwner, now_ms: int) -> None:
        """Do what is due for one owned partition. Raises StoreUnavailableError, StoreRefusedError."""
        self._repeat(owner, now_ms)
        self._spill(held, owner, now_ms)
        self._work_off(held, owner, now_ms)

    def _repeat(self, owner: PartitionOwner, now_ms: int) -> None:
        """Make deliveries again that wait in memory."""
        due = owner.due(now_ms, DUE_MAX)
        if not due:
            return
        ready = [each for each in due if owner.is_durable(each.key)]
        owner.put_off(set(due) - set(ready), now_ms + _PUT_OFF_MS)
        try:
            done = self._redeliver(owner, ready, now_ms)
        except Exception:
            owner.put_off(ready, now_ms + _PUT_OFF_MS)
            raise
        owner.redelivered(ready, done.again, now_ms)
        self._publish(owner, done, lambda: None)

    def _redeliver(self, owner: PartitionOwner, due: Sequence[Pending], now_ms: int) -> Redelivery:
        rows: dict[MessageKey, MessageRow] = {}
        cold: list[MessageKey] = []
        for pending in due:
            row = owner.row(pending.key)
            if row is None:
                cold.append(pending.key)
            else:
                rows[pending.key] = row
        if cold:
            self._counters.cold_reads += len(cold)
            rows.update(self._store.read(cold, []).messages)
        contents = self._store.contents(list(rows)) if rows else {}
        return redeliver(due, rows, contents, now_ms)

    def _publish(self, owner: PartitionOwner, done: Redelivery, finished: Callable[[], None]) -> None:
        self._counters.redeliveries += len(done.deliveries)
        self._counters.expiries += len(done.expiries)
        self._pipeline.publish(owner, done.deliveries, done.expiries, finished)

    def _spill(self, held: HeldPartition, owner: PartitionOwner, now_ms: int) -> None:
        """Move deliveries that have waited long enough into the store; one spill at a time a partition."""
        if held.partition in self._spilling:
            return
        taken = owner.take_spill(now_ms, SPILL_MAX)
        if taken is not None:
            spill, buckets = taken
            self._spilling[held.partition] = Spilling(owner.owner, spill, buckets)
            for bucket in buckets:
                self._write_one(held, spill, bucket)

    def _spilled(self, held: HeldPartition, spill: Spill, bucket: int, error: Exception | None) -> None:
        """Take the store's answer about one bucket's part; what came too late for its bucket goes into a later one."""
        spilling = self._spilling.get(held.partition)
        if spilling is None or spilling.spill is not spill or held.stage is not Stage.OWNED or held.owner is None:
            return
        if isinstance(error, OwnerFencedError):
            self._pipeline.fence(held)
            return
        if error is not None:
            self._pipeline.retry(error, partial(self._write_one, held, spill, bucket))
            return
        try:
            over = self._over(held, held.owner)
        except StoreUnavailableError as unknown:
            self._pipeline.retry(unknown, partial(self._spilled, held, spill, bucket, None))
            return
        pending = spilling.by_bucket.pop(bucket, ())
        if bucket <= over:
            later = next(number for number in count(over + 1) if number not in spilling.by_bucket)
            spilling.by_bucket[later] = pending
            self._write_one(held, spill, later)
            return
        self._counters.spilled += len(pending)
        if not spilling.by_bucket:
            del self._spilling[held.partition]
            held.owner.pending.spilled(spill)

    def _write_one(self, held: HeldPartition, spill: Spill, bucket: int) -> None:
        """Write one bucket's part of a spill."""
        spilling = self._spilling.get(held.partition)
        if spilling is not None and spilling.spill is spill and bucket in spilling.by_bucket:
            done = self._pipeline.done(partial(self._spilled, held, spill, bucket))
            self._store.spill(spilling.owner, held.partition, bucket, spilling.by_bucket[bucket], done)

    def _over(self, held: HeldPartition, owner: PartitionOwner) -> int:
        """Return the newest bucket that keeps nothing any more. Raises StoreUnavailableError, StoreRefusedError.

        A spill may come too late for its bucket: the store was away meanwhile, or a former owner whose clock is ahead
        has worked the bucket off before it noticed that it had lost the partition.
        """
        position = self._store.spill_position(held.partition)
        if position is not None:
            owner.spilled_to = max(owner.spilled_to, position)
        working = self._buckets.get(held.partition)
        return owner.spilled_to if working is None else max(owner.spilled_to, working.number)

    def _work_off(self, held: HeldPartition, owner: PartitionOwner, now_ms: int) -> None:
        """Take the next part of the oldest bucket that is over; forget the bucket when all of it is safe."""
        bucket = self._buckets.get(held.partition)
        if bucket is None:
            bucket = self._oldest(held.partition, owner.buckets_due(now_ms)[:EMPTY_MAX])
            if bucket is None:
                return
            self._buckets[held.partition] = bucket
        try:
            self._next_page(bucket, held, owner, now_ms)
        except Exception:
            self._buckets.pop(held.partition, None)
            raise

    def _oldest(self, partition: int, due: Iterable[int]) -> Bucket | None:
        """Return the oldest bucket that holds something, or else the newest: what drops it passes the empty ones too.

        A spill of this owner that lands in one of those meanwhile finds that its bucket is over when it is answered.
        """
        bucket = None
        for number in due:
            pages = self._store.spilled(partition, number)
            head = list(islice(pages, 1))
            bucket = Bucket(number, chain(head, pages))
            if head:
                break
        return bucket

    def _next_page(self, bucket: Bucket, held: HeldPartition, owner: PartitionOwner, now_ms: int) -> None:
        if bucket.failed:
            del self._buckets[held.partition]
        elif not bucket.read_out:
            page = list(islice(bucket.pages, DUE_MAX))
            bucket.read_out = len(page) < DUE_MAX
            if page:
                self._redeliver_page(bucket, page, held, owner, now_ms)
        if bucket.read_out and not bucket.unsafe and not bucket.failed:
            try:
                self._store.drop_spilled(owner.owner, held.partition, bucket.number)
            except OwnerFencedError:
                # Whoever has the partition now works the bucket off.
                self._pipeline.fence(held)
                return
            owner.spilled_to = max(owner.spilled_to, bucket.number)
            del self._buckets[held.partition]

    def _redeliver_page(
        self, bucket: Bucket, page: Sequence[Pending], held: HeldPartition, owner: PartitionOwner, now_ms: int
    ) -> None:
        done = self._redeliver(owner, page, now_ms)
        for number, pending in owner.spill_again(done.again, now_ms).items():
            bucket.unsafe += 1
            told = self._pipeline.done(partial(self._spilled_again, bucket, held, number))
            self._store.spill(owner.owner, held.partition, number, pending, told)
        if done.deliveries or done.expiries:
            bucket.unsafe += 1
            self._publish(owner, done, partial(_safe, bucket, None))

    def _spilled_again(self, bucket: Bucket, held: HeldPartition, number: int, error: Exception | None) -> None:
        """Note that a part of a bucket is in a later one; where that one is over, the whole bucket is done again."""
        if error is None and held.owner is not None:
            try:
                bucket.failed |= number <= self._over(held, held.owner)
            except StoreUnavailableError as unknown:
                error = unknown
        _safe(bucket, error)
        if isinstance(error, OwnerFencedError):
            self._pipeline.fence(held)
        elif error is not None and held.stage is Stage.OWNED:
            # Else the bucket's deliveries would be made again at every look for as long as the store takes nothing.
            self._pipeline.store_failed(error)


def _safe(bucket: Bucket, error: Exception | None) -> None:
    """Note that a part of a bucket is safe elsewhere, or that the whole bucket must be done again."""
    bucket.unsafe -= 1
    if error is not None:
        bucket.failed = True
