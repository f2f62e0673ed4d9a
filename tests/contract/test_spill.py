"""Deliveries that wait are kept by due time, read whole, dropped whole, and never come back."""

from contextlib import suppress

import pytest

from consumers.errors import OwnerFencedError
from consumers.rows import Owner
from consumers.stores.contract import Pending, Store
from consumers.stores.sqlite import SqliteStore
from tests.contract.made import OWNER, id_of, spill


def test_a_bucket_is_read_back_dropped_and_remembered(store: Store, partition: int, name: str) -> None:
    pending = [Pending(f"{name}-{number % 3}", id_of(number), 2) for number in range(1_100)]
    spill(store, partition, 40, pending)
    spill(store, partition, 41, pending[:1])
    assert sorted(store.spilled(partition, 40)) == sorted(pending)
    assert store.spill_position(partition) is None
    store.drop_spilled(OWNER, partition, 40)
    assert list(store.spilled(partition, 40)) == []
    assert list(store.spilled(partition, 41)) == pending[:1]
    assert store.spill_position(partition) == 40


def test_of_one_added_twice_the_later_attempt_stays(store: Store, partition: int, name: str) -> None:
    for attempt in (1, 3, 2):
        spill(store, partition, 7, [Pending(name, id_of(1), attempt)])
    assert list(store.spilled(partition, 7)) == [Pending(name, id_of(1), 3)]


def test_a_dropped_bucket_stays_empty_and_the_position_only_rises(store: Store, partition: int, name: str) -> None:
    spill(store, partition, 9, [Pending(name, id_of(1), 1)])
    store.drop_spilled(OWNER, partition, 9)
    store.drop_spilled(OWNER, partition, 8)
    spill(store, partition, 9, [Pending(name, id_of(1), 5)])
    assert list(store.spilled(partition, 9)) == []
    assert store.spill_position(partition) == 9


def _take_over(store: Store, partition: int, node: str, position: int) -> Owner:
    """Claim a partition as a worker does: the position is the new owner's own from then on."""
    lease = store.claim_lease(partition, node)
    owner = Owner(lease.epoch, lease.node)
    store.drop_spilled(owner, partition, store.spill_position(partition) or position)
    return owner


# case K4
def test_no_earlier_owner_makes_a_later_one_forget(store: Store, partition: int, name: str) -> None:
    """One that stands still for long before it drops a bucket, while the next one, whose clock is behind, fills it."""
    paused = _take_over(store, partition, "node-a", 5)
    spill(store, partition, 9, [Pending(name, id_of(1), 4)], paused)
    later = _take_over(store, partition, "node-b", 5)
    spill(store, partition, 9, [Pending(name, id_of(2), 1)], later)
    spill(store, partition, 9, [Pending(name, id_of(1), 2)], later)
    for _ in range(2):
        with suppress(OwnerFencedError):
            store.drop_spilled(paused, partition, 9)
        with suppress(OwnerFencedError):
            spill(store, partition, 9, [Pending(name, id_of(2), 7)], paused)
    assert sorted(one[1] for one in store.spilled(partition, 9)) == [id_of(1), id_of(2)]
    assert Pending(name, id_of(2), 1) in store.spilled(partition, 9)
    assert store.spill_position(partition) == 5
    store.drop_spilled(later, partition, 9)
    with suppress(OwnerFencedError):
        spill(store, partition, 9, [Pending(name, id_of(3), 1)], paused)
    assert list(store.spilled(partition, 9)) == []
    assert store.spill_position(partition) == 9


def test_sqlite_refuses_what_a_fenced_owner_keeps_or_drops(tmp_path, name: str) -> None:
    store = SqliteStore.open(tmp_path / "store.sqlite")
    paused = _take_over(store, 3, "node-a", 5)
    _take_over(store, 3, "node-b", 5)
    with pytest.raises(OwnerFencedError):
        store.drop_spilled(paused, 3, 9)
    with pytest.raises(OwnerFencedError):
        spill(store, 3, 9, [Pending(name, id_of(1), 1)], paused)
    store.close()


def test_partitions_do_not_mix(store: Store, partition: int, name: str) -> None:
    spill(store, partition, 1, [Pending(name, id_of(1), 1)])
    assert list(store.spilled(partition + 1, 1)) == []
    assert store.spill_position(partition + 1) is None
