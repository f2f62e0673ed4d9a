"""Worker processes on real Kafka and Cassandra."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.stacks.local import LocalStack
from consumers.errors import ExitCode
from schemas.topics import PARTITIONS_LOCAL
from tests.integration.deployment import dropped, until
from tests.integration.real import Real, real


@pytest.fixture
def deployment(local_stack: LocalStack, tmp_path: Path) -> Iterator[Real]:
    with real(local_stack, tmp_path, "e") as made:
        yield made


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_two_workers_share_a_real_topic(deployment: Real, protocol: str) -> None:
    # cases K5, K6, K19: both protocols, rebalance while records flow, drained and committed at the end
    begun = deployment.committed()
    first = deployment.start(0, protocol=protocol)
    sent = deployment.write(5, 10)
    until(lambda: len(first.status().get("partitions", ())) == PARTITIONS_LOCAL, "the first owns all")
    second = deployment.start(1, protocol=protocol)
    sent += deployment.write(5, 10)
    until(lambda: len(second.status().get("partitions", ())) == PARTITIONS_LOCAL // 2, "the second has its share")
    until(lambda: len(first.status().get("partitions", ())) == PARTITIONS_LOCAL // 2, "the first has the rest")
    sent += deployment.write(5, 10)
    until(lambda: deployment.all_read(sent), "all rows read")
    deployment.check_stories(sent)
    until(lambda: deployment.committed() - begun >= 450, "all committed")
    for worker in (first, second):
        worker.signal(signal.SIGTERM)
        assert worker.wait() == ExitCode.DONE


def test_killed_on_real_servers_nothing_is_lost(deployment: Real) -> None:
    # case K7
    first = deployment.start(0, batch_records_max=20)
    sent = deployment.write(10, 100)
    until(lambda: first.counters().get("applied", 0) > 20, "work has begun")
    first.signal(signal.SIGKILL)
    first.wait()
    deployment.start(1)
    until(lambda: deployment.all_read(sent), "all rows read", 60)
    deployment.check_stories(sent)


def test_a_stopped_owner_on_real_servers_drops_its_partitions(deployment: Real) -> None:
    # case K4, with Cassandra's own time-stamps and leases
    first = deployment.start(0, stall_s=1, batch_records_max=5)
    sent = deployment.write(4, 5)
    until(lambda: deployment.all_read(sent), "the first owner works")
    first.signal(signal.SIGSTOP)
    deployment.start(1)
    more = deployment.write(4, 10)
    until(lambda: deployment.all_read(more), "the second owner has moved on", 60)
    first.signal(signal.SIGCONT)
    until(lambda: dropped(first), "it notices, by its lease or by the group")
    again = deployment.write(4, 2)
    until(lambda: deployment.all_read(again), "both go on")
    deployment.check_stories(sent + more + again)
    assert first.process.poll() is None


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_doubled_static_member_id_is_named(deployment: Real, protocol: str) -> None:
    # case K15: one of the two ends and says which id
    first = deployment.start(0, static_members=True, protocol=protocol)
    until(lambda: len(first.status().get("partitions", ())) == PARTITIONS_LOCAL, "the first owns all")
    second = deployment.start(0, static_members=True, protocol=protocol)
    until(lambda: first.process.poll() is not None or second.process.poll() is not None, "one of them ends")
    fenced = first if first.process.poll() is not None else second
    assert fenced.wait() == (ExitCode.UNRELEASED if protocol == "consumer" else ExitCode.FENCED)
    (told,) = fenced.lines("the worker ends")
    assert "'n-0'" in told["error"]
