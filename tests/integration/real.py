"""A deployment on real Kafka and Cassandra: topics that all tests share, and a keyspace of its own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from cassandra.cluster import Session
from typer.testing import CliRunner

from compose.app import build_app, exit_code
from compose.stacks.local import LocalStack
from consumers.migrate import apply, targets_of
from consumers.migrate_settings import MigrationSettings
from consumers.settings import WorkerSettings
from consumers.stores.cassandra import CassandraStore
from consumers.stores.cassandra_mode import WriteMode
from consumers.stores.settings import CassandraSettings
from schemas.lifecycle import State
from schemas.records import Event
from schemas.topics import PARTITIONS_LOCAL
from tests.integration.commands import Ran
from tests.integration.deployment import Deployment, check_story
from tests.keyspaces import forget


class Real(Deployment):
    """A deployment whose store is a keyspace of its own."""

    store: CassandraStore

    def all_read(self, sent: list[Event]) -> bool:
        """Say whether all messages are read."""
        found = [self.store.message((event.conversation_id, event.message_id)) for event in sent]
        return all(each is not None and each.row.state == State.READ for each in found)

    def check_stories(self, sent: list[Event]) -> None:
        """Each message went sent, delivered, read, once."""
        for event in sent:
            check_story(self.store.message((event.conversation_id, event.message_id)), event)

    def write(self, conversations: int, messages: int) -> list[Event]:
        """Write messages and their receipts in conversations that no other test has."""
        return self.talk([f"{self.settings['group']}-{number}" for number in range(conversations)], messages)

    @property
    def keyspace(self) -> str:
        """Return its keyspace."""
        return str(self.more["keyspace"])

    @property
    def session(self) -> Session:
        """Return a session for CQL of the test's own."""
        return self.store._session

    def command(self, *arguments: str) -> list[str]:
        """Return the arguments with which `twotick` is one of its commands."""
        return [part for flag in self._flags() for part in ("--set", flag)] + list(arguments)

    def twotick(self, *arguments: str) -> Ran:
        """Run a command in this process."""
        result = CliRunner().invoke(build_app(), self.command(*arguments))
        error = result.exception
        code, told = result.exit_code, result.stderr
        if error is not None and not isinstance(error, SystemExit):
            if not hasattr(error, "message"):
                raise error
            code, told = exit_code(error), f"{told}{error.message} {getattr(error, 'hint', '')}"
        rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        return Ran(code, rows, told, result.stdout)

    def _flags(self) -> list[str]:
        cassandra, kafka = self.more["cassandra"], self.kafka
        values = {
            "kafka.bootstrap.servers": kafka["bootstrap.servers"],
            "store.kind": "cassandra",
            "store.mode": self.more["mode"],
            "store.cassandra.keyspace": self.keyspace,
            "store.cassandra.port": cassandra["port"],
            "worker.group": self.settings["group"],
            "worker.operators": ",".join(self.settings.get("operators", ())),
        }
        return [f"{name}={value}" for name, value in values.items()]


@contextmanager
def real(
    stack: LocalStack,
    folder: Path,
    prefix: str,
    mode: WriteMode = "stamps",
    *,
    from_the_start: bool = False,
    **settings: Any,
) -> Iterator[Real]:
    """Lend a deployment whose group begins behind what other tests have written; its keyspace goes with it.

    `prefix` is of the keyspace's and the group's name, `settings` are more of the workers'. With `from_the_start` it
    takes in what others have written too, so that a replay of the whole log finds what is in its store.
    """
    addresses = stack.addresses()
    assert addresses is not None
    kafka = {"bootstrap.servers": addresses.kafka_bootstrap_servers}
    name = f"{prefix}_{uuid4().hex[:12]}"
    cassandra = {
        "contact_points": tuple(addresses.cassandra_contact_points),
        "port": addresses.cassandra_port,
        "datacenter": addresses.cassandra_datacenter,
    }
    store = CassandraSettings(**cassandra, keyspace=name)
    targets = targets_of(
        kafka=kafka,
        store=store,
        open_store=lambda: CassandraStore.open(store, mode=mode),
        settings=MigrationSettings(),
        workers=WorkerSettings(group=name),
    )
    list(apply(targets))
    told = {
        "group": name,
        "tail_records": 100,  # other tests write to these topics too
        "static_members": False,
        "session_timeout_s": 6,
        "commit_interval_s": 0.1,
        "retry_first_s": 0.05,
        **settings,
    }
    more = {"keyspace": name, "cassandra": cassandra, "mode": mode}
    made = Real(folder, kafka, told, more, partitions=PARTITIONS_LOCAL)
    if not from_the_start:
        made.begin_at_the_end()
    made.store = CassandraStore.open(store, mode=mode)
    try:
        yield made
    finally:
        made.close()
        forget(made.session, name)
        made.store.close()
