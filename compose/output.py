"""Rows for people and for programs: a table on a terminal, JSON lines elsewhere, or what `--output` says."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from textwrap import indent
from typing import Final, TextIO

from schemas.text import harmless

_INDENT: Final = 2
_FOLDED_FROM: Final = 40
"""A cell of a table is folded only where it is wider, so that ids and times stay whole."""
_BETWEEN: Final = 3
"""Characters between two columns."""


class Output(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


def show(rows: Iterable[Mapping[str, object]], columns: Sequence[str], output: str | None, *, title: str = "") -> None:
    """Print rows to standard output.

    `columns` are the ones that a table shows, in their order; JSON holds all that a row has. `output` None means a
    table where standard output is a terminal, JSON lines where it is not. A table that is too wide for the terminal is
    printed as a block of lines a row, one without rows as "none" on standard error.
    """
    match Output(output) if output else _usual(sys.stdout):
        case Output.TABLE:
            _table(rows, columns, title)
        case Output.JSON:
            _array(rows)
        case Output.JSONL:
            for row in rows:
                sys.stdout.write(_as_json(_plain(row)) + "\n")


def _array(rows: Iterable[Mapping[str, object]]) -> None:
    """Print one JSON array, each row at once: whoever makes the rows may take it for shown when asked for the next.

    Complete where it is interrupted, and not where an error ends it.
    """
    begin = "["
    try:
        for row in rows:
            sys.stdout.write(f"{begin}\n{indent(_as_json(_plain(row), _INDENT), ' ' * _INDENT)}")
            sys.stdout.flush()
            begin = ","
    except KeyboardInterrupt:
        sys.stdout.write(_end(begin))
        raise
    sys.stdout.write(_end(begin))


def _end(begin: str) -> str:
    return "[]\n" if begin == "[" else "\n]\n"


class Follower:
    """Prints rows as they come: on a terminal as lines of a table, elsewhere as JSON lines, or what `--output` says.

    A table's column is as wide as its widest cell so far; its head stands above the first row.
    """

    def __init__(self, columns: Sequence[str], output: str | None) -> None:
        self._columns = columns
        self._form = Output(output) if output else _usual(sys.stdout)
        self._widths: list[int] = []

    def __call__(self, row: Mapping[str, object]) -> None:
        """Print a row at once."""
        if self._form is Output.TABLE:
            if not self._widths:
                self._widths = [0] * len(self._columns)
                self._line(self._columns)
            self._line([_text(row.get(column)) for column in self._columns])
        else:
            sys.stdout.write(_as_json(_plain(row)) + "\n")
        sys.stdout.flush()

    def _line(self, cells: Sequence[str]) -> None:
        from rich.cells import cell_len

        lengths = [cell_len(cell) for cell in cells]
        self._widths = list(map(max, self._widths, lengths))
        padded = (
            cell + " " * (width - length) for cell, width, length in zip(cells, self._widths, lengths, strict=True)
        )
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _usual(stream: TextIO) -> Output:
    return Output.TABLE if stream.isatty() else Output.JSONL


def _as_json(value: object, spaces: int | None = None) -> str:
    """Return JSON in which only what can be printed stands for itself: it goes to terminals too."""
    text = json.dumps(value, indent=spaces, ensure_ascii=False)
    if text.isprintable():
        return text
    # What JSON itself escapes is escaped by now, so nothing but line ends is left outside of texts.
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _plain(row: Mapping[str, object]) -> dict[str, object]:
    return {name: _json(value) for name, value in row.items()}


def _json(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return _plain(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [_json(part) for part in value]
    return str(value)


def _table(rows: Iterable[Mapping[str, object]], columns: Sequence[str], title: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    cells = [[_text(row.get(column)) for column in columns] for row in rows]
    if not cells:
        sys.stderr.write("none\n")
        return
    console = Console()
    if _needed_width(columns, cells) > console.width:
        _blocks(columns, cells, title)
        return
    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")  # a path or an id that is cut off is of no use
    for row in cells:
        table.add_row(*map(_unmarked, row))
    console.print(table)


def _needed_width(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    """Return how wide a terminal must be for a table in which no cell is folded before `_FOLDED_FROM` characters."""
    from rich.cells import cell_len

    widest = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    return sum(min(width, _FOLDED_FROM) + _BETWEEN for width in widest) - _BETWEEN


def _blocks(columns: Sequence[str], cells: Sequence[Sequence[str]], title: str) -> None:
    """Print each row as lines of a name and its value, whole, with an empty line between rows."""
    width = max(map(len, columns)) + 1
    blocks = (
        "".join(f"{f'{name}:':{width}} {cell}".rstrip() + "\n" for name, cell in zip(columns, row, strict=True))
        for row in cells
    )
    sys.stdout.write((f"{title}\n" if title else "") + "\n".join(blocks))


def _unmarked(text: str) -> str:
    """Return a text in which rich finds no markup."""
    from rich.markup import escape

    return escape(text)


def _text(value: object) -> str:
    """Return a value for a terminal."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        value = [f"{name}: {part}" for name, part in value.items()]
    return harmless(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
