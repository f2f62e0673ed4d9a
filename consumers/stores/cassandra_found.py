"""The fold's rows from what Cassandra's driver has found."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from consumers.errors import StoreRefusedError
from consumers.rows import Block, ConversationRow, MessageRow, Owner, Transition
from consumers.stores.contract import Content, StoredMessage
from consumers.stores.parkings import from_text

_MESSAGE_NAMES: Final = (
    *("conversation_id", "message_id", "state", "sender", "recipients", "receipts", "origin", "sent_at"),
    *("deliver_by", "version", "applied", "stamp"),
)
_STORED_NAMES: Final = (*_MESSAGE_NAMES, "owner", "body", "content_type", "expires_at", "transitions")
_CONVERSATION_NAMES: Final = (
    *("conversation_id", "participants", "buckets", "blocks", "sequences", "version", "applied", "stamp", "parkings"),
)


def _columns(names: Iterable[str]) -> str:
    """Return how columns are asked for: the log's times in ms, as the fold has them."""
    times = ("sent_at", "deliver_by", "expires_at")
    return ", ".join(f"to_unix_timestamp({name})" if name in times else name for name in names)


MESSAGE_COLUMNS: Final = _columns(_MESSAGE_NAMES)
STORED_COLUMNS: Final = _columns(_STORED_NAMES)
CONVERSATION_COLUMNS: Final = _columns(_CONVERSATION_NAMES)


def message_row(found: Sequence[Any]) -> MessageRow | None:
    """Return the row from `MESSAGE_COLUMNS`, for a fold to go on from.

    None where the write that makes it has not landed. Raises StoreRefusedError where somebody else has emptied a
    column: no worker writes a null here, and in a frozen list CQL tells it from an empty one.
    """
    if found[3] is None:
        return None
    if None in found:
        raise _emptied(found)
    return _message_row(found, found[5])


def _message_row(found: Sequence[Any], receipts: Iterable[str]) -> MessageRow:
    conversation_id, message_id, state, sender, recipients, _, origin, sent_at, deliver_by, *moving = found[:12]
    install, seq, digest, partition = origin
    version, applied, stamp = moving
    return MessageRow(
        conversation_id,
        message_id.bytes,
        state,
        sender,
        tuple(recipients),
        tuple(receipts),
        digest,
        install.bytes,
        seq,
        partition,
        sent_at,
        deliver_by,
        version,
        tuple(applied),
        stamp,
    )


def _null_columns(names: Sequence[str], found: Sequence[Any]) -> str:
    return ", ".join(name for name, value in zip(names, found, strict=False) if value is None)


def _emptied(found: Sequence[Any]) -> StoreRefusedError:
    """Return the error that names a message's row and its columns that are null."""
    return StoreRefusedError(
        f"the row of message {found[1]} in conversation {found[0]!r} has no {_null_columns(_MESSAGE_NAMES, found)}:"
        " no worker has written that",
        hint="Of receipts `twotick replay` tells what the log makes them, and --execute writes that in strict mode. "
        "Else set the column by hand, under a later time than whoever has emptied it.",
    )


def conversation_row(found: Sequence[Any]) -> ConversationRow:
    """Return the row from `CONVERSATION_COLUMNS`. Raises StoreRefusedError where somebody has emptied a column."""
    if None in found[:8]:  # a row that was written before there were parkings has none
        raise StoreRefusedError(
            f"the row of conversation {found[0]!r} has no {_null_columns(_CONVERSATION_NAMES, found[:8])}:"
            " no worker has written that",
            hint="Set the column by hand, under a later time than whoever has emptied it.",
        )
    conversation_id, participants, buckets, blocks, sequences, version, applied, stamp, parkings = found
    return ConversationRow(
        conversation_id,
        tuple(participants),
        tuple(buckets),
        tuple(map(_block, blocks)),
        tuple((install.bytes, seq) for install, seq in sequences),
        version,
        tuple(applied),
        stamp,
        from_text(parkings),
    )


def _block(found: Sequence[Any]) -> Block:
    blocker, blocked, generation, offset, active, event_id = found
    return Block(blocker, blocked, (generation, offset), active, event_id.bytes if event_id else b"")


def stored_message(found: Sequence[Any]) -> StoredMessage | None:
    """Return the whole message from `STORED_COLUMNS`; None where the write that makes it has not landed.

    Receipts that somebody has emptied are none, so that people see the row, and a replay can tell and mend it. Raises
    StoreRefusedError where what else a row is made of has been emptied.
    """
    if found[3] is None:
        return None
    if None in found[:5] or None in found[6:12]:
        raise _emptied(found)
    row = _message_row(found, found[5] or ())
    owner, body, content_type, expires_at, transitions = found[12:]
    return StoredMessage(
        row,
        Content(body, content_type),
        expires_at,
        Owner(*owner),
        [
            (Transition(version, one[0], one[1], milliseconds(one[2]), one[3]), Owner(one[4], one[5]))
            for version, one in sorted((transitions or {}).items())
        ],
    )


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(at: datetime) -> int:
    """Return the ms since 1970 of a time as the driver reads it: naive, in UTC."""
    return (at.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def uuid_of(message_id: bytes) -> UUID:
    """Return an id as the driver takes it."""
    return UUID(bytes=message_id)
