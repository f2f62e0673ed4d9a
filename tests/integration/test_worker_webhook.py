"""Deliveries to an outside gateway by worker processes: it fails, stalls, refuses; a claimer dies in its call."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compose.stacks.embedded import EmbeddedBroker
from consumers.stores.sqlite import SqliteStore
from schemas.lifecycle import State
from schemas.records import Event
from tests.gateway import Gateway, running
from tests.integration.deployment import PARTITIONS, Deployment, until
from tests.integration.test_worker_embedded import SETTINGS

WEBHOOK: dict[str, Any] = {"users": ["bob"], "timeout_s": 1.0, "claim_ttl_s": 2, "first_wait_s": 0.1, "attempts_max": 3}
SCHEDULE = {"first_wait_s": 1.0, "wait_s_max": 2.0}


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running(Gateway()) as gateway:
        yield gateway


@pytest.fixture
def deployment(gateway: Gateway, tmp_path: Path) -> Iterator[Deployment]:
    with EmbeddedBroker(PARTITIONS) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10}
        settings = {**SETTINGS, "topic_identity": broker.cluster_id, "schedule": SCHEDULE}
        made = Deployment(tmp_path, kafka, settings, {"webhook": {**WEBHOOK, "url": gateway.url}})
        try:
            yield made
        finally:
            made.close()


def story(deployment: Deployment, event: Event) -> list[str]:
    """Return the states that a message went through; empty where it is not there."""
    store = SqliteStore.open(deployment.store_path)
    try:
        found = store.message((event.conversation_id, event.message_id))
        return [change.state for change, _ in found.transitions] if found else []
    finally:
        store.close()


def test_a_gateway_takes_refuses_and_gives_out(deployment: Deployment, gateway: Gateway) -> None:
    """Two failures, then taken; refused for good; three failures: each sender is told, and nothing goes to inboxes."""
    worker = deployment.start()
    gateway.plan = ["503", "close"]
    taken = deployment.send("c1", 1)
    deployment.flush()
    until(lambda: story(deployment, taken) == [State.SENT, State.DELIVERED], "taken")
    assert [call.attempt for call in gateway.calls] == [1, 2, 3]
    assert gateway.calls[0].body["body"] == "aGk="

    gateway.plan = ["422"]
    refused = deployment.send("c2", 1)
    deployment.flush()
    until(lambda: story(deployment, refused) == [State.SENT, State.UNDELIVERED], "refused")

    gateway.plan = ["500", "stall", "500"]
    given_up = deployment.send("c3", 1)
    deployment.flush()
    until(lambda: story(deployment, given_up) == [State.SENT, State.UNDELIVERED], "given up")
    assert len(gateway.calls) == 7

    ticks = {each.message_id: each for each in deployment.answers() if each.user == "alice" and each.actor == "bob"}
    assert [ticks[event.message_id].state for event in (taken, refused, given_up)] == [
        State.DELIVERED,
        State.UNDELIVERED,
        State.UNDELIVERED,
    ]
    assert deployment.deliveries() == []
    until(lambda: worker.counters().get("gateway_given_up") == 2, "counted")
    counters = worker.counters()
    assert (counters["gateway_calls"], counters["gateway_delivered"]) == (7, 1)


def test_others_have_inboxes(deployment: Deployment, gateway: Gateway) -> None:
    deployment.start()
    event = Event("SEND", deployment.id(), "c1", deployment.id(), "alice", b"i" * 16, 1, ("bob", "cleo"), b"hi")
    deployment.put(event)
    deployment.flush()
    until(lambda: len(story(deployment, event)) == 2, "bob's is delivered")
    assert [call.body["recipient"] for call in gateway.calls] == ["bob"]
    assert {each.user for each in deployment.deliveries()} == {"cleo"}


def test_a_claimer_that_is_killed_in_its_call_is_taken_over(deployment: Deployment, gateway: Gateway) -> None:
    """The gateway took effect, but its answer never came: the next worker calls again with the same key."""
    gateway.plan = ["effect-stall"]
    first = deployment.start()
    event = deployment.send("c1", 1)
    deployment.flush()
    gateway.wait_for_calls(1)
    first.signal(signal.SIGKILL)
    first.wait()
    deployment.start(1)
    until(lambda: story(deployment, event) == [State.SENT, State.DELIVERED], "taken over")
    keys = {call.key for call in gateway.calls}
    assert [call.attempt for call in gateway.calls] == [1, 2]
    assert (len(keys), len(gateway.effects)) == (1, 1)


def test_a_claimer_that_is_paused_in_its_call_tells_nothing_late(deployment: Deployment, gateway: Gateway) -> None:
    """Stopped past every time-out; another delivers meanwhile; the first goes on and changes nothing. Case K4."""
    gateway.plan = ["stall"]
    first = deployment.start()
    event = deployment.send("c1", 1)
    deployment.flush()
    gateway.wait_for_calls(1)
    first.signal(signal.SIGSTOP)
    second = deployment.start(1)
    until(lambda: story(deployment, event) == [State.SENT, State.DELIVERED], "taken over")
    first.signal(signal.SIGCONT)
    until(lambda: first.counters().get("claims_lost", 0) >= 1, "the first one's outcome was refused")
    after = deployment.send("c1", 2)
    deployment.flush()
    until(lambda: story(deployment, after) == [State.SENT, State.DELIVERED], "work goes on")
    assert story(deployment, event) == [State.SENT, State.DELIVERED]
    assert len(gateway.effects) == 2
    assert second.process.poll() is None
