"""The pump's side of the outbox: what is due, what is in flight, what became of it.

One transaction a turn does all of it in this order: reports of the last turns, rows that ran out of time before they
were ever handed over, the next page of due rows. A row is marked as handed over *before* Kafka gets it, so a killed
pump can only send again, never forget. Rows are moved by ranges of positions, and what can be is worked out by SQL:
a page of a backlog is mostly one range, and Python's share is what a row costs.
"""

import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from producers.clock import Clock, Estimate, LogTime, log_time
from producers.database import Database
from producers.meta import get_estimate, put_estimate
from producers.outbox import move
from producers.pages import AGAIN, Due, Reports, Room, Row, Unanswered, ranges
from producers.remaking import CLOCK_TOLERANCE_MS, latest_id, remake
from producers.retry import RetryPolicy
from schemas.codec import Codec
from schemas.lifecycle import Kind, Reason, State

_FETCH_ROWS = 64
"""Rows read beyond the bytes that a page may hold, at most."""
_ATTEMPTS_TOLD_APART = 24
"""From here on waits grow no more; the default policy is at its longest after 6."""

_COLUMNS = """SELECT q.position, q.bytes, e.conversation_id, e.payload, q.attempts,
    q.attempts = 0 AND e.kind = 'SEND'
        AND (e.message_id > :latest_id OR (:wall_is_off AND q.clocked = 0 AND q.expires_at > 0))
    FROM queue q CROSS JOIN events e USING (position) WHERE q.in_flight = 0 AND"""
_AGAIN = f"{_COLUMNS} q.next_attempt_at < 0 ORDER BY q.next_attempt_at, q.position LIMIT :rows"
_TIMED = f"{_COLUMNS} q.next_attempt_at BETWEEN 1 AND :wall ORDER BY q.next_attempt_at, q.position LIMIT :rows"
_FRESH = f"{_COLUMNS} q.next_attempt_at = 0 ORDER BY q.next_attempt_at, q.position LIMIT :rows"
_ONE = f"{_COLUMNS} q.position = :only LIMIT :rows"

_HAND = "UPDATE queue SET attempts = attempts + 1, handed = handed + 1, in_flight = 1 WHERE position BETWEEN ? AND ?"
_WAITS = " ".join(f"WHEN {attempt} THEN ?{attempt + 3}" for attempt in range(1, _ATTEMPTS_TOLD_APART))
_LAND = f"""UPDATE queue SET in_flight = 0, next_attempt_at = CASE attempts
    WHEN iif(expires_at BETWEEN 1 AND ?3, attempts, 0) THEN ?{_ATTEMPTS_TOLD_APART + 3} {_WAITS}
    ELSE ?{_ATTEMPTS_TOLD_APART + 3} END WHERE position BETWEEN ?1 AND ?2"""
_SEND_AGAIN = "UPDATE queue SET in_flight = 0, next_attempt_at = -1 WHERE position BETWEEN ? AND ?"
_REFUSE = "UPDATE queue SET in_flight = 0, next_attempt_at = ?, handed = handed - 1 WHERE position = ?"

_POSITION, _SIZE, _IS_OFF = (itemgetter(Row._fields.index(name)) for name in ("position", "size", "is_off"))
_row: Callable[[tuple[Any, ...]], Row] = partial(tuple.__new__, Row)
"""As Row._make, without its call of Python code for each row."""


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
                "SELECT (SELECT count(*) FROM queue) - (SELECT count(*) FROM queue "
                "WHERE in_flight = 0 AND next_attempt_at > 0)"
            ).fetchone()[0]
        return count

    def is_handed(self) -> bool:
        """Say whether Kafka has confirmed everything; cheap while there is a backlog."""
        with self._database.reading() as connection:
            waiting = connection.execute(
                "SELECT 1 FROM queue WHERE in_flight = 0 AND next_attempt_at <= 0 LIMIT 1"
            ).fetchone()
        return waiting is None and self.unhanded() == 0

    def due(self) -> Due:
        """Return when rows are due."""
        with self._database.reading() as connection:
            return Due(
                *connection.execute(
                    """SELECT (SELECT min(next_attempt_at) FROM queue WHERE in_flight = 0),
                    (SELECT min(next_attempt_at) FROM queue WHERE in_flight = 0 AND next_attempt_at > 0),
                    (SELECT min(expires_at) FROM queue WHERE handed = 0 AND expires_at > 0)"""
                ).fetchone()
            )

    def log_time(self) -> tuple[LogTime, Estimate | None]:
        """Return the log's time as far as it is known, and what it rests on."""
        with self._database.reading() as connection:
            estimate = get_estimate(connection)
        return log_time(self._clock, estimate), estimate

    def turn(self, reports: Reports, room: Room) -> list[Row]:
        """Settle what `reports` say, then mark and return the next page, in one transaction.

        Nothing is returned as long as the log's time is not known.
        """
        with self._database.transaction() as connection:
            if reports.estimate is not None:
                put_estimate(connection, reports.estimate)
            now = log_time(self._clock, get_estimate(connection))
            self._settle(connection, reports, now)
            self._fail_expired(connection, now)
            if not now.known or room.rows <= 0:
                return []
            rows = self._page(connection, now, room)
            connection.executemany(_HAND, ranges(sorted(map(_POSITION, rows))))
        return rows

    def _settle(self, connection: sqlite3.Connection, reports: Reports, now: LogTime) -> None:
        if reports.done:
            waits = self._next_attempts()
            connection.executemany(_LAND, ((*run, now.ms, *waits) for run in ranges(sorted(reports.done))))
        connection.executemany(_SEND_AGAIN, ranges(sorted(reports.again)))
        connection.executemany(_REFUSE, ((AGAIN, position) for position in reports.refused))
        for position, why in reports.rejected:
            self._reject(connection, position, why, now)

    def _next_attempts(self) -> list[int]:
        """Return when to try again what is answered by nobody, by number of attempts, in ms of the wall clock.

        The last of them is the longest wait. It also counts for what ran out of time and is sent on for its verdict
        alone: no hurry. Rows of one turn share their jitter; turns, and clients, do not.
        """
        wall, chance = self._clock.wall_ms(), random.random()  # noqa: S311 - jitter
        return [
            wall + round(self._policy.ack_wait_s(attempt, chance) * 1000)
            for attempt in range(1, _ATTEMPTS_TOLD_APART + 1)
        ]

    def _reject(self, connection: sqlite3.Connection, position: int, why: str, now: LogTime) -> None:
        """Give up a row that the broker refuses for good, unless another copy of it may be in the log."""
        connection.execute(_REFUSE, (self._next_attempts()[-1], position))
        surely_none = connection.execute(
            "SELECT kind FROM queue JOIN events USING (position) WHERE position = ? AND handed = 0", (position,)
        ).fetchone()
        if surely_none is None:
            return
        if surely_none[0] == Kind.SEND:
            move(connection, position, State.REJECTED, 0, why, "", now.ms)
            return
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
        """Read due rows until the room is full: first what must go again, then what nobody answered, then fresh."""
        values = {
            "latest_id": latest_id(now),
            "wall_is_off": abs(now.shift_ms) > CLOCK_TOLERANCE_MS,
            "wall": self._clock.wall_ms(),
            "only": room.only,
        }
        if room.only is not None:
            queries: Sequence[tuple[str, int]] = [(_ONE, 1)]
        else:
            queries = [(_AGAIN, room.rows), (_TIMED, room.rows), (_FRESH, room.fresh_rows)]
        rows: list[Row] = []
        left = room.bytes
        for sql, most in queries:
            if left > 0 and len(rows) < room.rows:
                found = connection.execute(sql, {**values, "rows": min(most, room.rows - len(rows))})
                left = _fill(rows, found, left)
        if any(map(_IS_OFF, rows)):
            return [remake(connection, row, now, self._codec) if row.is_off else row for row in rows]
        return rows


def _fill(rows: list[Row], found: sqlite3.Cursor, left: int) -> int:
    """Append what is found while there is room for `left` bytes; return what is left, not above 0 where it was full.

    The first row of a page is taken whatever its size.
    """
    while chunk := found.fetchmany(_FETCH_ROWS):
        size = sum(map(_SIZE, chunk))
        if size > left:
            return _fill_up(rows, map(_row, chunk), left)
        rows += map(_row, chunk)
        left -= size
    return left


def _fill_up(rows: list[Row], chunk: Iterable[Row], left: int) -> int:
    for row in chunk:
        if row.size > left and rows:
            return 0
        rows.append(row)
        left -= row.size
    return 0
