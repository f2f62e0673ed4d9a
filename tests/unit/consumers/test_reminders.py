"""Spilled deliveries on their way into a later bucket, and buckets that are over."""

# ruff: noqa: D102 - the fakes' methods are those of what they stand for

from collections.abc import Iterator
from typing import Any, cast

import pytest

from consumers import rows
from consumers.counters import Counters
from consumers.errors import OwnerFencedError, StoreRefusedError, StoreUnavailableError
from consumers.held import HeldPartition, Stage
from consumers.outage import Outage
from consumers.pending import Spill
from consumers.pipeline import Pipeline
from consumers.reminders import EMPTY_MAX, Bucket, Reminders, Spilling
from consumers.stores.contract import Done, Pending

NOTHING: Any = None


def test_a_store_that_takes_no_spill_is_left_alone_for_a_while_or_ends_the_worker() -> None:
    outage = Outage(1.0, 4.0)
    pipeline = Pipeline(NOTHING, NOTHING, NOTHING, outage, Counters())
    reminders = Reminders(NOTHING, pipeline, Counters())
    held, bucket = HeldPartition(0), Bucket(1, iter(()))
    held.stage, bucket.unsafe = Stage.OWNED, 2
    reminders._spilled_again(bucket, held, 5, StoreUnavailableError("away", ""))
    assert (bucket.unsafe, bucket.failed, outage.active) == (1, True, True)
    with pytest.raises(StoreRefusedError):
        reminders._spilled_again(bucket, held, 5, StoreRefusedError("no permission", ""))


class Shelf:
    """Spilled deliveries by bucket, and what was asked."""

    def __init__(self, buckets: dict[int, list[Pending]], epoch: int = 1) -> None:
        self.buckets = buckets
        self.epoch = epoch
        self.read: list[int] = []
        self.dropped: list[int] = []

    def spilled(self, _partition: int, bucket: int) -> Iterator[Pending]:
        self.read.append(bucket)
        return iter(self.buckets.get(bucket, []))

    def spill(self, owner: rows.Owner, _partition: int, _bucket: int, _pending: Any, done: Done) -> None:
        done(OwnerFencedError(*owner) if owner.epoch < self.epoch else None)

    def spill_position(self, _partition: int) -> None:
        return None

    def drop_spilled(self, owner: rows.Owner, _partition: int, bucket: int) -> None:
        if owner.epoch < self.epoch:
            raise OwnerFencedError(*owner)
        self.dropped.append(bucket)


class Owner:
    """An owner that has worked off the bucket before the first."""

    partition = 0
    owner = rows.Owner(1, "n")

    def __init__(self, first: int, over: int) -> None:
        self.spilled_to, self.over = first - 1, over

    def buckets_due(self, _now_ms: int) -> range:
        return range(self.spilled_to + 1, self.over)


def work_off(shelf: Any, owner: Any) -> tuple[Reminders, Pipeline]:
    pipeline = Pipeline(NOTHING, NOTHING, NOTHING, Outage(1.0, 4.0), Counters())
    reminders = Reminders(shelf, pipeline, Counters())
    reminders._work_off(HeldPartition(0), owner, 0)
    return reminders, pipeline


def test_a_run_of_empty_buckets_is_passed_in_one_go() -> None:
    shelf, owner = Shelf({}), Owner(100, 10_180)
    reminders, _ = work_off(shelf, owner)
    assert shelf.read == list(range(100, 100 + EMPTY_MAX))
    assert shelf.dropped == [99 + EMPTY_MAX]
    assert owner.spilled_to == 99 + EMPTY_MAX
    assert reminders._buckets == {}


def test_a_bucket_that_holds_something_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pending = [Pending("c", number.to_bytes(16, "big"), 1) for number in range(3)]
    shelf, owner = Shelf({103: pending}), Owner(100, 200)
    pages: list[Any] = []

    def page(_reminders: Any, bucket: Bucket, page: Any, *_rest: Any) -> None:
        pages.append((bucket.number, list(page)))
        bucket.unsafe += 1

    monkeypatch.setattr(Reminders, "_redeliver_page", page)
    reminders, _ = work_off(shelf, owner)
    assert pages == [(103, pending)]
    assert (shelf.read, shelf.dropped, owner.spilled_to) == ([100, 101, 102, 103], [], 99)
    held: Any = HeldPartition(0)
    reminders._buckets[0].unsafe -= 1
    reminders._work_off(held, cast("Any", owner), 0)
    assert (shelf.dropped, owner.spilled_to) == ([103], 103)


def test_a_bucket_is_not_dropped_under_another_ones_lease() -> None:
    shelf, owner = Shelf({}, epoch=2), Owner(100, 102)
    _, pipeline = work_off(shelf, owner)
    assert (shelf.dropped, owner.spilled_to, len(pipeline.fenced)) == ([], 99, 1)


def test_a_worker_whose_spill_is_refused_drops_the_partition() -> None:
    counters = Counters()
    pipeline = Pipeline(NOTHING, NOTHING, NOTHING, Outage(1.0, 4.0), counters)
    held = HeldPartition(0)
    held.stage, held.owner = Stage.OWNED, cast("Any", Owner(100, 102))
    reminders = Reminders(cast("Any", Shelf({}, epoch=2)), pipeline, counters)
    spill = Spill({})
    reminders._spilling[0] = Spilling(Owner.owner, spill, {7: [Pending("c", b"i" * 16, 1)]})
    reminders._write_one(held, spill, 7)
    pipeline.serve()
    assert (pipeline.fenced, counters.fenced_writes, counters.spilled) == ([held], 1, 0)
    bucket = Bucket(1, iter(()))
    bucket.unsafe = 1
    reminders._spilled_again(bucket, held, 7, OwnerFencedError(1, "n"))
    assert (len(pipeline.fenced), bucket.failed) == (2, True)
