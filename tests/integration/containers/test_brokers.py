"""Three brokers: each message has three copies, two of which are waited for, so one broker may be gone."""

import pytest

from producers import Outgoing
from schemas.lifecycle import State
from tests.integration.containers.deployment import Deployment
from tests.integration.containers.servers import Servers

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

MESSAGES = 200
READ_S = 180


@pytest.fixture
def three(engine, tmp_path):
    servers = Servers(engine, brokers=3)
    try:
        servers.start()
        deployment = Deployment(servers, tmp_path)
        try:
            deployment.begin_anew()
            yield deployment
        finally:
            deployment.end()
    finally:
        servers.remove()


def test_messages_go_through_while_one_broker_is_killed_and_while_another_is_cut_off(three):
    three.start_workers("worker-a", "worker-b")
    brokers = three.servers.brokers
    assert len(three.servers.addresses().kafka_bootstrap_servers.split(",")) == 3
    with three.client("alice") as alice, three.client("bob") as bob:
        first = talk(alice, bob, "while all are there")
        brokers[1].kill()
        second = talk(alice, bob, "while one is killed")
        brokers[1].start_again()
        brokers[1].wait_until_ready()
        brokers[2].cut_off()
        third = talk(alice, bob, "while another one is cut off")
        brokers[2].join()
        brokers[2].wait_until_ready()
    rows = three.rows()
    assert sorted(row.content.body.decode() for row in rows) == sorted([*first, *second, *third])
    assert {(row.row.state, row.row.version) for row in rows} == {(State.READ, 3)}


def talk(alice, bob, text):
    """Have everything read; return what was written."""
    bodies = [f"{text}: {number}" for number in range(MESSAGES)]
    sent = alice.send_many([Outgoing(to="bob", body=body, conversation=f"c{n % 20}") for n, body in enumerate(bodies)])
    got = []
    for message in bob:
        message.mark_read()
        got.append(message.text)
        if len(got) == MESSAGES:
            break
    assert sorted(got) == sorted(bodies)
    for one in sent:
        one.wait("read", timeout_s=READ_S)
    return bodies
