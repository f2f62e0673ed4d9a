"""Reading for people: history in the order of ids, one message without its conversation, the whole store."""

from consumers.rows import ConversationWrite
from consumers.stores.contract import Store
from schemas.identity import BUCKET_MS, bucket_of
from tests.contract.made import T, conversation, id_of, made, moved, row, write

LATER = T + BUCKET_MS
COUNT = 1_200


def _fill(store: Store, name: str) -> list[bytes]:
    """Write messages into two buckets of a conversation; return their ids in order."""
    ids = [id_of(number) for number in range(COUNT // 2)]
    ids += [id_of(number, LATER) for number in range(COUNT // 2)]
    buckets = (bucket_of(ids[0]), bucket_of(ids[-1]))
    assert buckets[0] < buckets[1]
    write(
        store,
        [made(name, number % (COUNT // 2), at=T if number < COUNT // 2 else LATER) for number in range(COUNT)],
        [ConversationWrite(conversation(name, buckets=buckets))],
    )
    return ids


# case C7: a long conversation is in several partitions, and read a page at a time.
def test_history_is_in_the_order_of_ids_over_pages_and_buckets(store: Store, name: str) -> None:
    ids = _fill(store, name)
    assert [one.row.message_id for one in store.history(name, COUNT * 2)] == ids[::-1]
    assert [one.row.message_id for one in store.history(name, COUNT * 2, newest_first=False)] == ids
    assert [one.row.message_id for one in store.history(name, 3)] == ids[:-4:-1]
    assert [one.row.message_id for one in store.history(name, 700)] == ids[:-701:-1]
    assert [one.row.message_id for one in store.history(name, 601, newest_first=False)] == ids[:601]
    assert list(store.history(name, 0)) == []


def test_reads_span_buckets(store: Store, name: str) -> None:
    ids = _fill(store, name)
    keys = [(name, one) for one in (ids[0], ids[-1])]
    assert store.read(keys, []).messages.keys() == set(keys)


def test_a_message_is_found_without_its_conversation(store: Store, name: str) -> None:
    write(store, [made(f"{name}-1", 77), made(f"{name}-2", 77), made(f"{name}-2", 78)])
    found = [one for one in store.find(id_of(77)) if one.row.conversation_id.startswith(name)]
    assert sorted(one.row.conversation_id for one in found) == [f"{name}-1", f"{name}-2"]
    assert {one.row.message_id for one in found} == {id_of(77)}


def test_all_messages_are_whole(store: Store, name: str) -> None:
    write(store, [made(f"{name}-{number % 7}", number) for number in range(COUNT)])
    write(store, [moved(f"{name}-0", 0, 2, "READ")])
    found = {one.row: one for one in store.all_messages() if one.row.conversation_id.startswith(name)}
    expected = {row(f"{name}-{number % 7}", number) for number in range(1, COUNT)}
    assert found.keys() == expected | {row(f"{name}-0", 0, version=2, state="READ")}
    assert {one.content.body for one in found.values()} == {b"hello"}
    assert len(found[row(f"{name}-0", 0, version=2, state="READ")].transitions) == 2


def test_a_store_answers_a_ping(store: Store) -> None:
    store.ping()
