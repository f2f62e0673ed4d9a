"""Looking at a keyspace while another node is making its tables."""

from typing import Any

import pytest
from cassandra import InvalidRequest, Unauthorized

from consumers.errors import StoreRefusedError
from consumers.migrate_settings import MigrationSettings
from consumers.migrate_tables import LOOK_S, LOOKS, CassandraTables
from consumers.stores.settings import CassandraSettings
from schemas.migrations import load


class SchemaInTheMaking:
    """A session whose history table is listed at once, and readable after some refusals."""

    def __init__(self, refusals: list[Exception]) -> None:
        self.refusals = refusals

    def execute(self, statement: Any, _values: Any = None) -> list[tuple[Any, ...]]:
        """Answer as Cassandra does."""
        if "system_schema" in statement.query_string:
            return [("schema_migrations",)]
        if self.refusals:
            raise self.refusals.pop()
        return [(migration.number, migration.checksum) for migration in load()[:2]]


def pending_of(session: SchemaInTheMaking) -> tuple[list[int], list[float]]:
    slept: list[float] = []
    tables = CassandraTables(CassandraSettings(), MigrationSettings(), sleep=slept.append)
    return [migration.number for migration in tables._pending(session)], slept


def test_a_table_that_is_listed_and_not_there_yet_is_waited_for() -> None:
    unknown = InvalidRequest('code=2200 [Invalid query] message="table schema_migrations does not exist"')
    numbers, slept = pending_of(SchemaInTheMaking([unknown] * 3))
    assert numbers == [migration.number for migration in load()[2:]]
    assert slept == [LOOK_S] * 3


@pytest.mark.parametrize("error", [InvalidRequest("no such column"), Unauthorized("no SELECT permission")])
def test_a_table_that_cannot_be_read_is_told_of(error: Exception) -> None:
    session = SchemaInTheMaking([error] * (LOOKS + 1))
    with pytest.raises(StoreRefusedError):
        pending_of(session)
    assert len(session.refusals) in {0, LOOKS}
