"""Replay beside workers on the embedded broker: nothing is answered, differences are found and mended."""

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compose.stacks.embedded import EmbeddedBroker
from consumers.replay import run as replaying
from consumers.replay.log import Log
from consumers.replay.spans import Span, Wish, records_in
from consumers.stores.sqlite import SqliteStore
from schemas.records import Event
from schemas.topics import EVENTS
from tests.integration.commands import run
from tests.integration.deployment import PARTITIONS, Deployment, until
from tests.integration.test_worker_embedded import SETTINGS, all_read

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Deployment, list[Event]]]:
    """Give a deployment with a worker that has folded a few hundred events, blocks and a poisoned record among them."""
    with EmbeddedBroker(PARTITIONS) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10}
        settings = {**SETTINGS, "topic_identity": broker.cluster_id}
        deployment = Deployment(tmp_path_factory.mktemp("replay"), kafka, settings)
        try:
            sent = [deployment.send(f"c{n % 7}", n + 1, body=f"m{n}".encode()) for n in range(60)]
            deployment.block("BLOCK", "c1", "bob", "mallory")
            deployment.raw(b"no event", b"c1")
            for event in sent:
                deployment.receipt("DELIVERED", event)
                deployment.receipt("READ", event)
            deployment.flush()
            deployment.start()
            until(lambda: all_read(deployment, sent), "all is read")
            until(lambda: deployment.committed() == 182, "all is committed")
            yield deployment, sent
        finally:
            deployment.close()


def said(deployment: Deployment) -> int:
    return len(deployment.everything("twotick.inbox")) + len(deployment.dead_letters())


def rows(path: Path) -> tuple[object, ...]:
    with closing(sqlite3.connect(path)) as connection:
        tables = ("messages", "contents", "transitions", "conversations")
        return tuple(connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables)


def test_a_replay_beside_a_worker_changes_nothing_and_says_nothing(lived):  # cases K16, M4
    deployment, _ = lived
    before, told = rows(deployment.store_path), said(deployment)
    ran = run(deployment, "replay", "--execute")
    assert (ran.code, ran.rows) == (0, [])
    assert "checked 67 rows: 0 differ; 0 changed" in ran.told
    assert rows(deployment.store_path) == before
    assert said(deployment) == told


def test_a_rebuild_is_the_same_row_for_row(lived, tmp_path):
    deployment, _ = lived
    ran = run(deployment, "replay", "--into-sqlite", str(tmp_path / "rebuilt"))
    assert (ran.code, ran.rows) == (0, [])
    store = SqliteStore.open(tmp_path / "rebuilt")
    live = SqliteStore.open(deployment.store_path)
    try:
        ours = {each.row: (each.content, [step for step, _ in each.transitions]) for each in store.all_messages()}
        theirs = {each.row: (each.content, [step for step, _ in each.transitions]) for each in live.all_messages()}
        assert ours == theirs
        assert len(ours) == 60
    finally:
        store.close()
        live.close()
    again = run(deployment, "replay", "--into-sqlite", str(tmp_path / "rebuilt"))
    assert again.code == 2
    assert "is there already" in again.told


def test_differences_are_found_and_mended(lived):
    deployment, sent = lived
    broken, gone = sent[3].message_id, sent[5].message_id
    before = rows(deployment.store_path)
    with closing(sqlite3.connect(deployment.store_path, timeout=30)) as connection, connection:
        connection.execute("UPDATE messages SET state = 'SENT' WHERE message_id = ?", (broken,))
        for table in ("messages", "contents", "transitions"):
            connection.execute(f"DELETE FROM {table} WHERE message_id = ?", (gone,))
        connection.execute("UPDATE conversations SET participants = '[\"bob\"]' WHERE conversation_id = 'c2'")
    found = run(deployment, "replay")
    assert found.code == 1
    assert sorted(each["kind"] for each in found.rows) == ["differs", "differs", "missing"]
    mended = run(deployment, "replay", "--execute")
    assert "3 differ; 3 changed" in mended.told
    assert (mended.code, run(deployment, "replay").code) == (0, 0)
    assert [sorted(row[:3] for row in table) for table in rows(deployment.store_path)[:3]] == [
        sorted(row[:3] for row in table) for table in before[:3]
    ]


def test_what_nobody_sent_is_found(lived):
    deployment, sent = lived
    with closing(sqlite3.connect(deployment.store_path, timeout=30)) as connection, connection:
        for table in ("messages", "contents", "transitions"):
            found = connection.execute(f"SELECT * FROM {table} WHERE message_id = ?", (sent[0].message_id,)).fetchall()
            for row in found:
                values = (row[0], b"\x01\x8f" + bytes(14), *row[2:])
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", values)
    ran = run(deployment, "replay")
    assert (ran.code, [each["kind"] for each in ran.rows]) == (1, ["invented"])
    with closing(sqlite3.connect(deployment.store_path, timeout=30)) as connection, connection:
        for table in ("messages", "contents", "transitions"):
            connection.execute(f"DELETE FROM {table} WHERE message_id = ?", (b"\x01\x8f" + bytes(14),))
    assert run(deployment, "replay").code == 0


def test_from_the_middle_the_rest_is_folded_on_what_was_there(lived):
    deployment, _ = lived
    ran = run(deployment, "replay", "--from-offset", "30")
    assert (ran.code, ran.rows) == (0, [])
    assert "not from the start" in ran.told


def test_one_conversation_and_one_partition(lived):
    deployment, _ = lived
    ran = run(deployment, "replay", "--conversation", "c3")
    assert ran.code == 0
    assert "checked 10 rows: 0 differ" in ran.told  # 9 messages and the conversation
    assert run(deployment, "replay", "--partition", "0").code == 0
    assert run(deployment, "replay", "--partition", "9").code == 2


def test_json_lines_tell_every_record(lived, tmp_path):
    deployment, sent = lived
    path = tmp_path / "log.jsonl"
    assert run(deployment, "replay", "--to-jsonl", str(path)).code == 0
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(found) == 182
    assert sorted(each["body"] for each in found if each["kind"] == "SEND") == sorted(e.body.decode() for e in sent)
    (bad,) = [each for each in found if each["kind"] is None]
    assert (bad["reason"], bytes.fromhex(bad["value_hex"])) == ("UNDECODABLE", b"no event")


def test_interrupted_it_goes_on_where_it_was(lived, tmp_path, monkeypatch):
    deployment, _ = lived
    monkeypatch.setattr(replaying, "BATCH_RECORDS", 10)
    reports = []

    def report_then_interrupt(done: int, total: int) -> None:
        reports.append((done, total))
        if done >= 60:
            signal.raise_signal(signal.SIGINT)

    class Bar:
        def __enter__(self):
            return report_then_interrupt

        def __exit__(self, *_):
            return None

    monkeypatch.setattr("consumers.cli.bar.progress_bar", lambda _what: Bar())
    state = tmp_path / "state"
    arguments = ("replay", "--into-sqlite", str(tmp_path / "rebuilt"), "--state", str(state))
    ran = run(deployment, *arguments)
    assert ran.code == 130
    positions = json.loads(state.read_text())["positions"]
    assert sum(positions.values()) == reports[-1][0]
    monkeypatch.setattr("consumers.cli.bar.progress_bar", lambda _what: Bar())
    monkeypatch.setattr(signal, "raise_signal", lambda _number: None)
    ran = run(deployment, *arguments)
    assert ran.code == 0
    assert "checked 67 rows: 0 differ" in ran.told
    assert f"of {182 - reports[0][0]:,} records" not in ran.told
    assert run(deployment, "replay", "--state", str(state)).code == 2


def test_another_topic_of_that_name_is_not_taken_for_the_one_that_was_folded(lived):
    deployment, _ = lived
    known = deployment.settings["topic_identity"]
    deployment.settings["topic_identity"] = "another"
    try:
        ran = run(deployment, "replay", "--execute")
    finally:
        deployment.settings["topic_identity"] = known
    assert ran.code != 0
    assert "is another topic (another)" in ran.told


def test_the_same_partitions_are_read_again_for_another_generation(lived):
    deployment, _ = lived
    with Log(deployment.kafka, EVENTS) as log:
        first = [Span(each.partition, 0, each.high // 2, is_whole=True) for each in log.extents(Wish())]
        rest = [Span(each.partition, each.high // 2, each.high, is_whole=False) for each in log.extents(Wish())]
        for spans in (first, rest, first):
            found = [
                message.offset() for batch in log.batches(spans, 20) for each in batch.values() for message in each
            ]
            assert len(found) == records_in(spans) > 0
