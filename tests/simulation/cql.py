"""Conditional statements as Cassandra understands them: just the forms that production writes, read from its own text.

A row is a dictionary of cells, each with the time at which it ends. What a statement may rest on and what it changes
comes from its text, so a condition that production left out would be left out here too.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, NamedTuple

from cassandra.query import UNSET_VALUE

Key = tuple[object, ...]
Cell = tuple[object, float]
"""A value, and when it ends in ms by the nodes' clocks."""
NEVER: Final = float("inf")

_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": eq, "!=": ne, "<=": le, "<": lt, ">=": ge, ">": gt,
}  # fmt: skip
_UPDATE: Final = re.compile(r"UPDATE \S+\.(\w+)( USING TTL \?)? SET (.+?) WHERE (.+?)(?: IF (.+))?$")
_DELETE: Final = re.compile(r"DELETE (.+?) FROM \S+\.(\w+) WHERE (.+?)(?: IF (.+))?$")
_INSERT: Final = re.compile(r"INSERT INTO \S+\.(\w+) \((.+?)\) VALUES \(.+?\) IF NOT EXISTS$")
_SELECT: Final = re.compile(r"SELECT (DISTINCT )?(.+?) FROM \S+\.(\w+)(?: WHERE (.+))?$")
_FUNCTION: Final = re.compile(r"\w+\((\w+)\)")

PARTITION_COLUMNS: Final = {"messages": 2}
"""How many of a row's key columns are its Cassandra partition's, where not all are."""
_KEY_COLUMNS: Final = {"partition_leases": "log_partition"}
"""The key column of tables into which production inserts."""


class Condition(NamedTuple):
    """One comparison; `value` is None where the text says NULL, else it is bound."""

    column: str
    compare: str
    is_bound: bool


@dataclass(frozen=True, slots=True)
class Change:
    """What one statement does to one row."""

    table: str
    columns: tuple[str, ...]
    """That are set, in the order of their values; or, in a deletion, that go."""
    keys: tuple[str, ...]
    conditions: tuple[Condition, ...] = ()
    deletes: bool = False
    must_be_new: bool = False
    has_ttl: bool = False
    adds: frozenset[str] = frozenset()
    """Columns to whose map the value is added."""


@dataclass(frozen=True, slots=True)
class Select:
    """What a statement reads."""

    table: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    is_distinct: bool


@cache
def parsed(text: str) -> tuple[Change, ...] | Select:
    """Return what a statement says. Raises ValueError for a form that production did not use so far."""
    text = " ".join(text.split())
    if (found := _SELECT.match(text)) is not None:
        columns = tuple(_FUNCTION.sub(r"\1", found[2]).split(", "))
        keys = tuple(each.split(" ")[0] for each in (found[4] or "").split(" AND ") if each)
        return Select(found[3], columns, keys, bool(found[1]))
    if text.startswith("BEGIN BATCH"):
        inner = text.removeprefix("BEGIN BATCH").removesuffix("APPLY BATCH").split(";")
        return tuple(_change(each.strip()) for each in inner if each.strip())
    return (_change(text),)


def _change(text: str) -> Change:
    if (found := _UPDATE.match(text)) is not None:
        columns = [each.split(" = ") for each in found[3].split(", ")]
        adds = frozenset(name for name, value in columns if value != "?")
        return Change(
            found[1], tuple(name for name, _ in columns), _keys(found[4]), _conditions(found[5]),
            has_ttl=bool(found[2]), adds=adds,
        )  # fmt: skip
    if (found := _DELETE.match(text)) is not None:
        return Change(found[2], tuple(found[1].split(", ")), _keys(found[3]), _conditions(found[4]), deletes=True)
    if (found := _INSERT.match(text)) is not None:
        return Change(found[1], tuple(found[2].split(", ")), (_KEY_COLUMNS[found[1]],), must_be_new=True)
    raise ValueError(f"no form that is known here: {text}")


def _keys(where: str) -> tuple[str, ...]:
    return tuple(each.removesuffix(" = ?") for each in where.split(" AND "))


def _conditions(text: str | None) -> tuple[Condition, ...]:
    parts = [each.split(" ") for each in (text or "").split(" AND ") if each]
    return tuple(Condition(column, compare, value == "?") for column, compare, value in parts)


class Bound(NamedTuple):
    """One change with its values."""

    change: Change
    key: Key
    cells: tuple[object, ...]
    ttl_s: int
    """0: for ever."""
    expected: tuple[object, ...]

    @property
    def partition(self) -> tuple[str, Key]:
        """Return the Cassandra partition that it is about."""
        table = self.change.table
        return table, self.key[: PARTITION_COLUMNS.get(table, len(self.key))]


def bound(change: Change, values: Iterator[object]) -> Bound:
    """Take a change's values, in the order in which its text names them."""
    ttl = next(values) if change.has_ttl else 0
    assert isinstance(ttl, int)
    cells = () if change.deletes else tuple(next(values) for _ in change.columns)
    if change.must_be_new:
        key: Key = tuple(cells[change.columns.index(name)] for name in change.keys)
    else:
        key = tuple(next(values) for _ in change.keys)
    expected = tuple(next(values) if each.is_bound else None for each in change.conditions)
    return Bound(change, key, cells, ttl, expected)


@dataclass
class Tables:
    """All rows, by table and key."""

    rows: dict[str, dict[Key, dict[str, Cell]]] = field(default_factory=dict)

    def holds(self, one: Bound, now: float) -> bool:
        """Say whether a change's conditions hold."""
        row = self.row(one.change.table, one.key, now)
        if one.change.must_be_new:
            return not row
        pairs = zip(one.change.conditions, one.expected, strict=True)
        return all(_holds(row.get(each.column), each.compare, value) for each, value in pairs)

    def apply(self, one: Bound, now: float) -> None:
        """Make a change."""
        change = one.change
        row = self.rows.setdefault(change.table, {}).setdefault(one.key, {})
        if change.deletes:
            for column in change.columns:
                row.pop(column, None)
            return
        ends = now + one.ttl_s * 1000 if one.ttl_s else NEVER
        for column, value in zip(change.columns, one.cells, strict=True):
            if column in change.adds:
                row[column] = ({**_map(row.get(column)), **_map((value, ends))}, ends)
            elif value is not UNSET_VALUE:
                row[column] = (value, ends)

    def row(self, table: str, key: Key, now: float) -> dict[str, object]:
        """Return the cells of a row that have not ended."""
        found = self.rows.get(table, {}).get(key, {})
        return {column: value for column, (value, ends) in found.items() if now < ends and value is not None}

    def select(self, what: Select, values: Sequence[Any], now: float) -> list[tuple[Any, ...]]:
        """Return what a SELECT finds."""
        table = self.rows.get(what.table, {})
        if what.is_distinct:
            return [key[:1] for key in table if self.row(what.table, key, now)]
        *first, last = values
        several = last if isinstance(last, list) else [last]
        return [
            tuple({**dict(zip(what.keys, key, strict=True)), **row}.get(column) for column in what.columns)
            for key in ((*first, each) for each in several)
            if (row := self.row(what.table, key, now))
        ]


def _map(cell: Cell | None) -> dict[Any, Any]:
    return dict(cell[0]) if cell is not None and isinstance(cell[0], dict) else {}


def _holds(held: object, compare: str, value: object) -> bool:
    if held is None or value is None:
        return _COMPARED[compare](held, value) if compare in {"=", "!="} else False
    return _COMPARED[compare](held, value)


def partition_of(changes: Iterable[Bound]) -> tuple[str, Key]:
    """Return the one partition of all changes of a batch."""
    several = {each.partition for each in changes}
    assert len(several) == 1, "a conditional batch is of one partition"
    return several.pop()
