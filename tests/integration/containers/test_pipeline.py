"""From a client through Kafka, workers in containers and Cassandra, and back: every tick comes, every row is there.

Readiness of the servers is a record and a row that came back (case T3, `servers`).
"""

import pytest

from compose.stacks.errors import NotHealthyError
from schemas.lifecycle import State
from tests.integration.containers.deployment import talk

pytestmark = pytest.mark.timeout(600)

MESSAGES = 300
CONVERSATIONS = 20
STOP_S = 40


def test_every_message_is_read_its_row_says_so_and_workers_need_no_rights(deployment):
    workers = deployment.start_workers("worker-a", "worker-b")
    bodies = [f"message {number}" for number in range(MESSAGES)]
    with deployment.client("alice") as alice, deployment.client("bob") as bob:
        talk(alice, bob, bodies, conversations=CONVERSATIONS, within_s=120)
    rows = deployment.rows()
    assert sorted(row.content.body.decode() for row in rows) == sorted(bodies)
    for found in rows:
        row = found.row
        assert (row.state, row.version, row.sender, row.recipients) == (State.READ, 3, "alice", ("bob",))
        assert [step.state for step, _ in found.transitions] == [State.SENT, State.DELIVERED, State.READ]
    check_rights(workers[0])
    for worker in workers:
        worker.wrapped.stop(timeout=STOP_S)
        assert worker.wrapped.wait()["StatusCode"] == 0
        assert "worker stopped" in worker.log()


def check_rights(worker):
    script = "id -u; (echo > /opt/x) 2>&1; echo > /tmp/x && echo written"
    lines = worker.wrapped.exec_run(["sh", "-c", script]).output.decode().splitlines()
    assert lines[0] == "10001"
    assert "Read-only file system" in lines[1]
    assert lines[2] == "written"


def test_servers_that_do_not_answer_are_not_ready(servers):
    # case T3: what is looked at is a record and a row, so a server that stands still with its port open fails
    for server in (servers.kafka, servers.cassandra):
        server.check()
        server.pause()
        try:
            with pytest.raises(NotHealthyError):
                server.check()
        finally:
            server.go_on()
        server.wait_until_ready()
