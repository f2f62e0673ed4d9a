"""Looking at a keyspace while another node is making its tables."""

from typing import Any

import pytest
from cassandra import InvalidRequest, OperationTimedOut, ReadFailure, Unauthorized
from cassandra.protocol import ServerError

from consumers.errors import StoreRefusedError, StoreUnavailableError, WorkerError
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


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest('code=2200 [Invalid query] message="table schema_migrations does not exist"'),
        ServerError(0x0000, "java.lang.IllegalArgumentException: Unknown CF f1dea600-ed16-11f1-a82f-61d0c6deeb5a", {}),
        ReadFailure("Replica(s) failed to execute read", error_code_map={"127.0.0.2": 0x0005}),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_table_that_is_listed_and_not_there_yet_is_waited_for(error: Exception) -> None:
    numbers, slept = pending_of(SchemaInTheMaking([error] * 3))
    assert numbers == [migration.number for migration in load()[2:]]
    assert slept == [LOOK_S] * 3


@pytest.mark.parametrize(
    ("error", "looks", "told"),
    [
        (InvalidRequest("no such column"), LOOKS + 1, StoreRefusedError),
        (ServerError(0x0000, "Unknown CF", {}), LOOKS + 1, StoreUnavailableError),
        (Unauthorized("no SELECT permission"), 1, StoreRefusedError),
        (OperationTimedOut(), 1, StoreUnavailableError),
    ],
)
def test_a_table_that_cannot_be_read_is_told_of(error: Exception, looks: int, told: type[WorkerError]) -> None:
    session = SchemaInTheMaking([error] * (LOOKS + 1))
    with pytest.raises(told):
        pending_of(session)
    assert len(session.refusals) == LOOKS + 1 - looks
