"""Help as a terminal of any width can wrap it."""

from collections.abc import Iterator
from typing import Any

import typer

from compose.app import build_app
from compose.help import reflowed


def test_paragraphs_are_one_line_each_and_lists_keep_theirs() -> None:
    text = """First
    line.

    One two
    three.

    - a
    - b

        indented
        twice
    """
    assert reflowed(text) == "First line.\n\nOne two three.\n\n- a\n- b\n\n    indented\n    twice"


def helps(command: Any) -> Iterator[str]:
    yield command.help or ""
    for inner in getattr(command, "commands", {}).values():
        yield from helps(inner)


def test_no_command_s_help_has_the_line_ends_of_its_source() -> None:
    found = list(helps(typer.main.get_command(build_app())))
    assert len(found) > 30
    assert [text for text in found if text != reflowed(text)] == []
