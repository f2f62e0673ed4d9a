"""The commands that belong to no single room: stacks, settings, the demo, one message's whole story."""

import typer

from compose.commands import config, demo, message, stack, verify
from consumers import cli as server
from producers import cli as client


def register_all(app: typer.Typer) -> None:
    """Add every command of every room, in the order in which the help lists them."""
    demo.register(app)
    client.register(app)
    server.register(app)
    message.register(app)
    verify.register(app)
    stack.register(app)
    config.register(app)
