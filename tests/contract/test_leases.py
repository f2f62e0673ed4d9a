"""Leases: every claim raises the epoch, no two claims share one; a topic's record is replaced by one of many."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from consumers.stores.contract import Store, TopicRecord

CLAIMERS = 20


def test_a_claim_raises_the_epoch(store: Store, partition: int) -> None:
    first, second = store.claim_lease(partition, "node-a"), store.claim_lease(partition, "node-b")
    assert (first.partition, first.epoch, first.node) == (partition, 1, "node-a")
    assert (second.epoch, second.node) == (2, "node-b")
    assert second in list(store.leases())
    assert first not in list(store.leases())


def test_claims_at_the_same_time_have_epochs_of_their_own(open_another, partition: int) -> None:
    stores = [open_another() for _ in range(CLAIMERS)]
    start = Barrier(CLAIMERS)

    def claim(number: int) -> int:
        start.wait()
        return stores[number].claim_lease(partition, f"node-{number}").epoch

    with ThreadPoolExecutor(CLAIMERS) as pool:
        epochs = list(pool.map(claim, range(CLAIMERS)))
    assert len(set(epochs)) == CLAIMERS
    newest = next(lease for lease in stores[0].leases() if lease.partition == partition)
    assert newest.epoch == max(epochs)


def test_a_topic_record_is_replaced_only_where_it_is_as_expected(store: Store, name: str) -> None:
    first, second = TopicRecord(name, "id-1", 8, 1), TopicRecord(name, "id-2", 3, 2, ((5, 2**40), (0, 1, 2)))
    assert store.topic_record(name) is None
    assert not store.record_topic(second, first)
    assert store.record_topic(first, None)
    assert not store.record_topic(second, None)
    assert store.topic_record(name) == first
    assert store.record_topic(second, first)
    assert not store.record_topic(second, first)
    assert store.topic_record(name) == second
