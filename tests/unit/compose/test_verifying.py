"""Outboxes against the store of a living deployment: what is odd is found, what is on its way is not."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from math import inf
from pathlib import Path

import pytest

from compose import verifying
from compose.checking.history import Own, Taken
from compose.errors import ComposeError, NotFoundError, UnreachableError
from compose.verifying import Outbox, Receipts, read_outbox, verify
from consumers.rows import MessageRow, MessageWrite
from consumers.stores.sqlite import SqliteStore
from producers.pruning import prune
from schemas.identity import uuid7
from schemas.records import Event
from tests.contract.made import T, id_of, made, row, transition, write
from tests.unit.producers.world import START_MS, World

LATER = T + 3_600_000
INSTALL = row("c", 1).install
PHONE, LAPTOP = b"install-of-phone", b"install-of-lapto"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    write(opened, [made("c", 1), made("c", 2)])
    yield opened
    opened.close()


def outbox(
    user: str,
    own: dict[int, str] | None = None,
    taken: dict[int, bytes] | None = None,
    *,
    install: bytes = b"",
    sent_since: float = 0,
    came_since: float = 0,
) -> Outbox:
    """Return an outbox with messages by number; the stored ones are of `INSTALL`."""
    return Outbox(
        user,
        [Own(user, id_of(number), id_of(number), state) for number, state in (own or {}).items()],
        [Taken(user, id_of(number), body) for number, body in (taken or {}).items()],
        frozenset(("c", id_of(number)) for number in (*(own or {}), *(taken or {}))),
        install,
        sent_since,
        came_since,
    )


def found(store: SqliteStore, *outboxes: Outbox, now_ms: int = LATER) -> list[tuple[str, bytes]]:
    verified = verify(outboxes, store, now_ms=now_ms, grace_ms=60_000)
    return [(fault.kind, fault.message_id) for fault in verified.faults]


def test_outboxes_that_say_what_the_store_says_are_fine(store):
    assert not found(store, outbox("ann", {1: "SENT", 2: "SENT", 3: "PENDING"}), outbox("ben", taken={1: b"hello"}))


def test_what_was_told_as_sent_and_is_not_there_is_lost(store):
    assert ("lost", id_of(7)) in found(store, outbox("ann", {7: "SENT"}))


def test_an_outbox_that_was_told_more_is_told_otherwise(store):
    assert found(store, outbox("ann", {1: "READ"})) == [("untrue", id_of(1))]


def test_an_outbox_that_was_never_told_is_stuck_unless_it_just_moved(store):
    assert found(store, outbox("ann", {1: "PENDING"})) == [("stuck", id_of(1))]
    assert not found(store, outbox("ann", {1: "PENDING"}), now_ms=T + 1_000)


def test_another_content_under_the_same_id_is_found(store):
    assert found(store, outbox("ben", taken={1: b"other"})) == [("lost", id_of(1))]


def test_what_arrived_and_nobody_stored_is_found(store):
    assert not found(store, outbox("ben", taken={}))
    verified = verify([outbox("ben", taken={9: b"x"})], store, now_ms=LATER, grace_ms=0)
    assert [(fault.kind, fault.message_id) for fault in verified.faults] == [("invented", id_of(9))]


def test_two_devices_of_one_user_hold_a_message_once_each(store):
    phone, laptop = (outbox("ben", taken={1: b"hello"}) for _ in range(2))
    assert not found(store, phone, laptop)
    twice = phone._replace(taken=[*phone.taken, *phone.taken])
    assert found(store, twice, laptop) == [("duplicated", id_of(1))]


def test_who_sent_it_is_known_by_the_install(store):
    reader = outbox("ben", taken={1: b"hello"})
    assert not found(store, reader, outbox("ann", install=b"another device--"))
    assert found(store, reader, outbox("ann", install=INSTALL)) == [("invented", id_of(1))]


def test_what_an_outbox_may_have_pruned_is_not_judged(store):
    reader = outbox("ben", taken={1: b"hello"})
    assert not found(store, reader, outbox("ann", install=INSTALL, sent_since=T + 1))
    read = is_read_by_ben(store, 3)
    for since, expected in ((read.deliver_by, [("lost", id_of(3))]), (read.deliver_by + 1, [])):
        assert lost(store, [outbox("ben", install=PHONE, came_since=since)], receipt(3)) == expected


def is_read_by_ben(store: SqliteStore, number: int) -> MessageRow:
    """Put a message into the store that ben has read and cleo has not."""
    read = row("c", number)._replace(receipts=("READ", "SENT"))
    write(store, [MessageWrite(read, (transition(1, "SENT"),), b"x")])
    return read


def receipt(number: int, install: bytes = PHONE, *, actor: str = "ben", at: int = T + 5, kind: str = "READ") -> Event:
    """Return what the log says that an install has written."""
    return Event(kind, uuid7(at, number), "c", id_of(number), actor, install)


def lost(
    store: SqliteStore, outboxes: list[Outbox], *events: Event, now_ms: int = LATER, grace_ms: int = 60_000
) -> list[tuple[str, bytes]]:
    receipts = Receipts(outboxes, grace_ms)
    for event in events:
        receipts.hear(event)
    judged = list(receipts.lost(store, now_ms))
    assert all(name == "c" for name, _ in judged)
    return [(fault.kind, fault.message_id) for _, fault in judged]


def test_what_is_on_another_device_is_not_lost(store):
    is_read_by_ben(store, 3)
    sender, laptop = outbox("ann", {3: "SENT"}), outbox("ben", install=LAPTOP)
    assert not found(store, sender, laptop)
    assert verify([sender, laptop], store, now_ms=LATER, grace_ms=0).elsewhere == {id_of(3)}
    assert not lost(store, [sender, laptop], receipt(3))
    phone = outbox("ben", taken={3: b"x"}, install=PHONE)
    assert verify([sender, laptop, phone], store, now_ms=LATER, grace_ms=0).elsewhere == frozenset()
    assert not lost(store, [sender, laptop, phone], receipt(3))


def test_what_an_outbox_has_written_a_receipt_for_and_does_not_hold_is_lost(store):
    is_read_by_ben(store, 3)
    phone, laptop = outbox("ben", install=PHONE), outbox("ben", install=LAPTOP, taken={3: b"x"})
    assert lost(store, [phone, laptop], receipt(3, kind="DELIVERED"), receipt(3)) == [("lost", id_of(3))]
    assert not lost(store, [phone, laptop], receipt(3, LAPTOP)), "it is where the receipt comes from"
    unanswered = phone._replace(said=frozenset({("c", id_of(3))}))
    assert lost(store, [unanswered]) == [("lost", id_of(3))], "no log is needed"


def test_what_nobody_can_have_lost_is_not_judged(store):
    is_read_by_ben(store, 3)
    phone = outbox("ben", install=PHONE)
    assert not lost(store, [phone], receipt(3, actor="eve")), "eve knows ben's install, as everyone does"
    assert not lost(store, [phone], receipt(3)._replace(kind="SEND"))
    assert not lost(store, [phone], receipt(9)), "what the store lacks is the replay's to tell"
    assert not lost(store, [phone], receipt(3), now_ms=T + 1_000)


def test_a_copy_of_an_outbox_knows_nothing_of_what_came_later(store):
    is_read_by_ben(store, 3)
    copy = outbox("ben", install=PHONE)._replace(written_at=T + 60_000)
    assert not lost(store, [copy], receipt(3, at=T + 1))
    assert lost(store, [copy], receipt(3, at=T)) == [("lost", id_of(3))]
    assert not lost(store, [copy, outbox("ben", {}, {3: b"x"}, install=PHONE)], receipt(3, at=T)), "the original has it"


def test_a_file_tells_what_it_has_said_and_when_it_was_written(tmp_path):
    world = World(tmp_path / "alice.sqlite")
    delivery = world.delivery(1)
    world.apply(delivery)
    read = read_outbox(world.database.path)
    assert read.said == {(delivery.conversation_id, delivery.message_id)}
    assert [taken.message_id for taken in read.taken] == [delivery.message_id]
    for file in tmp_path.iterdir():
        os.utime(file, (1_000, 1_000))
    os.utime(tmp_path / "alice.sqlite-wal", (2_000, 2_000))
    assert read_outbox(world.database.path).written_at == 2_000_000
    world.database.close()


def test_the_places_in_the_log_are_left_to_the_replay(store):
    # They begin anew with each generation of the topic, and who gives up what waits gives up its order.
    overtaken = MessageWrite(row("c", 3), (transition(1, "SENT")._replace(offset=900),), b"x")
    again = MessageWrite(
        row("c", 4, version=2, state="SENT"),
        (transition(1, "SENT")._replace(offset=800), transition(2, "READ")._replace(offset=5)),
        b"x",
    )
    write(store, [overtaken, again])
    assert not found(store, outbox("ann", {3: "SENT", 4: "SENT"}))


def kept(world: World) -> tuple[float, float]:
    read = read_outbox(world.database.path)
    return read.sent_since, read.came_since


def test_an_outbox_file_tells_since_when_it_holds_everything(tmp_path):
    world = World(tmp_path / "alice.sqlite")
    assert kept(world) == (0, 0), "nothing was ever in it"
    deliveries = [world.delivery(1), world.delivery(2)._replace(deliver_by=START_MS + 90_000)]
    world.apply(*deliveries)
    world.send()
    assert kept(world) == (inf, 0), "what was sent may have been pruned, what came is all there"
    with world.database.transaction() as connection:
        connection.execute("UPDATE messages SET state = 'DELIVERED', changed_at = ?", (START_MS + 5,))
        connection.execute("UPDATE deliveries SET taken = 1")
        connection.execute("DELETE FROM deliveries WHERE message_id = ?", (deliveries[0].message_id,))
    assert kept(world) == (START_MS + 5, START_MS + 90_000)
    assert prune(world.database, START_MS + 100_000) == 1 + 1
    assert kept(world) == (inf, START_MS + 100_000)
    assert prune(world.database, START_MS + 200_000) == 0
    assert kept(world) == (inf, START_MS + 100_000), "nothing was pruned"
    world.database.close()


def test_what_is_taken_only_after_others_were_pruned_says_nothing_of_these(tmp_path):
    world = World(tmp_path / "alice.sqlite")
    late = world.delivery(1)
    world.apply(late, world.delivery(2)._replace(deliver_by=START_MS + 90_000))
    with world.database.transaction() as connection:
        connection.execute("UPDATE deliveries SET taken = 1 WHERE message_id <> ?", (late.message_id,))
    assert prune(world.database, START_MS + 100_000) == 1
    with world.database.transaction() as connection:
        connection.execute("UPDATE deliveries SET taken = 1")
    assert kept(world)[1] == START_MS + 100_000
    assert prune(world.database, START_MS + 50_000) == 1
    assert kept(world)[1] == START_MS + 100_000, "the days to keep were made more"
    world.database.close()


def test_other_files_are_no_outboxes(tmp_path):
    with pytest.raises(NotFoundError, match="there is no outbox"):
        read_outbox(tmp_path / "nothing")
    (tmp_path / "text").write_text("no database, but long enough to be taken for one by its size" * 20)
    with pytest.raises(NotFoundError, match="is no outbox"):
        read_outbox(tmp_path / "text")
    with closing(sqlite3.connect(tmp_path / "else.sqlite")) as other:
        other.execute("CREATE TABLE meta (name, thing)")
    with pytest.raises(NotFoundError, match="is no outbox"):
        read_outbox(tmp_path / "else.sqlite")


def test_an_outbox_that_cannot_be_read_is_one_all_the_same(tmp_path):
    World(tmp_path / "alice.sqlite").database.close()
    # As in a folder that one may not write, but also for who may write everywhere.
    (tmp_path / "alice.sqlite-wal").mkdir()
    with pytest.raises(ComposeError, match=r"cannot be read: unable to open") as caught:
        read_outbox(tmp_path / "alice.sqlite")
    assert not isinstance(caught.value, NotFoundError)
    assert "owner" in caught.value.hint


def test_a_locked_outbox_is_worth_another_try(tmp_path, monkeypatch):
    monkeypatch.setattr(verifying, "BUSY_S", 0)
    path = tmp_path / "alice.sqlite"
    World(path).database.close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnreachableError, match="is locked"):
            read_outbox(path)
