"""Workers on real Kafka and Cassandra in strict mode, while someone else writes the same rows."""

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from compose.stacks.local import LocalStack
from schemas.identity import bucket_of
from schemas.lifecycle import State
from schemas.records import Event
from tests.integration.deployment import until
from tests.integration.real import Real, real


@pytest.fixture
def deployment(local_stack: LocalStack, tmp_path: Path) -> Iterator[Real]:
    with real(local_stack, tmp_path, "i", "strict") as made:
        yield made


# cases K3, K7: what a killed worker wrote and did not commit comes again, and is known by its versions.
def test_a_killed_workers_rows_are_folded_once(deployment: Real) -> None:
    first = deployment.start(0, batch_records_max=20)
    sent = deployment.write(conversations=10, messages=10)
    until(lambda: first.counters().get("applied", 0) > 40, "some of it is applied", 90)
    first.signal(signal.SIGKILL)
    deployment.start(1)
    until(lambda: deployment.all_read(sent), "the other one finishes", 120)
    deployment.check_stories(sent)


def _mark_delivered(deployment: Real, event: Event) -> None:
    """Do what another system does that keeps to the rules of strict mode."""
    key = (event.conversation_id, bucket_of(event.message_id), UUID(bytes=event.message_id))
    applied = deployment.session.execute(
        f"UPDATE {deployment.keyspace}.messages SET version = 2, state = 'DELIVERED',"
        " receipts = ['DELIVERED'], attempt = %s WHERE conversation_id = %s AND bucket = %s AND message_id = %s"
        " IF version = 1",
        (uuid4(), *key),
    )
    assert applied.was_applied


def test_rows_that_someone_else_has_changed_are_folded_again(deployment: Real) -> None:
    worker = deployment.start(0)
    sent = [deployment.send(f"{deployment.settings['group']}-{number}", 1) for number in range(6)]
    deployment.flush()
    keys = [(event.conversation_id, event.message_id) for event in sent]
    until(lambda: len(deployment.store.read(keys, []).messages) == 6, "all are there", 60)
    for event in sent[:3]:
        _mark_delivered(deployment, event)
    for event in sent:
        deployment.receipt("READ", event)
    deployment.flush()
    until(lambda: deployment.all_read(sent), "all are read", 60)
    rows = deployment.store.read(keys, []).messages
    assert [rows[key].version for key in keys] == [3, 3, 3, 2, 2, 2]
    assert {rows[key].state for key in keys} == {State.READ}
    until(lambda: worker.counters().get("version_conflicts", 0) == 3, "three conflicts are counted")
    until(lambda: worker.counters().get("answers", 0) >= 12, "all twelve events are answered")
    assert worker.process.poll() is None
