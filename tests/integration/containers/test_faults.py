"""Containers are paused, killed and cut off the network under load; then the checker says what was lost.

Each fault lasts until clients have written some more, and the next one waits until all that has come to its end.
"""

from dataclasses import dataclass
from typing import Final

import pytest

from compose.checking.checker import check
from tests.faults.crew import Phone, until
from tests.faults.evidence import gather, unfinished
from tests.integration.containers.servers import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

USERS: Final = ("ann", "ben", "cleo")
RATE: Final = 5.0
"""Messages a second, of each."""
WRITTEN_BEFORE: Final = 20
WRITTEN_MEANWHILE: Final = 45
"""A fault's length in messages: three seconds."""
WRITTEN_MEANWHILE_LONG: Final = 150
"""So long that the group gives a worker's partitions to the other one."""
WITHIN_S: Final = 300.0
POLL_S: Final = 0.5


@dataclass(frozen=True)
class Fault:
    """What is done to whom, and how it is taken back."""

    box: str
    begin: str
    end: str
    length: int = WRITTEN_MEANWHILE


FAULTS: Final = (
    Fault("kafka", "pause", "go_on"),
    Fault("cassandra", "pause", "go_on"),
    Fault("worker-a", "cut_off", "join", WRITTEN_MEANWHILE_LONG),
    Fault("kafka", "kill", "start_again"),
    Fault("cassandra", "kill", "start_again"),
    Fault("worker-b", "kill", "start_again"),
    Fault("kafka", "cut_off", "join"),
    Fault("cassandra", "cut_off", "join"),
    Fault("worker-a", "pause", "go_on"),
)


def test_nothing_is_lost_twice_there_or_stuck(deployment):
    workers = deployment.start_workers("worker-a", "worker-b")
    boxes = {box.name: box for box in (deployment.servers.kafka, deployment.servers.cassandra, *workers)}
    deployment.places.make(USERS)
    phones = [Phone(deployment.places, user, USERS, seed=1, rate=RATE) for user in USERS]
    quiet = deployment.places.control / "quiet"
    try:
        for phone in phones:
            phone.start()
        for fault in FAULTS:
            box = boxes[fault.box]
            quiet.unlink(missing_ok=True)
            writes(deployment.places, WRITTEN_BEFORE, f"before {fault}")
            getattr(box, fault.begin)()
            writes(deployment.places, fault.length, f"during {fault}")
            getattr(box, fault.end)()
            quiet.touch()
            if isinstance(box, Server):
                box.wait_until_ready()
            ended(deployment.places, fault)
    finally:
        for phone in phones:
            phone.process.stopped()
    findings = check(gather(deployment.places, USERS, deployment.servers, {}, [], WITHIN_S).history)
    assert findings.faults == ()
    assert findings.settled == findings.acknowledged > sum(fault.length for fault in FAULTS)


def writes(places, by, when):
    """Wait until clients have written so much more."""
    goal = sends(places) + by
    assert until(lambda: sends(places) >= goal, WITHIN_S, POLL_S), f"{when}: {sends(places)} of {goal} are written"


def sends(places):
    """Return how many sends have returned, as the clients' journals tell."""
    journals = [places.journal(user) for user in USERS]
    return sum(path.read_bytes().count(b"\nsent ") for path in journals if path.exists())


def ended(places, fault):
    """Wait until every message has ended, and every event has its answer."""
    assert until(lambda: not unfinished(places, USERS), WITHIN_S, POLL_S), f"after {fault}: {unfinished(places, USERS)}"
