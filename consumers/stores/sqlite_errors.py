"""sqlite3's errors in the words of the store's contract."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from consumers.errors import StoreRefusedError, StoreUnavailableError, WorkerError

ERRORS: Final = (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeEncodeError)
"""All that sqlite3 raises for a bad state of the file or a value that SQLite cannot hold."""

_WAITING_HELPS: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)


def translated(error: Exception, path: object) -> WorkerError:
    """Return the contract's error for one of `ERRORS`; one of the contract's own is returned as it is."""
    if isinstance(error, WorkerError):
        return error
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _WAITING_HELPS:
        return StoreUnavailableError(
            f"SQLite cannot reach or lock {path}: {error}", hint="See whether the disk is full or a lock is held."
        )
    return StoreRefusedError(f"SQLite refuses {path}: {error}", hint="Run `twotick migrate`, or check the file.")


@contextmanager
def translating(path: object) -> Iterator[None]:
    """Turn sqlite3's errors into the contract's."""
    try:
        yield
    except ERRORS as error:
        raise translated(error, path) from error
