"""Three brokers: each message has three copies, two of which are waited for, so one broker may be gone."""

import pytest

from schemas.lifecycle import State
from tests.integration.containers.deployment import lent, started, talk
from tests.integration.containers.servers import Servers

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

MESSAGES = 200
READ_S = 180


@pytest.fixture
def three(engine, tmp_path):
    with started(Servers(engine, brokers=3)) as servers, lent(servers, tmp_path) as deployment:
        yield deployment


def test_messages_go_through_while_one_broker_is_killed_and_while_another_is_cut_off(three):
    three.start_workers("worker-a", "worker-b")
    brokers = three.servers.brokers
    assert len(three.servers.addresses().kafka_bootstrap_servers.split(",")) == 3
    with three.client("alice") as alice, three.client("bob") as bob:
        first = said(alice, bob, "while all are there")
        brokers[1].kill()
        second = said(alice, bob, "while one is killed")
        brokers[1].start_again()
        brokers[1].wait_until_ready()
        brokers[2].cut_off()
        third = said(alice, bob, "while another one is cut off")
        brokers[2].join()
        brokers[2].wait_until_ready()
    rows = three.rows()
    assert sorted(row.content.body.decode() for row in rows) == sorted([*first, *second, *third])
    assert {(row.row.state, row.row.version) for row in rows} == {(State.READ, 3)}


def said(alice, bob, text):
    """Have everything read; return what was written."""
    bodies = [f"{text}: {number}" for number in range(MESSAGES)]
    talk(alice, bob, bodies, conversations=20, within_s=READ_S)
    return bodies
