"""Spilled deliveries: one that comes too late for its bucket, and an owner that has lost the partition.

Both left a message SENT for ever before (found by the simulation).
"""

# ruff: noqa: D102 - the fake's methods are those of the contract

from consumers.counters import Counters
from consumers.held import HeldPartition, Stage
from consumers.outage import Outage
from consumers.pipeline import Pipeline
from consumers.publisher import Publisher
from consumers.reminders import Reminders
from consumers.rows import Owner
from consumers.stores.contract import Lease
from schemas.codec import PLAIN
from tests.unit.consumers.world import NOTHING, START_MS, entries, owner_of, send


class FakeStore:
    """Buckets, their position and a lease; spills are answered when the test says so."""

    def __init__(self) -> None:
        self.position = 0
        self.asked: list[tuple[int, list[object]]] = []
        self.kept: dict[int, list[object]] = {}
        self.dropped: list[int] = []
        self.lease = Owner(1, "n")
        self._done: list = []

    def spill(self, partition, bucket, pending, done):
        self.asked.append((bucket, list(pending)))
        self._done.append((bucket, list(pending), done))

    def land(self):
        """Let the oldest spill land, where its bucket is not over, and answer it."""
        bucket, pending, done = self._done.pop(0)
        if bucket > self.position:
            self.kept.setdefault(bucket, []).extend(pending)
        done(None)

    def spill_position(self, partition):
        return self.position

    def spilled(self, partition, bucket):
        return iter(self.kept.get(bucket, ()))

    def drop_spilled(self, partition, bucket):
        self.dropped.append(bucket)

    def leases(self):
        return [Lease(0, *self.lease, 0)]


class Parts:
    """One owned partition with a delivery that has waited for its receipt."""

    def __init__(self) -> None:
        counters = Counters()
        self.store = FakeStore()
        publisher = Publisher(lambda _: object(), counters)
        self.pipeline = Pipeline(self.store, publisher, PLAIN.encode, Outage(1, 1), counters)
        self.reminders = Reminders(self.store, publisher, self.pipeline, PLAIN.encode, counters)
        self.owner = owner_of(grace_s=1)
        self.owner.spilled_to = self.now_bucket
        self.held = HeldPartition(0)
        self.held.stage, self.held.owner = Stage.OWNED, self.owner

    @property
    def now_bucket(self):
        return START_MS // 60_000

    def wait_for_a_receipt(self):
        work = self.owner.fold(entries([send(1)]), NOTHING, START_MS)
        self.owner.durable(work)
        self.owner.finished(work)

    def remind(self, now_ms):
        self.reminders.remind(self.held, self.owner, now_ms)


def test_a_spill_that_came_too_late_for_its_bucket_goes_into_a_later_one():
    parts = Parts()
    parts.wait_for_a_receipt()
    parts.remind(START_MS + 5_000)
    (bucket, pending), *others = parts.store.asked
    assert not others
    parts.store.position = bucket + 3
    parts.store.land()
    parts.pipeline.serve()
    assert parts.store.asked[1:] == [(bucket + 4, pending)]
    assert parts.owner.pending.oldest_offset() == 0
    parts.store.land()
    parts.pipeline.serve()
    assert parts.store.kept == {bucket + 4: pending}
    assert parts.owner.pending.oldest_offset() is None
    assert parts.owner.spilled_to == bucket + 3


def test_a_bucket_is_dropped_by_the_owner_that_the_lease_names():
    parts = Parts()
    parts.remind(START_MS + 180_000)
    assert parts.store.dropped == [parts.now_bucket + 1]
    assert parts.owner.spilled_to == parts.now_bucket + 1
    assert parts.pipeline.fenced == []


def test_an_owner_whose_lease_is_over_drops_no_bucket():
    parts = Parts()
    parts.store.lease = Owner(2, "m")
    parts.remind(START_MS + 180_000)
    assert parts.store.dropped == []
    assert parts.pipeline.fenced == [parts.held]
