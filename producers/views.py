"""What callers read from the outbox."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from producers.database import Database
from schemas.identity import text_of
from schemas.lifecycle import State, label


@dataclass(frozen=True, slots=True)
class Tick:
    """One change of a message's state."""

    number: int
    """Rises with each tick of this outbox."""
    message_id: str
    conversation: str
    state: str
    """As people read it: `sent`, `delivered`, `read`, `failed(expired)`."""
    version: int
    reason: str
    actor: str
    """Who caused it; empty where nobody did."""
    at: datetime


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where an own message stands."""

    position: int
    message_id: str
    conversation: str
    recipients: tuple[str, ...]
    raw_state: str
    """A name of `schemas.lifecycle.State`."""
    version: int
    reason: str
    created_at: datetime
    expires_at: int
    """Log time in ms; 0: never."""
    attempts: int
    """Times it was handed to Kafka without an answer so far."""
    handed: bool
    """Kafka may have a copy of what is not answered."""
    next_attempt_at: int
    """ms since 1970 by the wall clock; 0: at once, or no more."""

    @property
    def state(self) -> str:
        """The state as people read it."""
        return label(self.raw_state)

    def not_confirmed(self, log_ms: int) -> bool:
        """Say whether its time is over while the log's verdict is still out; `log_ms` is the log's time now."""
        return self.raw_state == State.PENDING and self.handed and 0 < self.expires_at < log_ms


class Arrival(NamedTuple):
    """A message that came in, as stored."""

    arrival: int
    message_id: bytes
    conversation_id: str
    sender: str
    recipients: tuple[str, ...]
    body: bytes
    content_type: str
    sent_at: int
    deliver_by: int


class Counts(NamedTuple):
    """How much the outbox holds."""

    fresh: int
    """Events that Kafka never had."""
    unanswered: int
    """Events that Kafka had and nobody answered."""
    pending: int
    """Own messages without a verdict."""
    waiting: int
    """Messages that came in and were not handed to the program."""


_OUTLOOK = """SELECT m.position, m.message_id, m.conversation_id, m.recipients, m.state, m.version, m.reason,
    m.created_at, m.expires_at, ifnull(q.attempts, 0), ifnull(q.handed, 0) OR ifnull(q.in_flight, 0),
    max(0, ifnull(q.next_attempt_at, 0)) FROM messages m LEFT JOIN queue q USING (position)"""


_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_402_300_799_000


def moment(ms: int) -> datetime:
    """Return ms since 1970 as a datetime in UTC; the nearest one where a record carries a time that no calendar has."""
    return datetime.fromtimestamp(min(max(ms, _EARLIEST_MS), _LATEST_MS) / 1000, UTC)


class Views:
    """Reading the outbox; safe from many threads and beside other processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def at(self, position: int) -> Outlook | None:
        """Return the own message at a position."""
        return self._one(f"{_OUTLOOK} WHERE m.position = ?", position)

    def named(self, message_id: bytes) -> Outlook | None:
        """Return the own message of an id, also by the id it first had."""
        found = self._one(f"{_OUTLOOK} WHERE m.message_id = ?", message_id)
        return found or self._one(f"{_OUTLOOK} WHERE m.first_id = ?", message_id)

    def _one(self, sql: str, value: object) -> Outlook | None:
        with self._database.reading() as connection:
            row = connection.execute(sql, (value,)).fetchone()
        return None if row is None else _outlook(row)

    def listing(self, limit: int, *, pending_only: bool = False) -> list[Outlook]:
        """Return the newest own messages, newest first."""
        where = " WHERE m.state = 'PENDING'" if pending_only else ""
        with self._database.reading() as connection:
            rows = connection.execute(f"{_OUTLOOK}{where} ORDER BY m.position DESC LIMIT ?", (limit,)).fetchall()
        return [_outlook(row) for row in rows]

    def ticks_after(self, number: int, limit: int = 1000) -> Sequence[Tick]:
        """Return ticks with a larger number, in order."""
        with self._database.reading() as connection:
            rows = connection.execute(
                """SELECT tick, message_id, conversation_id, state, version, reason, actor, at FROM ticks
                WHERE tick > ? ORDER BY tick LIMIT ?""",
                (number, limit),
            ).fetchall()
        return [
            Tick(tick, text_of(message_id), conversation, label(state), version, reason, actor, moment(at))
            for tick, message_id, conversation, state, version, reason, actor, at in rows
        ]

    def last_tick(self) -> int:
        """Return the number of the last tick, 0 before the first."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ticks'").fetchone()
        return row[0] if row else 0

    def arrivals_after(self, arrival: int, limit: int) -> Iterator[Arrival]:
        """Return messages that came in later and were not taken, in the order in which they came."""
        with self._database.reading() as connection:
            rows = connection.execute(
                """SELECT arrival, message_id, conversation_id, sender, recipients, body, content_type, sent_at,
                deliver_by FROM deliveries WHERE taken = 0 AND arrival > ? ORDER BY arrival LIMIT ?""",
                (arrival, limit),
            ).fetchall()
        return (_arrival(row) for row in rows)

    def take(self, arrivals: Sequence[int]) -> None:
        """Note that the program has dealt with messages: they are not handed to it again."""
        with self._database.transaction() as connection:
            connection.executemany(
                "UPDATE deliveries SET taken = 1 WHERE arrival = ? AND taken = 0", ((arrival,) for arrival in arrivals)
            )

    def counts(self) -> Counts:
        """Count what there is."""
        with self._database.reading() as connection:
            return Counts(
                *(
                    connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0]
                    for what in (
                        "queue WHERE handed = 0 AND in_flight = 0",
                        "queue WHERE handed = 1",
                        "messages WHERE state = 'PENDING'",
                        "deliveries WHERE taken = 0",
                    )
                )
            )


def _arrival(row: tuple[Any, ...]) -> Arrival:
    return Arrival._make((*row[:4], tuple(json.loads(row[4])), *row[5:]))


def _outlook(row: tuple[Any, ...]) -> Outlook:
    position, message_id, conversation, recipients, state, version, reason, created_at, expires_at, *rest = row
    attempts, handed, next_attempt_at = rest
    return Outlook(
        position=position,
        message_id=text_of(message_id),
        conversation=conversation,
        recipients=tuple(json.loads(recipients)),
        raw_state=state,
        version=version,
        reason=reason,
        created_at=moment(created_at),
        expires_at=expires_at,
        attempts=attempts,
        handed=bool(handed),
        next_attempt_at=next_attempt_at,
    )
