"""Strict mode: what was not as expected is told apart, an unknown outcome is settled, a keyspace keeps its mode."""

from dataclasses import replace
from unittest import mock
from uuid import UUID, uuid4

import pytest
from cassandra import OperationTimedOut

from consumers.errors import OwnerFencedError, StoreRefusedError, StoreUnavailableError, VersionConflictError
from consumers.migrate_settings import MigrationSettings
from consumers.migrate_tables import CassandraTables
from consumers.rows import Block, ConversationWrite, MessageWrite, Owner
from consumers.stores.cassandra import CassandraStore
from consumers.stores.cassandra_session import SERIAL
from consumers.stores.settings import CassandraSettings
from tests.contract.made import OWNER, Written, conversation, id_of, made, moved, row, transition, write
from tests.keyspaces import forget

pytestmark = pytest.mark.local_stack

LATER = Owner(4, "node-b")


class _Told:
    """A future that has ended: with rows, or with an error."""

    def __init__(self, rows: object = None, error: Exception | None = None) -> None:
        self._rows, self._error = rows, error

    def add_callbacks(self, callback, errback, callback_args, errback_args) -> None:
        if self._error is None:
            callback(self._rows, *callback_args)
        else:
            errback(self._error, *errback_args)


class _Unheard:
    """A future whose outcome nobody hears of."""

    def __init__(self, future) -> None:
        self._future = future

    def add_callbacks(self, callback, errback, callback_args, errback_args) -> None:
        del callback, callback_args

        def ended(_outcome: object) -> None:
            errback(OperationTimedOut(), *errback_args)

        self._future.add_callbacks(ended, ended)


class _Faulty:
    """A session whose conditional writes go wrong as told, one after the other: `lost`, `unheard` or `repeated`."""

    def __init__(self, session, *faults: str) -> None:
        self._session = session
        self._faults = list(faults)
        self.writes = 0

    def execute_async(self, statement, **options):
        if options.get("execution_profile") == SERIAL:
            return self._session.execute_async(statement, **options)
        self.writes += 1
        fault = self._faults.pop(0) if self._faults else ""
        if fault == "lost":
            return _Told(error=OperationTimedOut())
        if fault == "unheard":
            return _Unheard(self._session.execute_async(statement, **options))
        if fault == "repeated":
            self._session.execute(statement)
        return self._session.execute_async(statement, **options)


def _with(store: CassandraStore, *faults: str):
    assert store._strict is not None
    return mock.patch.object(store._strict, "_session", _Faulty(store._session, *faults))


def _story(store: CassandraStore, name: str, number: int = 1) -> list[tuple[int, str]]:
    found = store.message((name, id_of(number)))
    assert found is not None
    assert found.row.version == len(found.transitions)
    return [(change.version, change.state) for change, _ in found.transitions]


def _by_someone_else(store: CassandraStore, name: str, number: int = 1) -> None:
    """Mark a message read as another system does that keeps to the rules."""
    keyspace = store._settings.keyspace
    found = store._session.execute(
        f"UPDATE {keyspace}.messages SET version = 2, state = 'READ', receipts = ['READ', 'SENT'], attempt = %s"
        " WHERE conversation_id = %s AND bucket = 2083 AND message_id = %s IF version = 1",
        (uuid4(), name, UUID(bytes=id_of(number))),
    )
    assert found.was_applied


# case C1: applied, but the answer is lost. Case C2: the driver sends it again, and that one is not applied.
@pytest.mark.parametrize("fault", ["unheard", "lost", "repeated"])
def test_an_unknown_outcome_is_settled(strict_store: CassandraStore, name: str, fault: str) -> None:
    with _with(strict_store, fault) as session:
        write(strict_store, [made(name, 1)], [])
        assert session.writes == (2 if fault == "lost" else 1)
    with _with(strict_store, fault):
        write(strict_store, [moved(name, 1, 2, "READ")], [ConversationWrite(conversation(name))])
    assert _story(strict_store, name) == [(1, "SENT"), (2, "READ")]
    with _with(strict_store, "", fault):
        write(strict_store, [], [ConversationWrite(conversation(name, 2), 1)])
    assert strict_store.read([], [name]).conversations[name].version == 2


def test_an_outcome_that_stays_unknown_can_be_tried_again(strict_store: CassandraStore, name: str) -> None:
    with _with(strict_store, *["lost"] * 20), pytest.raises(StoreUnavailableError):
        write(strict_store, [made(name, 1)])
    write(strict_store, [made(name, 1)])
    assert _story(strict_store, name) == [(1, "SENT")]


def test_a_row_that_someone_else_has_changed_is_a_conflict_and_stays(strict_store: CassandraStore, name: str) -> None:
    write(strict_store, [made(name, 1), made(name, 2)])
    _by_someone_else(strict_store, name)
    with pytest.raises(VersionConflictError) as caught:
        write(strict_store, [moved(name, 1, 2, "DELIVERED"), moved(name, 2, 2, "DELIVERED")])
    assert (list(caught.value.messages), list(caught.value.conversations)) == ([(name, id_of(1))], [])
    found = strict_store.read([(name, id_of(1)), (name, id_of(2))], []).messages
    assert {key[1]: (row.version, row.state) for key, row in found.items()} == {
        id_of(1): (2, "READ"),
        id_of(2): (2, "DELIVERED"),
    }


def test_a_conversation_that_someone_else_has_changed_is_a_conflict(strict_store: CassandraStore, name: str) -> None:
    write(strict_store, [], [ConversationWrite(conversation(name))])
    applied = strict_store._session.execute(
        f"UPDATE {strict_store._settings.keyspace}.conversations SET version = 2, participants = ['x'], attempt = null"
        " WHERE conversation_id = %s IF version = 1",
        (name,),
    )
    assert applied.was_applied
    blocked = conversation(name, 3)._replace(blocks=(Block("ben", "ann", (2, 7), active=True, event_id=id_of(7)),))
    for base in (0, 1):
        with pytest.raises(VersionConflictError) as caught:
            write(strict_store, [], [ConversationWrite(blocked, base)])
        assert list(caught.value.conversations) == [name]
    write(strict_store, [], [ConversationWrite(blocked, 2)])
    assert strict_store.read([], [name]).conversations == {name: blocked}


def test_what_comes_before_the_row_is_there_is_a_conflict(strict_store: CassandraStore, name: str) -> None:
    for early in (moved(name, 1, 2, "READ"), moved(name, 1, 3, "READ")):
        with pytest.raises(VersionConflictError):
            write(strict_store, [early])
    write(strict_store, [made(name, 1)])
    with pytest.raises(VersionConflictError):
        write(strict_store, [moved(name, 1, 3, "READ")])
    write(strict_store, [moved(name, 1, 2, "DELIVERED")])
    assert _story(strict_store, name) == [(1, "SENT"), (2, "DELIVERED")]


def test_a_write_goes_on_from_its_own_earlier_part(strict_store: CassandraStore, name: str) -> None:
    """A write that was given up may have landed in part; the one that is made in its place tells all of the row."""
    write(strict_store, [made(name, 1)], [ConversationWrite(conversation(name))])
    both = (transition(1, "SENT"), transition(2, "DELIVERED"), transition(3, "READ"))
    whole = made(name, 1)._replace(row=row(name, 1, version=3, state="READ"), transitions=both)
    write(strict_store, [whole], [ConversationWrite(conversation(name, 3))])
    assert _story(strict_store, name) == [(1, "SENT"), (2, "DELIVERED"), (3, "READ")]
    assert strict_store.read([], [name]).conversations[name].version == 3


# case K4: a paused owner goes on after a later epoch has moved on.
def test_a_paused_owners_late_writes_change_nothing(strict_store: CassandraStore, name: str) -> None:
    write(strict_store, [made(name, 1), made(name, 2)], [ConversationWrite(conversation(name))])
    write(
        strict_store,
        [moved(name, 1, 2, "DELIVERED"), moved(name, 2, 2, "DELIVERED")],
        [ConversationWrite(conversation(name, 2), 1)],
        LATER,
    )
    before = [strict_store.message((name, id_of(number))) for number in (1, 2)]
    write(strict_store, [made(name, 1), moved(name, 2, 2, "DELIVERED")], [ConversationWrite(conversation(name))], OWNER)
    for late in ([moved(name, 1, 3, "READ")], [moved(name, 2, 3, "READ")]):
        with pytest.raises(OwnerFencedError):
            write(strict_store, late, [], OWNER)
    with pytest.raises(OwnerFencedError):
        write(strict_store, [], [ConversationWrite(conversation(name, 3), 2)], OWNER)
    assert [strict_store.message((name, id_of(number))) for number in (1, 2)] == before
    assert strict_store.read([], [name]).conversations[name].version == 2
    write(strict_store, [moved(name, 1, 3, "READ")], [], LATER)
    assert _story(strict_store, name)[-1] == (3, "READ")


def test_epochs_of_an_earlier_generation_do_not_fence(strict_store: CassandraStore, name: str) -> None:
    """A topic that was repartitioned counts its epochs anew, and a conversation may be in another partition."""
    write(strict_store, [made(name, 1)], [], Owner(50, "node-a"))
    later = moved(name, 1, 2, "READ")
    later = later._replace(row=later.row._replace(applied=(3, 5)))
    write(strict_store, [later], [], Owner(1, "node-c"))
    assert _story(strict_store, name) == [(1, "SENT"), (2, "READ")]
    with pytest.raises(OwnerFencedError):
        write(strict_store, [moved(name, 1, 3, "READ")], [], Owner(51, "node-a"))


def test_no_stamp_is_a_cells_time(strict_store: CassandraStore, name: str) -> None:
    write(strict_store, [made(name, 1)])
    found = strict_store._session.execute(
        f"SELECT WRITETIME(state), stamp FROM {strict_store._settings.keyspace}.messages"
        " WHERE conversation_id = %s AND bucket = 2083",
        (name,),
    ).one()
    assert found[0] != found[1] == row(name, 1).stamp


def test_many_owners_write_one_conversation_at_a_time(strict_settings: CassandraSettings, name: str) -> None:
    """Three processes fold the same log: every row lands once, whoever comes first."""
    stores = [CassandraStore.open(strict_settings, mode="strict") for _ in range(3)]
    waiting = []
    for number in range(20):
        for epoch, store in enumerate(stores, start=1):
            waiting.append(Written())
            store.write(Owner(epoch, f"node-{epoch}"), [made(name, number)], [], waiting[-1].done)
    for written in waiting:
        written.wait()
    assert [_story(stores[0], name, number) for number in range(20)] == [[(1, "SENT")]] * 20
    for store in stores:
        store.close()


def test_a_keyspace_keeps_its_mode(
    strict_settings: CassandraSettings, cassandra_store: CassandraStore, strict_store: CassandraStore
) -> None:
    with pytest.raises(StoreRefusedError, match="written in mode strict, not stamps") as caught:
        CassandraStore.open(strict_settings)
    assert "store.mode to strict" in caught.value.hint
    with pytest.raises(StoreRefusedError, match="written in mode stamps, not strict"):
        CassandraStore.open(cassandra_store._settings, mode="strict")


def test_a_keyspace_with_owners_but_no_record_is_written_under_stamps(cassandra_settings: CassandraSettings) -> None:
    settings = replace(cassandra_settings, keyspace=f"mode_{uuid4().hex[:12]}")
    list(CassandraTables(settings, MigrationSettings(keyspace_replication=(f"{settings.datacenter}=1",))).apply())
    store = CassandraStore.open(settings)
    try:
        store.claim_lease(1, "node")
        store._session.execute(f"TRUNCATE {settings.keyspace}.keyspace_facts", timeout=60)
        with pytest.raises(StoreRefusedError, match="written in mode stamps"):
            CassandraStore.open(settings, mode="strict")
    finally:
        forget(store._session, settings.keyspace)
        store.close()


def _whole(name: str) -> MessageWrite:
    """Return a message as a replay finds it: sent, then delivered."""
    steps = (transition(1, "SENT"), transition(2, "DELIVERED"))
    return made(name, 1)._replace(row=row(name, 1, version=2, state="DELIVERED"), transitions=steps)


def _mend(store: CassandraStore, messages: list[MessageWrite], conversations: list[ConversationWrite]) -> None:
    written = Written()
    store.mend(OWNER, messages, conversations, written.done)
    written.wait()


# All but the last leave the attempt's own id, by which the row seems to be the fold's.
@pytest.mark.parametrize("fault", ["", "unheard", "lost"])
@pytest.mark.parametrize(
    "change",
    [
        "SET state = 'READ', receipts = [], sender = null, body = null {key} IF version = 2",
        "SET state = 'READ', recipients = ['x'], body = 0x00, content_type = '' {key} IF version = 2",
        "SET transitions[9] = {step} {key} IF version = 2",
        "SET version = 7, owner = (99, 'z'), transitions = {{}}, body = 0x {key} IF version = 2",
        "",
    ],
    ids=["unmade", "other content", "more", "ahead", "gone"],
)
def test_a_row_is_mended_whatever_stands_there(
    strict_store: CassandraStore, name: str, change: str, fault: str
) -> None:
    write(strict_store, [_whole(name)])
    key = f"WHERE conversation_id = '{name}' AND bucket = 2083 AND message_id = {UUID(bytes=id_of(1))}"
    messages = f"{strict_store._settings.keyspace}.messages"
    before = strict_store.message((name, id_of(1)))
    step = "{state: 'READ', actor: 'x', at: 1, log_offset: 1, epoch: 1, node: 'z'}"
    query = f"UPDATE {messages} {change.format(key=key, step=step)}" if change else f"DELETE FROM {messages} {key}"
    assert strict_store._session.execute(query if change else f"{query} IF EXISTS").was_applied
    assert strict_store.message((name, id_of(1))) != before
    with _with(strict_store, "", fault):
        _mend(strict_store, [_whole(name)], [])
    assert strict_store.message((name, id_of(1))) == before
    _mend(strict_store, [_whole(name)], [])
    write(strict_store, [moved(name, 1, 3, "READ")])
    assert _story(strict_store, name) == [(1, "SENT"), (2, "DELIVERED"), (3, "READ")]


def test_a_later_events_row_is_not_mended_away(strict_store: CassandraStore, name: str) -> None:
    write(strict_store, [_whole(name)], [ConversationWrite(conversation(name))])
    write(strict_store, [moved(name, 1, 3, "READ")], [ConversationWrite(conversation(name, 2), 1)])
    with pytest.raises(VersionConflictError):
        _mend(strict_store, [_whole(name)], [])
    with pytest.raises(VersionConflictError):
        _mend(strict_store, [], [ConversationWrite(conversation(name))])
    assert _story(strict_store, name)[-1] == (3, "READ")


def test_a_conversation_is_mended(strict_store: CassandraStore, name: str) -> None:
    row_of = conversation(name, 2)
    write(strict_store, [], [ConversationWrite(row_of)])
    for change in ("SET participants = ['x'], parkings = '[1]'", "SET version = 9, attempt = null, blocks = null"):
        applied = strict_store._session.execute(
            f"UPDATE {strict_store._settings.keyspace}.conversations {change} WHERE conversation_id = %s"
            " IF version = 2",
            (name,),
        )
        assert applied.was_applied
        _mend(strict_store, [], [ConversationWrite(row_of)])
        assert strict_store.read([], [name]).conversations == {name: row_of}
