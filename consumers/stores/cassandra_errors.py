"""The Cassandra driver's errors in the words of the store's contract."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cassandra import AuthenticationFailed, DriverException, RequestValidationException, UnsupportedOperation
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy, ConnectionException
from cassandra.protocol import ErrorMessage
from cassandra.protocol import RequestValidationException as RefusalMessage

from consumers.errors import StoreRefusedError, StoreUnavailableError, WorkerError

ERRORS: Final = (DriverException, NoHostAvailable, ConnectionBusy, ConnectionException, ErrorMessage, OSError)
"""Everything the driver raises on purpose. `ErrorMessage` covers server errors that it passes on as they came,
`ConnectionBusy` is what a connection says whose node takes no more bytes."""

_REFUSALS: Final = (AuthenticationFailed, RefusalMessage, RequestValidationException, UnsupportedOperation)
"""Answers that the same request will get again; all else may pass: servers down, slow, overloaded, out of disk."""


def translated(error: Exception, doing: str) -> WorkerError:
    """Return the contract's error for one of `ERRORS`; one of the contract's own is returned as it is."""
    if isinstance(error, WorkerError):
        return error
    causes = _causes(error)
    text = "; ".join(sorted({_text(cause) for cause in causes}))
    if all(isinstance(cause, _REFUSALS) for cause in causes):
        return StoreRefusedError(
            f"Cassandra refuses {doing}: {text}", hint="Run `twotick migrate`, then check the role's permissions."
        )
    return StoreUnavailableError(
        f"Cassandra does not answer {doing}: {text}", hint="See whether its nodes are up: `nodetool status`."
    )


def unwritable(error: Exception) -> StoreRefusedError:
    """Return the contract's error for a row with a value that does not go into its column."""
    return StoreRefusedError(f"a row cannot be written: {error}", hint="It has a value that no column holds.")


def _causes(error: Exception) -> list[Exception]:
    """Return what was met on each host where no host would do, else the error alone."""
    if isinstance(error, NoHostAvailable) and isinstance(error.errors, dict) and error.errors:
        return [cause for cause in error.errors.values() if isinstance(cause, Exception)] or [error]
    return [error]


def _text(error: Exception) -> str:
    if isinstance(error, ErrorMessage):
        return str(error.summary_msg())
    return " ".join(str(error).split()) or type(error).__name__


def outcome_is_unknown(error: Exception) -> bool:
    """Say whether a conditional write that met this error may have been applied, or may yet be."""
    return isinstance(error, ERRORS) and not isinstance(error, _REFUSALS)


@contextmanager
def translating(doing: str) -> Iterator[None]:
    """Turn the driver's errors into the contract's."""
    try:
        yield
    except ERRORS as error:
        raise translated(error, doing) from error
