"""One Kafka node (KRaft, controller and broker in one process): configuration, command line, health check.

A cluster is several of them: each is a controller too, so that one of three may be gone.
"""

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from compose.stacks.errors import NotHealthyError, StackError
from compose.stacks.local.jars import Java
from compose.stacks.local.node import NodePlace
from compose.stacks.local.ports import LOOPBACK

HEALTH_TOPIC = "twotick.stack-health"

_FORMAT_TIMEOUT_S = 120.0
# Under KIP-848 the brokers decide after which time a member without a sign of life is dead, not the member. By default
# 45 s, which is the least that they allow too, and with 5 s between signs. Here everybody is near.
_GROUP_TIMING = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
_HEALTH_RETENTION_MS = 600_000

_LOGGING = """\
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %-5p %m (%c{1})%n
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
"""


def server_properties(
    *, number: int, broker_port: int, controllers: Mapping[int, str], data_folder: Path
) -> dict[str, str]:
    """Return a node's settings; every listener is on loopback, `controllers` are the addresses of all by number."""
    broker = f"{LOOPBACK}:{broker_port}"
    # With three nodes what is acknowledged is on two of them, with one there is but one copy.
    copies = 3 if len(controllers) >= 3 else 1
    in_sync = 2 if copies == 3 else 1
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        # Voters by address rather than in the log: a node may come back on other ports.
        "controller.quorum.voters": ",".join(f"{voter}@{address}" for voter, address in controllers.items()),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controllers[number]}",
        "advertised.listeners": f"PLAINTEXT://{broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data_folder),
        # A broker that was killed waits for its own old session to end before it may serve again: 9 s by default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # Topics are part of the contract: a misspelt name must fail, not make a topic.
        "auto.create.topics.enable": "false",
        "group.coordinator.rebalance.protocols": "classic,consumer",
        "group.initial.rebalance.delay.ms": "0",
        **_GROUP_TIMING,
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "offsets.topic.num.partitions": "8",
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
        "transaction.state.log.num.partitions": "8",
        "share.coordinator.state.topic.replication.factor": str(copies),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
        # 128 MiB by default, a third of this heap, for compacted topics that stay tiny here.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """A Kafka node at a place of its own, member of the cluster `cluster_id`."""

    place: NodePlace
    cluster_id: str
    heap_mib: int
    number: int
    """Its id in the cluster, from 1."""
    controllers: Mapping[int, str]
    """The controller address of each node of the cluster by its number, its own among them."""

    kind: ClassVar[str] = "kafka"
    port_purposes: ClassVar[tuple[str, ...]] = ("broker", "controller")

    @property
    def address(self) -> str:
        """The bootstrap server."""
        return f"{LOOPBACK}:{self.place.ports['broker']}"

    def prepare(self, java: Java, class_path: str) -> None:
        """Write server.properties and the logging settings, and format the storage the first time."""
        if "," in str(self._data_folder):
            message = f"{self.place.folder} has a comma in its name, which Kafka takes for the end of one of several"
            raise StackError(message, hint="name another folder: the setting stack.folder")
        self.place.folder.mkdir(parents=True, exist_ok=True)
        settings = server_properties(
            number=self.number,
            broker_port=self.place.ports["broker"],
            controllers=self.controllers,
            data_folder=self._data_folder,
        )
        # Java reads it as ISO 8859-1, in which \uXXXX stands for all else and a backslash escapes: as in JSON.
        lines = [f"{name}={json.dumps(value)[1:-1]}\n" for name, value in settings.items()]
        self._properties_path.write_text("".join(lines), encoding="utf-8")
        self._logging_path.write_text(_LOGGING, encoding="utf-8")
        if not (self._data_folder / "meta.properties").exists():
            self._format_storage(java, class_path)

    def command(self, java: Java, class_path: str) -> list[str]:
        """Return the broker's command line."""
        heap = ["-Xms128m", f"-Xmx{self.heap_mib}m", "-XX:+UseSerialGC"]
        return [java.path, *heap, *self._common(class_path), "kafka.Kafka", str(self._properties_path)]

    def check_health(self, timeout_s: float) -> None:
        """Have one record acknowledged by this very node and read it back."""
        deadline = time.monotonic() + timeout_s
        try:
            _round_trip(self.address, self.number, deadline)
        except KafkaException as error:
            raise NotHealthyError(f"{self.place.name} at {self.address}: {error}") from error

    @property
    def _data_folder(self) -> Path:
        return self.place.folder / "data"

    @property
    def _properties_path(self) -> Path:
        return self.place.folder / "server.properties"

    @property
    def _logging_path(self) -> Path:
        return self.place.folder / "log4j2.properties"

    def _common(self, class_path: str) -> list[str]:
        return [f"-Dlog4j2.configurationFile={self._logging_path}", "-cp", class_path]

    def _format_storage(self, java: Java, class_path: str) -> None:
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        arguments = ["format", "--ignore-formatted", "-t", self.cluster_id, "-c", str(self._properties_path)]
        command = [java.path, *quick, *self._common(class_path), "kafka.tools.StorageTool", *arguments]
        try:
            done = subprocess.run(  # noqa: S603 - the command is made here
                command, capture_output=True, check=False, text=True, timeout=_FORMAT_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as error:
            message = f"the storage of {self.place.name} was not formatted within {_FORMAT_TIMEOUT_S:.0f} s"
            raise StackError(message, hint="this machine is busy: try again", retriable=True) from error
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
            hint = f"if {self.place.folder} holds another cluster's data, take another data folder"
            raise StackError(f"the storage of {self.place.name} could not be formatted:\n{tail}", hint=hint)


def _round_trip(address: str, number: int, deadline: float) -> None:
    common: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0, "error_cb": lambda _error: None}
    topic = HEALTH_TOPIC if number == 1 else f"{HEALTH_TOPIC}-{number}"
    _ensure_health_topic(AdminClient(common), topic, number, deadline)
    written = _write_record(common, topic, deadline)
    _read_record(common, written, deadline)


def _ensure_health_topic(admin: AdminClient, name: str, number: int, deadline: float) -> None:
    """Make the topic whose only copy this node has: nobody else can answer for it."""
    if name in admin.list_topics(timeout=_left_s(deadline)).topics:
        return
    config = {"retention.ms": str(_HEALTH_RETENTION_MS), "min.insync.replicas": "1"}
    topic = NewTopic(name, 1, replica_assignment=[[number]], config=config)
    try:
        admin.create_topics([topic], operation_timeout=_left_s(deadline))[name].result(_left_s(deadline))
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    except TimeoutError as error:
        raise _late("create the health topic") from error


def _write_record(common: dict[str, Any], topic: str, deadline: float) -> TopicPartition:
    # Idempotent and acks=all, as the clients write: this also waits for what only such producers need.
    producer = Producer({**common, "enable.idempotence": True, "linger.ms": 0})
    outcomes: list[tuple[Any, Any]] = []
    marker = str(time.time_ns())
    producer.produce(topic, value=marker, on_delivery=lambda *outcome: outcomes.append(outcome))
    producer.flush(_left_s(deadline))
    if not outcomes:
        producer.purge()
        raise _late("acknowledge a record")
    error, message = outcomes[0]
    if error is not None:
        raise KafkaException(error)
    return TopicPartition(topic, message.partition(), message.offset())


def _read_record(common: dict[str, Any], written: TopicPartition, deadline: float) -> None:
    consumer = Consumer({**common, "group.id": HEALTH_TOPIC, "enable.auto.commit": False})
    try:
        consumer.assign([written])
        message = consumer.poll(_left_s(deadline))
        if message is None:
            raise _late("give a record back")
        if message.error() is not None:
            raise KafkaException(message.error())
    finally:
        consumer.close()


def _left_s(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.01)


def _late(what: str) -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, f"it did not {what} in time"))  # noqa: SLF001 - its public name
