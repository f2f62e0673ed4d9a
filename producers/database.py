"""The outbox's SQLite file: opening it safely, one connection a thread, transactions, and errors translated once."""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from producers import tables
from producers.errors import ClientClosedError, OutboxBusyError, OutboxError, OutboxFullError
from producers.filesystem import network_type

LOG = logging.getLogger(__name__)

FOREIGN_CHANGE_POLL_S = 0.05
"""How often a waiting thread looks whether another process has changed the file."""

_FULL = 2


class Database:
    """One outbox file; safe to use from many threads, and beside other processes.

    Threads of this process queue at a lock of their own before they ask SQLite for its write lock: SQLite's busy
    handler sleeps and is unfair, which is right between processes only.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = 60.0, allow_network: bool = False) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self._allow_network = allow_network
        self._pid = os.getpid()
        self._local = threading.local()
        self._connections: list[tuple[threading.Thread, sqlite3.Connection]] = []
        self._registry = threading.Lock()
        # Of one thread again and again: a signal may close the client in the middle of its main thread's write.
        self._writing = threading.RLock()
        self._changed = threading.Condition()
        self._generation = 0
        self._closed = False

    def open(self) -> None:
        """Create the file where there is none and bring it to this version. Raises OutboxError."""
        self._check_file_system()
        with _translated(self.path):
            if not self.path.exists():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # SQLite gives its -wal and -shm files the permissions of the main file.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._migrate()

    def _check_file_system(self) -> None:
        found = network_type(self.path.parent)
        if not found:
            return
        if not self._allow_network:
            raise OutboxError(
                f"the outbox {self.path} lies on a network file system ({found}), where SQLite can lose messages",
                "Put it on a local disk, or allow it knowingly with allow_network_outbox.",
            )
        LOG.warning("the outbox %s lies on a network file system (%s): messages can be lost", self.path, found)

    def _migrate(self) -> None:
        with self.transaction() as connection:
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if names and not (version and "meta" in names):
                raise OutboxError(
                    f"the file {self.path} is no outbox, but another program's database", "Name another file."
                )
            if version > tables.VERSION:
                raise OutboxError(
                    f"the outbox {self.path} has version {version}, this program knows up to {tables.VERSION}",
                    "Install the version of twotick that last used it, or a newer one.",
                )
            for step in tables.MIGRATIONS[version:]:
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {tables.VERSION}")

    def connection(self) -> sqlite3.Connection:
        """Return this thread's connection. Raises ClientClosedError after close() and in a forked child."""
        if os.getpid() != self._pid:
            raise forked_error()
        if self._closed:
            raise _closed_error()
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            with _translated(self.path):
                found = self._connect()
            self._local.connection = found
            self._register(found)
        return found

    def _register(self, made: sqlite3.Connection) -> None:
        """Note this thread's connection for close(), and close those of threads that have ended."""
        with self._registry:
            alive = [(threading.current_thread(), made)]
            for thread, connection in self._connections:
                if thread.is_alive():
                    alive.append((thread, connection))
                else:
                    connection.close()
            self._connections = alive

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        level = connection.execute("PRAGMA synchronous").fetchone()[0]
        if (mode, level) != ("wal", _FULL):
            connection.close()
            raise OutboxError(
                f"the outbox {self.path} runs with journal_mode={mode}, synchronous={level}; it needs wal and {_FULL}",
                "Move it to a local file system; a power cut could lose accepted messages here.",
            )
        return connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block as one write transaction, from BEGIN IMMEDIATE: all of it is on disk afterwards, or none.

        Raises OutboxBusyError, OutboxFullError, OutboxError; whatever the block raises undoes it.
        """
        connection = self.connection()
        with self._writing, self._guarded():
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # A full disk may have ended the transaction already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self.notify()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Run a block that only reads, with errors translated."""
        connection = self.connection()
        with self._guarded():
            yield connection

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Translate errors; those of a connection that close() has just taken away say so."""
        try:
            with _translated(self.path):
                yield
        except OutboxError as error:
            if self._closed:
                raise _closed_error() from error
            raise

    @property
    def generation(self) -> int:
        """A number that rises with every change that this process knows of; read it before what may change."""
        return self._generation

    def notify(self) -> None:
        """Wake the threads that wait for a change."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()

    def wait_for_change(self, generation: int, timeout_s: float) -> None:
        """Return when something has changed since `generation` was read, by any process, or after the time-out."""
        connection = self.connection()
        before = getattr(self._local, "data_version", None)
        remaining_s = timeout_s
        with self._changed:
            while remaining_s > 0 and self._generation == generation and not self._closed:
                slice_s = min(remaining_s, FOREIGN_CHANGE_POLL_S)
                self._changed.wait(slice_s)
                remaining_s -= slice_s
                if self._generation == generation and not self._closed:
                    with self._guarded():
                        now = connection.execute("PRAGMA data_version").fetchone()[0]
                    self._local.data_version = now
                    if now != before:
                        break

    def close(self) -> None:
        """Close every thread's connection; calling it again does nothing, nor does a forked child's call."""
        if os.getpid() != self._pid:
            # The parent's locks may have been held at the fork, and its connections are not ours to close.
            return
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._generation += 1
            self._changed.notify_all()
        with self._writing, self._registry:
            for _, connection in self._connections:
                connection.close()
            self._connections.clear()


def forked_error() -> ClientClosedError:
    """Return the error of a client that a forked child uses: its connections and threads are the parent's."""
    return ClientClosedError(
        "this client was opened before a fork, in the parent process", "Open a new one in the child."
    )


def _closed_error() -> ClientClosedError:
    return ClientClosedError("the client is closed", "Open a new one; what it did not send is in the outbox.")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _ours(error, path) from error
    except OSError as error:
        raise OutboxError(f"the outbox {path} cannot be opened: {error}", "Check the folder and its owner.") from error


def _ours(error: sqlite3.Error, path: Path) -> OutboxError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return OutboxBusyError(f"the outbox {path} was locked for too long", "Try again; see who else has it open.")
    if code == sqlite3.SQLITE_FULL:
        return OutboxFullError(f"no room left for the outbox {path}; nothing was written", "Free space, then retry.")
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return OutboxError(
            f"the file {path} is damaged, or no outbox", "Restore a backup, or move it away: a new one will be made."
        )
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}:
        return OutboxError(f"the outbox {path} cannot be written: {error}", "Check the file, its folder and owner.")
    return OutboxError(f"the outbox {path} failed: {error}", "Look at the disk and at the system's log.")
