"""The server's commands; `register` adds them to the `twotick` command."""

from typing import TYPE_CHECKING

from consumers.cli import consume, dead_letters, history, locks, migrate, owners, replay, stats

if TYPE_CHECKING:
    import typer


def register(app: "typer.Typer") -> None:
    """Add every command of this room."""
    history.register(app)
    consume.register(app)
    owners.register(app)
    stats.register(app)
    locks.register(app)
    migrate.register(app)
    replay.register(app)
    dead_letters.register(app)
