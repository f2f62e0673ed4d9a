"""The embedded broker: librdkafka's mock cluster, a Kafka of one process for a first minute and for fast tests.

`EmbeddedBroker` hosts it in this process, `EmbeddedBrokerProcess` in a child; `python -m compose.stacks.embedded` is
that child: it prints its address as one line of JSON and ends on SIGTERM or when its standard input closes.

What it is, as tried with librdkafka 2.16:

- Topics: those given at the start, with any number of partitions. Any other name that a client mentions, even when it
  only asks for metadata, becomes a topic of 4 partitions: no topic is ever unknown.
- Producers: idempotent and transactional ones, every compression, messages of 20 MB; duplicates are recognised.
- Consumer groups: both protocols, static members, cooperative assignment. With the timing set here a second member has
  its share after 0.3 s under KIP-848 and its partitions move 3 s after it was killed. The classic protocol waits for
  the session time-out less one second whenever a member joins: with the default of 45 s, 44 s in which commits fail;
  with `session.timeout.ms=1500` and `heartbeat.interval.ms=100`, 0.7 s (cooperative-sticky 1.1 s).
- Committed offsets outlive the members. Only a member may commit.
- Sockets: one random port, on loopback only; other processes may connect. Records die with the hosting process.

What it is not:

- A log with times. Consumers see the producer's clock as CREATE_TIME; delivery reports always carry LogAppendTime
  1234. Looking up an offset by time, or the latest time, always answers -1 (none).
- A log that keeps. A partition holds 5 MiB (whole batches, as sent) or 100,000 batches, then the oldest are dropped
  without a word and the low watermark rises. A consumer that stands in the gap, even midway, is moved to the low
  watermark (`auto.offset.reset=earliest`) or to the end (`latest`), or polls _AUTO_OFFSET_RESET (`error`).
- An administrable cluster. Creating, deleting and describing topics, adding partitions and describing the cluster time
  out after the whole request time-out (there is no controller). Describing settings and deleting records never answer
  at all. Groups cannot be listed or described, nor their offsets read or altered from outside. Plain metadata
  (`list_topics`) and offsets (`earliest`, `latest`, watermarks) work.
- Isolating: readers of committed records see aborted ones too.
- Known by its id: the cluster id it reports is an address in memory and may come again. `cluster_id` here is new for
  every start, which tells a consumer that the log it has a position in is gone.
"""

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from compose.stacks.errors import ServerDiedError
from compose.stacks.mock_cluster import MockCluster
from consumers.signals import as_socket

_HEARTBEAT_MS = 200
_SESSION_TIMEOUT_MS = 3_000
_STOP_TIMEOUT_S = 10.0


class EmbeddedBroker:
    """The broker in this process, from construction until `close`; `topics` gives partition counts by name."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self.cluster_id = uuid.uuid4().hex
        self._cluster = MockCluster()
        self.bootstrap_servers = self._cluster.bootstrap_servers
        self._cluster.set_group_timing(heartbeat_ms=_HEARTBEAT_MS, session_timeout_ms=_SESSION_TIMEOUT_MS)
        for name, partitions in topics.items():
            self._cluster.create_topic(name, partitions)

    def drop_records(self, topic: str, partition: int, *, before_offset: int) -> None:
        """Drop the records below `before_offset`, as the size limit would; for fault tests."""
        self._cluster.drop_records(topic, partition, before_offset=before_offset)

    def go_down(self) -> None:
        """Cut every client off until `come_up`; records and groups are kept; for fault tests."""
        self._cluster.set_broker_up(up=False)

    def come_up(self) -> None:
        """End what `go_down` began."""
        self._cluster.set_broker_up(up=True)

    def close(self) -> None:
        """End the broker and forget its records; a second call does nothing."""
        self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EmbeddedBrokerProcess:
    """The broker in a child process, so that it goes on while this process is busy, and ends with it at the latest."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        arguments = [f"--topic={name}={partitions}" for name, partitions in topics.items()]
        command = [sys.executable, "-m", "compose.stacks.embedded", *arguments]
        # A session of its own: a Ctrl-C in the terminal is for us, and we close the broker last.
        self._child = subprocess.Popen(  # noqa: S603 - the command is made here
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
        )
        line = self._child.stdout.readline() if self._child.stdout else ""
        if not line:
            self.close()
            raise ServerDiedError("the embedded broker ended while starting", hint="see its message above", log_tail="")
        address = json.loads(line)
        self.bootstrap_servers: str = address["bootstrap_servers"]
        self.cluster_id: str = address["cluster_id"]
        self.pid: int = self._child.pid

    def close(self) -> None:
        """End the child and wait for it; a second call does nothing."""
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe:
                pipe.close()
        try:
            self._child.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def main() -> None:
    """Host a broker until standard input closes, or SIGTERM or SIGINT comes."""
    parser = argparse.ArgumentParser(prog="python -m compose.stacks.embedded")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME=PARTITIONS", type=_topic)
    topics = dict(parser.parse_args().topic)
    signalled = as_socket((signal.SIGTERM, signal.SIGINT))
    with EmbeddedBroker(topics) as broker:
        address = {"bootstrap_servers": broker.bootstrap_servers, "cluster_id": broker.cluster_id}
        sys.stdout.write(json.dumps(address) + "\n")
        sys.stdout.flush()
        _wait_for_end(signalled)


def _wait_for_end(signalled: socket.socket) -> None:
    standard_input = sys.stdin.fileno()
    while True:
        readable, _, _ = select.select([standard_input, signalled], [], [])
        if signalled in readable or not os.read(standard_input, 4096):
            return


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.rpartition("=")
    if not name or not partitions.isdigit() or int(partitions) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PARTITIONS")
    return name, int(partitions)


if __name__ == "__main__":
    main()
