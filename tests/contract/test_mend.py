"""A mended row is whole: what stands there gives way in all its parts, unless a later event has made it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from consumers.errors import StoreRefusedError
from consumers.rows import ConversationWrite, MessageWrite, Owner
from consumers.stores.contract import Content, Store
from consumers.stores.sqlite import SqliteStore
from schemas.identity import bucket_of, text_of
from tests.contract.made import OWNER, T, Written, conversation, id_of, made, moved, row, transition, write

if TYPE_CHECKING:
    from consumers.stores.cassandra import CassandraStore

STEPS = (transition(1, "SENT"), transition(2, "DELIVERED"))


def _whole(name: str) -> MessageWrite:
    """Return a message as a replay finds it: sent, then delivered."""
    return made(name, 1)._replace(row=row(name, 1, version=2, state="DELIVERED"), transitions=STEPS)


def _other(name: str) -> MessageWrite:
    """Return what stands there: nothing of it but its first step is as the log makes it."""
    other = row(name, 1)._replace(
        sender="eve",
        recipients=("x",),
        receipts=("SENT",),
        digest=b"other",
        install=b"i" * 16,
        seq=99,
        partition=6,
        sent_at=T + 5,
        deliver_by=T + 7,
    )
    return MessageWrite(other, STEPS[:1], b"not what was sent", "x/y", T + 9)


def _mend(
    store: Store,
    messages: Sequence[MessageWrite],
    conversations: Sequence[ConversationWrite] = (),
    owner: Owner = OWNER,
) -> None:
    written = Written()
    store.mend(owner, messages, conversations, written.done)
    written.wait()


def _is_whole(store: Store, name: str) -> bool:
    found = store.message((name, id_of(1)))
    assert found is not None
    return (found.row, found.content, found.expires_at, [step for step, _ in found.transitions]) == (
        row(name, 1, version=2, state="DELIVERED"),
        Content(b"hello", "text/plain; é"),
        T + 3_600_000,
        list(STEPS),
    )


def test_a_message_is_mended_in_all_its_parts(store: Store, name: str) -> None:
    write(store, [_other(name)])
    assert not _is_whole(store, name)
    for _ in range(2):
        _mend(store, [_whole(name)])
        assert _is_whole(store, name)


def test_a_message_that_is_not_there_is_made(store: Store, name: str) -> None:
    _mend(store, [_whole(name)], [ConversationWrite(conversation(name))])
    assert _is_whole(store, name)
    assert store.read([], [name]).conversations == {name: conversation(name)}


@pytest.fixture
def sqlite(tmp_path):
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    yield opened
    opened.close()


def test_on_sqlite_the_same_events_row_is_mended_whoever_wrote_it(sqlite: SqliteStore, name: str) -> None:
    other = _other(name)
    write(sqlite, [other._replace(row=other.row._replace(stamp=_whole(name).row.stamp))], owner=Owner(9, "z"))
    write(sqlite, [moved(name, 1, 9, "READ")._replace(row=other.row)], owner=Owner(9, "z"))
    write(sqlite, [], [ConversationWrite(conversation(name)._replace(participants=("eve",)))], owner=Owner(9, "z"))
    _mend(sqlite, [_whole(name)], [ConversationWrite(conversation(name))])
    assert _is_whole(sqlite, name)
    assert sqlite.read([], [name]).conversations == {name: conversation(name)}


def test_on_sqlite_a_later_row_stays_whole(sqlite: SqliteStore, name: str) -> None:
    later = row(name, 1, version=3, state="READ")
    write(sqlite, [_other(name)])
    write(sqlite, [moved(name, 1, 3, "READ")], [ConversationWrite(conversation(name, 2))])
    before = sqlite.message((name, id_of(1)))
    assert before is not None
    _mend(sqlite, [_whole(name)], [ConversationWrite(conversation(name))])
    found = sqlite.message((name, id_of(1)))
    assert found is not None
    assert (found.row, found.content, found.owner) == (before.row, before.content, before.owner)
    assert (found.row.stamp, found.transitions[-1]) == (later.stamp, (transition(3, "READ"), OWNER))
    assert sqlite.read([], [name]).conversations == {name: conversation(name, 2)}


@pytest.mark.parametrize("part", [{"stamp": 2**60}, {"applied": (2, 999)}])
def test_on_sqlite_a_later_stamp_or_event_each_keep_a_row(sqlite: SqliteStore, name: str, part: dict) -> None:
    other = _other(name)
    stays = other._replace(row=other.row._replace(**part))
    write(sqlite, [stays])
    _mend(sqlite, [_whole(name)])
    found = sqlite.message((name, id_of(1)))
    assert found is not None
    assert (found.row, found.content) == (stays.row, Content(b"not what was sent", "x/y"))


def test_on_sqlite_a_later_row_gets_the_content_that_it_lacks(sqlite: SqliteStore, name: str) -> None:
    write(sqlite, [moved(name, 1, 3, "READ")])
    _mend(sqlite, [_whole(name)])
    found = sqlite.message((name, id_of(1)))
    assert found is not None
    assert (found.row.state, found.content.body) == ("READ", b"hello")
    assert [step.version for step, _ in found.transitions] == [1, 2, 3]


@pytest.mark.local_stack
@pytest.mark.parametrize("kind", ["strict_store", "cassandra_store"])
def test_emptied_receipts_are_named_and_mended_where_a_later_time_is_no_bar(
    request: pytest.FixtureRequest, name: str, kind: str
) -> None:
    is_mended = kind == "strict_store"
    store: CassandraStore = request.getfixturevalue(kind)
    write(store, [_whole(name)])
    table = f"{store._settings.keyspace}.messages"
    where = f"WHERE conversation_id = '{name}' AND bucket = {bucket_of(id_of(1))} AND message_id = {text_of(id_of(1))}"
    using = "" if is_mended else f"USING TIMESTAMP {row(name, 1, version=2).stamp + 1}"
    store._session.execute(f"UPDATE {table} {using} SET receipts = null {where}")
    with pytest.raises(StoreRefusedError, match=f"{text_of(id_of(1))} in conversation '{name}' has no receipts"):
        store.read([(name, id_of(1))], [])
    found = store.message((name, id_of(1)))
    assert found is not None
    assert found.row == row(name, 1, version=2, state="DELIVERED")._replace(receipts=())
    _mend(store, [_whole(name)])
    assert _is_whole(store, name) is is_mended
