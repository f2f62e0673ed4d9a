"""One thread that writes into SQLite with group commit: what is queued shares a transaction, and so an fsync."""

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from consumers.errors import OwnerFencedError, StoreRefusedError
from consumers.stores.contract import Done
from consumers.stores.sqlite_errors import ERRORS, translated

WRITES_PER_COMMIT_MAX: Final = 64
"""Bounds how long one transaction keeps other processes waiting."""

SqliteWrite = Callable[[sqlite3.Connection], None]

LOG = logging.getLogger(__name__)


class QueuedWrite(NamedTuple):
    """Statements to run inside a transaction, and whom to tell once it is committed."""

    run: SqliteWrite
    done: Done


class SqliteWriter:
    """The thread and its queue. Nothing is retried: a failed write's `done` gets the error."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._queue: SimpleQueue[QueuedWrite | None] = SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="twotick-sqlite-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, write: SqliteWrite, done: Done) -> None:
        """Queue a write; `done` is called once, from the writer's thread."""
        self._queue.put(QueuedWrite(write, done))
        if self._ended:
            self._refuse_rest()

    def close(self) -> None:
        """Finish what is queued, end the thread and close the connection."""
        self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        try:
            while (write := self._queue.get()) is not None:
                self._commit(self._with_others(write))
        except Exception:
            LOG.exception("the SQLite writer of %s ends", self._path)
            raise
        finally:
            self._ended = True
            self._refuse_rest()

    def _with_others(self, write: QueuedWrite) -> list[QueuedWrite]:
        """Return the write and those queued behind it, up to the bound."""
        writes = [write]
        while len(writes) < WRITES_PER_COMMIT_MAX:
            try:
                queued = self._queue.get_nowait()
            except Empty:
                break
            if queued is None:
                self._queue.put(None)
                break
            writes.append(queued)
        return writes

    def _commit(self, writes: Sequence[QueuedWrite]) -> None:
        """Run all writes in one transaction; where one is refused, each in its own, so that it fails alone."""
        error = self._transact(writes)
        if len(writes) > 1 and isinstance(error, StoreRefusedError | OwnerFencedError):
            for write in writes:
                write.done(self._transact([write]))
            return
        for write in writes:
            write.done(error)

    def _transact(self, writes: Sequence[QueuedWrite]) -> Exception | None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for write in writes:
                write.run(self._connection)
            self._connection.execute("COMMIT")
        except (*ERRORS, OwnerFencedError) as error:
            self._roll_back()
            return translated(error, self._path)
        return None

    def _roll_back(self) -> None:
        if not self._connection.in_transaction:
            return
        try:
            self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            LOG.exception("rolling back in %s failed", self._path)

    def _refuse_rest(self) -> None:
        while True:
            try:
                write = self._queue.get_nowait()
            except Empty:
                return
            if write is not None:
                write.done(StoreRefusedError("the SQLite writer has ended", hint="Open the store again."))
