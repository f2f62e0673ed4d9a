"""Workers on the embedded broker: hot configuration within seconds, one snapshot of all, owners with what they see."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from compose.stacks.embedded import EmbeddedBroker
from consumers.hot.changing import execute
from consumers.locks.locking import TableLocks
from consumers.statistics.summing import snapshot
from consumers.stores.contract import Store
from consumers.stores.sqlite import SqliteStore
from schemas.topics import EVENTS
from tests.integration.deployment import PARTITIONS, Deployment, WorkerProcess, until
from tests.integration.test_worker_embedded import SETTINGS
from tests.integration.test_worker_local import Real
from tests.integration.test_worker_local import deployment as real

__all__ = ["real"]


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with EmbeddedBroker(PARTITIONS) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10}
        settings = {**SETTINGS, "topic_identity": broker.cluster_id, "shared_poll_s": 0.1, "statistics_interval_s": 0.5}
        made = Deployment(tmp_path, kafka, settings)
        try:
            yield made
        finally:
            made.close()


def test_two_workers_take_up_a_change_and_answer_for_one_snapshot(deployment: Deployment) -> None:
    store = SqliteStore.open(deployment.store_path)
    try:
        check(deployment, store, "c", PARTITIONS[EVENTS])
        assert [share.counts["conflicts"] for share in store.shared().statistics.shares(serially=True)] == [0] * 4
        assert sum(share.counts["events"] for share in store.shared().statistics.shares(serially=True)) == 100
    finally:
        store.close()


def test_the_same_on_real_servers(real: Real) -> None:
    real.settings |= {"shared_poll_s": 0.1, "statistics_interval_s": 0.5, "tail_records": 10}
    check(real, real.store, real.settings["group"], real.partitions)


def _owned_by_all(workers: Sequence[WorkerProcess], partitions: int) -> bool:
    owned = [len(each.status().get("partitions", ())) for each in workers]
    return all(owned) and sum(owned) == partitions


def check(deployment: Deployment, store: Store, name: str, partitions: int) -> None:
    workers = [deployment.start(slot) for slot in range(2)]
    # By both: what a worker counted of a partition that goes to the other meanwhile would be told a little later.
    until(lambda: _owned_by_all(workers, partitions), "all partitions are owned")
    sent = [deployment.send(f"{name}-{number}", 1) for number in range(40)]
    sent += [deployment.send(f"{name}-hot", seq) for seq in range(1, 41)]
    deployment.flush()
    shared = store.shared()
    locks = TableLocks(shared.locks, "test")
    until(lambda: sum(each.counters().get("applied", 0) for each in workers) >= len(sent), "all are applied")
    found = snapshot(locks, shared.statistics, [lease.partition for lease in store.leases()], wait_s=20)
    assert list(found.missing) == []
    # At least: others may write to a real topic as well.
    assert min(found.total("events"), found.total("applied"), found.total("deliveries")) >= 80
    assert all(share.snapshot == found.token for share in found.shares)
    assert {share.node for share in found.shares} <= {"n-0", "n-1"}
    hottest = [hot.conversation_id for share in found.shares for hot in share.hottest[:1]]
    assert f"{name}-hot" in hottest

    execute(locks, shared.config, "worker.batch_records_max", "3", who="test")
    until(lambda: all(each.status().get("config_version") == 1 for each in workers), "both run version 1", 10)
    until(
        lambda: {report.node: report.config_version for report in shared.statistics.nodes()} == {"n-0": 1, "n-1": 1},
        "both say so in the store",
    )

    # A worker that stops leaves its counts behind, and whoever takes over goes on from them.
    workers[0].signal(15)
    assert workers[0].wait() == 0
    until(lambda: len(workers[1].status().get("partitions", ())) == partitions, "the other has all")
    before = workers[1].counters()["applied"]
    for seq in range(41, 61):
        deployment.send(f"{name}-hot", seq)
    deployment.flush()
    until(lambda: workers[1].counters()["applied"] >= before + 20, "the rest is applied")
    found = snapshot(locks, shared.statistics, [lease.partition for lease in store.leases()], wait_s=20)
    assert list(found.missing) == []
    assert found.total("applied") >= 100
    assert {share.node for share in found.shares} == {"n-1"}
