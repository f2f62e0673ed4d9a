"""`twotick watch`: ticks, live."""

from contextlib import suppress
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Annotated

import typer

from producers.cli.ports import EXIT_INTERRUPTED, ClientFactory, OutboxFile, Output, User, user_of

if TYPE_CHECKING:
    from producers.views import Tick

_COLUMNS = ("at", "state", "version", "actor", "conversation", "message_id")


def register(app: typer.Typer) -> None:
    """Add `watch`."""
    app.command("watch")(_watch)


def _watch(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    user: User = "",
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many ticks.")] = None,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="End when none came for so long.")
    ] = None,
    outbox: OutboxFile = None,
    output: Output = None,
) -> None:
    """Show each change of a message that was sent from this outbox, whichever process sends; until Ctrl-C.

    It begins with what came in while no client with this outbox ran; what such a client took in before is not shown.
    """
    import queue

    factory: ClientFactory = context.obj
    ticks: queue.SimpleQueue[Tick] = queue.SimpleQueue()
    try:
        with factory.open_client(user_of(factory, user), outbox=outbox) as me, suppress(queue.Empty):
            me.on_tick(ticks.put)
            shown, show = 0, factory.follow(_COLUMNS, output)
            wait_s = None if timeout_s is None else min(timeout_s, TIMEOUT_MAX)
            while limit is None or shown < limit:
                show(_row(ticks.get(timeout=wait_s)))
                shown += 1
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _row(tick: "Tick") -> dict[str, object]:
    return {
        "at": tick.at.isoformat(timespec="milliseconds"),
        "message_id": tick.message_id,
        "conversation": tick.conversation,
        "state": tick.state,
        "version": tick.version,
        "reason": tick.reason,
        "actor": tick.actor,
    }
