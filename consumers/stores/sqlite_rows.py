"""Rows as SQLite holds them: the statements that write them under the row guard, and the way back.

The guard is per row: a write replaces what is there only where its (stamp, epoch, node) is not smaller. Contents and
transitions are tables of their own, so neither is lost by it: a content is written once, a transition is kept by the
latest of the owners that wrote it. Mending puts whole rows in the place of what stands there, contents and transitions
too, but where that is of a later stamp or event.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from consumers.rows import (
    Block,
    ConversationRow,
    ConversationWrite,
    MessageRow,
    MessageWrite,
    Owner,
    Transition,
)
from consumers.stores.contract import Content, StoredMessage
from consumers.stores.parkings import from_text, to_text

_MESSAGE_COLUMNS: Final = (
    "conversation_id, message_id, state, sender, recipients, receipts, digest, install, seq, log_partition, sent_at,"
    " deliver_by, version, generation, log_offset, stamp"
)
_MOVING: Final = ("state", "receipts", "version", "generation", "log_offset", "stamp", "epoch", "node")
_CONVERSATION_COLUMNS: Final = (
    "conversation_id, participants, buckets, blocks, sequences, version, generation, log_offset, stamp, parkings"
)


def _newer(table: str) -> str:
    return f"WHERE (excluded.stamp, excluded.epoch, excluded.node) >= ({table}.stamp, {table}.epoch, {table}.node)"


def _not_older(table: str) -> str:
    return (
        f"WHERE excluded.stamp >= {table}.stamp"
        f" AND (excluded.generation, excluded.log_offset) >= ({table}.generation, {table}.log_offset)"
    )


def _set(columns: Iterable[str]) -> str:
    return ", ".join(f"{column} = excluded.{column}" for column in columns)


_OWNER: Final = ("epoch", "node")
_UPSERT_MESSAGE: Final = (
    f"INSERT INTO messages ({_MESSAGE_COLUMNS}, epoch, node) VALUES ({', '.join('?' * 18)}) ON CONFLICT DO UPDATE"
)
_PUT_MESSAGE: Final = f"{_UPSERT_MESSAGE} SET {_set(_MOVING)} {_newer('messages')}"
_MEND_MESSAGE: Final = (
    f"{_UPSERT_MESSAGE} SET {_set((*_MESSAGE_COLUMNS.split(', ')[2:], *_OWNER))} {_not_older('messages')}"
)
_PUT_CONTENT: Final = "INSERT INTO contents VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_PUT_TRANSITION: Final = (
    "INSERT INTO transitions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
    f" SET {_set(('state', 'actor', 'at', 'log_offset', 'epoch', 'node'))}"
    " WHERE (excluded.epoch, excluded.node) >= (transitions.epoch, transitions.node)"
)
_DROP: Final = tuple(
    f"DELETE FROM {table} WHERE conversation_id = ? AND message_id = ?" for table in ("contents", "transitions")
)
_UPSERT_CONVERSATION: Final = (
    f"INSERT INTO conversations ({_CONVERSATION_COLUMNS}, epoch, node) VALUES ({', '.join('?' * 12)})"
    f" ON CONFLICT DO UPDATE SET {_set((*_CONVERSATION_COLUMNS.split(', ')[1:], *_OWNER))}"
)
_PUT_CONVERSATION: Final = f"{_UPSERT_CONVERSATION} {_newer('conversations')}"
_MEND_CONVERSATION: Final = f"{_UPSERT_CONVERSATION} {_not_older('conversations')}"

MESSAGE: Final = (
    f"SELECT {_MESSAGE_COLUMNS} FROM messages JOIN contents USING (conversation_id, message_id)"
    " WHERE conversation_id = ? AND message_id = ?"
)
CONTENT: Final = "SELECT body, content_type FROM contents WHERE conversation_id = ? AND message_id = ?"
CONVERSATIONS: Final = f"SELECT {_CONVERSATION_COLUMNS} FROM conversations"
CONVERSATION: Final = f"{CONVERSATIONS} WHERE conversation_id = ?"
STORED: Final = (
    f"SELECT {_MESSAGE_COLUMNS}, epoch, node, body, content_type, expires_at"
    " FROM messages JOIN contents USING (conversation_id, message_id)"
)
_TRANSITIONS: Final = (
    "SELECT version, state, actor, at, log_offset, epoch, node FROM transitions"
    " WHERE conversation_id = ? AND message_id = ? ORDER BY version"
)

_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def put_messages(connection: sqlite3.Connection, owner: Owner, writes: Sequence[MessageWrite]) -> None:
    """Write message rows, their contents and transitions."""
    connection.executemany(_PUT_MESSAGE, (_message_values(write.row, owner) for write in writes))
    _put_beside(connection, owner, writes)


def mend_messages(connection: sqlite3.Connection, owner: Owner, writes: Sequence[MessageWrite]) -> None:
    """Write whole messages; to one that stays because it is later only what it lacks is added."""
    for write in writes:
        if connection.execute(_MEND_MESSAGE, _message_values(write.row, owner)).rowcount:
            for drop in _DROP:
                connection.execute(drop, write.row[:2])
    _put_beside(connection, owner, writes)


def _put_beside(connection: sqlite3.Connection, owner: Owner, writes: Sequence[MessageWrite]) -> None:
    """Write what is kept beside the rows."""
    connection.executemany(_PUT_CONTENT, _content_values(writes))
    connection.executemany(_PUT_TRANSITION, _transition_values(writes, owner))


def _message_values(row: MessageRow, owner: Owner) -> tuple[object, ...]:
    return (
        *row[:4],
        _text(row.recipients),
        _text(row.receipts),
        *row[6:13],
        *row.applied,
        row.stamp,
        *owner,
    )


def _content_values(writes: Iterable[MessageWrite]) -> Iterator[tuple[object, ...]]:
    for write in writes:
        if write.body is not None:
            yield (*write.row[:2], write.body, write.content_type, write.expires_at)


def _transition_values(writes: Iterable[MessageWrite], owner: Owner) -> Iterator[tuple[object, ...]]:
    for write in writes:
        for change in write.transitions:
            yield (*write.row[:2], *change, *owner)


def put_conversations(connection: sqlite3.Connection, owner: Owner, writes: Iterable[ConversationWrite]) -> None:
    """Write conversation rows."""
    connection.executemany(_PUT_CONVERSATION, (_conversation_values(write.row, owner) for write in writes))


def mend_conversations(connection: sqlite3.Connection, owner: Owner, writes: Iterable[ConversationWrite]) -> None:
    """Write conversation rows, also where a larger owner has written the same event's."""
    connection.executemany(_MEND_CONVERSATION, (_conversation_values(write.row, owner) for write in writes))


def _conversation_values(row: ConversationRow, owner: Owner) -> tuple[object, ...]:
    return (
        row.conversation_id,
        _text(row.participants),
        _text(row.buckets),
        _text([(*change[:4], change.event_id.hex()) for change in row.blocks]),
        _text([(install.hex(), seq) for install, seq in row.sequences]),
        row.version,
        *row.applied,
        row.stamp,
        to_text(row.parkings) if row.parkings else "",
        *owner,
    )


def message_row(found: Sequence[Any]) -> MessageRow:
    """Return the row from `_MESSAGE_COLUMNS`."""
    recipients, receipts = tuple(json.loads(found[4])), tuple(json.loads(found[5]))
    return MessageRow._make((*found[:4], recipients, receipts, *found[6:13], (found[13], found[14]), found[15]))


def conversation_row(found: Sequence[Any]) -> ConversationRow:
    """Return the row from `_CONVERSATION_COLUMNS`."""
    return ConversationRow(
        found[0],
        tuple(json.loads(found[1])),
        tuple(json.loads(found[2])),
        tuple(map(_block, json.loads(found[3]))),
        tuple((bytes.fromhex(install), seq) for install, seq in json.loads(found[4])),
        found[5],
        (found[6], found[7]),
        found[8],
        from_text(found[9]),
    )


def _block(found: Sequence[Any]) -> Block:
    blocker, blocked, position, active, *event_id = found  # none in a row that was written before it was kept
    return Block(blocker, blocked, tuple(position), active, bytes.fromhex(event_id[0]) if event_id else b"")


def stored_message(connection: sqlite3.Connection, found: Sequence[Any]) -> StoredMessage:
    """Return the whole message from `STORED`'s columns and its transitions."""
    epoch, node, body, content_type, expires_at = found[16:]
    transitions = [
        (Transition(*change[:5]), Owner(*change[5:])) for change in connection.execute(_TRANSITIONS, found[:2])
    ]
    return StoredMessage(message_row(found), Content(body, content_type), expires_at, Owner(epoch, node), transitions)
