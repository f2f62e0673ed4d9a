"""`twotick outbox`: what is in a user's outbox, and putting a hand to it."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from producers.cli.ports import EXIT_FAILED, ClientFactory, NotFoundError, OutboxFile, Output, User, user_of

if TYPE_CHECKING:
    from producers.client import Client
    from producers.views import Outlook

_COLUMNS = ("created_at", "message_id", "conversation", "to", "state", "version", "attempts", "reason")


def register(app: typer.Typer) -> None:
    """Add `outbox`."""
    group = typer.Typer(help="Look into the outbox, send again at once, or cancel.", no_args_is_help=True)
    group.command("list")(_list)
    group.command("retry")(_retry)
    group.command("cancel")(_cancel)
    app.add_typer(group, name="outbox")


def _offline(context: typer.Context, user: str, outbox: OutboxFile) -> "Client":
    """Return a client of an outbox that is there: a name that is misspelt should not make one."""
    factory: ClientFactory = context.obj
    named = user_of(factory, user)
    path = outbox or factory.outbox_path(named)
    if not path.exists():
        raise NotFoundError(f"there is no outbox {path}", "Name another user with --as, or the file with --outbox.")
    return factory.open_client(named, outbox=outbox, offline=True)


def _list(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    user: User = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="The newest so many.")] = 50,
    pending: Annotated[bool, typer.Option("--pending", help="Only what has no verdict yet.")] = False,
    outbox: OutboxFile = None,
    output: Output = None,
) -> None:
    """List messages that were sent from the outbox, newest first."""
    factory: ClientFactory = context.obj
    with _offline(context, user, outbox) as me:
        log_ms = me.log_ms()
        factory.show((_row(found, log_ms) for found in me.listing(limit, pending_only=pending)), _COLUMNS, output)


def _retry(
    context: typer.Context,
    message_id: Annotated[str | None, typer.Argument(help="The message; without one, all.")] = None,
    *,
    user: User = "",
    outbox: OutboxFile = None,
) -> None:
    """Make what nobody has answered due at once; a running client sends it, or the next one."""
    with _offline(context, user, outbox) as me:
        if message_id is not None:
            me.find(message_id)
        sys.stderr.write(f"{me.retry_now(message_id)} events are due now\n")


def _cancel(
    context: typer.Context,
    message_id: Annotated[str, typer.Argument(help="The message.")],
    *,
    user: User = "",
    outbox: OutboxFile = None,
    output: Output = None,
) -> None:
    """Cancel a message that is not sent yet; where Kafka may have it already, the log decides.

    Exits with 1 where it is too late.
    """
    factory: ClientFactory = context.obj
    with _offline(context, user, outbox) as me:
        state = me.cancel(message_id)
        if state == "pending":
            sys.stderr.write("asked the log to cancel it; whichever came first counts\n")
        factory.show([_row(me.find(message_id).outlook(), me.log_ms())], _COLUMNS, output)
    if state not in {"pending", "failed(cancelled)"}:
        sys.stderr.write(f"too late to cancel it: it is {state}\n")
        raise typer.Exit(EXIT_FAILED)


def _row(found: "Outlook", log_ms: int) -> dict[str, object]:
    return {
        "message_id": found.message_id,
        "conversation": found.conversation,
        "to": found.recipients,
        "state": "not confirmed" if found.not_confirmed(log_ms) else found.state,
        "version": found.version,
        "attempts": found.attempts,
        "reason": found.reason,
        "created_at": found.created_at.isoformat(timespec="milliseconds"),
    }
