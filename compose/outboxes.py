"""Looks into outbox files from outside, read-only, with queries of its own.

So what the demo finds does not rest on the code that it judges, and a message's story can be put together from all the
outboxes of this machine, whoever's they are.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID


class OwnMessage(NamedTuple):
    """A message that the outbox's user sent."""

    message_id: str
    conversation_id: str
    seq: int
    state: str
    created_at: int
    changed_at: int
    """ms since 1970, by the log's clock as far as the client knows it."""


class Arrival(NamedTuple):
    """A message that came in."""

    message_id: str
    body: str


class Entry(NamedTuple):
    """What one outbox knows of one message at one time."""

    at: int
    """ms since 1970."""
    user: str
    what: str
    """`written`, `arrived`, or the state that it was told."""
    version: int
    actor: str


def _reading(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)


def states(path: Path) -> Counter[str]:
    """Return how many of the user's own messages are in each state; empty where the file is not there yet."""
    if not path.is_file():
        return Counter()
    with closing(_reading(path)) as connection:
        try:
            return Counter(dict(connection.execute("SELECT state, count(*) FROM messages GROUP BY state")))
        except sqlite3.OperationalError:  # a file whose tables are still being made
            return Counter()


def own_messages(path: Path, latest: int | None = None) -> list[OwnMessage]:
    """Return the user's own messages in the order in which they were sent; with `latest` only the last few."""
    if not path.is_file():
        return []
    sql = """SELECT message_id, conversation_id, seq, state, created_at, changed_at FROM messages
        ORDER BY position DESC LIMIT ?"""
    with closing(_reading(path)) as connection:
        try:
            rows = connection.execute(sql, (-1 if latest is None else latest,)).fetchall()
        except sqlite3.OperationalError:  # a file whose tables are still being made
            return []
    return [OwnMessage(str(UUID(bytes=row[0])), *row[1:]) for row in reversed(rows)]


def arrivals(path: Path) -> Iterator[Arrival]:
    """Yield everything that came in, in the order of arrival."""
    with closing(_reading(path)) as connection:
        for message_id, body in connection.execute("SELECT message_id, body FROM deliveries ORDER BY arrival"):
            yield Arrival(str(UUID(bytes=message_id)), bytes(body).decode())


def entries(path: Path, message_id: bytes) -> list[Entry]:
    """Return all that an outbox knows of a message, whether its user sent or received it; empty for other files."""
    try:
        with closing(_reading(path)) as connection:
            user = connection.execute("SELECT value FROM meta WHERE name = 'user'").fetchone()[0]
            rows = connection.execute(_ENTRIES, {"id": message_id}).fetchall()
    except (sqlite3.DatabaseError, TypeError):  # not an outbox, not ours to read, or one that is still being made
        return []
    return [Entry(at, user, what, version, actor) for at, what, version, actor in rows]


def conversation_of(path: Path, message_id: bytes) -> str | None:
    """Return the conversation of a message that an outbox knows."""
    sql = """SELECT conversation_id FROM messages WHERE :id IN (message_id, first_id)
        UNION SELECT conversation_id FROM deliveries WHERE message_id = :id"""
    try:
        with closing(_reading(path)) as connection:
            row = connection.execute(sql, {"id": message_id}).fetchone()
    except sqlite3.DatabaseError:  # not an outbox, not ours to read, or one that is still being made
        return None
    return None if row is None else str(row[0])


_ENTRIES: Final = """
    SELECT created_at, 'written', 0, '' FROM messages WHERE :id IN (message_id, first_id)
    UNION ALL SELECT at, state, version, actor FROM ticks WHERE message_id = :id
    UNION ALL SELECT sent_at, 'arrived', 0, sender FROM deliveries WHERE message_id = :id
    ORDER BY 1"""
