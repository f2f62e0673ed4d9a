"""One Cassandra node: configuration, command line, health check.

A cluster is several of them on loopback addresses of their own, with the same ports; the first is the others' seed.
"""

import json
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from compose import extras
from compose.stacks.errors import NotHealthyError, ToolMissingError
from compose.stacks.local.jars import Java
from compose.stacks.local.node import NodePlace
from compose.stacks.local.ports import LOOPBACK

DATACENTER = "datacenter1"  # the name that SimpleSnitch gives

_HEALTH_KEYSPACE = "twotick_stack_health"
_HEALTH_TABLE = f"{_HEALTH_KEYSPACE}.markers"
_HEALTH_TTL_S = 600
_POLL_S = 0.05

# Packages of the Java runtime into which Cassandra reaches.
_EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
)
_OPENS = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)

_RING_DELAY_ALONE_MS = 1
"""A single node has nobody to wait for."""
_RING_DELAY_MS = 2000
"""How long a node listens to the others before it joins them: 30 s by default."""

_LOGGING = """\
<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date{ISO8601} %-5level [%thread] %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
"""

CommitlogSync = Literal["batch", "periodic"]


def cassandra_yaml(
    *, host: str, native_port: int, storage_port: int, data_folder: Path, commitlog_sync: CommitlogSync
) -> dict[str, Any]:
    """Return the node's settings; every address is loopback, 127.0.0.1 is the seed."""
    settings: dict[str, Any] = {
        "cluster_name": "twotick local",
        "num_tokens": 1,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "listen_address": host,
        "rpc_address": host,
        "storage_port": storage_port,
        "native_transport_port": native_port,
        "seed_provider": [
            {
                "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                "parameters": [{"seeds": f"{LOOPBACK}:{storage_port}"}],
            }
        ],
        "data_file_directories": [str(data_folder / "data")],
        "commitlog_directory": str(data_folder / "commitlog"),
        "saved_caches_directory": str(data_folder / "saved_caches"),
        "hints_directory": str(data_folder / "hints"),
        "cdc_raw_directory": str(data_folder / "cdc_raw"),
        # "batch" acknowledges a write once it is in the log, "periodic" before that. Although the log's pages outlive a
        # killed process, its replay stops at the last chained marker, and those are written 100 ms apart. Measured
        # with 8 writers and SIGKILL, six rounds each: periodic lost 416 of 7,370 acknowledged writes (2 to 154 a
        # round), batch none of 4,937. The price on two busy cores: 1 to 2 ms more for a single write.
        "commitlog_sync": commitlog_sync,
        "commitlog_segment_size": "16MiB",
        "concurrent_reads": 8,
        "concurrent_writes": 128,
        "paxos_variant": "v2",
        # Room for larger batches than the defaults (5 KiB, 10 partitions) before Cassandra warns about each of them.
        "batch_size_warn_threshold": "32KiB",
        "unlogged_batch_across_partitions_warn_threshold": 50,
        "memtable": {
            "configurations": {"trie": {"class_name": "TrieMemtable"}, "default": {"inherits": "trie"}},
        },
    }
    if commitlog_sync == "periodic":
        settings["commitlog_sync_period"] = "10000ms"
    return settings


def module_options() -> list[str]:
    """Return the options of `java` that let Cassandra reach into its runtime."""
    exports = [f"--add-exports={name}=ALL-UNNAMED" for name in _EXPORTS]
    return [*exports, *(f"--add-opens={name}=ALL-UNNAMED" for name in _OPENS)]


@dataclass(frozen=True, slots=True)
class CassandraNode:
    """A Cassandra node at a place of its own."""

    place: NodePlace
    heap_mib: int
    commitlog_sync: CommitlogSync
    nodes: int
    """Of how many nodes the cluster is made."""

    kind: ClassVar[str] = "cassandra"
    port_purposes: ClassVar[tuple[str, ...]] = ("native", "storage", "jmx")

    @property
    def address(self) -> str:
        """The contact point."""
        return f"{self.place.host}:{self.place.ports['native']}"

    def prepare(self, java: Java, class_path: str) -> None:
        """Write cassandra.yaml and the logging settings."""
        del java, class_path  # storage needs no formatting
        self.place.folder.mkdir(parents=True, exist_ok=True)
        settings = cassandra_yaml(
            host=self.place.host,
            native_port=self.place.ports["native"],
            storage_port=self.place.ports["storage"],
            data_folder=self.place.folder / "data",
            commitlog_sync=self.commitlog_sync,
        )
        # JSON is YAML; so no YAML library is needed to write it.
        self._yaml_path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        self._logging_path.write_text(_LOGGING, encoding="utf-8")

    def command(self, java: Java, class_path: str) -> list[str]:
        """Return the server's command line."""
        heap = [f"-Xms{self.heap_mib // 3}m", f"-Xmx{self.heap_mib}m", "-XX:+UseSerialGC", "-Xss256k"]
        main = "org.apache.cassandra.service.CassandraDaemon"
        return [java.path, *heap, *module_options(), *self._definitions(), "-cp", class_path, main]

    def check_health(self, timeout_s: float) -> None:
        """Write a row through this very node and read it back."""
        try:
            from cassandra.cluster import Cluster, NoHostAvailable  # noqa: PLC0415 - an optional extra
        except ImportError as error:
            raise ToolMissingError("the local stack needs the Cassandra driver", hint=extras.CASSANDRA) from error
        from cassandra import DriverException, OperationTimedOut, RequestExecutionException  # noqa: PLC0415

        cluster = Cluster(**_connection(self.place.host, self.place.ports["native"], timeout_s))
        try:
            _round_trip(cluster.connect(), self.nodes, timeout_s)
        except (NoHostAvailable, OperationTimedOut, RequestExecutionException, DriverException) as error:
            raise NotHealthyError(f"{self.place.name} at {self.address}: {error}") from error
        finally:
            cluster.shutdown()

    @property
    def _yaml_path(self) -> Path:
        return self.place.folder / "cassandra.yaml"

    @property
    def _logging_path(self) -> Path:
        return self.place.folder / "logback.xml"

    def _definitions(self) -> list[str]:
        return [
            "-Djdk.attach.allowAttachSelf=true",
            "-Dcassandra-foreground=yes",
            f"-Dcassandra.config={self._yaml_path.as_uri()}",
            f"-Dcassandra.storagedir={self.place.folder / 'data'}",
            f"-Dcassandra.jmx.local.port={self.place.ports['jmx']}",
            f"-Dlogback.configurationFile={self._logging_path.as_uri()}",
            f"-XX:HeapDumpPath={self.place.folder}",
            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
            f"-Dcassandra.ring_delay_ms={_RING_DELAY_ALONE_MS if self.nodes == 1 else _RING_DELAY_MS}",
            # A node joins while the ring is still empty. On a busy machine it would else give up where it takes another
            # for down that only has to wait for its turn.
            "-Dcassandra.consistent.rangemovement=false",
        ]


def _connection(host: str, native_port: int, timeout_s: float) -> dict[str, Any]:
    from cassandra.cluster import EXEC_PROFILE_DEFAULT, ExecutionProfile  # noqa: PLC0415
    from cassandra.policies import WhiteListRoundRobinPolicy  # noqa: PLC0415

    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([host]), request_timeout=timeout_s)
    return {
        "contact_points": [host],
        "port": native_port,
        "protocol_version": 5,
        "connect_timeout": timeout_s,
        "control_connection_timeout": timeout_s,
        # Neither is needed for one row on one node, and both take round trips.
        "schema_metadata_enabled": False,
        "token_metadata_enabled": False,
        "execution_profiles": {EXEC_PROFILE_DEFAULT: profile},
    }


def _round_trip(session: Any, nodes: int, timeout_s: float) -> None:  # noqa: ANN401 - the driver has no types
    from cassandra import InvalidRequest  # noqa: PLC0415

    marker = uuid.uuid4()
    # The marker is the key: nodes that are looked at side by side write different rows. A copy on any node will do,
    # this one is asked whether it can fetch it.
    write = f"INSERT INTO {_HEALTH_TABLE} (id, marker) VALUES (%s, %s) USING TTL {_HEALTH_TTL_S}"
    try:
        session.execute(write, (marker, marker))
    except InvalidRequest:  # the table is not there yet
        _create_table(session, nodes, timeout_s)
        session.execute(write, (marker, marker))
    deadline = time.monotonic() + timeout_s
    while session.execute(f"SELECT marker FROM {_HEALTH_TABLE} WHERE id = %s", (marker,)).one() is None:
        if time.monotonic() > deadline:
            raise NotHealthyError("cassandra does not give back a row just written")
        time.sleep(_POLL_S)


def _create_table(session: Any, nodes: int, timeout_s: float) -> None:  # noqa: ANN401 - the driver has no types
    # A copy on each node: so every node that lives can take the row, whoever else is gone.
    replication = f"{{'class': 'NetworkTopologyStrategy', '{DATACENTER}': {nodes}}}"
    keyspace = f"CREATE KEYSPACE IF NOT EXISTS {_HEALTH_KEYSPACE} WITH replication = {replication}"
    session.execute(keyspace, timeout=timeout_s)
    table = f"CREATE TABLE IF NOT EXISTS {_HEALTH_TABLE} (id uuid PRIMARY KEY, marker uuid)"
    session.execute(table, timeout=timeout_s)
