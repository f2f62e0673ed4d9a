"""What the client's commands ask of whoever puts the product together, and the options that they share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from producers.errors import ClientError

if TYPE_CHECKING:
    from producers.client import Client


class ClientFactory(Protocol):
    """The deployment as the client's commands see it: `context.obj`."""

    @property
    def user(self) -> str:
        """The user where no option names one; may be empty."""

    def outbox_path(self, user: str) -> Path:
        """Return where a user's outbox is."""

    def open_client(self, user: str, *, outbox: Path | None = None, offline: bool = False) -> "Client":
        """Return a user's client, open. Raises ClientError."""

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says."""

    def follow(self, columns: Sequence[str], form: str | None) -> Callable[[Mapping[str, object]], None]:
        """Return what prints one row at a time, each at once, as `--output` says."""


class Form(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


class UsageError(ClientError):
    """Options that do not go together."""

    exit_code = 2


class NotFoundError(ClientError):
    """What was named is not there."""

    exit_code = 3


User = Annotated[str, typer.Option("--as", metavar="USER", help="Whose outbox; by default the setting user.name.")]
OutboxFile = Annotated[Path | None, typer.Option("--outbox", help="The outbox's file, where it is not the usual one.")]
Output = Annotated[
    Form | None, typer.Option("--output", help="A table on a terminal and JSON lines elsewhere, unless said here.")
]

EXIT_FAILED, EXIT_PARTLY, EXIT_UNREACHABLE, EXIT_INTERRUPTED = 1, 4, 5, 130


def user_of(factory: ClientFactory, named: str) -> str:
    """Return the user that an option or a setting names. Raises UsageError."""
    user = named or factory.user
    if not user:
        raise UsageError("no user is named", "Name one with --as USER, or set user.name.")
    return user
