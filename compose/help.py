"""Help texts without the line ends of their source, so that a terminal of any width wraps them."""

import inspect

import typer


def reflow(app: typer.Typer) -> None:
    """Give every command of an application, and of those in it, its help with each paragraph on one line."""
    for command in app.registered_commands:
        command.help = reflowed(command.help or inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            reflow(group.typer_instance)


def reflowed(text: str) -> str:
    """Return a text with each paragraph on one line; lists and what is indented keep their lines."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if _keeps_lines(part) else " ".join(part.split("\n")) for part in paragraphs)


def _keeps_lines(paragraph: str) -> bool:
    return any(line.startswith(("- ", "* ", " ")) for line in paragraph.split("\n"))
