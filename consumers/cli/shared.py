"""What the commands on shared tables need: the deployment they see, who runs them, times as people read them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from consumers.settings import WorkerSettings
    from consumers.stores.contract import Store

Form = Literal["table", "json", "jsonl"]
FORM_HELP = "By default a table on a terminal, else jsonl."


class SharedFactory(Protocol):
    """The deployment as these commands see it: `context.obj`."""

    def open_store(self) -> "Store":
        """Open the store. Raises NotFoundError where there is none, StoreUnavailableError, StoreRefusedError."""

    def worker_settings(self) -> "WorkerSettings":
        """Return the workers' settings as this machine has them."""

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says."""


@contextmanager
def opened(factory: SharedFactory) -> "Iterator[Store]":
    """Open the store for as long as the block takes."""
    store = factory.open_store()
    try:
        yield store
    finally:
        store.close()


def who() -> str:
    """Return who runs this command: user and machine."""
    from getpass import getuser
    from socket import gethostname

    try:
        user = getuser()
    except (KeyError, OSError):  # a user that the system has no name for
        user = "somebody"
    return f"{user}@{gethostname()}"


def time_text(ms: int) -> str:
    """Return a time (ms since 1970) as ISO 8601 in UTC; empty for 0."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds") if ms else ""
