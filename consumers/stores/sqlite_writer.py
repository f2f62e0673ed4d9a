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

JOBS_PER_COMMIT_MAX: Final = 64
"""Bounds how long one transaction keeps other processes waiting."""

Work = Callable[[sqlite3.Connection], None]

LOG = logging.getLogger(__name__)


class Job(NamedTuple):
    """Statements to run inside a transaction, and whom to tell once it is committed."""

    work: Work
    done: Done


class SqliteWriter:
    """The thread and its queue. Nothing is retried: a failed job's `done` gets the error."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="twotick-sqlite-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, work: Work, done: Done) -> None:
        """Queue work; `done` is called once, from the writer's thread."""
        self._queue.put(Job(work, done))
        if self._ended:
            self._refuse_rest()

    def close(self) -> None:
        """Finish what is queued, end the thread and close the connection."""
        self._queue.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        try:
            while (job := self._queue.get()) is not None:
                self._commit(self._with_others(job))
        except Exception:
            LOG.exception("the SQLite writer of %s ends", self._path)
            raise
        finally:
            self._ended = True
            self._refuse_rest()

    def _with_others(self, job: Job) -> list[Job]:
        """Return the job and those queued behind it, up to the bound."""
        jobs = [job]
        while len(jobs) < JOBS_PER_COMMIT_MAX:
            try:
                queued = self._queue.get_nowait()
            except Empty:
                break
            if queued is None:
                self._queue.put(None)
                break
            jobs.append(queued)
        return jobs

    def _commit(self, jobs: Sequence[Job]) -> None:
        """Run all jobs in one transaction; where one is refused, each in its own, so that it fails alone."""
        error = self._transact(jobs)
        if len(jobs) > 1 and isinstance(error, StoreRefusedError | OwnerFencedError):
            for job in jobs:
                job.done(self._transact([job]))
            return
        for job in jobs:
            job.done(error)

    def _transact(self, jobs: Sequence[Job]) -> Exception | None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                job.work(self._connection)
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
                job = self._queue.get_nowait()
            except Empty:
                return
            if job is not None:
                job.done(StoreRefusedError("the SQLite writer has ended", hint="Open the store again."))
