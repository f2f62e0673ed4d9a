"""The connection to a SQLite store's shared tables: locks, configuration, statistics. Safe to use from any thread."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from consumers.stores.process import OpenIn
from consumers.stores.sqlite_errors import translating
from consumers.stores.sqlite_schema import connect, immediate


class SharedConnection:
    """One connection, used by one thread at a time."""

    def __init__(self, path: Path, busy_timeout_s: float) -> None:
        """Open it. Raises StoreUnavailableError, StoreRefusedError."""
        self._path = path
        self._turn = threading.Lock()
        self._open = OpenIn()
        with translating(path):
            self._connection = connect(path, busy_timeout_s)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Begin IMMEDIATE, yield, commit; roll back on any error."""
        self._open.check()
        with self._turn, translating(self._path), immediate(self._connection) as connection:
            yield connection

    def fetch(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Read rows."""
        self._open.check()
        with self._turn, translating(self._path):
            return self._connection.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close it; closing twice does nothing."""
        if self._open.close():
            with self._turn:
                self._connection.close()
