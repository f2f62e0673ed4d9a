"""Statistics over both stores: a share is replaced only by who read the one before, a report only by a newer one."""

from consumers.statistics.contract import Hot, NodeReport, Share
from consumers.stores.contract import Store


def share(partition: int, epoch: int = 1, revision: int = 1, **more) -> Share:
    return Share(partition, epoch, revision, 0, "node-a", 1_800_000_000_000, {"events": 7}, **more)


def test_a_share_is_read_back_whole(store: Store, partition: int) -> None:
    table = store.shared().statistics
    assert table.share(partition) is None
    first = share(partition, lag_records=3, lag_s=0.5, hottest=(Hot("c", 9.5, 0.1),), pending=2, low_water=11)
    assert table.put(first, None)
    assert table.share(partition) == first
    assert first in table.shares(serially=True)
    assert first in table.shares(serially=False)


def test_only_who_read_the_one_before_replaces_it(store: Store, partition: int) -> None:
    table = store.shared().statistics
    first = share(partition)
    assert table.put(first, None)
    assert not table.put(share(partition, 2, 1), None)
    second = share(partition, 2, 2, events_per_s=1.5)
    assert table.put(second, first)
    # The fenced owner goes on with what it had read.
    assert not table.put(share(partition, 1, 2), first)
    assert table.share(partition) == second


def test_the_same_write_made_again_has_been_made(store: Store, partition: int) -> None:
    table = store.shared().statistics
    first, second = share(partition), share(partition, revision=2)
    table.put(first, None)
    assert table.put(second, first)
    again = table.put(second, first)
    assert table.share(partition) == second
    # Where an outcome can be unknown it is settled by reading; where it cannot, it is an ordinary mismatch.
    assert again or type(store).__name__ == "SqliteStore"


def test_a_nodes_report_is_replaced_by_a_newer_one_only(store: Store, name: str) -> None:
    table = store.shared().statistics
    now = 4_000_000_000_000  # later than any report that this store has
    newer = NodeReport(name, now, "running", 5, 3, {"lease": 2}, 1.5)
    table.put_node(newer)
    table.put_node(NodeReport(name, now - 1, "waiting"))
    assert [each for each in table.nodes() if each.node == name] == [newer]
