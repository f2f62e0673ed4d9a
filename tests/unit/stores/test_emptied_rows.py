"""A row of Cassandra of which somebody else has emptied a column: never folded onto, named, and still to be mended."""

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from compose.story import summary
from consumers.errors import StoreRefusedError
from consumers.replay.compare import ComparisonResult, Reach, compare_message
from consumers.replay.seed import as_of
from consumers.stores.cassandra_found import conversation_row, message_row, stored_message
from tests.contract.made import row

READ = row("c", 1, version=2, state="READ")
AT = datetime(2026, 1, 1)  # noqa: DTZ001 - as the driver gives it: naive, in UTC
STEPS = {1: ("SENT", "ann", AT, 101, 3, "n"), 2: ("READ", "ben", AT, 102, 3, "n")}


def told(**changed: None) -> tuple[Any, ...]:
    """Return `STORED_COLUMNS` of a row as the driver gives them."""
    columns = {
        "conversation_id": READ.conversation_id,
        "message_id": UUID(bytes=READ.message_id),
        "state": READ.state,
        "sender": READ.sender,
        "recipients": list(READ.recipients),
        "receipts": list(READ.receipts),
        "origin": (UUID(bytes=READ.install), READ.seq, READ.digest, READ.partition),
        "sent_at": READ.sent_at,
        "deliver_by": READ.deliver_by,
        "version": READ.version,
        "applied": READ.applied,
        "stamp": READ.stamp,
    }
    return (*(columns | changed).values(), (3, "n"), b"hello", "", 9, STEPS)


def test_a_whole_row_is_read_both_ways():
    stored = stored_message(told())
    assert stored is not None
    assert message_row(told()[:12]) == stored.row == READ


def test_a_row_that_nobody_has_made_yet_is_none():
    assert message_row(told(sender=None, recipients=None, origin=None)[:12]) is None
    assert stored_message(told(sender=None, recipients=None, origin=None)) is None


@pytest.mark.parametrize(
    "name", ["state", "recipients", "receipts", "origin", "sent_at", "version", "applied", "stamp"]
)
def test_nothing_is_folded_onto_a_row_with_an_empty_column(name: str):
    with pytest.raises(StoreRefusedError, match=f"{UUID(bytes=READ.message_id)} in conversation 'c' has no {name}:"):
        message_row(told(**{name: None})[:12])


def test_a_row_without_receipts_is_shown_and_found_different():
    ours, theirs = stored_message(told()), stored_message(told(receipts=None))
    assert ours is not None
    assert theirs is not None
    assert theirs.row == READ._replace(receipts=())
    compared = compare_message(ours, theirs, Reach(2, 1_000, 1_000))
    assert (compared.result, "receipts ()" in compared.detail) == (ComparisonResult.DIFFERS, True)
    assert "from ann to ben unknown, cleo unknown, in c" in summary(theirs)


def test_a_row_without_anything_else_is_named():
    with pytest.raises(StoreRefusedError, match="has no state, applied:"):
        stored_message(told(state=None, applied=None))


def test_nothing_is_rebuilt_on_a_row_without_receipts():
    theirs = stored_message(told(receipts=None))
    assert theirs is not None
    with pytest.raises(StoreRefusedError, match="has lost its receipts"):
        as_of(theirs, 2, 102)


@pytest.mark.parametrize("place", range(1, 8))
def test_a_conversation_with_an_empty_column_is_named(place: int):
    told = ["c", ["ann", "ben"], [2_040], [], [], 3, (1, 102), 1_000, None]
    assert conversation_row(told).parkings == ()
    name = ("participants", "buckets", "blocks", "sequences", "version", "applied", "stamp")[place - 1]
    told[place] = None
    with pytest.raises(StoreRefusedError, match=f"conversation 'c' has no {name}:"):
        conversation_row(told)
