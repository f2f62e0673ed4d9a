"""Outboxes against the store of a living deployment: what is odd is found, what is on its way is not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.checking.history import Own, Taken
from compose.errors import NotFoundError
from compose.verifying import Outbox, read_outbox, verify
from consumers.stores.sqlite import SqliteStore
from tests.contract.made import T, id_of, made, write

LATER = T + 3_600_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    write(opened, [made("c", 1), made("c", 2)])
    yield opened
    opened.close()


def outbox(user: str, own: dict[int, str] | None = None, taken: dict[int, bytes] | None = None) -> Outbox:
    """Return an outbox with messages by number."""
    return Outbox(
        user,
        [Own(user, id_of(number), id_of(number), state) for number, state in (own or {}).items()],
        [Taken(user, id_of(number), body) for number, body in (taken or {}).items()],
        frozenset(("c", id_of(number)) for number in (*(own or {}), *(taken or {}))),
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


def test_other_files_are_no_outboxes(tmp_path):
    with pytest.raises(NotFoundError, match="there is no outbox"):
        read_outbox(tmp_path / "nothing")
    (tmp_path / "text").write_text("no database, but long enough to be taken for one by its size" * 20)
    with pytest.raises(NotFoundError, match="is no outbox"):
        read_outbox(tmp_path / "text")
