"""Making a SEND anew in the log's time, while Kafka never had it."""

import sqlite3

from producers.clock import LogTime
from producers.outbox import new_id
from producers.pages import Row
from schemas.codec import Codec
from schemas.identity import time_of
from schemas.records import Event

CLOCK_TOLERANCE_MS = 1_000
"""How far ahead of the log an id may be made, and an expiry be off; below what the server allows."""


def latest_id(now: LogTime) -> bytes:
    """Return an id above which ids are too far ahead of the log."""
    return (now.id_ms + CLOCK_TOLERANCE_MS).to_bytes(6, "big") + b"\xff" * 10


def remake(connection: sqlite3.Connection, row: Row, now: LogTime, codec: Codec) -> Row:
    """Write a SEND anew; `now` is known.

    An expiry that was made by the wall clock is moved by the wall clock's error. Where the id is ahead of the log
    the ids are replaced; the first one stays in `messages.first_id` for those who hold it.
    """
    event = codec.decode_as(Event, row.payload)
    (clocked,) = connection.execute("SELECT clocked FROM queue WHERE position = ?", (row.position,)).fetchone()
    if event.expires_at and not clocked:
        event = event._replace(expires_at=max(1, event.expires_at + now.shift_ms))
    if time_of(event.message_id) > now.id_ms + CLOCK_TOLERANCE_MS:
        event = event._replace(message_id=new_id(now.id_ms, row.position), event_id=new_id(now.id_ms, row.position))
        connection.execute(
            "UPDATE messages SET message_id = ?, first_id = ifnull(first_id, message_id) WHERE position = ?",
            (event.message_id, row.position),
        )
    payload = codec.encode(event)
    size = len(payload) + len(row.conversation_id)
    connection.execute(
        "UPDATE events SET event_id = ?, message_id = ?, payload = ? WHERE position = ?",
        (event.event_id, event.message_id, payload, row.position),
    )
    connection.execute(
        "UPDATE queue SET expires_at = ?, bytes = ?, clocked = 1 WHERE position = ?",
        (event.expires_at, size, row.position),
    )
    connection.execute("UPDATE messages SET expires_at = ? WHERE position = ?", (event.expires_at, row.position))
    return row._replace(size=size, payload=payload, is_off=0)
