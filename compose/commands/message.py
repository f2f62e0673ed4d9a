"""`twotick message ID`: one message's whole story."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compose.output import Output
from compose.wiring import Wiring
from schemas.text import harmless

if TYPE_CHECKING:
    from consumers.stores.contract import StoredMessage

_PARTLY_DONE = 4


def register(app: typer.Typer) -> None:
    """Add `message`."""
    app.command("message")(_message)


def _message(
    context: typer.Context,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="A message's UUID.")],
    *,
    conversation: Annotated[
        str, typer.Option(help="Where it is; else an outbox here tells, or the whole store is searched.")
    ] = "",
    output: Annotated[Output | None, typer.Option(help="By default a table on a terminal, else jsonl.")] = None,
) -> None:
    """Show one message's whole story: outboxes, log positions, each transition with its version, owner and epoch.

    Joins what the outboxes of this machine know with what the store holds. Exits with 3 where neither knows it, with
    4 where the store cannot be asked.
    """
    from compose.errors import NotFoundError
    from compose.outboxes import entries
    from compose.story import COLUMNS, story, summary

    wiring: Wiring = context.obj
    raw = _raw(message_id)
    files = list(_outbox_files(wiring.settings.value("user.outboxes", Path)))
    known = [entry for path in files for entry in entries(path, raw)]
    stored, unreachable = _ask_store(wiring, raw, conversation, files)
    if not known and stored is None and unreachable is None:
        raise NotFoundError(
            f"neither an outbox on this machine nor {wiring.store_name()} holds message {message_id}",
            "Check the id; `twotick outbox list` shows those of your own messages. Another store is named by the "
            "settings, such as TWOTICK_STORE__KIND=cassandra.",
        )
    if stored is not None:
        sys.stderr.write(harmless(summary(stored)) + "\n")
    wiring.show(story(known, stored), COLUMNS, output)
    if unreachable is not None:
        sys.stderr.write(f"the store could not be asked: {harmless(str(unreachable))}\n")
        raise typer.Exit(_PARTLY_DONE)


def _raw(message_id: str) -> bytes:
    from uuid import UUID

    try:
        return UUID(message_id).bytes
    except ValueError:
        raise typer.BadParameter(f"{message_id!r} is not a UUID", param_hint="ID") from None


def _outbox_files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("*.sqlite")) if path.is_file())


def _ask_store(
    wiring: Wiring, raw: bytes, conversation: str, files: Sequence[Path]
) -> "tuple[StoredMessage | None, Exception | None]":
    """Return what the store holds, or why it could not be asked."""
    from compose.outboxes import conversation_of
    from consumers.errors import WorkerError

    told = conversation or next(filter(None, (conversation_of(path, raw) for path in files)), "")
    try:
        store = wiring.open_store()
        try:
            return (store.message((told, raw)) if told else next(store.find(raw), None)), None
        finally:
            store.close()
    except WorkerError as error:
        return None, error
