"""The numbered migrations of the tables: CQL files read into statements, and what a keyspace still lacks of them.

A file `cql/NNNN_name.cql` is applied once, whole, in the order of its number, and never changed afterwards: its
checksum is kept in the keyspace's history. The checksum is of the statements, with runs of blanks outside quotes
made one, so comments and layout may be improved. This module decides; `consumers.migrate` does it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Final

from schemas.errors import MigrationError

_FILE_NAME: Final = re.compile(r"(?P<number>[0-9]{4})_(?P<name>[a-z0-9_]+)\.cql")
_TOKEN: Final = re.compile(
    r"""
    (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | \$\$.*?\$\$ )
    | (?P<blank> (?: \s | (?:--|//)[^\n]* | /\*.*?\*/ )+ )
    | (?P<unclosed> ' | " | \$\$ | /\* )
    | (?P<end> ; )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One file's worth of changes to the tables."""

    number: int
    """From 1, without gaps."""
    name: str
    checksum: str
    """SHA-256 of the statements, in hexadecimal."""
    statements: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"


def parse(file_name: str, text: str) -> Migration:
    """Return the migration in a file; raise MigrationError where its name or its text is none."""
    named = _FILE_NAME.fullmatch(file_name)
    if named is None:
        raise MigrationError(f"{file_name} is no name of a migration", "Call it NNNN_name.cql, for example 0007_x.cql.")
    statements = tuple(_statements(file_name, text))
    if not statements:
        raise MigrationError(f"{file_name} holds no statement", "Write one, or remove the file.")
    checksum = sha256("".join(f"{statement};\n" for statement in statements).encode()).hexdigest()
    return Migration(int(named["number"]), named["name"], checksum, statements)


def _statements(file_name: str, text: str) -> Iterator[str]:
    """Yield statements without comments, ends at `;` outside quotes."""
    parts: list[str] = []
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "unclosed":
            line = text.count("\n", 0, token.start()) + 1
            raise MigrationError(f"{file_name}, line {line}: {token[0]} is not closed", "Close it.")
        if token.lastgroup != "end":
            parts.append(" " if token.lastgroup == "blank" else token[0])
            continue
        if statement := "".join(parts).strip():
            yield statement
        parts.clear()
    if "".join(parts).strip():
        raise MigrationError(f"{file_name}: the last statement has no end", "End every statement with a semicolon.")


def load() -> tuple[Migration, ...]:
    """Return the package's migrations in order; raise MigrationError where they are no sequence."""
    folder = files("schemas").joinpath("cql")
    return check_sequence(
        [parse(entry.name, entry.read_text("utf-8")) for entry in folder.iterdir() if entry.name.endswith(".cql")]
    )


def check_sequence(migrations: Sequence[Migration]) -> tuple[Migration, ...]:
    """Return migrations in the order of their numbers; raise MigrationError unless these are 1, 2, 3 ..."""
    ordered = tuple(sorted(migrations, key=lambda each: each.number))
    for expected, each in enumerate(ordered, 1):
        if each.number != expected:
            raise MigrationError(f"{each} stands where number {expected} should", "Number the files without gaps.")
    return ordered


def pending(known: Sequence[Migration], applied: Mapping[int, str]) -> Sequence[Migration]:
    """Return those of the known migrations, in order, that a keyspace lacks.

    `applied` is its history: checksums by number. Raises MigrationError where the history has a number that is not
    known here, has a gap, or has another checksum.
    """
    by_number = {each.number: each for each in known}
    for expected, number in enumerate(sorted(applied), 1):
        if number not in by_number:
            raise MigrationError(
                f"the tables are at migration {number}, this version knows {len(known)}",
                "A newer version has migrated them: upgrade this one.",
            )
        if number != expected:
            raise MigrationError(
                f"the history lacks migration {by_number[expected]} but has later ones",
                "Restore the history table from a backup; nothing was changed.",
            )
        if applied[number] != by_number[number].checksum:
            raise MigrationError(
                f"migration {by_number[number]} has changed since it was applied",
                "Put the file back as it was and write the change as a new migration.",
            )
    return [each for each in known if each.number not in applied]
