"""The pump's side of the outbox: what is due, what is in flight, what became of it.

One transaction a turn does all of it in this order: reports of the last turns, rows that ran out of time before they
were ever handed over, the next page of due rows. A row is marked as handed over *before* Kafka gets it, so a killed
pump can only send again, never forget. Rows are moved by ranges of positions: a page of a backlog is mostly one range.
"""

import random
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from producers.clock import Clock, Estimate, LogTime, log_time
from producers.database import Database
from producers.outbox import get_estimate, move, new_id, put_estimate
from producers.retry import RetryPolicy
from schemas.codec import Codec
from schemas.lifecycle import Kind, Reason, State
from schemas.records import Event

CLOCK_TOLERANCE_MS = 1_000
"""How far ahead of the log an id may be made, and an expiry be off; below what the server allows."""

AGAIN, FRESH = -1, 0
"""`next_attempt_at` of what must go again at once, before anything new, and of what was never tried."""


class Row(NamedTuple):
    """A row that is marked as handed over; remembered until its report comes."""

    position: int
    attempts: int
    """With this one."""
    size: int
    """Of payload and key, in bytes."""
    expires_at: int
    handed_before: int
    """A copy may be in the log from before this attempt."""
    kind: str
    conversation_id: str
    payload: bytes


class Room(NamedTuple):
    """How much a page may hold."""

    rows: int
    bytes: int
    fresh_rows: int
    """Of these, rows never tried before; less where much is unanswered."""
    only: int | None = None
    """Take this position or nothing."""


@dataclass(slots=True)
class Reports:
    """What the delivery reports of a turn said, by position."""

    done: list[int] = field(default_factory=list)
    """Appended to the log."""
    again: list[int] = field(default_factory=list)
    """Not appended, or nobody knows: send at once."""
    refused: list[int] = field(default_factory=list)
    """This copy was surely not appended, but it may have shared its batch with the culprit: try it alone."""
    rejected: list[tuple[int, str]] = field(default_factory=list)
    """Refused alone, and why."""
    estimate: Estimate | None = None
    """The log's clock, where a report told it better."""

    def __bool__(self) -> bool:
        return bool(self.done or self.again or self.refused or self.rejected or self.estimate)


class Due(NamedTuple):
    """When rows are due; each None where there is none."""

    first: int | None
    """The smallest `next_attempt_at`: AGAIN, FRESH or a time of the wall clock in ms."""
    timed: int | None
    """The earliest time."""
    expiring: int | None
    """The earliest expiry among what Kafka never had, in ms."""


class Unanswered(NamedTuple):
    """Rows that were tried and not answered."""

    rows: int
    bytes: int


_COLUMNS = """SELECT q.position, q.attempts, q.handed, q.expires_at, q.clocked, q.bytes,
    e.kind, e.conversation_id, e.message_id, e.payload
    FROM queue q CROSS JOIN events e USING (position) WHERE q.in_flight = 0 AND"""
_AGAIN = f"{_COLUMNS} q.next_attempt_at < 0 ORDER BY q.next_attempt_at, q.position LIMIT ?"
_TIMED = f"{_COLUMNS} q.next_attempt_at BETWEEN 1 AND ? ORDER BY q.next_attempt_at, q.position LIMIT ?"
_FRESH = f"{_COLUMNS} q.next_attempt_at = 0 ORDER BY q.next_attempt_at, q.position LIMIT ?"
_ONE = f"{_COLUMNS} q.position = ?"
_HAND = """UPDATE queue SET attempts = attempts + 1, handed = 1, in_flight = 1 WHERE position BETWEEN ? AND ?"""
_LAND = "UPDATE queue SET in_flight = 0, next_attempt_at = ? WHERE position BETWEEN ? AND ?"
_REFUSE = "UPDATE queue SET in_flight = 0, next_attempt_at = ?, handed = ? WHERE position = ?"


class Backlog:
    """The pump's statements; used by one thread of one process, the holder of the pump's lock."""

    def __init__(self, database: Database, clock: Clock, policy: RetryPolicy, codec: Codec) -> None:
        self._database = database
        self._clock = clock
        self._policy = policy
        self._codec = codec

    def recover(self) -> int:
        """Make due at once what a dead pump had in flight; return how many rows."""
        with self._database.transaction() as connection:
            self._mend_times(connection)
            return connection.execute(
                "UPDATE queue SET in_flight = 0, next_attempt_at = ? WHERE in_flight = 1", (AGAIN,)
            ).rowcount

    def mend_times(self) -> None:
        """Bring attempts nearer that lie too far off because the wall clock was set back."""
        with self._database.transaction() as connection:
            self._mend_times(connection)

    def _mend_times(self, connection: sqlite3.Connection) -> None:
        latest = self._clock.wall_ms() + round(self._policy.max_s * (1 + self._policy.jitter) * 1000)
        connection.execute("UPDATE queue SET next_attempt_at = ?1 WHERE next_attempt_at > ?1", (latest,))

    def unanswered(self) -> Unanswered:
        """Count what was tried, landed, and is not answered."""
        with self._database.reading() as connection:
            rows, size = connection.execute(
                "SELECT count(*), ifnull(sum(bytes), 0) FROM queue WHERE in_flight = 0 AND next_attempt_at > 0"
            ).fetchone()
        return Unanswered(rows, size)

    def unhanded(self) -> int:
        """Count what Kafka has not confirmed."""
        with self._database.reading() as connection:
            count: int = connection.execute(
                """SELECT (SELECT count(*) FROM queue WHERE in_flight = 0 AND next_attempt_at <= 0)
                + (SELECT count(*) FROM queue WHERE in_flight = 1)"""
            ).fetchone()[0]
        return count

    def due(self) -> Due:
        """Return when rows are due."""
        with self._database.reading() as connection:
            first = connection.execute("SELECT min(next_attempt_at) FROM queue WHERE in_flight = 0").fetchone()[0]
            timed = connection.execute(
                "SELECT min(next_attempt_at) FROM queue WHERE in_flight = 0 AND next_attempt_at > 0"
            ).fetchone()[0]
            expiring = connection.execute(
                "SELECT min(expires_at) FROM queue WHERE handed = 0 AND expires_at > 0"
            ).fetchone()[0]
        return Due(first, timed, expiring)

    def log_time(self) -> tuple[LogTime, Estimate | None]:
        """Return the log's time as far as it is known, and what it rests on."""
        with self._database.reading() as connection:
            estimate = get_estimate(connection)
        return log_time(self._clock, estimate), estimate

    def turn(self, reports: Reports, flying: Mapping[int, Row], room: Room) -> list[Row]:
        """Settle what `reports` say, then mark and return the next page, in one transaction."""
        with self._database.transaction() as connection:
            if reports.estimate is not None:
                put_estimate(connection, reports.estimate)
            now = log_time(self._clock, get_estimate(connection))
            self._settle(connection, reports, flying, now)
            self._fail_expired(connection, now)
            if not now.known or room.rows <= 0:
                return []
            rows = self._page(connection, now, room)
            connection.executemany(_HAND, ranges(sorted(row.position for row in rows)))
        return rows

    def _settle(
        self, connection: sqlite3.Connection, reports: Reports, flying: Mapping[int, Row], now: LogTime
    ) -> None:
        wall = self._clock.wall_ms()
        for wait_ms, positions in self._waits(reports.done, flying, now).items():
            connection.executemany(_LAND, ((wall + wait_ms, *bounds) for bounds in ranges(positions)))
        connection.executemany(_LAND, ((AGAIN, *bounds) for bounds in ranges(sorted(reports.again))))
        connection.executemany(
            _REFUSE, ((AGAIN, flying[position].handed_before, position) for position in reports.refused)
        )
        for position, why in reports.rejected:
            self._reject(connection, position, flying[position], why, now)

    def _waits(self, done: Iterable[int], flying: Mapping[int, Row], now: LogTime) -> dict[int, list[int]]:
        """Group landed positions, ascending, by how many ms they wait for their answer."""
        groups: dict[int, list[int]] = {}
        for position in sorted(done):
            row = flying[position]
            # What ran out of time is sent on for its verdict alone: no hurry.
            attempt = 64 if 0 < row.expires_at < now.ms else row.attempts
            groups.setdefault(attempt, []).append(position)
        return {
            round(self._policy.ack_wait_s(attempt, random.random()) * 1000): positions  # noqa: S311 - jitter
            for attempt, positions in groups.items()
        }

    def _reject(self, connection: sqlite3.Connection, position: int, row: Row, why: str, now: LogTime) -> None:
        """Give up a row that the broker refuses for good, unless a copy of it may be in the log."""
        if row.handed_before:
            wait_ms = round(self._policy.ack_wait_s(64, random.random()) * 1000)  # noqa: S311 - jitter
            connection.execute(_REFUSE, (self._clock.wall_ms() + wait_ms, 1, position))
        elif row.kind == Kind.SEND:
            move(connection, position, State.REJECTED, 0, why, "", now.ms)
        else:
            connection.execute("DELETE FROM queue WHERE position = ?", (position,))
            connection.execute("DELETE FROM events WHERE position = ?", (position,))

    def _fail_expired(self, connection: sqlite3.Connection, now: LogTime) -> None:
        """Fail what ran out of time before Kafka ever had it: nobody else can have sent it."""
        wall = self._clock.wall_ms()
        log_ms = now.ms if now.known else 0
        expired = connection.execute(
            """SELECT position FROM queue WHERE handed = 0 AND expires_at > 0 AND expires_at < ?
            AND in_flight = 0 AND expires_at < iif(clocked, ?, ?) LIMIT 1000""",
            (max(wall, log_ms), log_ms, wall),
        ).fetchall()
        for (position,) in expired:
            move(connection, position, State.EXPIRED, 0, Reason.EXPIRED, "", now.ms)

    def _page(self, connection: sqlite3.Connection, now: LogTime, room: Room) -> list[Row]:
        """Read due rows until the room is full; the first one is taken whatever its size."""
        latest_id = (now.ms + CLOCK_TOLERANCE_MS).to_bytes(6, "big")
        rows: list[Row] = []
        size = 0
        for found in self._due(connection, room):
            position, attempts, handed, expires_at, clocked, length, kind, conversation, message_id, payload = found
            size += length
            if size > room.bytes and rows:
                break
            row = Row(position, attempts + 1, length, expires_at, handed, kind, conversation, payload)
            if attempts == 0 and kind == Kind.SEND:
                expiry_is_off = not clocked and expires_at and abs(now.shift_ms) > CLOCK_TOLERANCE_MS
                id_is_ahead = message_id[:6] > latest_id
                if expiry_is_off or id_is_ahead:
                    shift_ms = now.shift_ms if expiry_is_off else 0
                    row = self._made_anew(connection, row, shift_ms, now.ms if id_is_ahead else None)
            rows.append(row)
        return rows

    def _due(self, connection: sqlite3.Connection, room: Room) -> Iterator[tuple[Any, ...]]:
        if room.only is not None:
            yield from connection.execute(_ONE, (room.only,))
            return
        left = room.rows
        for sql, values, most in (
            (_AGAIN, (), room.rows),
            (_TIMED, (self._clock.wall_ms(),), room.rows),
            (_FRESH, (), room.fresh_rows),
        ):
            for row in connection.execute(sql, (*values, max(0, min(most, left)))):
                left -= 1
                yield row

    def _made_anew(self, connection: sqlite3.Connection, row: Row, shift_ms: int, id_ms: int | None) -> Row:
        """Write a SEND that Kafka never had anew in the log's time.

        Its expiry is moved by the wall clock's error. Where an id time is given its ids are replaced; the first one
        stays in `messages.first_id` for those who hold it.
        """
        event = self._codec.decode_as(Event, row.payload)
        if event.expires_at:
            event = event._replace(expires_at=max(1, event.expires_at + shift_ms))
        if id_ms is not None:
            event = event._replace(message_id=new_id(id_ms), event_id=new_id(id_ms))
            connection.execute(
                "UPDATE messages SET message_id = ?, first_id = ifnull(first_id, message_id) WHERE position = ?",
                (event.message_id, row.position),
            )
        payload = self._codec.encode(event)
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
        return row._replace(size=size, expires_at=event.expires_at, payload=payload)


def ranges(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending positions as (first, last) of each gapless run."""
    if not positions:
        return []
    first, last = positions[0], positions[-1]
    if last - first == len(positions) - 1:
        return [(first, last)]
    runs = []
    previous = first
    for position in positions[1:]:
        if position != previous + 1:
            runs.append((first, previous))
            first = position
        previous = position
    runs.append((first, previous))
    return runs
