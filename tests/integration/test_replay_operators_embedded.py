"""Replay and verify take what workers on the embedded broker took, whomever the shell's `worker.operators` names."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.stacks.embedded import EmbeddedBroker
from consumers.cli.shared import who
from consumers.stores.sqlite import SqliteStore
from schemas.records import NO_ID, Event
from tests.integration.commands import run
from tests.integration.deployment import PARTITIONS, Deployment, until
from tests.integration.test_replay_embedded import rows
from tests.integration.test_worker_embedded import SETTINGS

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def parked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Give a deployment in which a conversation was parked and released, by a shell that names no operator now.

    Somebody else has forged a PARK of another one, which the workers refused, though the shell names them.
    """
    with EmbeddedBroker(PARTITIONS) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10}
        settings = {**SETTINGS, "topic_identity": broker.cluster_id, "operators": [who()]}
        deployment = Deployment(tmp_path_factory.mktemp("operators"), kafka, settings)
        try:
            deployment.start()
            deployment.put(Event("PARK", deployment.id(), "free", NO_ID, "mallory", NO_ID))
            sent = [deployment.send(name, seq) for seq in range(1, 4) for name in ("busy", "free")]
            deployment.flush()
            until(lambda: deployment.committed() == 7, "all is committed")
            assert run(deployment, "dead-letters", "park", "busy", "--execute").code == 0
            sent.append(deployment.send("busy", 4))
            deployment.flush()
            until(lambda: deployment.answered(sent[-1]), "it waits")
            released = run(deployment, "dead-letters", "release", "busy", "--execute")
            assert (released.code, "the conversation is open" in released.told) == (0, True)
            until(lambda: deployment.committed() == sum(deployment.ends("twotick.events").values()), "all is committed")
            deployment.settings["operators"] = ["mallory"]
            yield deployment
        finally:
            deployment.close()


def test_a_replay_by_other_operators_finds_and_mends_nothing(parked: Deployment):
    before = rows(parked.store_path)
    ran = run(parked, "replay", "--execute")
    assert (ran.code, ran.rows) == (0, [])
    assert "0 differ; 0 changed" in ran.told
    assert f"though worker.operators here does not name {who()!r}" in ran.told
    assert "1 PARK or RELEASE refused, of 'mallory'" in ran.told
    assert rows(parked.store_path) == before
    assert run(parked, "replay", "--conversation", "busy", "--execute").rows == []
    assert rows(parked.store_path) == before


def test_verify_by_other_operators_finds_nothing(parked: Deployment):
    ran = run(parked, "verify")
    assert (ran.code, ran.rows) == (0, [])


def test_a_rebuild_by_other_operators_is_the_same(parked: Deployment, tmp_path: Path):
    ran = run(parked, "replay", "--into-sqlite", str(tmp_path / "rebuilt"), "--no-compare")
    assert (ran.code, "1 PARK or RELEASE refused, of 'mallory'" in ran.told) == (0, True)
    ours, theirs = SqliteStore.open(tmp_path / "rebuilt"), SqliteStore.open(parked.store_path)
    try:
        assert {each.row for each in ours.all_messages()} == {each.row for each in theirs.all_messages()}
        assert {each._replace(sequences=()) for each in ours.all_conversations()} == {
            each._replace(sequences=()) for each in theirs.all_conversations()
        }
    finally:
        ours.close()
        theirs.close()


def test_json_lines_tell_which_commands_were_refused(parked: Deployment, tmp_path: Path):
    ran = run(parked, "replay", "--to-jsonl", str(tmp_path / "lines"))
    assert "1 PARK or RELEASE refused, of 'mallory'" in ran.told
    told = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    assert [each["kind"] for each in told if each["kind"] in {"PARK", "RELEASE"}] == ["PARK", "RELEASE"]
    assert [each["reason"] for each in told if each["kind"] is None] == ["NOT_AN_OPERATOR"]
