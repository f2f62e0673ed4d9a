"""The fold's rows in Cassandra's native protocol, and back.

A worker writes about one row an event and has 35 µs of CPU for the whole event. The driver's own way (a bound
statement a row, each value serialised by its column's type, then written out again value by value) takes FIGURE
a row; here a row becomes the bytes of its part of a BATCH request at once, in FIGURE. The order of the statements'
markers is the order of the bytes, so the two stand together. A value is a four-byte length and its bytes (native
protocol v5, section 3, [value]); fixed-size values stand first so that one `Struct` packs them with their lengths.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from consumers.rows import Block, ConversationRow, ConversationWrite, MessageRow, MessageWrite, Owner, Transition
from consumers.stores.contract import Content, StoredMessage
from schemas.identity import bucket_of

MOVE_MESSAGE: Final = (
    "UPDATE {keyspace}.messages USING TIMESTAMP ? SET version = ?, stamp = ?, applied = ?, state = ?, receipts = ?,"
    " owner = ?, transitions = transitions + ? WHERE conversation_id = ? AND bucket = ? AND message_id = ?"
)
MAKE_MESSAGE: Final = (
    "UPDATE {keyspace}.messages USING TIMESTAMP ? SET version = ?, stamp = ?, applied = ?, state = ?, receipts = ?,"
    " owner = ?, transitions = transitions + ?, sent_at = ?, deliver_by = ?, expires_at = ?, origin = ?, sender = ?,"
    " recipients = ?, content_type = ?, body = ? WHERE conversation_id = ? AND bucket = ? AND message_id = ?"
)
PUT_CONVERSATION: Final = (
    "UPDATE {keyspace}.conversations USING TIMESTAMP ? SET version = ?, stamp = ?, applied = ?, owner = ?,"
    " participants = ?, buckets = ?, blocks = ?, sequences = ? WHERE conversation_id = ?"
)

MESSAGE_COLUMNS: Final = (
    "conversation_id, message_id, state, sender, recipients, receipts, origin, to_unix_timestamp(sent_at),"
    " to_unix_timestamp(deliver_by), version, applied, stamp"
)
STORED_COLUMNS: Final = f"{MESSAGE_COLUMNS}, owner, body, content_type, to_unix_timestamp(expires_at), transitions"
CONVERSATION_COLUMNS: Final = "conversation_id, participants, buckets, blocks, sequences, version, applied, stamp"

CELL_BYTES: Final = 16
"""What Cassandra adds to each cell's value when it weighs a batch: timestamp, ttl and deletion time."""
_MOVE_CELLS, _MAKE_CELLS, _CONVERSATION_CELLS = 7, 15, 8

_INTERNED_MAX: Final = 32_768
_head = Struct(">iqiiiqiiiiq").pack
"""timestamp, version, stamp, applied (a tuple of an int and a bigint), each with its length."""
_three_times = Struct(">iqiqiq").pack
_origin = Struct(">ii16siqi").pack
"""The length of the whole, then install, seq and the length of the digest."""
_transition_numbers = Struct(">iqiqiq").pack
_int_value = Struct(">ii").pack
_key_tail = Struct(">iii16s").pack
_routing = Struct(">H").pack
_length = Struct(">i").pack
_wide_value = Struct(">iq").pack


class PreparedIds(NamedTuple):
    """The start of each statement's part of a batch: its kind (prepared), its id and its number of values."""

    move: bytes
    make: bytes
    conversation: bytes

    @classmethod
    def of(cls, move: bytes, make: bytes, conversation: bytes) -> "PreparedIds":
        """Return the starts for three prepared statements' ids."""
        return cls(_start(move, 11), _start(make, 19), _start(conversation, 10))


class Packed(NamedTuple):
    """One row's statement, ready for a batch."""

    routing_key: bytes
    """Of the Cassandra partition, as tokens are computed of it."""
    table: str
    weight: int
    """Bytes that it adds to the batch as Cassandra weighs it."""
    statement: bytes


def _start(statement_id: bytes, values: int) -> bytes:
    return b"\x01" + _routing(len(statement_id)) + statement_id + _routing(values)


@lru_cache(_INTERNED_MAX)
def _text(text: str) -> bytes:
    """Return a text as a value; users and conversations come again and again."""
    raw = text.encode()
    return _length(len(raw)) + raw


@lru_cache(_INTERNED_MAX)
def _texts(texts: tuple[str, ...]) -> bytes:
    """Return a list of texts as a value."""
    return _value(_length(len(texts)) + b"".join(map(_text, texts)))


def _value(raw: bytes) -> bytes:
    return _length(len(raw)) + raw


def _list(items: Sequence[bytes]) -> bytes:
    """Return a list of values that carry their lengths."""
    return _value(_length(len(items)) + b"".join(items))


def _owner(owner: Owner) -> bytes:
    return _value(_wide_value(8, owner.epoch) + _text(owner.node))


def _routing_part(raw: bytes) -> bytes:
    return _routing(len(raw)) + raw + b"\x00"


def pack_messages(writes: Iterable[MessageWrite], owner: Owner, ids: PreparedIds) -> list[Packed]:
    """Return the statements that write message rows: a full one where the row is made, a small one where it moves."""
    packed_owner, node = _owner(owner), _text(owner.node)
    return [_pack_message(write, packed_owner, owner.epoch, node, ids) for write in writes]


def _pack_message(write: MessageWrite, owner: bytes, epoch: int, node: bytes, ids: PreparedIds) -> Packed:
    row = write.row
    generation, offset = row.applied
    transitions = [
        _int_value(4, change.version)
        + _value(
            _text(change.state)
            + _text(change.actor)
            + _transition_numbers(8, change.at, 8, change.offset, 8, epoch)
            + node
        )
        for change in write.transitions
    ]
    moving = (
        _head(8, row.stamp, 4, row.version, 8, row.stamp, 20, 4, generation, 8, offset)
        + _text(row.state)
        + _texts(row.receipts)
        + owner
        + _list(transitions)
    )
    conversation, bucket = _text(row.conversation_id), bucket_of(row.message_id)
    key = conversation + _key_tail(4, bucket, 16, row.message_id)
    routing_key = _routing_part(conversation[4:]) + b"\x00\x04" + bucket.to_bytes(4, "big") + b"\x00"
    if write.body is None:
        statement, cells = ids.move + moving + key, _MOVE_CELLS
    else:
        statement, cells = ids.make + moving + _pack_making(row, write, write.body) + key, _MAKE_CELLS
    weight = len(statement) + CELL_BYTES * (cells + len(transitions) - 1)
    return Packed(routing_key, "messages", weight, statement)


def _pack_making(row: MessageRow, write: MessageWrite, body: bytes) -> bytes:
    """Return what only the write that makes a row carries."""
    digest = row.digest
    return b"".join(
        (
            _three_times(8, row.sent_at, 8, row.deliver_by, 8, write.expires_at),
            _origin(44 + len(digest), 16, row.install, 8, row.seq, len(digest)),
            digest,
            _int_value(4, row.partition),
            _text(row.sender),
            _texts(row.recipients),
            _text(write.content_type),
            _length(len(body)),
            body,
        )
    )


def pack_conversations(writes: Iterable[ConversationWrite], owner: Owner, ids: PreparedIds) -> list[Packed]:
    """Return the statements that write conversation rows."""
    packed_owner = _owner(owner)
    return [_pack_conversation(write.row, packed_owner, ids) for write in writes]


def _pack_conversation(row: ConversationRow, owner: bytes, ids: PreparedIds) -> Packed:
    generation, offset = row.applied
    key = _text(row.conversation_id)
    statement = b"".join(
        (
            ids.conversation,
            _head(8, row.stamp, 4, row.version, 8, row.stamp, 20, 4, generation, 8, offset),
            owner,
            _texts(row.participants),
            _list([_int_value(4, bucket) for bucket in row.buckets]),
            _list([_value(_pack_block(change)) for change in row.blocks]),
            _list([_value(_value(install) + _wide_value(8, seq)) for install, seq in row.sequences]),
            key,
        )
    )
    return Packed(key[4:], "conversations", len(statement) + CELL_BYTES * _CONVERSATION_CELLS, statement)


def _pack_block(change: Block) -> bytes:
    generation, offset = change.position
    return (
        _text(change.blocker)
        + _text(change.blocked)
        + _int_value(4, generation)
        + _wide_value(8, offset)
        + _value(b"\x01" if change.active else b"\x00")
    )


def message_row(found: Sequence[Any]) -> MessageRow | None:
    """Return the row from `MESSAGE_COLUMNS`; None where the write that makes it has not landed."""
    conversation_id, message_id, state, sender, recipients, receipts, origin, sent_at, deliver_by, *moving = found[:12]
    if sender is None:
        return None
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


def conversation_row(found: Sequence[Any]) -> ConversationRow:
    """Return the row from `CONVERSATION_COLUMNS`."""
    conversation_id, participants, buckets, blocks, sequences, version, applied, stamp = found
    return ConversationRow(
        conversation_id,
        tuple(participants),
        tuple(buckets),
        tuple(Block(one[0], one[1], (one[2], one[3]), one[4]) for one in blocks),
        tuple((install.bytes, seq) for install, seq in sequences),
        version,
        tuple(applied),
        stamp,
    )


def stored_message(found: Sequence[Any]) -> StoredMessage | None:
    """Return the whole message from `STORED_COLUMNS`; None where the write that makes it has not landed."""
    row = message_row(found)
    if row is None:
        return None
    owner, body, content_type, expires_at, transitions = found[12:]
    return StoredMessage(
        row,
        Content(body, content_type),
        expires_at,
        Owner(*owner),
        [
            (Transition(version, one[0], one[1], _milliseconds(one[2]), one[3]), Owner(one[4], one[5]))
            for version, one in sorted(transitions.items())
        ],
    )


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _milliseconds(at: datetime) -> int:
    """Return the ms since 1970 of a time as the driver reads it: naive, in UTC."""
    return (at.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def uuid_of(message_id: bytes) -> UUID:
    """Return an id as the driver takes it."""
    return UUID(bytes=message_id)
