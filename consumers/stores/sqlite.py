"""The store of one machine: a SQLite file that several worker processes share.

Write-ahead log and `synchronous=FULL`; every transaction that writes begins IMMEDIATE, because a deferred one that
reads first fails at once, whatever the busy time-out, when another process writes in between. Writes run on one
thread per process with group commit (`sqlite_writer.py`), reads on the caller's.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from consumers import clock
from consumers.claims.sqlite import SqliteClaimTable
from consumers.errors import OwnerFencedError, StoreRefusedError
from consumers.hot.sqlite import SqliteConfigTable
from consumers.locks.sqlite import SqliteLockTable
from consumers.rows import ConversationRow, ConversationWrite, MessageWrite, Owner
from consumers.statistics.sqlite import SqliteStatisticsTable
from consumers.stores.contract import (
    Content,
    DeadLetterMark,
    Done,
    Lease,
    MessageKey,
    Pending,
    RowCounts,
    Rows,
    StoredMessage,
    TopicRecord,
)
from consumers.stores.generations import from_text, to_text
from consumers.stores.process import OpenIn
from consumers.stores.shared import Shared
from consumers.stores.sqlite_errors import translating
from consumers.stores.sqlite_rows import (
    CONTENT,
    CONVERSATION,
    CONVERSATIONS,
    MESSAGE,
    STORED,
    conversation_row,
    mend_conversations,
    mend_messages,
    message_row,
    put_conversations,
    put_messages,
    stored_message,
)
from consumers.stores.sqlite_schema import connect, immediate, migrate
from consumers.stores.sqlite_shared import SharedConnection
from consumers.stores.sqlite_writer import SqliteWrite, SqliteWriter

PAGE_ROWS: Final = 500

_CLAIM: Final = (
    "INSERT INTO partition_leases VALUES (?, 1, ?, ?) ON CONFLICT DO UPDATE"
    " SET epoch = epoch + 1, node = excluded.node, since = excluded.since RETURNING *"
)
_SPILL: Final = (
    "INSERT INTO pending_deliveries SELECT ?1, ?2, ?3, ?4, ?5"
    " WHERE NOT EXISTS (SELECT 1 FROM pending_progress WHERE log_partition = ?1 AND bucket >= ?2)"
    " ON CONFLICT DO UPDATE"
    " SET attempt = max(attempt, excluded.attempt)"
)
_SPILLED: Final = (
    "SELECT conversation_id, message_id, attempt FROM pending_deliveries WHERE log_partition = ? AND bucket = ?"
    " AND (conversation_id, message_id) > (?, ?) ORDER BY conversation_id, message_id LIMIT ?"
)
_PROGRESS: Final = (
    "INSERT INTO pending_progress VALUES (?, ?) ON CONFLICT DO UPDATE SET bucket = max(bucket, excluded.bucket)"
)

_COUNTS: Final = "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM conversations)"
_ALL: Final = f"{STORED} WHERE (conversation_id, message_id) > (?, ?) ORDER BY conversation_id, message_id LIMIT ?"
_CONVERSATIONS: Final = f"{CONVERSATIONS} WHERE conversation_id > ? ORDER BY conversation_id LIMIT ?"
_MARK: Final = (
    "INSERT INTO dead_letter_marks VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
    " SET deed = excluded.deed, who = excluded.who, at = excluded.at WHERE excluded.at >= at"
)
_MARKS: Final = (
    "SELECT * FROM dead_letter_marks WHERE (log_partition, log_offset, appended_at) > (?, ?, ?)"
    " ORDER BY log_partition, log_offset, appended_at LIMIT ?"
)


class SqliteStore:
    """`Store` on a SQLite file; make one with `open`."""

    def __init__(
        self,
        path: Path,
        reader: sqlite3.Connection,
        writer: SqliteWriter,
        now_ms: Callable[[], int],
        busy_timeout_s: float,
    ) -> None:
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._shared: SharedConnection | None = None
        self._reader = reader
        self._writer = writer
        self._now_ms = now_ms
        self._open = OpenIn()

    @classmethod
    def open(cls, path: Path, *, busy_timeout_s: float = 30.0, now_ms: Callable[[], int] = clock.now_ms) -> Self:
        """Open the file, making it and bringing its schema up to date where needed.

        `busy_timeout_s` bounds how long a transaction waits for another process. Raises StoreUnavailableError,
        StoreRefusedError.
        """
        with translating(path):
            migrate(path, busy_timeout_s)
            writer = SqliteWriter(connect(path, busy_timeout_s), path)
            reader = connect(path, busy_timeout_s)
        writer.start()
        return cls(path, reader, writer, now_ms, busy_timeout_s)

    def read(self, messages: Sequence[MessageKey], conversations: Sequence[str]) -> Rows:
        """Read the rows named, all at once."""
        with self._reading() as reader:
            rows = [reader.execute(MESSAGE, key).fetchone() for key in messages]
            others = [reader.execute(CONVERSATION, (key,)).fetchone() for key in conversations]
        return Rows(
            {(found[0], found[1]): message_row(found) for found in rows if found},
            {found[0]: conversation_row(found) for found in others if found},
        )

    def write(
        self,
        owner: Owner,
        messages: Sequence[MessageWrite],
        conversations: Sequence[ConversationWrite],
        done: Done,
        *,
        partition: int | None = None,
    ) -> None:
        """Queue the rows for the next commit; a fenced owner's are refused in it."""

        def put(connection: sqlite3.Connection) -> None:
            _fence(connection, owner, partition)
            put_messages(connection, owner, messages)
            put_conversations(connection, owner, conversations)

        self._submit(put, done)

    def mend(
        self, owner: Owner, messages: Sequence[MessageWrite], conversations: Sequence[ConversationWrite], done: Done
    ) -> None:
        """Queue whole rows for the next commit."""

        def put(connection: sqlite3.Connection) -> None:
            mend_messages(connection, owner, messages)
            mend_conversations(connection, owner, conversations)

        self._submit(put, done)

    def contents(self, messages: Sequence[MessageKey]) -> Mapping[MessageKey, Content]:
        """Read bodies for redelivery."""
        with self._reading() as reader:
            rows = {key: reader.execute(CONTENT, key).fetchone() for key in messages}
        return {key: Content(*found) for key, found in rows.items() if found}

    def spill(self, owner: Owner, partition: int, bucket: int, pending: Sequence[Pending], done: Done) -> None:
        """Queue deliveries for the next commit; a fenced owner's are refused in it."""
        values = [(partition, bucket, *waiting) for waiting in pending]

        def put(connection: sqlite3.Connection) -> None:
            _fence(connection, owner, partition)
            connection.executemany(_SPILL, values)

        self._submit(put, done)

    def spilled(self, partition: int, bucket: int) -> Iterator[Pending]:
        """Read a time bucket's deliveries, paged."""
        return map(Pending._make, self._pages(_SPILLED, (partition, bucket), after=("", b"")))

    def drop_spilled(self, owner: Owner, partition: int, bucket: int) -> None:
        """Forget a whole time bucket and remember that all up to it is worked off, unless the owner is fenced."""
        with self._transaction() as connection:
            _fence(connection, owner, partition)
            connection.execute(
                "DELETE FROM pending_deliveries WHERE log_partition = ? AND bucket = ?", (partition, bucket)
            )
            connection.execute(_PROGRESS, (partition, bucket))

    def spill_position(self, partition: int) -> int | None:
        """Return the newest bucket that is worked off, None before the first."""
        found = self._fetch("SELECT bucket FROM pending_progress WHERE log_partition = ?", (partition,))
        return int(found[0][0]) if found else None

    def claim_lease(self, partition: int, node: str) -> Lease:
        """Take a partition: epoch + 1 in one transaction."""
        with self._transaction() as connection:
            return Lease(*connection.execute(_CLAIM, (partition, node, self._now_ms())).fetchone())

    def leases(self) -> Sequence[Lease]:
        """Read all leases."""
        return [Lease(*found) for found in self._fetch("SELECT * FROM partition_leases ORDER BY log_partition")]

    def topic_record(self, topic: str) -> TopicRecord | None:
        """Read what is recorded about a topic."""
        found = self._fetch("SELECT * FROM topic_records WHERE topic = ?", (topic,))
        return _topic_record(found[0]) if found else None

    def record_topic(self, record: TopicRecord, expected: TopicRecord | None) -> bool:
        """Replace the record where it is still `expected`; say whether it was."""
        with self._transaction() as connection:
            found = connection.execute("SELECT * FROM topic_records WHERE topic = ?", (record.topic,)).fetchone()
            if (_topic_record(found) if found else None) != expected:
                return False
            values = (*record[:4], to_text(record.earlier))
            connection.execute("INSERT OR REPLACE INTO topic_records VALUES (?, ?, ?, ?, ?)", values)
        return True

    def message(self, key: MessageKey) -> StoredMessage | None:
        """Read one message whole."""
        return next(self._stored("WHERE conversation_id = ? AND message_id = ?", key), None)

    def history(self, conversation_id: str, limit: int, *, newest_first: bool = True) -> Iterator[StoredMessage]:
        """Read a conversation's messages in the order of their ids, paged."""
        beyond, order = ("<", "DESC") if newest_first else (">", "ASC")
        clause = f"WHERE conversation_id = ? AND message_id {beyond} ? ORDER BY message_id {order} LIMIT ?"
        after = b"\xff" * 17 if newest_first else b""
        while limit > 0:
            page = list(self._stored(clause, (conversation_id, after, min(limit, PAGE_ROWS))))
            yield from page
            limit = limit - len(page) if len(page) == PAGE_ROWS else 0
            after = page[-1].row.message_id if page else after

    def find(self, message_id: bytes) -> Iterator[StoredMessage]:
        """Find a message without its conversation: a scan."""
        return self._stored("WHERE message_id = ?", (message_id,))

    def all_messages(self) -> Iterator[StoredMessage]:
        """Read every message, paged."""
        return self._whole(self._pages(_ALL, after=("", b"")))

    def shared(self) -> Shared:
        """Return the shared tables, on a connection of their own that is opened when they are first asked for."""
        self._open.check()
        if self._shared is None:
            self._shared = SharedConnection(self._path, self._busy_timeout_s)
        shared = self._shared
        locks = SqliteLockTable(shared, now_ms=self._now_ms)
        claims = SqliteClaimTable(shared, now_ms=self._now_ms)
        return Shared(locks, SqliteConfigTable(shared), SqliteStatisticsTable(shared), claims)

    def messages(self, keys: Sequence[MessageKey]) -> Mapping[MessageKey, StoredMessage]:
        """Read messages whole."""
        found = (self.message(key) for key in keys)
        return {one.key: one for one in found if one is not None}

    def all_conversations(self) -> Iterator[ConversationRow]:
        """Read every conversation, paged."""
        return map(conversation_row, self._pages(_CONVERSATIONS, after=("",)))

    def row_counts(self) -> RowCounts:
        """Count messages and conversations."""
        return RowCounts(*self._fetch(_COUNTS)[0])

    def mark_dead_letters(self, marks: Sequence[DeadLetterMark]) -> None:
        """Keep marks in one transaction."""
        with self._transaction() as connection:
            connection.executemany(_MARK, marks)

    def dead_letter_marks(self) -> Iterator[DeadLetterMark]:
        """Read all marks, paged."""
        return map(DeadLetterMark._make, self._pages(_MARKS, after=(-1, -1, -1)))

    def ping(self) -> None:
        """Read the schema's version."""
        self._fetch("PRAGMA user_version")

    def close(self) -> None:
        """Finish what is queued and close the connections."""
        if self._open.close():
            self._writer.close()
            self._reader.close()
            if self._shared is not None:
                self._shared.close()

    def _submit(self, work: SqliteWrite, done: Done) -> None:
        try:
            self._open.check()
        except StoreRefusedError as error:
            done(error)
            return
        self._writer.submit(work, done)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self._open.check()
        with translating(self._path):
            yield self._reader

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Begin, yield, commit; roll back on any error."""
        with self._reading() as connection, immediate(connection):
            yield connection

    def _fetch(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._reading() as reader:
            return reader.execute(sql, values).fetchall()

    def _pages(
        self, sql: str, values: tuple[object, ...] = (), *, after: tuple[object, ...]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows, a page at a time; the next page begins behind a row's first columns, as many as `after` has."""
        while page := self._fetch(sql, (*values, *after, PAGE_ROWS)):
            yield from page
            after = page[-1][: len(after)]

    def _stored(self, clause: str, values: Sequence[object]) -> Iterator[StoredMessage]:
        yield from self._whole(self._fetch(f"{STORED} {clause}", values))

    def _whole(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[StoredMessage]:
        """Yield the messages of rows that `STORED` found."""
        for found in rows:
            with self._reading() as reader:
                message = stored_message(reader, found)
            yield message


def _fence(connection: sqlite3.Connection, owner: Owner, partition: int | None) -> None:
    """Refuse, within a transaction, what an owner writes after a later one has claimed the partition's lease."""
    found = connection.execute("SELECT epoch FROM partition_leases WHERE log_partition = ?", (partition,)).fetchone()
    if found and found[0] > owner.epoch:
        raise OwnerFencedError(*owner)


def _topic_record(found: Sequence[Any]) -> TopicRecord:
    return TopicRecord._make((*found[:4], from_text(found[4])))
