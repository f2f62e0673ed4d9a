"""The SQLite store's tables as a migration target."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from consumers.migrate_steps import Step, StepKind
from consumers.stores.sqlite_errors import translating
from consumers.stores.sqlite_schema import MIGRATIONS, migrate, seen_migrations

LOCK_WAIT_S: Final = 30.0


class SqliteTables:
    """The tables of one SQLite file; opening the store would bring them up to date as well."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def plan(self) -> Sequence[Step]:
        """Return the migrations that the file has not seen."""
        with translating(self._path):
            seen = seen_migrations(self._path)
        return [self._step(number) for number in range(seen + 1, len(MIGRATIONS) + 1)]

    def apply(self) -> Iterator[Step]:
        """Apply them."""
        steps = self.plan()
        with translating(self._path):
            migrate(self._path, LOCK_WAIT_S)
        yield from steps

    def _step(self, number: int) -> Step:
        return Step(StepKind.CHANGE, f"file {self._path}", f"apply migration {number}")
