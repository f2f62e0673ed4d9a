"""The Cassandra store's keyspace and tables as a migration target; the history of a keyspace is a table in it."""

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from cassandra import ConsistencyLevel, InvalidRequest, ReadFailure
from cassandra.cluster import Session
from cassandra.protocol import ServerError
from cassandra.query import SimpleStatement

from consumers import clock
from consumers.errors import StoreRefusedError, StoreUnavailableError
from consumers.migrate_lock import SchemaLock, lock_table
from consumers.migrate_settings import MigrationSettings
from consumers.migrate_steps import Step, StepKind
from consumers.stores.cassandra_errors import translating
from consumers.stores.cassandra_session import connect, open_cluster, quoted
from consumers.stores.settings import CassandraSettings
from schemas.errors import MigrationError
from schemas.migrations import Migration, load, pending

CHANGE_TIMEOUT_S: Final = 60.0
LOOKS: Final = 40
"""How often a table is looked for that is listed and cannot be read yet."""
LOOK_S: Final = 0.25

_NOT_READABLE_YET: Final = (InvalidRequest, ServerError, ReadFailure)
"""What is said of a table that is listed but not made: by a node that does not know it, by one that knows it and has
not opened it ("Unknown CF"), and by one that asked such a node for its copy."""
_HISTORY: Final = "schema_migrations"
_HISTORY_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS {keyspace}.schema_migrations (number int PRIMARY KEY, name text, checksum text,"
    " applied_at timestamp, applied_by text) WITH comment = 'the migrations that these tables have seen'"
)
_RECORD: Final = (
    "INSERT INTO {keyspace}.schema_migrations (number, name, checksum, applied_at, applied_by)"
    " VALUES (%s, %s, %s, %s, %s) USING TIMESTAMP {stamp}"
)


class CassandraTables:
    """One keyspace with its tables; `known` are the migrations to bring it to."""

    def __init__(
        self,
        store: CassandraSettings,
        settings: MigrationSettings,
        *,
        known: Sequence[Migration] | None = None,
        now_ms: Callable[[], int] = clock.now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._settings = settings
        self._known = load() if known is None else known
        self._now_ms = now_ms
        self._sleep = sleep
        self._keyspace = quoted(store.keyspace)

    def plan(self) -> Sequence[Step]:
        """Return what the keyspace lacks. Raises StoreUnavailableError, StoreRefusedError."""
        with self._session() as session:
            found = self._replication(session)
            if found is None:
                return [self._creation(), *map(self._step, self._known)]
            return [*self._differences(found), *map(self._step, self._pending(session))]

    def apply(self) -> Iterator[Step]:
        """Make the keyspace, then apply what is pending, one node at a time."""
        with self._session() as session:
            found = self._replication(session)
            if found is None:
                self._change(session, self._create_keyspace())
                yield self._creation()
            else:
                yield from self._differences(found)
            if not self._pending(session):
                return
            self._change(session, lock_table(self._keyspace))
            with SchemaLock(session, self._keyspace).held(self._settings.lock_wait_s) as renew:
                yield from self._apply_pending(session, renew)

    def _apply_pending(self, session: Session, renew: Callable[[], None]) -> Iterator[Step]:
        """Apply what is pending now that nobody else may; a migration that was cut off is applied again whole."""
        self._change(session, _HISTORY_TABLE.format(keyspace=self._keyspace))
        with translating("a keyspace"):
            session.set_keyspace(self._store.keyspace)
        for migration in self._pending(session):
            renew()
            for statement in migration.statements:
                self._change(session, statement)
            self._record(session, migration)
            yield self._step(migration)

    def _replication(self, session: Session) -> Mapping[str, str] | None:
        query = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = %s"
        found = self._read(session, query, (self._store.keyspace,))
        return dict(found[0][0]) if found else None

    def _differences(self, found: Mapping[str, str]) -> Sequence[Step]:
        wanted = {name: str(copies) for name, copies in self._settings.copies().items()}
        there = {name: copies for name, copies in found.items() if name != "class"}
        if there == wanted and found["class"].endswith("NetworkTopologyStrategy"):
            return []
        return [
            Step(
                StepKind.DIFFERENCE,
                f"keyspace {self._store.keyspace}",
                f"its replication is {dict(found)}, the settings say {wanted}",
                "Change migrate.keyspace_replication, or alter the keyspace and repair it.",
            )
        ]

    def _applied(self, session: Session) -> Mapping[int, str]:
        """Return what is recorded; a table that a node is just making is listed before every node can read it."""
        listed = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s"
        if not self._read(session, listed, (self._store.keyspace, _HISTORY)):
            return {}
        query = f"SELECT number, checksum FROM {self._keyspace}.{_HISTORY}"
        for _ in range(LOOKS):
            try:
                return dict(self._read(session, query))
            except (StoreRefusedError, StoreUnavailableError) as error:
                if not isinstance(error.__cause__, _NOT_READABLE_YET):
                    raise
            self._sleep(LOOK_S)
        return dict(self._read(session, query))

    def _pending(self, session: Session) -> Sequence[Migration]:
        applied = self._applied(session)
        try:
            return pending(self._known, applied)
        except MigrationError as error:
            raise StoreRefusedError(f"keyspace {self._store.keyspace}: {error.message}", error.hint) from error

    def _record(self, session: Session, migration: Migration) -> None:
        now_ms = self._now_ms()
        query = _RECORD.format(keyspace=self._keyspace, stamp=now_ms * 1000)
        values = (migration.number, migration.name, migration.checksum, now_ms, platform.node())
        with translating(f"the record of migration {migration}"):
            session.execute(SimpleStatement(query, consistency_level=ConsistencyLevel.QUORUM), values)

    def _change(self, session: Session, statement: str) -> None:
        """Change the schema and wait until all nodes that are up agree on it."""
        with translating("a change of the schema"):
            result = session.execute(statement, timeout=CHANGE_TIMEOUT_S)
        if not result.response_future.is_schema_agreed:
            raise StoreUnavailableError(
                "Cassandra's nodes do not agree on the schema", "See `nodetool describecluster`, then migrate again."
            )

    def _read(self, session: Session, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with translating("a look at the schema"):
            return list(session.execute(SimpleStatement(query, consistency_level=ConsistencyLevel.QUORUM), values))

    def _create_keyspace(self) -> str:
        copies = "".join(f", '{name}': {number}" for name, number in self._settings.copies().items())
        replication = f"{{'class': 'NetworkTopologyStrategy'{copies}}}"
        return f"CREATE KEYSPACE IF NOT EXISTS {self._keyspace} WITH replication = {replication}"

    def _creation(self) -> Step:
        copies = ", ".join(f"{number} in {name}" for name, number in self._settings.copies().items())
        return Step(StepKind.CHANGE, f"keyspace {self._store.keyspace}", f"create it with copies: {copies}")

    def _step(self, migration: Migration) -> Step:
        return Step(StepKind.CHANGE, f"keyspace {self._store.keyspace}", f"apply migration {migration}")

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Connect for as long as the block takes."""
        cluster = open_cluster(self._store)
        session = connect(cluster)
        try:
            yield session
        finally:
            cluster.shutdown()
