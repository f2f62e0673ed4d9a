"""Kafka, Cassandra and workers in containers: started, looked at by a round trip, and hit by faults.

Ports are fixed for a container's life and on loopback: a broker tells its address to its clients, and it must be the
same after a kill and a start.
"""

import os
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from docker.errors import APIError
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from compose.images.build import server_version
from compose.stacks.errors import NotHealthyError
from compose.stacks.local import StackAddresses
from compose.stacks.local.cassandra import DATACENTER, CassandraNode
from compose.stacks.local.kafka import KafkaNode
from compose.stacks.local.node import NodePlace
from compose.stacks.local.ports import LOOPBACK, choose_free
from tests.integration.containers.engine import Engine
from tests.stacks import QUICK_JAVA

IMAGES: Final = {
    "kafka": os.environ.get("TWOTICK_TEST_KAFKA_IMAGE", f"apache/kafka:{server_version('kafka')}"),
    "cassandra": os.environ.get("TWOTICK_TEST_CASSANDRA_IMAGE", f"cassandra:{server_version('cassandra')}"),
    "worker": os.environ.get("TWOTICK_TEST_WORKER_IMAGE", f"twotick/worker:{version('twotick')}"),
}
READY_S: Final = 300.0
ROUND_TRIP_S: Final = 10.0
INSIDE: Final = 19092

_KAFKA: Final = {
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_LISTENERS": f"INSIDE://:{INSIDE},OUTSIDE://:9092,CONTROLLER://:9093",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
    "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "8",
    # A broker that was killed waits for its own old session to end before it may serve again: 9 s by default.
    "KAFKA_BROKER_SESSION_TIMEOUT_MS": "3000",
    "KAFKA_BROKER_HEARTBEAT_INTERVAL_MS": "500",
    "KAFKA_LOG_CLEANER_DEDUPE_BUFFER_SIZE": str(4 << 20),
    "KAFKA_HEAP_OPTS": "-Xms96m -Xmx256m",
    "KAFKA_JVM_PERFORMANCE_OPTS": f"-XX:+UseSerialGC {QUICK_JAVA}",
}
_CASSANDRA: Final = {
    "CASSANDRA_NUM_TOKENS": "1",
    "MAX_HEAP_SIZE": "448M",
    "HEAP_NEWSIZE": "112M",
    # What is answered must be there after a kill, so the commit log is synced before the answer.
    "JVM_EXTRA_OPTS": "-Dcassandra.config.allow_system_properties=true"
    " -Dcassandra.settings.commitlog_sync=batch -Dcassandra.settings.commitlog_sync_period=0ms"
    f" -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.ring_delay_ms=1 {QUICK_JAVA}",
}


def _own_topics(copies: int) -> dict[str, str]:
    """Say how many copies Kafka keeps of groups' offsets and the like, whatever an image does by itself."""
    of_topics = {
        f"KAFKA_{topic}_REPLICATION_FACTOR": str(copies)
        for topic in ("OFFSETS_TOPIC", "TRANSACTION_STATE_LOG", "SHARE_COORDINATOR_STATE_TOPIC")
    }
    in_sync = {
        f"KAFKA_{topic}_MIN_ISR": str(max(1, copies - 1))
        for topic in ("TRANSACTION_STATE_LOG", "SHARE_COORDINATOR_STATE_TOPIC")
    }
    return of_topics | in_sync


class Box:
    """A container that faults happen to."""

    def __init__(self, container: DockerContainer, network: Network, name: str) -> None:
        """Take a container that is not started, and the name under which others in the network know it."""
        self.name = name
        self._network = network
        self._container = container.with_network(network).with_network_aliases(name)
        self._address: str | None = None

    @property
    def wrapped(self) -> Any:
        """The container as docker's own library has it, as it is now."""
        found = self._container.get_wrapped_container()
        found.reload()
        return found

    def start(self) -> None:
        """Start it for the first time."""
        self._container.start()
        self._address = self.wrapped.attrs["NetworkSettings"]["Networks"][self._network.name]["IPAddress"]

    def remove(self) -> None:
        """Remove it, whatever it does."""
        self._container.stop()

    def pause(self) -> None:
        """Freeze all its processes. On a busy machine the engine gives that up and thaws them: it is asked again."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.wrapped.pause()
            except APIError as error:
                if "unable to freeze" not in str(error) or time.monotonic() > deadline:
                    raise
            else:
                return

    def go_on(self) -> None:
        """Let them go on."""
        self.wrapped.unpause()

    def kill(self) -> None:
        """SIGKILL."""
        self.wrapped.kill()
        self.wrapped.wait()

    def start_again(self) -> None:
        """Start it after its end, with the files that it had."""
        self.wrapped.start()

    def cut_off(self) -> None:
        """Take it from the network: connections neither end nor go on."""
        self._network._unwrap_network.disconnect(self.wrapped.id)

    def join(self) -> None:
        """Let it into the network again, under the address that it had."""
        self._network._unwrap_network.connect(self.wrapped.id, aliases=[self.name], ipv4_address=self._address)

    def log(self) -> str:
        """Return what it has said."""
        return str(self.wrapped.logs().decode(errors="replace"))

    def port(self, inside: int) -> int:
        """Return the port of this machine under which one of its own is reached, also while it is paused or cut off."""
        return int(self.wrapped.attrs["HostConfig"]["PortBindings"][f"{inside}/tcp"][0]["HostPort"])


class Server(Box):
    """Kafka or Cassandra; ready when a round trip through it has worked (case T3)."""

    def check(self) -> None:
        """Make one round trip. Raises NotHealthyError."""
        raise NotImplementedError

    def wait_until_ready(self) -> None:
        """Wait for the first round trip that works; fail with the server's own last words."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                self.check()
            except NotHealthyError as error:
                if time.monotonic() > deadline or self.wrapped.status not in {"created", "running"}:
                    last = "\n".join(self.log().splitlines()[-20:])
                    raise AssertionError(f"{self.name} is {self.wrapped.status}: {error.message}\n{last}") from error
                time.sleep(0.2)
            else:
                return


class KafkaServer(Server):
    """One broker, which is a controller too."""

    def __init__(self, engine: Engine, network: Network, *, number: int = 1, of: int = 1) -> None:
        """Take its number among how many."""
        name = "kafka" if of == 1 else f"kafka-{number}"
        voters = ",".join(f"{n}@{'kafka' if of == 1 else f'kafka-{n}'}:9093" for n in range(1, of + 1))
        outside = choose_free()
        container = engine.container(IMAGES["kafka"]).with_envs(
            **_KAFKA,
            **_own_topics(copies=min(of, 3)),
            CLUSTER_ID="5L6g3nShT-eMCtK--X86sw",
            KAFKA_NODE_ID=str(number),
            KAFKA_CONTROLLER_QUORUM_VOTERS=voters,
            KAFKA_ADVERTISED_LISTENERS=f"INSIDE://{name}:{INSIDE},OUTSIDE://{LOOPBACK}:{outside}",
        )
        container.ports["9092/tcp"] = (LOOPBACK, outside)
        super().__init__(container, network, name)
        self.number = number

    @property
    def address(self) -> str:
        """Return where clients on this machine reach it, as the engine tells."""
        return f"{LOOPBACK}:{self.port(9092)}"

    def check(self) -> None:
        """Have a record acknowledged by this broker, and read it back."""
        place = NodePlace(self.name, LOOPBACK, Path(), {"broker": self.port(9092)})
        KafkaNode(place, cluster_id="", heap_mib=0, number=self.number, controllers={}).check_health(ROUND_TRIP_S)


class CassandraServer(Server):
    """One node."""

    def __init__(self, engine: Engine, network: Network) -> None:
        """Take the network that it will be in."""
        container = engine.container(IMAGES["cassandra"]).with_envs(**_CASSANDRA)
        container.ports["9042/tcp"] = (LOOPBACK, choose_free())
        super().__init__(container, network, "cassandra")

    def check(self) -> None:
        """Write a row and read it back."""
        place = NodePlace(self.name, LOOPBACK, Path(), {"native": self.port(9042)})
        CassandraNode(place, heap_mib=0, commitlog_sync="batch", nodes=1).check_health(ROUND_TRIP_S)


class Servers:
    """One Cassandra, and one broker or several."""

    def __init__(self, engine: Engine, brokers: int = 1) -> None:
        """Make them and their network, not started."""
        self._engine, self._network = engine, engine.network()
        self.brokers = [KafkaServer(engine, self._network, number=n, of=brokers) for n in range(1, brokers + 1)]
        self.cassandra = CassandraServer(engine, self._network)

    @property
    def kafka(self) -> KafkaServer:
        """The first broker."""
        return self.brokers[0]

    def start(self) -> None:
        """Start all, and wait for a round trip through each."""
        for server in (*self.brokers, self.cassandra):
            server.start()
        for server in (*self.brokers, self.cassandra):
            server.wait_until_ready()

    def remove(self) -> None:
        """Remove all that was started."""
        for server in (*self.brokers, self.cassandra):
            server.remove()
        self._network.remove()

    def addresses(self) -> StackAddresses:
        """Return where clients on this machine reach them."""
        kafka = ",".join(broker.address for broker in self.brokers)
        return StackAddresses(kafka, (LOOPBACK,), self.cassandra.port(9042), DATACENTER)

    def worker(self, name: str, settings: Mapping[str, str], command: list[str]) -> Box:
        """Return a container of the worker's image, not started; it may write in /tmp alone and has no rights."""
        container = self._engine.container(
            IMAGES["worker"],
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            hostname=name,
        )
        container.tmpfs = {"/tmp": "size=16m,mode=1777"}  # noqa: S108 - inside the container
        variables = {
            "TWOTICK_KAFKA__BOOTSTRAP_SERVERS": ",".join(f"{broker.name}:{INSIDE}" for broker in self.brokers),
            "TWOTICK_STORE__CASSANDRA__CONTACT_POINTS": self.cassandra.name,
            **{f"TWOTICK_{key.upper().replace('.', '__')}": value for key, value in settings.items()},
        }
        return Box(container.with_envs(**variables).with_command(command), self._network, name)
