"""The stores under the contract's tests: each test that takes `store` runs once for each of them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from consumers.migrate_settings import MigrationSettings
from consumers.migrate_tables import CassandraTables
from consumers.stores.cassandra import CassandraStore
from consumers.stores.cassandra_session import connect, open_cluster
from consumers.stores.contract import Store
from consumers.stores.settings import CassandraSettings
from consumers.stores.sqlite import SqliteStore
from tests.keyspaces import forget

STORES = (
    "sqlite",
    pytest.param("cassandra", marks=pytest.mark.local_stack),
    pytest.param("strict", marks=pytest.mark.local_stack),
)


def settings_of(local_stack, keyspace: str) -> CassandraSettings:
    addresses = local_stack.addresses()
    return CassandraSettings(
        contact_points=tuple(addresses.cassandra_contact_points),
        port=addresses.cassandra_port,
        datacenter=addresses.cassandra_datacenter,
        keyspace=keyspace,
    )


@pytest.fixture(scope="session")
def new_keyspace(local_stack) -> Iterator[CassandraSettings]:
    """Give settings with a keyspace that does not exist yet; at the end it is forgotten."""
    settings = settings_of(local_stack, f"contract_{uuid4().hex[:12]}")
    yield settings
    cluster = open_cluster(settings)
    try:
        forget(connect(cluster), settings.keyspace)
    finally:
        cluster.shutdown()


@pytest.fixture(scope="session")
def cassandra_settings(new_keyspace: CassandraSettings) -> CassandraSettings:
    """Give a keyspace with all tables."""
    migration = MigrationSettings(keyspace_replication=(f"{new_keyspace.datacenter}=1",))
    list(CassandraTables(new_keyspace, migration).apply())
    return new_keyspace


@pytest.fixture(scope="session")
def cassandra_store(cassandra_settings: CassandraSettings) -> Iterator[CassandraStore]:
    opened = CassandraStore.open(cassandra_settings)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def strict_settings(cassandra_settings: CassandraSettings) -> Iterator[CassandraSettings]:
    """Give a keyspace of its own with all tables: a keyspace is written one way."""
    settings = replace(cassandra_settings, keyspace=f"strict_{uuid4().hex[:12]}")
    migration = MigrationSettings(keyspace_replication=(f"{settings.datacenter}=1",))
    list(CassandraTables(settings, migration).apply())
    yield settings
    cluster = open_cluster(settings)
    try:
        forget(connect(cluster), settings.keyspace)
    finally:
        cluster.shutdown()


@pytest.fixture(scope="session")
def strict_store(strict_settings: CassandraSettings) -> Iterator[CassandraStore]:
    opened = CassandraStore.open(strict_settings, mode="strict")
    yield opened
    opened.close()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give each store: writes in the order of an owner that works in peace."""
    if request.param != "sqlite":
        yield request.getfixturevalue(f"{request.param}_store")
        return
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    yield opened
    opened.close()


@pytest.fixture(params=STORES[:2])
def unordered_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give the stores into which writes may land in any order; strict mode refuses those that come too early."""
    if request.param != "sqlite":
        yield request.getfixturevalue(f"{request.param}_store")
        return
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    yield opened
    opened.close()


@pytest.fixture(params=STORES)
def open_another(request: pytest.FixtureRequest, tmp_path: Path):
    """Give a function that opens a store of its own on the same data; all are closed at the end."""
    opened: list[Store] = []

    def open_one() -> Store:
        if request.param == "cassandra":
            opened.append(CassandraStore.open(request.getfixturevalue("cassandra_settings")))
        elif request.param == "strict":
            opened.append(CassandraStore.open(request.getfixturevalue("strict_settings"), mode="strict"))
        else:
            opened.append(SqliteStore.open(tmp_path / "store.sqlite"))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def name() -> str:
    """Give a text that no other test uses: the stores outlive a test."""
    return uuid4().hex


@pytest.fixture
def partition() -> int:
    """Give a partition that no other test uses."""
    return uuid4().int % 2**30
