"""A deployment on servers in containers: workers beside them, clients on this machine."""

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cassandra.cluster import Cluster
from confluent_kafka.admin import AdminClient

from compose.wiring import Wiring
from consumers.stores.contract import StoredMessage
from producers import Client, Outgoing
from schemas.topics import PARTITIONS_LOCAL, TOPICS
from tests.faults.cql import KEYSPACE, Tables
from tests.faults.crew import Places, until
from tests.faults.stage import SESSION_S, write_config
from tests.integration.containers.servers import Box, Servers

WITHIN_S: Final = 240.0
KAFKA: Final = {"reconnect.backoff.max.ms": 1000, "socket.timeout.ms": 6000}
"""A server that is back is to be found soon, one that was cut off to be given up soon: a minute by default."""


class Deployment:
    """Topics and tables, workers in containers, and clients."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        """Take servers that are ready, and a folder of its own."""
        self.servers = servers
        self.places = Places(folder=folder)
        self._boxes: list[Box] = []
        copies = str(len(servers.brokers))
        self._settings = {
            "worker.group": f"group-{secrets.token_hex(4)}",
            "worker.session_timeout_s": str(SESSION_S),
            "worker.drain_timeout_s": "10",
            "worker.lease_check_s": "3",
            "worker.stall_s": "2",
            "worker.retry_s_max": "3",
            "worker.status_interval_s": "0.2",
            **{f"kafka.{name.replace('.', '_')}": str(value) for name, value in KAFKA.items()},
            "migrate.partitions": str(PARTITIONS_LOCAL),
            "migrate.topic_replication": copies,
        }

    def begin_anew(self) -> None:
        """Remove what an earlier deployment left, and make topics and tables, as the image of the worker does it."""
        admin = AdminClient({"bootstrap.servers": self.servers.addresses().kafka_bootstrap_servers})
        mine = set(TOPICS) & set(admin.list_topics(timeout=30).topics)
        if mine:
            for done in admin.delete_topics(sorted(mine)).values():
                done.result(30)
            assert until(lambda: not mine & set(admin.list_topics(timeout=30).topics), WITHIN_S)
        self._drop_keyspace()
        migrating = self.run("migrate", ["migrate", "--execute"])
        code = migrating.wrapped.wait(timeout=WITHIN_S)["StatusCode"]
        assert code == 0, migrating.log()
        addresses = self.servers.addresses()
        settings = {
            "kafka.bootstrap.servers": addresses.kafka_bootstrap_servers,
            **{f"kafka.{name}": value for name, value in KAFKA.items()},
            "client.retry.max_s": 20.0,
        }
        write_config(self.places.config, settings)

    def _drop_keyspace(self) -> None:
        addresses = self.servers.addresses()
        cluster = Cluster(list(addresses.cassandra_contact_points), port=addresses.cassandra_port, protocol_version=5)
        try:
            cluster.connect().execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}", timeout=60)
        finally:
            cluster.shutdown()

    def run(self, name: str, command: list[str]) -> Box:
        """Start a container of the worker's image."""
        box = self.servers.worker(name, self._settings, command)
        self._boxes.append(box)
        box.start()
        return box

    def start_workers(self, *names: str) -> list[Box]:
        """Start workers and wait until each says, by its image's own check, that it is healthy."""
        workers = [self.run(name, ["consume", "--log", "json"]) for name in names]
        for worker in workers:
            assert until(lambda worker=worker: health(worker) == "healthy", WITHIN_S), worker.log()[-3000:]
        return workers

    def client(self, user: str) -> Client:
        """Return a user's client, open."""
        self.places.make((user,))
        return Wiring(config=self.places.config).open_client(user, outbox=self.places.outbox(user))

    def rows(self) -> list[StoredMessage]:
        """Return all messages that Cassandra holds, by queries of the tests' own."""
        tables = Tables(self.servers)
        try:
            return list(tables.messages())
        finally:
            tables.close()

    def end(self) -> None:
        """Remove its containers."""
        for box in self._boxes:
            box.remove()


@contextmanager
def lent(servers: Servers, folder: Path) -> Iterator[Deployment]:
    """Give empty topics and tables, and a place for clients and workers."""
    deployment = Deployment(servers, folder)
    try:
        deployment.begin_anew()
        yield deployment
    finally:
        deployment.end()


@contextmanager
def started(servers: Servers) -> Iterator[Servers]:
    """Start servers, and remove them in the end."""
    try:
        servers.start()
        yield servers
    finally:
        servers.remove()


def talk(alice: Client, bob: Client, bodies: Sequence[str], *, conversations: int, within_s: float) -> None:
    """Have alice send and bob read, each in its time, until she knows of every message that it is read."""
    sent = alice.send_many(
        [Outgoing(to="bob", body=body, conversation=f"c{n % conversations}") for n, body in enumerate(bodies)]
    )
    got = []
    for message in bob:
        message.mark_read()
        got.append(message.text)
        if len(got) == len(bodies):
            break
    deadline = time.monotonic() + within_s
    for one in sent:
        one.wait("read", timeout_s=max(0.1, deadline - time.monotonic()))
    assert sorted(got) == sorted(bodies)


def health(box: Box) -> Any:
    """Return what the image's health check last said."""
    return box.wrapped.attrs["State"]["Health"]["Status"]
