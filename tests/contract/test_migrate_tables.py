"""Tables come to what this version needs, once, whoever starts first; nothing that is there is altered."""

import multiprocessing
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from consumers.errors import StoreRefusedError, StoreUnavailableError
from consumers.migrate_lock import SchemaLock, lock_table
from consumers.migrate_settings import MigrationSettings
from consumers.migrate_steps import StepKind
from consumers.migrate_tables import CassandraTables
from consumers.rows import Block, ConversationRow, ConversationWrite
from consumers.stores.cassandra import CassandraStore
from consumers.stores.cassandra_mode import WriteMode
from consumers.stores.cassandra_session import connect, open_cluster
from consumers.stores.settings import CassandraSettings
from schemas.migrations import Migration, load, parse
from tests.contract.made import id_of, made, row, write
from tests.keyspaces import forget

pytestmark = pytest.mark.local_stack

NODES = 4


@pytest.fixture
def fresh(cassandra_settings: CassandraSettings) -> Iterator[CassandraSettings]:
    """Give settings of a keyspace that is not there; afterwards it is forgotten."""
    settings = replace(cassandra_settings, keyspace=f"migrate_{uuid4().hex[:12]}")
    yield settings
    with _Session(settings) as session:
        forget(session, settings.keyspace)


class _Session:
    def __init__(self, settings: CassandraSettings) -> None:
        self._cluster = open_cluster(settings)

    def __enter__(self):
        return connect(self._cluster)

    def __exit__(self, *_: object) -> None:
        self._cluster.shutdown()


def migration_settings(settings: CassandraSettings, copies: int = 1) -> MigrationSettings:
    return MigrationSettings(keyspace_replication=(f"{settings.datacenter}={copies}",))


def tables(settings: CassandraSettings, known: list[Migration] | None = None) -> CassandraTables:
    return CassandraTables(settings, migration_settings(settings), known=known)


def test_a_plan_changes_nothing_and_an_applied_one_is_empty(fresh: CassandraSettings) -> None:
    plan = tables(fresh).plan()
    assert [step.what for step in plan[1:]] == [f"apply migration {migration}" for migration in load()]
    assert tables(fresh).plan() == plan
    assert list(tables(fresh).apply()) == plan
    assert list(tables(fresh).plan()) == []
    assert list(tables(fresh).apply()) == []
    store = CassandraStore.open(fresh)
    write(store, [made("c", 1)])
    assert store.read([("c", id_of(1))], []).messages == {("c", id_of(1)): row("c", 1)}
    store.close()


def _apply(settings: CassandraSettings, results) -> None:
    try:
        results.put([step.what for step in tables(settings).apply()])
    except BaseException as error:
        results.put([f"failed: {error!r}"])  # or whoever waits for this node's word would wait in vain
        raise


def test_nodes_that_start_at_once_apply_each_migration_once(fresh: CassandraSettings) -> None:
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    processes = [spawn.Process(target=_apply, args=(fresh, results)) for _ in range(NODES)]
    for process in processes:
        process.start()
    done = [what for _ in processes for what in results.get(timeout=120)]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * NODES
    migrations = [what for what in done if what.startswith("apply")]
    assert migrations == [f"apply migration {migration}" for migration in load()]
    with _Session(fresh) as session:
        found = session.execute(f"SELECT number, checksum FROM {fresh.keyspace}.schema_migrations")
        assert dict(found) == {migration.number: migration.checksum for migration in load()}


def test_a_migration_that_was_cut_off_is_applied_again(fresh: CassandraSettings) -> None:
    cut_off = [replace(load()[0], statements=(*load()[0].statements, "CREATE TABLE nonsense"))]
    with pytest.raises(StoreRefusedError):
        list(tables(fresh, cut_off).apply())
    assert [step.what for step in tables(fresh).apply()] == [f"apply migration {migration}" for migration in load()]


def test_a_field_of_a_type_may_be_added_again(fresh: CassandraSettings) -> None:
    of_blocks = next(each for each in load() if each.name == "blocks_by_event")
    cut_off = [
        *load()[: of_blocks.number - 1],
        replace(of_blocks, statements=(*of_blocks.statements, "CREATE TABLE x")),
    ]
    with pytest.raises(StoreRefusedError):
        list(tables(fresh, cut_off).apply())
    assert next(step.what for step in tables(fresh).apply()) == f"apply migration {of_blocks}"


@pytest.mark.parametrize("mode", ["stamps", "strict"])
def test_blocks_of_before_events_ids_were_kept_are_read_and_stay(fresh: CassandraSettings, mode: WriteMode) -> None:
    number = next(each.number for each in load() if each.name == "blocks_by_event")
    list(tables(fresh, list(load()[: number - 1])).apply())
    with pytest.raises(StoreRefusedError) as caught:
        CassandraStore.open(fresh, mode=mode)  # it could not write what it keeps
    assert "event_id" in caught.value.message
    assert "twotick migrate" in caught.value.hint
    with _Session(fresh) as session:
        session.execute(
            f"INSERT INTO {fresh.keyspace}.conversations (conversation_id, participants, buckets, blocks, sequences,"
            " version, applied, stamp, owner) VALUES ('c', ['ann', 'ben'], [], [{blocker: 'ben', blocked: 'ann',"
            " generation: 2, log_offset: 7, active: true}], [], 1, (2, 7), 9, (3, 'node-a')) USING TIMESTAMP 9"
        )
    list(tables(fresh).apply())
    store = CassandraStore.open(fresh, mode=mode)
    old = Block("ben", "ann", (2, 7), active=True)
    row = ConversationRow("c", ("ann", "ben"), (), (old,), (), 1, (2, 7), 9)
    assert store.read([], ["c"]).conversations == {"c": row}
    changed = Block("ben", "ann", (2, 9), active=False, event_id=id_of(1))
    longer = row._replace(blocks=(old, changed), version=2, applied=(2, 9), stamp=11)
    write(store, [], [ConversationWrite(longer, 1)])
    assert store.read([], ["c"]).conversations == {"c": longer}
    store.close()


def test_a_migration_that_changed_after_it_was_applied_is_refused(fresh: CassandraSettings) -> None:
    list(tables(fresh, [parse("0001_one.cql", "CREATE TABLE IF NOT EXISTS one (k int PRIMARY KEY);")]).apply())
    changed = tables(fresh, [parse("0001_one.cql", "CREATE TABLE IF NOT EXISTS one (k text PRIMARY KEY);")])
    with pytest.raises(StoreRefusedError) as caught:
        changed.plan()
    assert caught.value.hint
    with pytest.raises(StoreRefusedError):
        list(changed.apply())


def test_other_numbers_of_copies_are_told_and_left(fresh: CassandraSettings) -> None:
    list(tables(fresh).apply())
    step = CassandraTables(fresh, migration_settings(fresh, copies=3)).plan()[0]
    assert step.kind is StepKind.DIFFERENCE
    assert list(CassandraTables(fresh, migration_settings(fresh, copies=3)).apply()) == [step]
    assert list(tables(fresh).plan()) == []


def test_the_lock_is_held_by_one_renewed_by_its_holder_and_released(fresh: CassandraSettings) -> None:
    list(tables(fresh).apply())
    with _Session(fresh) as session:
        session.execute(lock_table(fresh.keyspace))
        clock = iter(range(10_000))
        waited: list[float] = []
        lock, other = (
            SchemaLock(session, fresh.keyspace, sleep=waited.append, monotonic=lambda: next(clock)) for _ in range(2)
        )
        with lock.held(5) as renew:
            renew()
            with pytest.raises(StoreUnavailableError), other.held(5):
                pass
            assert waited
            session.execute(f"TRUNCATE {fresh.keyspace}.schema_lock", timeout=60)
            with pytest.raises(StoreUnavailableError):
                renew()
        with other.held(5):
            pass
