"""Taking partitions: while a server does not answer, and where the log was cut off."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_INVALID, TopicPartition

from consumers.assignment import Assignment
from consumers.counters import Counters
from consumers.errors import OwnerFencedError, StoreUnavailableError, WorkerError
from consumers.owner import PartitionOwner
from consumers.rows import Owner
from consumers.settings import WorkerSettings
from consumers.stores.contract import Lease, TopicRecord
from schemas.topics import EVENTS
from tests.unit.consumers.world import NOTHING, START_MS, entries, owner_of, send

if TYPE_CHECKING:
    from consumers.held import HeldPartition


class SilentStore:
    """Answers no claim."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def claim_lease(self, partition: int, _node: str) -> Lease:
        """Do not answer."""
        self.asked.append(partition)
        raise StoreUnavailableError("no answer", "")


class Notes:
    """What is noted of a failed store, in the pipeline's place; and a consumer that takes every assignment."""

    def __init__(self) -> None:
        self.fenced: list[HeldPartition] = []
        self.errors: list[WorkerError] = []
        self.position = OFFSET_INVALID
        self.paused: set[int] = set()

    def store_failed(self, error: WorkerError) -> None:
        """Note it."""
        self.errors.append(error)

    def incremental_assign(self, _partitions: list[TopicPartition]) -> None:
        """Take it."""

    def incremental_unassign(self, _partitions: list[TopicPartition]) -> None:
        """Take it away; as with librdkafka it stays paused."""

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Read it no more."""
        self.paused |= {each.partition for each in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Read it again."""
        self.paused -= {each.partition for each in partitions}

    def give_up(self, _held: "HeldPartition") -> None:
        """Forget what is in flight."""

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return the committed position."""
        assert timeout > 0
        return [TopicPartition(EVENTS, asked[0].partition, self.position)]

    def get_watermark_offsets(self, _asked: TopicPartition, timeout: float) -> tuple[int, int]:
        """Return a log of fifty records."""
        assert timeout > 0
        return 0, 50


class WillingStore:
    """Gives every lease."""

    epoch = 1
    refuses = False

    def leases(self) -> list[Lease]:
        """Tell who has which."""
        return [Lease(partition, self.epoch, "n-0", 0) for partition in range(3)]

    def claim_lease(self, partition: int, node: str) -> Lease:
        """Give it."""
        return Lease(partition, 1, node, 0)

    def spill_position(self, _partition: int) -> int:
        """Return one in the past."""
        return 1

    def drop_spilled(self, owner: Owner, _partition: int, bucket: int) -> None:
        """Take the position that it told as the new owner's."""
        assert (owner.epoch, bucket) == (1, 1)
        if self.refuses:
            raise OwnerFencedError(*owner)


def assignment_of(store: Any, notes: Any) -> Assignment:
    made = Assignment(
        store=store,
        pipeline=notes,
        settings=WorkerSettings(retry_first_s=60, retry_s_max=60, on_lost_range="earliest"),
        topic=TopicRecord(EVENTS, "id", 64, 1),
        node="n-0",
        counters=Counters(),
        drain=lambda _: None,
        forget=lambda _: None,
    )
    made.bind(notes)
    made.on_assign(notes, [TopicPartition(EVENTS, partition) for partition in range(3)])
    return made


def test_a_server_that_does_not_answer_is_asked_once_a_turn() -> None:
    # cases K1, C8: 64 partitions would make 64 time-outs in which nobody polls
    store, notes = SilentStore(), Notes()
    assignment = assignment_of(store, notes)
    assignment.take()
    assert store.asked == [0]
    for _ in range(5):
        assignment.take()
    assert store.asked == [0, 1, 2]
    assert len(notes.errors) == 3


def test_a_slow_server_holds_up_what_is_owned_already_for_one_partition_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # case K5: retained partitions go on working during a rebalance
    seconds = iter(range(100))
    monkeypatch.setattr("consumers.assignment.monotonic", lambda: next(seconds))
    assignment = assignment_of(WillingStore(), Notes())
    owned = []
    for _ in range(6):
        assignment.take()
        owned.append(len(assignment.owned()))
    assert owned[0] < 3
    assert owned[-1] == 3
    assert all(after - before <= 1 for before, after in pairwise([0, *owned]))


def test_a_partition_that_was_paused_when_it_was_lost_is_read_when_it_comes_back() -> None:
    # Seen with a store that was down while the group had given the worker up: the partition was never read again.
    notes = Notes()
    assignment = assignment_of(WillingStore(), notes)
    assignment.take()
    assert notes.paused == set()
    assignment.paused = True
    notes.pause([TopicPartition(EVENTS, partition) for partition in range(3)])
    assignment.on_lost(notes, [TopicPartition(EVENTS, partition) for partition in range(3)])
    assignment.on_assign(notes, [TopicPartition(EVENTS, partition) for partition in range(3)])
    assignment.paused = False  # the store is back before the partitions are
    assignment.take()
    assert notes.paused == set()


def test_a_lost_lease_is_a_conflict_however_it_is_found_out() -> None:
    """By the store's refusal of a write, by a look at the leases, or while the partition is being taken."""
    notes = Notes()
    store = WillingStore()
    assignment = assignment_of(store, notes)
    counts = assignment._counters.conflicts_by_kind
    assignment.take()
    notes.fenced.append(assignment.held[0])
    assignment.take()
    assert (counts["lease"], assignment.held[0].owner) == (1, None)
    store.epoch = 2
    assignment.check_leases()
    assert (counts["lease"], assignment._counters.lease_losses) == (3, 3)
    store.refuses = True
    for held in assignment.held.values():
        held.retry_at = 0.0
    assignment.take()
    assert counts["lease"] == 6
    assert not assignment.owned()


def test_partitions_share_what_may_be_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[tuple[int, ...]] = []
    monkeypatch.setattr(PartitionOwner, "limit_memory", lambda _owner, *share: shares.append(share))
    notes = Notes()
    assignment = assignment_of(WillingStore(), notes)
    for _ in range(3):
        assignment.take()
    own = WorkerSettings()
    assert len(assignment.owned()) == 3
    assert shares[-3:] == [(own.cached_messages_max // 3, own.cached_conversations_max // 3, own.pending_max // 3)] * 3


def test_an_owner_keeps_to_its_share() -> None:
    owner = owner_of(grace_s=3600, pending_max=100)
    finish = owner.fold(entries([send(number) for number in range(1, 9)]), NOTHING, START_MS)
    owner.finished(finish)
    assert owner.take_spill(START_MS + 8_000, 10) is None
    owner.limit_memory(1, 1, 3)
    taken = owner.take_spill(START_MS + 8_000, 10)
    assert taken is not None
    assert sum(map(len, taken[1].values())) == 5


@pytest.mark.parametrize(("committed", "asked_for"), [(OFFSET_INVALID, 0), (100, 1)])
def test_what_a_cut_off_log_does_not_show_may_be_in_the_store(committed: int, asked_for: int) -> None:
    # A log that is whole from its first record knows every message; one that ended at 100 and ends at 50 does not.
    notes = Notes()
    notes.position = committed
    assignment = assignment_of(WillingStore(), notes)
    assignment.take()
    _, owner = assignment.owned()[0]
    needs = owner.needs(entries([send(1)], 0))
    assert (len(needs.messages), len(needs.conversations)) == (asked_for, asked_for)
