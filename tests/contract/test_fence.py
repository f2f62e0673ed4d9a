"""An owner that lost its lease, but does not know it yet, changes nothing that matters. On every store."""

from contextlib import suppress

import pytest

from consumers.errors import OwnerFencedError
from consumers.rows import ConversationWrite, Owner
from consumers.stores.contract import Store
from consumers.stores.sqlite import SqliteStore
from tests.contract.made import Written, conversation, id_of, made, moved, transition


def _owner(store: Store, partition: int, node: str) -> Owner:
    lease = store.claim_lease(partition, node)
    return Owner(lease.epoch, lease.node)


# case K4
def test_a_paused_owners_late_writes_change_nothing(store: Store, partition: int, name: str) -> None:
    """It stood still with writes of every kind under way: what had landed, what had not, and what comes after."""
    paused = _owner(store, partition, "node-a")
    written = Written()
    store.write(paused, [made(name, 1), made(name, 2)], [ConversationWrite(conversation(name))], written.done)
    written.wait()
    later = _owner(store, partition, "node-b")
    both = (transition(2, "DELIVERED"), transition(3, "READ"))
    moves = [moved(name, 1, 3, "READ")._replace(transitions=both), moved(name, 2, 2, "DELIVERED"), made(name, 3)]
    written = Written()
    store.write(later, moves, [ConversationWrite(conversation(name, 2), 1)], written.done, partition=partition)
    written.wait()
    before = [store.message((name, id_of(number))) for number in (1, 2, 3)], store.read([], [name])
    for late in (
        [made(name, 1), made(name, 2)],
        [moved(name, 1, 2, "DELIVERED")],
        [moved(name, 1, 3, "READ")._replace(transitions=both)],
        [moved(name, 2, 2, "DELIVERED")],
        [made(name, 3)],
    ):
        written = Written()
        store.write(paused, late, [ConversationWrite(conversation(name))], written.done, partition=partition)
        with suppress(OwnerFencedError):
            written.wait()
    assert ([store.message((name, id_of(number))) for number in (1, 2, 3)], store.read([], [name])) == before


def test_sqlite_refuses_a_fenced_owner_and_takes_its_neighbours(open_sqlite: SqliteStore) -> None:
    """All are in the queue at once, so they would share a transaction: only the fenced owner's write fails."""
    paused, later = _owner(open_sqlite, 7, "node-a"), _owner(open_sqlite, 7, "node-b")
    other = _owner(open_sqlite, 8, "node-a")
    all_written = [Written() for _ in range(3)]
    for number, (owner, partition) in enumerate([(later, 7), (paused, 7), (other, 8)]):
        open_sqlite.write(owner, [made("c", number)], [], all_written[number].done, partition=partition)
    all_written[0].wait()
    with pytest.raises(OwnerFencedError):
        all_written[1].wait()
    all_written[2].wait()
    assert open_sqlite.read([("c", id_of(number)) for number in range(3)], []).messages.keys() == {
        ("c", id_of(0)),
        ("c", id_of(2)),
    }


@pytest.fixture
def open_sqlite(tmp_path):
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    yield opened
    opened.close()
