"""`consume --workers N`: a process a worker, restarted when it dies, stopped when its supervisor stops or is gone."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compose.stacks.embedded import EmbeddedBroker
from consumers.errors import ExitCode
from tests.integration.deployment import PARTITIONS, Deployment, WorkerProcess, until
from tests.integration.test_worker_embedded import SETTINGS, all_read, check_stories, conversations


class Supervised(Deployment):
    """A deployment whose workers are a supervisor's."""

    def supervise(self, workers: int, **settings: Any) -> WorkerProcess:
        """Start a supervisor; its log holds its workers' lines too."""
        run = len(self.workers)
        log = self.folder / f"supervisor-{run}.log"
        told = {
            "slot": "SLOT",
            "kafka": dict(self.kafka),
            "store": str(self.store_path),
            "outage": str(self.outage),
            "settings": {
                **self.settings,
                "node": "n",
                "status_folder": str(self.folder / "status"),
                "status_interval_s": 0.2,
                **settings,
            },
        }
        with log.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.supervised", str(workers), json.dumps(told)],
                stderr=stream,
                stdin=subprocess.DEVNULL,
                text=True,
            )
        started = WorkerProcess(process, log, self.folder / "none")
        self.workers.append(started)
        return started

    def owners(self) -> list[int]:
        """Return the partitions that running workers say they own."""
        status = [json.loads(path.read_text()) for path in (self.folder / "status").glob("worker-*.json")]
        return sorted(partition for each in status if each["state"] == "running" for partition in each["partitions"])

    def pids(self) -> dict[int, int]:
        """Return the process of each slot."""
        status = [json.loads(path.read_text()) for path in (self.folder / "status").glob("worker-*.json")]
        return {each["slot"]: each["pid"] for each in status}


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Supervised]:
    with EmbeddedBroker(PARTITIONS) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10}
        made = Supervised(tmp_path, kafka, {**SETTINGS, "topic_identity": broker.cluster_id})
        try:
            yield made
        finally:
            made.close()


def test_workers_share_the_work_and_stop_with_their_supervisor(deployment: Supervised) -> None:
    # case K21: members start together, while records wait; every partition is owned once
    sent = conversations(deployment, 5, 20)
    supervisor = deployment.supervise(3)
    until(lambda: deployment.owners() == [0, 1, 2, 3], "every partition is owned once")
    until(lambda: len(deployment.pids()) == 3, "three processes")
    until(lambda: all_read(deployment, sent), "all rows read")
    supervisor.signal(signal.SIGTERM)
    assert supervisor.wait() == ExitCode.DONE
    assert len(supervisor.lines("worker stopped")) == 3
    assert supervisor.lines("worker process ended") == []
    check_stories(deployment, sent)


def test_a_worker_that_is_killed_is_started_again(deployment: Supervised) -> None:
    # case K7
    supervisor = deployment.supervise(2)
    until(lambda: deployment.owners() == [0, 1, 2, 3], "every partition is owned")
    killed = deployment.pids()[0]
    os.kill(killed, signal.SIGKILL)
    sent = conversations(deployment, 5, 10)
    until(lambda: all_read(deployment, sent), "all rows read")
    until(lambda: deployment.pids()[0] != killed, "it was started again")
    (ended,) = supervisor.lines("worker process ended")
    assert (ended["slot"], ended["code"]) == (0, -signal.SIGKILL)
    check_stories(deployment, sent)


def test_workers_stop_when_their_supervisor_is_gone(deployment: Supervised) -> None:
    supervisor = deployment.supervise(2)
    until(lambda: deployment.owners() == [0, 1, 2, 3], "every partition is owned")
    supervisor.signal(signal.SIGKILL)
    supervisor.wait()
    until(lambda: len(supervisor.lines("worker stopped")) == 2, "both drain and stop")
    assert len(supervisor.lines("whoever started this process is gone")) == 2
