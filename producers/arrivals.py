"""The listener's side of the outbox: what came in, and how far the inbox is read, in one transaction.

So a record has its effect exactly once, whenever the process dies: its effect and the position after it are on disk
together, or neither. Records that come twice all the same (the server's redeliveries) change nothing.
"""

import json
import logging
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from producers.clock import Clock, log_time
from producers.database import Database
from producers.meta import get_estimate, get_gap_end, get_install, put_gap_end, start_install
from producers.outbox import Outbox, move
from producers.states import Verdict, again_in_ms, rises, verdict
from schemas.identity import text_of
from schemas.lifecycle import RECEIPTS, Kind, Outcome
from schemas.records import Acknowledgement, Delivery

LOG = logging.getLogger(__name__)


class Place(NamedTuple):
    """One partition of the inbox."""

    cluster_id: str
    """Positions are worth nothing in another cluster's log."""
    topic: str
    partition: int


class Applied(NamedTuple):
    """What a batch brought."""

    deliveries: int
    duplicates: int


class Arrivals:
    """The listener's statements; used by one thread of one process, the holder of the pump's lock."""

    def __init__(self, database: Database, outbox: Outbox, user: str, clock: Clock) -> None:
        self._database = database
        self._outbox = outbox
        self._user = user
        self._clock = clock

    def position(self, place: Place) -> int | None:
        """Return the next offset to read, None where nothing was read yet."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT next_offset FROM positions WHERE cluster_id = ? AND topic = ? AND partition = ?", place
            ).fetchone()
        return None if row is None else row[0]

    def was_elsewhere(self, place: Place) -> bool:
        """Say whether another log than this one has been read: another cluster's, or of another partition count."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT 1 FROM positions WHERE cluster_id <> ? OR topic <> ? OR partition <> ?", place
            ).fetchone()
        return row is not None

    def apply(self, records: Sequence[Acknowledgement | Delivery], place: Place, next_offset: int) -> Applied:
        """Apply records in this order and move the position behind them. Raises OutboxError: then nothing happened."""
        fresh = again = 0
        with self._database.transaction() as connection:
            now = log_time(self._clock, get_estimate(connection)).ms
            for record in records:
                if isinstance(record, Acknowledgement):
                    self._acknowledged(connection, record, now)
                elif self._delivered(connection, record):
                    fresh += 1
                else:
                    again += 1
            connection.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?, ?)", (*place, next_offset))
            end = get_gap_end(connection)
            if end is not None and next_offset >= end:
                put_gap_end(connection, None)
                _ask_again(connection)
        return Applied(fresh, again)

    def forgotten(self, end: int) -> int:
        """Make every message due again whose end is not known; return how many.

        The inbox lost records that we had not read, so answers and ticks may be missing. A copy of a SEND is
        answered with the message's state. What stands in the inbox up to `end`, where it ends now, answers earlier
        copies and may say less than what was lost: once it is read, what is still open is asked for once more.
        """
        with self._database.transaction() as connection:
            put_gap_end(connection, end)
            return _ask_again(connection)

    def gap_end(self) -> int:
        """Return the `end` that `forgotten` was last told and that is not read yet, 0 where there is none."""
        with self._database.reading() as connection:
            return get_gap_end(connection) or 0

    def _acknowledged(self, connection: sqlite3.Connection, ack: Acknowledgement, now: int) -> None:
        told = verdict(ack)
        event = connection.execute(
            "SELECT position FROM events WHERE event_id = ? AND kind = ?", (ack.event_id, ack.kind)
        ).fetchone()
        if event is not None:
            self._answered(connection, event[0], ack, told)
        if told.restart_install and ack.install == get_install(connection):
            self._start_install(connection)
        if event is not None or ack.outcome not in {Outcome.CONFLICT, Outcome.REFUSED}:
            self._tell(connection, ack, told, now)

    def _answered(self, connection: sqlite3.Connection, position: int, ack: Acknowledgement, told: Verdict) -> None:
        """Take the event that is answered out of the queue, unless the answer is to ask again."""
        if not told.settles:
            connection.execute(
                "UPDATE queue SET next_attempt_at = ? WHERE position = ? AND in_flight = 0",
                (self._clock.wall_ms() + again_in_ms(ack), position),
            )
            return
        connection.execute("DELETE FROM queue WHERE position = ?", (position,))
        if ack.kind != Kind.SEND:
            connection.execute("DELETE FROM events WHERE position = ?", (position,))
            if ack.outcome == Outcome.REFUSED:
                LOG.warning("%s about %s was refused: %s", ack.kind, text_of(ack.message_id), ack.reason)

    def _tell(self, connection: sqlite3.Connection, ack: Acknowledgement, told: Verdict, now: int) -> None:
        """Move the own message that an acknowledgement is about, by rank."""
        if ack.kind in RECEIPTS and ack.actor == self._user:
            return
        message = connection.execute(
            "SELECT position, state FROM messages WHERE message_id = ?", (ack.message_id,)
        ).fetchone()
        if message is None:
            self._unknown(connection, ack)
        elif rises(message[1], told.state):
            move(connection, message[0], told.state, ack.version, told.reason, ack.actor, ack.appended_at or now)

    def _unknown(self, connection: sqlite3.Connection, ack: Acknowledgement) -> None:
        """See whether an answer is about a message that this outbox sent before it was restored from a backup."""
        if ack.kind != Kind.SEND or ack.actor != self._user or ack.install != get_install(connection):
            return
        row = connection.execute(
            "SELECT seq FROM sequences WHERE conversation_id = ?", (ack.conversation_id,)
        ).fetchone()
        if ack.seq > (row[0] if row else 0):
            self._start_install(connection)

    def _start_install(self, connection: sqlite3.Connection) -> None:
        LOG.warning("the outbox was restored from a backup: a new install begins, so its numbers do not come twice")
        start_install(connection)

    def _delivered(self, connection: sqlite3.Connection, delivery: Delivery) -> bool:
        """Keep a message that came in and write its receipt; say whether it came for the first time."""
        inserted = connection.execute(
            """INSERT INTO deliveries (message_id, conversation_id, sender, recipients, body, content_type, sent_at,
            deliver_by, attempt) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (message_id) DO NOTHING""",
            (
                delivery.message_id,
                delivery.conversation_id,
                delivery.sender,
                json.dumps(delivery.recipients),
                delivery.body,
                delivery.content_type,
                delivery.sent_at,
                delivery.deliver_by,
                delivery.attempt,
            ),
        ).rowcount
        if inserted:
            self._outbox.write_receipt(connection, Kind.DELIVERED, delivery.conversation_id, delivery.message_id)
            return True
        self._delivered_again(connection, delivery)
        return False

    def _delivered_again(self, connection: sqlite3.Connection, delivery: Delivery) -> None:
        """Write one more receipt where the server, after an answer to ours, asks again all the same."""
        asked_anew = connection.execute(
            "UPDATE deliveries SET attempt = ?1 WHERE message_id = ?2 AND attempt < ?1",
            (delivery.attempt, delivery.message_id),
        ).rowcount
        if not asked_anew:
            return
        waiting = connection.execute(
            "SELECT 1 FROM events WHERE message_id = ? AND kind <> 'SEND'", (delivery.message_id,)
        ).fetchone()
        if waiting is None:
            was_read = connection.execute(
                "SELECT was_read FROM deliveries WHERE message_id = ?", (delivery.message_id,)
            ).fetchone()[0]
            kind = Kind.READ if was_read else Kind.DELIVERED
            self._outbox.write_receipt(connection, kind, delivery.conversation_id, delivery.message_id)


def _ask_again(connection: sqlite3.Connection) -> int:
    """Make due what has no final state; return how many messages that were answered before are sent again."""
    connection.execute("UPDATE queue SET next_attempt_at = 1 WHERE next_attempt_at > 1 AND in_flight = 0")
    return connection.execute(
        """INSERT INTO queue (position, attempts, next_attempt_at, handed, clocked, expires_at, bytes)
        SELECT m.position, 1, 1, 1, 1, m.expires_at, length(e.payload) + length(e.conversation_id)
        FROM messages m JOIN events e USING (position)
        WHERE m.state IN ('SENT', 'UNDELIVERED', 'DELIVERED')
        AND m.position NOT IN (SELECT position FROM queue)"""
    ).rowcount
