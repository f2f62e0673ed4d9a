"""`twotick history CONVERSATION`: a conversation's messages as the store has them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import typer

if TYPE_CHECKING:
    from consumers.stores.contract import Store, StoredMessage

_COLUMNS = ("sent_at", "message_id", "sender", "recipients", "state", "receipts", "version", "body")


class StoreFactory(Protocol):
    """The deployment as this command sees it: `context.obj`."""

    def open_store(self) -> "Store":
        """Open the store. Raises NotFoundError where there is none, StoreUnavailableError, StoreRefusedError."""

    def store_name(self) -> str:
        """Return which store this is, for people."""

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says."""


def register(app: typer.Typer) -> None:
    """Add `history`."""
    app.command("history")(_history)


def _history(
    context: typer.Context,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="A conversation's id.")],
    *,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many messages at most.")] = 50,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="From the first message on.")] = False,
    output: Annotated[
        Literal["table", "json", "jsonl"] | None, typer.Option(help="By default a table on a terminal, else jsonl.")
    ] = None,
) -> None:
    """Show a conversation's messages as the store has them, newest first. Exits with 3 where there are none."""
    from consumers.cli.errors import NotFoundError
    from schemas.identity import direct_conversation

    factory: StoreFactory = context.obj
    store = factory.open_store()
    try:
        found = [message_row(one) for one in store.history(conversation, limit, newest_first=not oldest_first)]
    finally:
        store.close()
    if not found:
        raise NotFoundError(
            f"{factory.store_name()} has no message of conversation {conversation}",
            "Its id is shown by `twotick outbox list`; that of two users is `direct:` and their ids, sorted and quoted "
            f"as in addresses: {direct_conversation('zoe', 'ann@example.org')}. Another store is named by the "
            "settings, such as TWOTICK_STORE__KIND=cassandra.",
        )
    factory.show(found, _COLUMNS, output)


def message_row(message: "StoredMessage") -> Mapping[str, object]:
    """Return a stored message as a row for people and programs."""
    from datetime import UTC, datetime

    from schemas.identity import text_of
    from schemas.lifecycle import label

    row = message.row
    return {
        "sent_at": datetime.fromtimestamp(row.sent_at / 1000, UTC).isoformat(timespec="milliseconds"),
        "conversation_id": row.conversation_id,
        "message_id": text_of(row.message_id),
        "sender": row.sender,
        "recipients": list(row.recipients),
        "state": label(row.state),
        "receipts": {user: label(state) for user, state in zip(row.recipients, row.receipts, strict=False)},
        "version": row.version,
        "content_type": message.content.content_type,
        "body": message.content.body.decode("utf-8", "backslashreplace"),
    }
