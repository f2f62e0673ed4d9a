"""A deployment on a local stack: its tables and topics, the settings of its commands, its workers as users run them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from compose.stacks.local import StackAddresses
from consumers.migrate import apply, targets_of
from consumers.migrate_settings import MigrationSettings
from consumers.stores.cassandra import CassandraStore
from consumers.stores.settings import CassandraSettings


def migrate(addresses: StackAddresses, keyspace: str) -> None:
    """Make the topics where they are missing, and a keyspace."""
    cassandra = CassandraSettings(port=addresses.cassandra_port, keyspace=keyspace)
    targets = targets_of(
        kafka={"bootstrap.servers": addresses.kafka_bootstrap_servers},
        store=cassandra,
        open_store=lambda: CassandraStore.open(cassandra),
        settings=MigrationSettings(),
    )
    for _ in apply(targets):
        pass


def environment(addresses: StackAddresses, keyspace: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which `twotick` is of this deployment; `settings` are more, by their names."""
    told = {
        "kafka.bootstrap_servers": addresses.kafka_bootstrap_servers,
        "store.kind": "cassandra",
        "store.cassandra.port": str(addresses.cassandra_port),
        "store.cassandra.keyspace": keyspace,
        **(settings or {}),
    }
    names = {f"TWOTICK_{name.replace('.', '__').upper()}": value for name, value in told.items()}
    return {**os.environ, **names}


@contextmanager
def consuming(environ: Mapping[str, str], workers: int = 1) -> Iterator[None]:
    """Run production workers as users do."""
    supervisor = subprocess.Popen(
        [sys.executable, "-m", "compose.main", "consume", "--workers", str(workers)],
        env=environ,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        supervisor.terminate()
        supervisor.wait(60)
