"""`twotick receive`: what came in, and what comes."""

import sys
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, Annotated

import typer

from producers.cli.ports import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNREACHABLE,
    ClientFactory,
    Form,
    OutboxFile,
    Output,
    User,
    user_of,
)
from schemas.text import harmless

if TYPE_CHECKING:
    from collections.abc import Generator

    from producers.client import Client
    from producers.incoming import Incoming

_COLUMNS = ("sent_at", "sender", "conversation", "text", "message_id")


def register(app: typer.Typer) -> None:
    """Add `receive`."""
    app.command("receive")(_receive)


def _receive(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    user: User = "",
    read: Annotated[bool, typer.Option("--read", help="Tell the senders that they were read.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0, help="End when none came for so long.")
    ] = 3,
    outbox: OutboxFile = None,
    output: Output = None,
) -> None:
    """Show messages that came in and were not shown yet, each as it comes.

    A message counts as shown, and with `--read` as read, when it is written to standard output. Exits with 5 where
    Kafka was not reached in the time of `--timeout`, so that there may be more.
    """
    factory: ClientFactory = context.obj
    try:
        with (
            factory.open_client(user_of(factory, user), outbox=outbox) as me,
            closing(_messages(me, None if follow else timeout_s, limit, read=read)) as messages,
        ):
            shown = count()
            rows = (_row(message) for message, _ in zip(messages, shown, strict=False))
            if output is Form.JSON and not follow:
                factory.show(rows, _COLUMNS, output)
            else:
                show = factory.follow(_COLUMNS, output)
                for row in rows:
                    show(row)
            # With a time-out of 0 nobody has waited for Kafka, and who has as many as were asked for has them all.
            is_asked = timeout_s > 0 and next(shown) != limit
            code = _told_if_cut_off(me) if is_asked else 0
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if code:
        raise typer.Exit(code)


def _told_if_cut_off(me: "Client") -> int:
    """Say where Kafka could not be asked, so that there may be more; return the exit code."""
    health = me.health()
    if health.error is not None:
        sys.stderr.write(f"{harmless(health.error.message)}. {health.error.hint}\n")
        return EXIT_UNREACHABLE if health.error.retriable else EXIT_FAILED
    if health.pumping and not health.reachable:
        sys.stderr.write("Kafka was not reached: there may be more\n")
        return EXIT_UNREACHABLE
    return 0


def _messages(
    me: "Client", timeout_s: float | None, limit: int | None, *, read: bool
) -> "Generator[Incoming, None, None]":
    incoming = me.incoming(timeout_s)
    for number, message in enumerate(incoming, 1):
        yield message
        if read:
            message.mark_read()
        if limit is not None and number >= limit:
            me.mark_taken(message)
            return


def _row(message: "Incoming") -> dict[str, object]:
    return {
        "message_id": message.message_id,
        "conversation": message.conversation,
        "sender": message.sender,
        "recipients": message.recipients,
        "content_type": message.content_type,
        "sent_at": message.sent_at.isoformat(timespec="milliseconds"),
        "text": message.text,
    }
