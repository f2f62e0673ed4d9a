"""A store keeps each row's (stamp, owner) maximum, whatever order its writes land in, and reads it back."""

import itertools

import pytest

from consumers.rows import Block, ConversationWrite, MessageWrite, Owner
from consumers.stores.contract import Content, Store
from tests.contract.made import OWNER, T, Written, conversation, find, id_of, made, moved, row, transition, write


def test_a_new_row_reads_back_whole(store: Store, name: str) -> None:
    write(store, [made(name, 1)])
    found = store.message((name, id_of(1)))
    assert found is not None
    assert found.row == row(name, 1)
    assert found.content == Content(b"hello", "text/plain; é")
    assert (found.expires_at, found.owner) == (T + 3_600_000, OWNER)
    assert list(found.transitions) == [(transition(1, "SENT"), OWNER)]
    assert store.read([(name, id_of(1))], []).messages == {(name, id_of(1)): row(name, 1)}
    assert store.contents([(name, id_of(1))]) == {(name, id_of(1)): Content(b"hello", "text/plain; é")}


def test_what_is_not_there_is_left_out(store: Store, name: str) -> None:
    key = (name, id_of(1))
    assert store.read([key], [name]) == ({}, {})
    assert store.contents([key]) == {}
    assert store.message(key) is None
    assert find(store, *key) == []
    assert list(store.history(name, 10)) == []


# case K3, K16: a replay writes the same rows again.
def test_the_same_write_twice_changes_nothing(store: Store, name: str) -> None:
    for _ in range(2):
        write(store, [made(name, 1), moved(name, 2, 2, "READ"), made(name, 2)], [ConversationWrite(conversation(name))])
    found = store.message((name, id_of(2)))
    assert found is not None
    assert found.row == row(name, 2, version=2, state="READ")
    assert [change.version for change, _ in found.transitions] == [1, 2]
    assert len(list(store.history(name, 10))) == 2


# case K4: a paused owner goes on and writes late.
def test_a_late_write_loses(store: Store, name: str) -> None:
    write(store, [made(name, 1)])
    both = (transition(2, "DELIVERED"), transition(3, "READ"))
    write(store, [moved(name, 1, 3, "READ")._replace(transitions=both)], owner=Owner(4, "node-b"))
    write(store, [moved(name, 1, 2, "DELIVERED")], owner=Owner(3, "node-a"))
    write(store, [made(name, 1)], owner=Owner(3, "node-a"))
    found = store.message((name, id_of(1)))
    assert found is not None
    assert (found.row, found.owner) == (row(name, 1, version=3, state="READ"), Owner(4, "node-b"))
    assert [(change.version, change.state) for change, _ in found.transitions] == [
        (1, "SENT"),
        (2, "DELIVERED"),
        (3, "READ"),
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_every_order_of_landing_ends_in_the_same_row(unordered_store: Store, name: str, order: tuple[int, ...]) -> None:
    store = unordered_store
    writes = [made(name, 1), moved(name, 1, 2, "DELIVERED"), moved(name, 1, 3, "READ")]
    for index in order:
        write(store, [writes[index]])
    found = store.message((name, id_of(1)))
    assert found is not None
    assert found.row == row(name, 1, version=3, state="READ")
    assert found.content == Content(b"hello", "text/plain; é")
    assert found.expires_at == T + 3_600_000
    assert [change for change, _ in found.transitions] == [
        transition(1, "SENT"),
        transition(2, "DELIVERED"),
        transition(3, "READ"),
    ]


def test_a_row_reads_as_not_there_until_the_write_that_makes_it_has_landed(unordered_store: Store, name: str) -> None:
    store = unordered_store
    key = (name, id_of(1))
    write(store, [moved(name, 1, 2, "READ")], [ConversationWrite(conversation(name))])
    assert store.read([key], []).messages == {}
    assert store.contents([key]) == {}
    assert store.message(key) is None
    assert list(store.history(name, 10)) == []
    assert find(store, *key) == []
    assert key not in [(one.row.conversation_id, one.row.message_id) for one in store.all_messages()]
    write(store, [made(name, 1)])
    assert store.read([key], []).messages == {key: row(name, 1, version=2, state="READ")}


@pytest.mark.parametrize("order", [(3, 4), (4, 3)])
def test_at_equal_stamps_the_later_epoch_stays(unordered_store: Store, name: str, order: tuple[int, ...]) -> None:
    store = unordered_store
    for epoch in order:
        owner = Owner(epoch, "node-a" if epoch == 3 else "node-b")
        write(store, [made(name, 1)], [ConversationWrite(conversation(name))], owner)
    found = store.message((name, id_of(1)))
    assert found is not None
    assert found.owner == Owner(4, "node-b")
    assert list(found.transitions) == [(transition(1, "SENT"), Owner(4, "node-b"))]


def test_a_move_does_not_erase_the_body(store: Store, name: str) -> None:
    write(store, [made(name, 1, body=b"\x00\xff body")])
    write(store, [moved(name, 1, 2, "READ")])
    assert store.contents([(name, id_of(1))])[name, id_of(1)].body == b"\x00\xff body"


def test_an_empty_body_is_a_body(store: Store, name: str) -> None:
    write(store, [made(name, 1, body=b"")])
    found = store.message((name, id_of(1)))
    assert found is not None
    assert found.content.body == b""


def test_a_cancelled_row_has_no_recipients(store: Store, name: str) -> None:
    cancelled = row(name, 1)._replace(state="CANCELLED", recipients=(), receipts=(), digest=b"")
    write(store, [MessageWrite(cancelled, (transition(1, "CANCELLED"),), b"")])
    found = store.message((name, id_of(1)))
    assert found is not None
    assert (found.row, found.content, found.expires_at) == (cancelled, Content(b"", ""), 0)


def test_coalesced_transitions_are_all_kept(store: Store, name: str) -> None:
    changes = (transition(1, "SENT"), transition(2, "DELIVERED"), transition(3, "READ"))
    write(store, [made(name, 1)._replace(row=row(name, 1, version=3, state="READ"), transitions=changes)])
    found = store.message((name, id_of(1)))
    assert found is not None
    assert [change for change, _ in found.transitions] == list(changes)
    assert found.row.version == 3


def test_times_that_no_calendar_has_come_back_as_they_were(store: Store, name: str) -> None:
    far = made(name, 1)._replace(expires_at=2**62)
    write(store, [far._replace(row=far.row._replace(deliver_by=2**61))])
    found = store.message((name, id_of(1)))
    assert found is not None
    assert (found.expires_at, found.row.deliver_by) == (2**62, 2**61)


def test_conversations_are_guarded_like_messages(store: Store, name: str) -> None:
    blocks = (
        Block("ben", "ann", (2, 7), active=True, event_id=id_of(7)),
        Block("ben", "ann", (2, 2**40), active=False, event_id=id_of(8)),
        Block("cleo", "ann", (2, 2**41), active=True),  # as it stands since before events' ids were kept
    )
    newest = conversation(name, 3, buckets=(7, 2083))._replace(
        blocks=blocks, participants=("ann", "ben", "cleo", "đan")
    )
    write(store, [], [ConversationWrite(newest)])
    write(store, [], [ConversationWrite(conversation(name, 2))])
    assert store.read([], [name]).conversations == {name: newest}


def test_an_empty_conversation_reads_back(store: Store, name: str) -> None:
    empty = conversation(name)._replace(participants=(), buckets=(), sequences=())
    write(store, [], [ConversationWrite(empty)])
    assert store.read([], [name]).conversations == {name: empty}


def test_thousands_of_rows_in_one_write_and_one_read(store: Store, name: str) -> None:
    names = [f"{name}-{number % 300}" for number in range(3000)]
    write(
        store,
        [made(conversation_id, number) for number, conversation_id in enumerate(names)],
        [ConversationWrite(conversation(conversation_id)) for conversation_id in names[:300]],
    )
    keys = [(conversation_id, id_of(number)) for number, conversation_id in enumerate(names)]
    found = store.read(keys, names[:300])
    assert found.messages == {key: row(key[0], number) for number, key in enumerate(keys)}
    assert found.conversations == {conversation_id: conversation(conversation_id) for conversation_id in names[:300]}


def test_a_body_far_over_the_batch_limit_is_written(store: Store, name: str) -> None:
    body = bytes(256) * 1024
    write(store, [made(name, number, body=body if number == 1 else b"small") for number in range(3)])
    assert [len(store.contents([(name, id_of(n))])[name, id_of(n)].body) for n in range(3)] == [5, len(body), 5]


def test_a_write_of_nothing_is_done_at_once(store: Store) -> None:
    write(store)
    spilled = Written()
    store.spill(Owner(1, "node-a"), 1, 1, [], spilled.done)
    spilled.wait()


def test_many_writes_at_a_time_are_each_told_once(store: Store, name: str) -> None:
    all_written = [Written() for _ in range(200)]
    for number, written in enumerate(all_written):
        store.write(OWNER, [made(name, number)], [], written.done)
    for written in all_written:
        written.wait()
    keys = [(name, id_of(number)) for number in range(200)]
    assert store.read(keys, []).messages.keys() == set(keys)
