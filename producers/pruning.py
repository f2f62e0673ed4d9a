"""Forgetting what is over: the outbox's file stays as large as what still matters."""

import sqlite3

from producers.database import Database
from producers.meta import get, put

TICKS_KEPT = 100_000
_CHUNK = 1_000

PRUNED = "deliveries_pruned_before"
"""The log time in `meta`, in ms, before which a delivery may be gone for its age; not there where none was pruned."""

# Until deliver_by the server may deliver again, and must be recognised.
_DELIVERIES = """DELETE FROM deliveries WHERE arrival IN (SELECT arrival FROM deliveries
    WHERE taken = 1 AND deliver_by < :before LIMIT :chunk)"""
_STATEMENTS = (
    # DELIVERED too: a message that nobody reads is over one day.
    """DELETE FROM messages WHERE position IN (SELECT position FROM messages
    WHERE changed_at < :before AND state NOT IN ('PENDING', 'SENT') LIMIT :chunk)""",
    """DELETE FROM events WHERE position IN (SELECT e.position FROM events e LEFT JOIN messages m USING (position)
    LEFT JOIN queue q USING (position) WHERE e.kind = 'SEND' AND m.position IS NULL AND q.position IS NULL
    LIMIT :chunk)""",
    _DELIVERIES,
    """DELETE FROM ticks WHERE tick IN (SELECT tick FROM ticks
    WHERE tick <= (SELECT max(tick) FROM ticks) - :ticks LIMIT :chunk)""",
)


def prune(database: Database, before_ms: int) -> int:
    """Delete what ended before a log time, in short transactions; return how many rows."""
    total = 0
    for statement in _STATEMENTS:
        deleted = _CHUNK
        while deleted == _CHUNK:
            with database.transaction() as connection:
                values = {"before": before_ms, "chunk": _CHUNK, "ticks": TICKS_KEPT}
                used = {name: value for name, value in values.items() if f":{name}" in statement}
                deleted = connection.execute(statement, used).rowcount
                if deleted and statement is _DELIVERIES:
                    _note(connection, before_ms)
            total += deleted
    return total


def _note(connection: sqlite3.Connection, before_ms: int) -> None:
    """Keep until when deliveries were pruned: what is missing and may be younger was lost."""
    known = get(connection, PRUNED)
    put(connection, PRUNED, max(before_ms, known if isinstance(known, int) else before_ms))
