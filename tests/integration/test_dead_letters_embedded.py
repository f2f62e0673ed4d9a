"""Dead letters on the embedded broker: listed, redriven once, discarded; a conversation parked and released."""

from collections.abc import Iterator

import pytest

from compose.stacks.embedded import EmbeddedBroker
from consumers.cli.shared import who
from consumers.dead_letters import ATTEMPTS_HEADER
from consumers.stores.sqlite import SqliteStore
from schemas.codec import encode
from schemas.lifecycle import Outcome, Reason
from schemas.records import NO_ID, Event
from schemas.topics import EVENTS
from tests.integration.commands import run
from tests.integration.deployment import PARTITIONS, Deployment, until
from tests.integration.test_worker_embedded import SETTINGS, stored

pytestmark = pytest.mark.timeout(150)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with EmbeddedBroker(PARTITIONS) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10}
        settings = {**SETTINGS, "topic_identity": broker.cluster_id, "operators": [who()]}
        deployment = Deployment(tmp_path_factory.mktemp("letters"), kafka, settings)
        try:
            deployment.start()
            yield deployment
        finally:
            deployment.close()


def listed(deployment: Deployment, *arguments: str) -> list:
    ran = run(deployment, "dead-letters", "list", *arguments)
    assert ran.code == 0
    return ran.rows


def test_what_is_still_bad_comes_back_once_and_never_loops(lived: Deployment):
    lived.raw(b"\x1b[2Jbad", b"broken", [("traceparent", b"00-1")])
    lived.flush()
    until(lambda: len(lived.dead_letters()) == 1, "it is a dead letter")
    (first,) = listed(lived)
    assert (first["reason"], first["attempts"], first["conversation"]) == ("UNDECODABLE", 1, "broken")

    shown = run(lived, "dead-letters", "show", first["letter"], "--output", "json")
    assert bytes.fromhex(shown.rows[0]["value_hex"]) == b"\x1b[2Jbad"
    assert shown.rows[0]["headers"] == [["traceparent", "00-1"]]
    assert run(lived, "dead-letters", "show", "0:99").code == 3

    planned = run(lived, "dead-letters", "redrive", first["letter"])
    assert [each["what"] for each in planned.rows] == ["redrive"]
    assert "add --execute" in planned.told
    assert run(lived, "dead-letters", "redrive", "--everything", "--execute").code == 0
    until(lambda: len(lived.dead_letters()) == 2, "it came back")
    (second,) = listed(lived)
    assert second["attempts"] == 2
    assert second["letter"] != first["letter"]
    again = lived.dead_letters()[1]
    assert (again.key, again.value, again.headers) == (b"broken", b"\x1b[2Jbad", (("traceparent", b"00-1"),))
    assert [each["letter"] for each in listed(lived, "--all")] == [first["letter"], second["letter"]]

    lived.settings["redrive_attempts_max"] = 2
    try:
        ran = run(lived, "dead-letters", "redrive", "--reason", "undecodable", "--execute")
    finally:
        del lived.settings["redrive_attempts_max"]
    assert (ran.code, ran.rows[0]["what"]) == (4, "left out: it has been here 2 times: --force")

    assert run(lived, "dead-letters", "discard", "--everything").code == 0
    assert len(listed(lived)) == 1
    assert run(lived, "dead-letters", "discard", "--everything", "--execute").code == 0
    assert not listed(lived)
    assert len(lived.dead_letters()) == 2


def test_nothing_is_taken_for_all(lived: Deployment):
    for command in ("redrive", "discard"):
        assert run(lived, "dead-letters", command).code == 2
        assert run(lived, "dead-letters", command, "--everything", "--partition", "1").code == 2
        assert run(lived, "dead-letters", command, "0:12345").code == 3


def test_a_receipt_that_came_before_its_message_is_applied_when_it_is_redriven(lived: Deployment):
    sent = lived.send("early", 1)  # written later than its receipt, by hand
    lived.flush()
    until(lambda: sent.message_id in stored(lived), "it is there")
    other = sent._replace(message_id=lived.id(), event_id=lived.id(), seq=2)
    lived.receipt("DELIVERED", other)
    lived.put(other)
    lived.flush()
    until(lambda: any(each["conversation"] == "early" for each in listed(lived)), "it is a dead letter")
    assert run(lived, "dead-letters", "redrive", "--conversation", "early", "--execute").code == 0
    until(lambda: stored(lived)[other.message_id].row.state == "DELIVERED", "it is applied")
    assert not listed(lived, "--conversation", "early")


def test_a_poisoned_conversation_waits_in_order_while_others_go_on(lived: Deployment):  # case M7
    assert run(lived, "dead-letters", "park", "poisoned").code == 0
    assert "would park" in run(lived, "dead-letters", "park", "poisoned").told
    assert run(lived, "dead-letters", "park", "poisoned", "--execute").code == 0
    waiting = [lived.send("poisoned", n + 1) for n in range(30)]
    for event in waiting[:5]:
        lived.put(event)  # its client sends it again, as it does until it is answered for good
    others = [lived.send("healthy", n + 1) for n in range(30)]
    lived.flush()
    until(lambda: all(event.message_id in stored(lived) for event in others), "the others are there")
    until(lambda: lived.answered(waiting[-1]), "all are answered")
    assert not any(event.message_id in stored(lived) for event in waiting)
    told = [each for each in lived.answers() if each.conversation_id == "poisoned"]
    assert {(each.outcome, each.reason) for each in told} == {(Outcome.REFUSED, Reason.PARKED)}
    assert len(listed(lived, "--reason", "parked")) == 30
    left = run(lived, "dead-letters", "redrive", "--reason", "parked", "--execute")
    assert left.code == 4
    assert len(listed(lived, "--reason", "parked")) == 30

    assert len(run(lived, "dead-letters", "release", "poisoned").rows) == 30
    ran = run(lived, "dead-letters", "release", "poisoned", "--execute")
    assert (ran.code, ran.told) == (0, "30 redriven; the conversation is open\n")
    assert not listed(lived, "--reason", "parked")
    rows = stored(lived)
    offsets = [rows[event.message_id].transitions[0][0].offset for event in waiting]
    assert offsets == sorted(offsets)
    late = lived.send("poisoned", 31)
    lived.flush()
    until(lambda: late.message_id in stored(lived), "it goes on")

    ran = run(lived, "replay")  # the fold knows of it all: a replay finds the same
    assert (ran.code, ran.rows) == (0, [])


def test_who_is_no_operator_neither_parks_nor_releases(lived: Deployment):
    refused = run(lived, "dead-letters", "park", "free", "--operator", "mallory", "--execute")
    assert refused.code == 2
    assert "worker.operators" in refused.told
    lived.put(Event("PARK", lived.id(), "free", NO_ID, "mallory", NO_ID))  # past the command
    event = lived.send("free", 1)
    lived.flush()
    until(lambda: event.message_id in stored(lived), "it goes on")
    (letter,) = listed(lived, "--reason", "not_an_operator")
    assert (letter["conversation"], letter["kind"], letter["actor"]) == ("free", "PARK", "mallory")
    lived.settings["operators"].append("elsewhere")  # here, not at the workers
    try:
        refused = run(lived, "dead-letters", "park", "free", "--operator", "elsewhere", "--execute")
    finally:
        lived.settings["operators"].pop()
    assert (refused.code, "did not park" in refused.told) == (2, True)


def test_what_is_given_up_stays_among_the_dead_letters(lived: Deployment):
    assert run(lived, "dead-letters", "park", "given-up", "--execute").code == 0
    event = lived.send("given-up", 1)
    lived.flush()
    until(lambda: len(listed(lived, "--conversation", "given-up")) == 1, "it waits")
    assert run(lived, "dead-letters", "release", "given-up", "--give-up", "--execute").code == 0
    for again in ([], ["--give-up"]):
        ran = run(lived, "dead-letters", "release", "given-up", *again, "--execute")
        assert (ran.code, "is not parked" in ran.told) == (3, True)

    def is_open() -> bool:
        store = SqliteStore.open(lived.store_path)
        try:
            return store.read((), ["given-up"]).conversations["given-up"].parkings[-1].until[0] == 1
        finally:
            store.close()

    until(is_open, "it is open")
    assert run(lived, "dead-letters", "redrive", "--conversation", "given-up", "--execute").code == 0
    until(lambda: event.message_id in stored(lived), "it is there")


def test_what_had_no_key_or_no_value_goes_back_as_it_was(lived: Deployment):
    record = encode(lived.send("keyless", 1))
    kinds = [(record, None), (record, b""), (None, b"gone-8"), (b"", b"gone-8"), (None, None)]
    headers = [("null", None), ("empty", b"")]
    for value, key in kinds:
        lived.raw(value, key, headers, partition=2)
    lived.flush()
    until(lambda: len(listed(lived, "--partition", "2")) == len(kinds), "they are dead letters")
    assert run(lived, "dead-letters", "redrive", "--partition", "2", "--execute").code == 0
    again = [(each.value(), each.key(), each.headers()) for each in lived.records(EVENTS, 2)[-len(kinds) :]]
    assert again == [(value, key, [*headers, (ATTEMPTS_HEADER, b"1")]) for value, key in kinds]
