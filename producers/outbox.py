"""What callers write into the outbox: sends, receipts, cancels, blocks. Each call is one transaction, on disk after it.

Ids and expiries are made here, in the log's time as far as it is known, and the running number of each conversation
is taken in the same transaction as the row that carries it.
"""

import json
import secrets
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from producers.checks import Checked
from producers.clock import Clock, LogTime, log_time
from producers.database import Database
from producers.errors import OutboxError, UnknownMessageError
from producers.meta import get, get_estimate, get_install, put
from schemas.codec import Codec
from schemas.identity import text_of, uuid7
from schemas.lifecycle import RANK, Kind, Reason, State
from schemas.records import NO_ID, Event

_CHUNK = 500
"""Rows a statement; bounds what is held encoded in memory at once."""
_RANDOM_BITS = 48
_POSITION_BITS = (1 << 26) - 1
"""Of an id; with the random ones as many as a UUIDv7 has beside its time."""


class Written(NamedTuple):
    """A message that is on disk."""

    position: int
    message_id: bytes
    conversation_id: str


class Outbox:
    """The callers' side of one user's outbox."""

    def __init__(self, database: Database, user: str, clock: Clock, codec: Codec) -> None:
        self._database = database
        self._user = user
        self._clock = clock
        self._codec = codec

    def open(self) -> None:
        """Open the file, and claim it for the user where it is new. Raises OutboxError where it is another's."""
        self._database.open()
        with self._database.transaction() as connection:
            owner = get(connection, "user")
            if owner is None:
                put(connection, "user", self._user)
                put(connection, "install", secrets.token_bytes(16))
            elif owner != self._user:
                raise OutboxError(
                    f"the outbox {self._database.path} belongs to {owner!r}, not to {self._user!r}",
                    "Each user has an outbox of his own: name another file.",
                )

    def write_sends(self, messages: Sequence[Checked]) -> list[Written]:
        """Write messages, all or none, in this order."""
        written: list[Written] = []
        with self._database.transaction() as connection:
            now = log_time(self._clock, get_estimate(connection))
            install = get_install(connection)
            position = last_position(connection)
            for start in range(0, len(messages), _CHUNK):
                chunk = messages[start : start + _CHUNK]
                numbers = _take_numbers(connection, chunk)
                events, queue, rows = [], [], []
                for message, seq in zip(chunk, numbers, strict=True):
                    position += 1
                    event = self._send_event(message, seq, install, now, position)
                    payload = self._codec.encode(event)
                    events.append(event_row(position, event, payload))
                    queue.append(queue_row(position, event, payload, clocked=now.known))
                    rows.append(_message_row(position, event, now.ms))
                    written.append(Written(position, event.message_id, event.conversation_id))
                insert_events(connection, events, queue)
                connection.executemany(_INSERT_MESSAGE, rows)
        return written

    def _send_event(self, message: Checked, seq: int, install: bytes, now: LogTime, position: int) -> Event:
        if message.expires_in_ms is not None:
            expires_at = now.ms + message.expires_in_ms
        else:
            expires_at = message.expires_at_ms + now.shift_ms if message.expires_at_ms else 0
        return Event(
            kind=Kind.SEND,
            event_id=new_id(now.id_ms, position),
            conversation_id=message.conversation_id,
            message_id=new_id(now.id_ms, position),
            actor=self._user,
            install=install,
            seq=seq,
            recipients=message.recipients,
            body=message.body,
            content_type=message.content_type,
            expires_at=expires_at,
            delivery_timeout_s=message.delivery_timeout_s,
        )

    def write_block(self, subject: str, conversation_id: str, kind: Kind) -> bytes:
        """Write a BLOCK or UNBLOCK of `subject` in a conversation; return its event id.

        Earlier ones are sent no more: one that came into the log only after this one would undo it.
        """
        with self._database.transaction() as connection:
            for position, payload in connection.execute(_BLOCKS, (NO_ID, conversation_id)).fetchall():
                if self._codec.decode_as(Event, payload).subject == subject:
                    connection.execute("DELETE FROM queue WHERE position = ?", (position,))
                    connection.execute("DELETE FROM events WHERE position = ?", (position,))
            return self._write(connection, kind, conversation_id, NO_ID, subject)

    def write_receipt(
        self, connection: sqlite3.Connection, kind: Kind, conversation_id: str, message_id: bytes
    ) -> None:
        """Write a DELIVERED or READ inside the caller's transaction."""
        self._write(connection, kind, conversation_id, message_id)

    def _write(
        self, connection: sqlite3.Connection, kind: Kind, conversation_id: str, message_id: bytes, subject: str = ""
    ) -> bytes:
        now = log_time(self._clock, get_estimate(connection))
        event = Event(
            kind=kind,
            event_id=new_id(now.id_ms),
            conversation_id=conversation_id,
            message_id=message_id,
            actor=self._user,
            install=get_install(connection),
            subject=subject,
        )
        payload = self._codec.encode(event)
        position = last_position(connection) + 1
        insert_events(
            connection,
            [event_row(position, event, payload)],
            [queue_row(position, event, payload, clocked=now.known)],
        )
        return event.event_id

    def mark_read(self, message_id: bytes) -> bool:
        """Write a READ for a message that came in; say whether it is the first. Raises UnknownMessageError."""
        with self._database.transaction() as connection:
            row = connection.execute(
                "SELECT conversation_id, was_read FROM deliveries WHERE message_id = ?", (message_id,)
            ).fetchone()
            if row is None:
                raise UnknownMessageError(
                    f"no message {text_of(message_id)} came in", "Only a message that was received can be read."
                )
            if row[1]:
                return False
            connection.execute("UPDATE deliveries SET was_read = 1, taken = 1 WHERE message_id = ?", (message_id,))
            self._write(connection, Kind.READ, row[0], message_id)
            return True

    def cancel(self, message_id: bytes) -> str:
        """Cancel an own message; return its state after that. Raises UnknownMessageError.

        What Kafka never had is cancelled here and now. Else a CANCEL goes into the log, which decides: it counts
        only where no copy of the message came before it.
        """
        with self._database.transaction() as connection:
            row = connection.execute(
                """SELECT m.position, m.message_id, m.conversation_id, m.state, q.handed, q.in_flight
                FROM messages m LEFT JOIN queue q USING (position)
                WHERE m.message_id = ?1 OR m.first_id = ?1""",
                (message_id,),
            ).fetchone()
            if row is None:
                raise UnknownMessageError(
                    f"the outbox holds no message {text_of(message_id)}", "See `twotick outbox list`."
                )
            position, own_id, conversation_id, state, handed, in_flight = row
            if state != State.PENDING:
                return str(state)
            if handed == 0 and in_flight == 0:
                now = log_time(self._clock, get_estimate(connection))
                return move(connection, position, State.CANCELLED, 0, Reason.CANCELLED, self._user, now.ms)
            # "Not a SEND" says nothing more, but lets SQLite use the index on all other events.
            asked = connection.execute(
                "SELECT 1 FROM events WHERE message_id = ? AND kind <> 'SEND' AND kind = ?",
                (own_id, str(Kind.CANCEL)),
            ).fetchone()
            if asked is None:
                self._write(connection, Kind.CANCEL, conversation_id, own_id)
            return str(state)

    def retry_now(self, message_id: bytes | None = None) -> int:
        """Make unanswered events due at once, all or those of one message; return how many."""
        with self._database.transaction() as connection:
            sql = "UPDATE queue SET next_attempt_at = 1 WHERE next_attempt_at > 1 AND in_flight = 0"
            if message_id is None:
                return connection.execute(sql).rowcount
            return connection.execute(
                f"{sql} AND position IN (SELECT position FROM messages WHERE message_id = ?1 OR first_id = ?1)",
                (message_id,),
            ).rowcount

    def now(self) -> LogTime:
        """Return the log's time as far as it is known."""
        with self._database.reading() as connection:
            return log_time(self._clock, get_estimate(connection))


_BLOCKS = """SELECT position, payload FROM events WHERE message_id = ? AND kind <> 'SEND'
    AND conversation_id = ? AND kind IN ('BLOCK', 'UNBLOCK')"""
_INSERT_EVENT = (
    "INSERT INTO events (position, event_id, kind, conversation_id, message_id, payload) VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT_QUEUE = "INSERT INTO queue (position, clocked, expires_at, bytes) VALUES (?, ?, ?, ?)"
_INSERT_MESSAGE = """INSERT INTO messages
    (position, message_id, conversation_id, seq, recipients, expires_at, created_at, changed_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""


def new_id(ms: int, position: int = 0) -> bytes:
    """Return a fresh UUIDv7 of a time in ms.

    Among those of one ms the order is that of their positions (RFC 9562, section 6.2, method 1): a conversation is read
    in the order of its ids, and many messages are written in one ms.
    """
    return uuid7(ms, (position & _POSITION_BITS) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS))


def last_position(connection: sqlite3.Connection) -> int:
    """Return the largest position that was ever given; inside a write transaction the next one is ours."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    return row[0] if row else 0


def event_row(position: int, event: Event, payload: bytes) -> tuple[object, ...]:
    """Return the row of `events`."""
    return (position, event.event_id, str(event.kind), event.conversation_id, event.message_id, payload)


def queue_row(position: int, event: Event, payload: bytes, *, clocked: bool) -> tuple[object, ...]:
    """Return the row of `queue` for an event that was never tried."""
    return (position, int(clocked), event.expires_at, len(payload) + len(event.conversation_id))


def _message_row(position: int, event: Event, now_ms: int) -> tuple[object, ...]:
    return (
        position,
        event.message_id,
        event.conversation_id,
        event.seq,
        json.dumps(event.recipients),
        event.expires_at,
        now_ms,
        now_ms,
    )


def insert_events(
    connection: sqlite3.Connection, events: Sequence[tuple[object, ...]], queue: Sequence[tuple[object, ...]]
) -> None:
    """Insert rows of `events` and of `queue`."""
    connection.executemany(_INSERT_EVENT, events)
    connection.executemany(_INSERT_QUEUE, queue)


def _take_numbers(connection: sqlite3.Connection, messages: Sequence[Checked]) -> list[int]:
    """Return the next running number in its conversation for each message."""
    last: dict[str, int] = {}
    numbers = []
    for message in messages:
        conversation = message.conversation_id
        if conversation not in last:
            row = connection.execute("SELECT seq FROM sequences WHERE conversation_id = ?", (conversation,)).fetchone()
            last[conversation] = row[0] if row else 0
        last[conversation] += 1
        numbers.append(last[conversation])
    connection.executemany("INSERT OR REPLACE INTO sequences (conversation_id, seq) VALUES (?, ?)", last.items())
    return numbers


def move(  # noqa: PLR0913, PLR0917 - the row, and what is told about it
    connection: sqlite3.Connection, position: int, state: str, version: int, reason: str, actor: str, at: int
) -> str:
    """Move a message to a higher state, write its tick and drop what is needed no more; return the state.

    The caller has made sure that the state rises. Any state but PENDING is the log's verdict (or, for a message
    that the log never had, ours), so the SEND waits for no answer any longer.
    """
    connection.execute(
        "UPDATE messages SET state = ?, version = max(version, ?), reason = ?, changed_at = ? WHERE position = ?",
        (str(state), version, str(reason), at, position),
    )
    connection.execute(
        """INSERT INTO ticks (message_id, conversation_id, state, version, reason, actor, at)
        SELECT message_id, conversation_id, state, version, reason, ?, ? FROM messages WHERE position = ?""",
        (actor, at, position),
    )
    connection.execute("DELETE FROM queue WHERE position = ?", (position,))
    if RANK[state] >= RANK[State.READ]:
        connection.execute("DELETE FROM events WHERE position = ?", (position,))
    return str(state)
