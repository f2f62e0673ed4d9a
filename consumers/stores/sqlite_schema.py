"""The SQLite store's tables, its migrations, how a connection to its file is opened, and a transaction on it.

`user_version` counts the migrations that a file has seen. They are applied on opening, under a file lock, because
several workers start at once and SQLite answers BUSY at once to two that switch the journal mode.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from consumers.errors import StoreRefusedError, StoreUnavailableError

MIGRATIONS: Final[tuple[str, ...]] = (
    """
    -- What moves: rewritten at every transition, so the body is kept apart.
    CREATE TABLE messages (
        conversation_id TEXT NOT NULL, message_id BLOB NOT NULL, state TEXT NOT NULL, sender TEXT NOT NULL,
        recipients TEXT NOT NULL, receipts TEXT NOT NULL, digest BLOB NOT NULL, install BLOB NOT NULL,
        seq INTEGER NOT NULL, log_partition INTEGER NOT NULL, sent_at INTEGER NOT NULL, deliver_by INTEGER NOT NULL,
        version INTEGER NOT NULL, generation INTEGER NOT NULL, log_offset INTEGER NOT NULL, stamp INTEGER NOT NULL,
        epoch INTEGER NOT NULL, node TEXT NOT NULL,
        PRIMARY KEY (conversation_id, message_id)
    ) WITHOUT ROWID;
    -- What is written once. A message without its content is one whose making write has not landed.
    CREATE TABLE contents (
        conversation_id TEXT NOT NULL, message_id BLOB NOT NULL, body BLOB NOT NULL, content_type TEXT NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (conversation_id, message_id)
    );
    CREATE TABLE transitions (
        conversation_id TEXT NOT NULL, message_id BLOB NOT NULL, version INTEGER NOT NULL, state TEXT NOT NULL,
        actor TEXT NOT NULL, at INTEGER NOT NULL, log_offset INTEGER NOT NULL, epoch INTEGER NOT NULL,
        node TEXT NOT NULL,
        PRIMARY KEY (conversation_id, message_id, version)
    ) WITHOUT ROWID;
    CREATE TABLE conversations (
        conversation_id TEXT PRIMARY KEY, participants TEXT NOT NULL, buckets TEXT NOT NULL, blocks TEXT NOT NULL,
        sequences TEXT NOT NULL, version INTEGER NOT NULL, generation INTEGER NOT NULL, log_offset INTEGER NOT NULL,
        stamp INTEGER NOT NULL, epoch INTEGER NOT NULL, node TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE partition_leases (
        log_partition INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, node TEXT NOT NULL, since INTEGER NOT NULL
    );
    CREATE TABLE topic_records (
        topic TEXT PRIMARY KEY, topic_id TEXT NOT NULL, partitions INTEGER NOT NULL, generation INTEGER NOT NULL
    );
    CREATE TABLE pending_deliveries (
        log_partition INTEGER NOT NULL, bucket INTEGER NOT NULL, conversation_id TEXT NOT NULL,
        message_id BLOB NOT NULL, attempt INTEGER NOT NULL,
        PRIMARY KEY (log_partition, bucket, conversation_id, message_id)
    ) WITHOUT ROWID;
    CREATE TABLE pending_progress (log_partition INTEGER PRIMARY KEY, bucket INTEGER NOT NULL);
    """,
    """
    -- What the workers share beside messages. A lock's row stays, so that its fencing token only rises; it is held
    -- while holder is not null and since_tick <= now < until_tick, by the clock that starts with the machine.
    CREATE TABLE locks (
        name TEXT PRIMARY KEY, fence INTEGER NOT NULL, holder TEXT, owner TEXT NOT NULL, since INTEGER NOT NULL,
        until INTEGER NOT NULL, since_tick INTEGER NOT NULL, until_tick INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE config (
        scope TEXT NOT NULL, version INTEGER NOT NULL, fence INTEGER NOT NULL, settings TEXT NOT NULL,
        changed_key TEXT NOT NULL, changed_at INTEGER NOT NULL, changed_by TEXT NOT NULL,
        PRIMARY KEY (scope, version)
    ) WITHOUT ROWID;
    CREATE TABLE partition_statistics (
        log_partition INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, revision INTEGER NOT NULL,
        snapshot INTEGER NOT NULL, node TEXT NOT NULL, at INTEGER NOT NULL, share TEXT NOT NULL
    );
    CREATE TABLE node_statistics (node TEXT PRIMARY KEY, at INTEGER NOT NULL, report TEXT NOT NULL) WITHOUT ROWID;
    """,
    """
    ALTER TABLE conversations ADD COLUMN parkings TEXT NOT NULL DEFAULT '';
    -- Dead letters that somebody has dealt with, by the original's position and append time.
    CREATE TABLE dead_letter_marks (
        log_partition INTEGER NOT NULL, log_offset INTEGER NOT NULL, appended_at INTEGER NOT NULL,
        deed TEXT NOT NULL, who TEXT NOT NULL, at INTEGER NOT NULL,
        PRIMARY KEY (log_partition, log_offset, appended_at)
    ) WITHOUT ROWID;
    """,
    """
    -- Deliveries to an outside gateway: marked before the call, settled after it.
    CREATE TABLE delivery_claims (
        conversation_id TEXT NOT NULL, message_id BLOB NOT NULL, recipient TEXT NOT NULL, version INTEGER NOT NULL,
        fence INTEGER NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, epoch INTEGER NOT NULL,
        node TEXT NOT NULL, next_at INTEGER NOT NULL, detail TEXT NOT NULL, forget_at INTEGER NOT NULL,
        PRIMARY KEY (conversation_id, message_id, recipient)
    ) WITHOUT ROWID;
    """,
    """
    -- Where the earlier generations of the same topic ended: JSON, oldest first, end offsets by partition.
    ALTER TABLE topic_records ADD COLUMN earlier TEXT NOT NULL DEFAULT '[]';
    """,
)


def connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a connection with the pragmas that the store relies on, asserted; raises sqlite3.Error, StoreRefusedError.

    `synchronous=FULL` because a commit is what is answered for: with NORMAL, WAL commits may vanish with the power.
    """
    connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous = FULL")
    if connection.execute("PRAGMA synchronous").fetchone() != (2,):
        raise StoreRefusedError("SQLite does not accept synchronous=FULL", hint="Use another build of SQLite.")
    return connection


@contextmanager
def immediate(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run a block as one write transaction, from BEGIN IMMEDIATE; roll back on any error. Raises sqlite3.Error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def seen_migrations(path: Path) -> int:
    """Return how many migrations the file has seen; 0 where there is no file."""
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def migrate(path: Path, timeout_s: float) -> int:
    """Bring the file to the newest schema; return how many migrations were applied. Safe from many processes at once.

    Raises sqlite3.Error, StoreUnavailableError where the file lock is not had in time, StoreRefusedError where the
    file is newer than this program.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(path.with_name(path.name + ".lock"), timeout=timeout_s):
            return _migrate(path, timeout_s)
    except Timeout:
        raise StoreUnavailableError(
            f"another process has been changing the schema of {path} for {timeout_s:g} s", hint="Try again."
        ) from None


def _migrate(path: Path, timeout_s: float) -> int:
    connection = connect(path, timeout_s)
    try:
        _use_wal(connection, path)
        seen = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if seen > len(MIGRATIONS):
            raise StoreRefusedError(
                f"{path} has schema version {seen}; this program knows {len(MIGRATIONS)}", hint="Upgrade twotick."
            )
        for number, script in enumerate(MIGRATIONS[seen:], start=seen + 1):
            connection.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT;")
        return len(MIGRATIONS) - seen
    finally:
        connection.close()


def _use_wal(connection: sqlite3.Connection, path: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != ("wal",):
        raise StoreRefusedError(
            f"SQLite cannot use a write-ahead log for {path} (it stays in mode {mode[0]})",
            hint="Put the file on a local file system.",
        )
