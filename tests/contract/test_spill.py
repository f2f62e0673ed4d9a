"""Deliveries that wait are kept by due time, read whole, dropped whole, and never come back."""

from consumers.stores.contract import Pending, Store
from tests.contract.made import id_of, spill


def test_a_bucket_is_read_back_dropped_and_remembered(store: Store, partition: int, name: str) -> None:
    pending = [Pending(f"{name}-{number % 3}", id_of(number), 2) for number in range(1_100)]
    spill(store, partition, 40, pending)
    spill(store, partition, 41, pending[:1])
    assert sorted(store.spilled(partition, 40)) == sorted(pending)
    assert store.spill_position(partition) is None
    store.drop_spilled(partition, 40)
    assert list(store.spilled(partition, 40)) == []
    assert list(store.spilled(partition, 41)) == pending[:1]
    assert store.spill_position(partition) == 40


def test_of_one_added_twice_the_later_attempt_stays(store: Store, partition: int, name: str) -> None:
    for attempt in (1, 3, 2):
        spill(store, partition, 7, [Pending(name, id_of(1), attempt)])
    assert list(store.spilled(partition, 7)) == [Pending(name, id_of(1), 3)]


def test_a_dropped_bucket_stays_empty_and_the_position_only_rises(store: Store, partition: int, name: str) -> None:
    spill(store, partition, 9, [Pending(name, id_of(1), 1)])
    store.drop_spilled(partition, 9)
    store.drop_spilled(partition, 8)
    spill(store, partition, 9, [Pending(name, id_of(1), 5)])
    assert list(store.spilled(partition, 9)) == []
    assert store.spill_position(partition) == 9


def test_partitions_do_not_mix(store: Store, partition: int, name: str) -> None:
    spill(store, partition, 1, [Pending(name, id_of(1), 1)])
    assert list(store.spilled(partition + 1, 1)) == []
    assert store.spill_position(partition + 1) is None
