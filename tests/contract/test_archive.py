"""What replay and the dead letters ask of a store: rows whole and many at once, parkings, and marks."""

from uuid import uuid4

from consumers.rows import ConversationWrite, Parking
from consumers.stores.contract import DeadLetterMark, Store
from tests.contract.made import conversation, id_of, made, moved, write


def name() -> str:
    return f"archive-{uuid4().hex}"


def test_many_messages_are_read_whole_and_absent_ones_left_out(store: Store):
    one, other = name(), name()
    write(store, [made(one, 1), made(one, 2), made(other, 1)])
    write(store, [moved(one, 2, 2, "DELIVERED")])
    keys = [(one, id_of(1)), (one, id_of(2)), (other, id_of(1)), (other, id_of(9))]
    found = store.messages(keys)
    assert set(found) == set(keys[:3])
    assert all(found[key] == store.message(key) for key in keys[:3])
    assert [step.state for step, _ in found[one, id_of(2)].transitions] == ["SENT", "DELIVERED"]
    assert store.messages([]) == {}


def test_parkings_come_back_and_a_conversation_without_has_none(store: Store):
    parked, plain = name(), name()
    parkings = (
        Parking((1, 4), (2, 9), releasing=True, passed=((1, 7), (2, 9))),
        Parking((2, 2**40), waiting=(b"m" * 16, bytes(16))),
    )
    rows = [conversation(parked)._replace(parkings=parkings), conversation(plain)]
    write(store, (), [ConversationWrite(row) for row in rows])
    found = store.read((), [parked, plain]).conversations
    assert (found[parked], found[plain]) == (rows[0], rows[1])
    everything = {row.conversation_id: row for row in store.all_conversations()}
    assert (everything[parked], everything[plain]) == (rows[0], rows[1])
    later = rows[0]._replace(parkings=parkings[1:], version=2, stamp=rows[0].stamp + 1)
    write(store, (), [ConversationWrite(later, 1)])
    assert store.read((), [parked]).conversations[parked] == later


def test_of_two_marks_of_a_letter_the_later_stays(store: Store):
    offset = uuid4().int >> 80
    first = DeadLetterMark(3, offset, 1_000, "discarded", "ann", 5_000)
    later = first._replace(deed="redriven", who="ben", at=6_000)
    other = first._replace(appended_at=2_000)
    store.mark_dead_letters([later, other])
    store.mark_dead_letters([first])
    assert sorted(mark for mark in store.dead_letter_marks() if mark.offset == offset) == sorted([later, other])
    store.mark_dead_letters([])


def test_rows_are_counted_where_that_takes_no_reading_of_them(store: Store):
    before = store.row_counts()
    one = name()
    write(store, [made(one, 1), made(one, 2)], [ConversationWrite(conversation(one))])
    write(store, [moved(one, 2, 2, "DELIVERED")])
    after = store.row_counts()
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert after == (before.messages + 2, before.conversations + 1)
