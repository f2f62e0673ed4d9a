"""The servers of a fault run, its deployment's settings, and a disk that can be filled."""

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from compose.demo.stage import config_text
from compose.layers import Value
from compose.stacks.local import LocalSettings, LocalStack
from compose.wiring import Wiring
from consumers.errors import WorkerError
from consumers.migrate import apply
from schemas.topics import PARTITIONS_LOCAL

NODES_OF_CLUSTER: Final = 3
SESSION_S: Final = 6.0
"""The shortest that Kafka's brokers allow."""
POLL_S: Final = 20.0
"""Above what a drain takes, below the longest pause."""
MIGRATED_WITHIN_S: Final = 300.0
DISK_MIB: Final = 400
_FULL_BYTES: Final = 4096


def stack_of(folder: Path, *, cluster: bool) -> LocalStack:
    """Return the servers, not started: small heaps, and a commit log that is synced before Cassandra answers."""
    if cluster:
        nodes = NODES_OF_CLUSTER
        settings = LocalSettings(
            kafka_nodes=nodes,
            cassandra_nodes=nodes,
            kafka_heap_mib=192,
            cassandra_heap_mib=320,
            start_timeout_s=300,
        )
    else:
        settings = LocalSettings(kafka_heap_mib=320, cassandra_heap_mib=640, start_timeout_s=300)
    return LocalStack(folder, settings)


def settings_of(stack: LocalStack, status: Path, *, protocol: str, partitions: int) -> Mapping[str, Value]:
    """Return a deployment's settings: time-outs so short that many kills find their end."""
    addresses = stack.addresses()
    copies = min(stack.settings.kafka_nodes, NODES_OF_CLUSTER)
    return {
        "kafka.bootstrap.servers": addresses.kafka_bootstrap_servers,
        # A server that is back is to be found soon.
        "kafka.reconnect.backoff.max.ms": 1000,
        "store.kind": "cassandra",
        "store.cassandra.contact_points": list(addresses.cassandra_contact_points),
        "store.cassandra.port": addresses.cassandra_port,
        "store.cassandra.datacenter": addresses.cassandra_datacenter,
        "migrate.partitions": partitions,
        "migrate.topic_replication": copies,
        "migrate.keyspace_replication": [f"{addresses.cassandra_datacenter}={copies}"],
        "worker.protocol": protocol,
        "worker.session_timeout_s": SESSION_S,
        "worker.drain_timeout_s": 10.0,
        "worker.poll_interval_s_max": POLL_S,
        "worker.lease_check_s": 3.0,
        "worker.stall_s": 2.0,
        "worker.retry_s_max": 3.0,
        "worker.status_folder": str(status),
        "worker.status_interval_s": 0.2,
        "client.retry.max_s": 20.0,
    }


def write_config(path: Path, settings: Mapping[str, Value]) -> None:
    """Write the settings where all processes read them."""
    partial = path.with_suffix(".partial")
    partial.write_text(config_text(settings))
    partial.replace(path)


def prepare(stack: LocalStack, config: Path, status: Path, protocol: str, say: Callable[[str], None]) -> None:
    """Bring the servers up, and make topics and tables."""
    stack.up(say)
    write_config(config, settings_of(stack, status, protocol=protocol, partitions=PARTITIONS_LOCAL))
    deadline = time.monotonic() + MIGRATED_WITHIN_S
    while True:
        try:
            for step in apply(Wiring(config=config).migration_targets()):
                say(f"{step.subject}: {step.what}")
        except WorkerError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
            say(f"again: {error.message}")
        else:
            return


class Disk:
    """The disk of one outbox, which can be filled.

    A small file system of its own where this user may mount one, so that SQLite meets a real ENOSPC; elsewhere the
    process is forbidden to let files grow (RLIMIT_FSIZE), so that its writes fail with EFBIG.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._limited: int | None = None
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "none", str(folder)]
        self.mounted = os.geteuid() == 0 and subprocess.run(command, check=False, capture_output=True).returncode == 0
        self.kind = "ENOSPC on a file system of its own" if self.mounted else "EFBIG by RLIMIT_FSIZE"
        """How it is filled."""

    def fill(self, pid: int) -> None:
        """Leave no room for the process."""
        if not self.mounted:
            self._limited = pid
            _limit(pid, _FULL_BYTES)
            return
        with self._ballast.open("wb") as ballast:
            chunk = bytes(1 << 20)
            try:
                while True:
                    ballast.write(chunk)
                    ballast.flush()
            except OSError:
                return

    def free(self) -> None:
        """Give the room back."""
        if self._limited is not None:
            _limit(self._limited, resource.RLIM_INFINITY)
            self._limited = None
        if self.mounted:
            self._ballast.unlink(missing_ok=True)

    def dissolve(self) -> None:
        """Keep its files, and unmount it; dissolving it twice does nothing."""
        if not self.mounted:
            return
        self.free()
        kept = self._folder.with_name(f"{self._folder.name}.kept")
        shutil.copytree(self._folder, kept, dirs_exist_ok=True)
        subprocess.run(["umount", str(self._folder)], check=True)  # noqa: S607
        self.mounted = False
        shutil.copytree(kept, self._folder, dirs_exist_ok=True)
        shutil.rmtree(kept)

    @property
    def _ballast(self) -> Path:
        return self._folder / "ballast"


def _limit(pid: int, size: int) -> None:
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size if size != resource.RLIM_INFINITY else hard, hard))
    except ProcessLookupError:
        return
