"""The client's commands; `register` adds them to the `twotick` command."""

from typing import TYPE_CHECKING

from producers.cli import outbox, receive, send, watch

if TYPE_CHECKING:
    import typer


def register(app: "typer.Typer") -> None:
    """Add every command of this room."""
    send.register(app)
    receive.register(app)
    watch.register(app)
    outbox.register(app)
