"""Dead letters on real Kafka and Cassandra beside two workers: redriven as they were, parked and released in order."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from compose.stacks.local import LocalStack
from consumers.cli.shared import who
from consumers.dead_letters import ATTEMPTS_HEADER
from schemas.lifecycle import Reason
from schemas.partitioner import partition_of
from schemas.records import NO_ID, Event
from schemas.topics import EVENTS, PARTITIONS_LOCAL
from tests.integration.deployment import until
from tests.integration.real import Real, real

pytestmark = pytest.mark.timeout(300)
WAITING = 40


@pytest.fixture(scope="module")
def lived(local_stack: LocalStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with real(local_stack, tmp_path_factory.mktemp("letters"), "d", operators=[who()]) as deployment:
        for slot in (0, 1):
            deployment.start(slot)
        yield deployment


def name_in(deployment: Real, partition: int) -> bytes:
    """Return a conversation of this deployment's own in a partition."""
    names = (f"{deployment.keyspace}-{n}".encode() for n in range(1_000))
    return next(name for name in names if partition_of(name, PARTITIONS_LOCAL) == partition)


def listed(deployment: Real, *arguments: str) -> list:
    ran = deployment.twotick("dead-letters", "list", *arguments, "--output", "jsonl")
    assert ran.code == 0, ran.told
    return ran.rows


def test_null_comes_back_as_null_and_empty_as_empty(lived: Real) -> None:
    deployment, partition = lived, 3
    key = name_in(deployment, partition)
    kinds: list[tuple[bytes | None, bytes | None]] = [
        (None, key),
        (b"", key),
        (b"\xc3\x01bad", None),
        (b"\xc3\x01bad", b""),
        (None, None),
    ]
    headers = [("null", None), ("empty", b""), ("traceparent", b"00-1")]
    start = deployment.ends(EVENTS)[partition]
    for value, one in kinds:
        deployment.raw(value, one, headers, partition=partition)
    deployment.flush()
    names = [f"{partition}:{start + n}" for n in range(len(kinds))]
    until(lambda: {each["letter"] for each in listed(deployment)} >= set(names), "they are dead letters", 60)

    shown = deployment.twotick("dead-letters", "show", names[2], "--output", "json")
    assert '"value_hex": "c301626164"' in shown.output
    assert '"key_hex": null' in shown.output
    assert deployment.twotick("dead-letters", "redrive", *names).code == 0
    assert deployment.ends(EVENTS)[partition] == start + len(kinds)  # a dry run
    assert deployment.twotick("dead-letters", "redrive", *names, "--execute").code == 0
    again = [(each.value(), each.key(), each.headers()) for each in deployment.records(EVENTS, partition)]
    assert again[start + len(kinds) :] == [(value, one, [*headers, (ATTEMPTS_HEADER, b"1")]) for value, one in kinds]

    came_back = [f"{partition}:{start + len(kinds) + n}" for n in range(len(kinds))]
    until(lambda: {each["letter"] for each in listed(deployment)} >= set(came_back), "each came back once", 60)
    assert not {each["letter"] for each in listed(deployment)} & set(names)
    assert {each["attempts"] for each in listed(deployment, *came_back)} == {2}
    assert deployment.twotick("dead-letters", "discard", *came_back, "--execute").code == 0
    assert not {each["letter"] for each in listed(deployment)} & set(came_back)
    query = f"SELECT log_partition, log_offset, mark FROM {deployment.keyspace}.dead_letter_marks"
    marks = deployment.session.execute(query)
    deeds = {f"{row[0]}:{row[1]}": row[2][0] for row in marks}
    assert deeds == dict.fromkeys(names, "redriven") | dict.fromkeys(came_back, "discarded")


def offsets_in_store(deployment: Real, events: list[Event]) -> list[int | None]:
    """Return the offset at which each message was made, by CQL; None where it is not there."""
    query = f"SELECT message_id, transitions FROM {deployment.keyspace}.messages"
    made = {row[0]: row[1][1].log_offset for row in deployment.session.execute(query) if row[1]}
    return [made.get(UUID(bytes=event.message_id)) for event in events]


def test_a_poisoned_conversation_waits_in_order_while_others_go_on(lived: Real) -> None:  # case M7
    deployment = lived
    poisoned, healthy = (name_in(deployment, number).decode() for number in (0, 1))
    parked = deployment.twotick("dead-letters", "park", poisoned, "--execute")
    assert (parked.code, parked.told) == (0, "parked\n")
    waiting = [deployment.send(poisoned, n + 1) for n in range(WAITING)]
    others = [deployment.send(healthy, n + 1) for n in range(WAITING)]
    deployment.flush()
    until(lambda: None not in offsets_in_store(deployment, others), "the others are there", 60)
    until(lambda: len(listed(deployment, "--reason", "parked")) == WAITING, "all wait", 60)
    assert set(offsets_in_store(deployment, waiting)) == {None}

    deployment.put(Event("RELEASE", deployment.id(), poisoned, NO_ID, "mallory", NO_ID))  # no operator
    deployment.flush()
    refused = ("--reason", str(Reason.NOT_AN_OPERATOR), "--conversation", poisoned)
    until(lambda: bool(listed(deployment, *refused)), "it is refused", 60)
    assert deployment.twotick("dead-letters", "release", poisoned, "--operator", "mallory", "--execute").code == 2
    released = deployment.twotick("dead-letters", "release", poisoned, "--execute")
    assert (released.code, released.told) == (0, f"{WAITING} redriven; the conversation is open\n")
    offsets = offsets_in_store(deployment, waiting)
    assert None not in offsets
    assert offsets == sorted(offsets, key=lambda offset: offset or 0)
    late = deployment.send(poisoned, WAITING + 1)
    deployment.flush()
    until(lambda: None not in offsets_in_store(deployment, [late]), "it goes on", 60)
    ran = deployment.twotick("replay", "--conversation", poisoned, "--output", "jsonl")
    assert (ran.code, ran.rows) == (0, []), ran.told
