"""The command line on a whole deployment: what goes in comes out, to the letter, and exit codes tell the truth."""

import json
import sqlite3
import uuid
from pathlib import Path

import pytest
from cassandra.cluster import Cluster

from compose.sections import StoreSettings
from tests.e2e.conftest import Deployment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
LINES = 200
Row = tuple[str, str, str]
"""A message as it is compared: sender, recipient, body."""


@pytest.fixture
def user() -> str:
    """Give a user whom no other test has."""
    return f"user-{uuid.uuid4().hex[:8]}"


def lines_of(sender: str) -> list[dict[str, object]]:
    """Make messages whose bodies a careless program would change."""
    odd = [
        "plain",
        'quo"ted\\',
        "zwölf Zeichen",
        "日本語",
        "🎂\u200d",
        "two\nlines\r\n",
        " edges ",
        "\x00\x1b[31m",
        "a" * 5000,
    ]
    return [{"to": f"{sender}-to-{n % 7}", "body": f"{n}: {odd[n % len(odd)]}"} for n in range(LINES)]


def write(path: Path, lines: list[dict[str, object]]) -> set[Row]:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {(path.stem, str(line["to"]), str(line["body"])) for line in lines}


def rows_of_sqlite(path: Path, sender: str) -> list[Row]:
    sql = """SELECT sender, recipients, body FROM messages JOIN contents USING (conversation_id, message_id)
        WHERE sender = ?"""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        found = connection.execute(sql, (sender,)).fetchall()
    return [(row[0], ",".join(json.loads(row[1])), bytes(row[2]).decode()) for row in found]


def rows_of_cassandra(settings: StoreSettings, sender: str) -> list[Row]:
    asked = settings.cassandra
    with Cluster(list(asked.contact_points), port=asked.port) as cluster:
        session = cluster.connect(asked.keyspace)
        found = session.execute(
            "SELECT sender, recipients, body FROM messages WHERE sender = %s ALLOW FILTERING", [sender]
        )
        return [(row.sender, ",".join(row.recipients), bytes(row.body).decode()) for row in found]


def test_a_file_of_messages_is_in_the_store_line_for_line(embedded: Deployment, user: str, tmp_path: Path) -> None:
    file = tmp_path / f"{user}.jsonl"
    wanted = write(file, lines_of(user))
    done = embedded.twotick("send", "--as", user, "--file", str(file), "--wait", "sent", "--timeout", "90")
    assert done.returncode == 0, done.stderr
    found = rows_of_sqlite(embedded.wiring.settings.section("store", StoreSettings).path, user)
    assert len(found) == LINES
    assert set(found) == wanted


def test_a_file_of_messages_is_in_cassandra_line_for_line(local: Deployment, user: str, tmp_path: Path) -> None:
    file = tmp_path / f"{user}.jsonl"
    wanted = write(file, lines_of(user))
    done = local.twotick("send", "--as", user, "--file", str(file), "--wait", "sent", "--timeout", "90")
    assert done.returncode == 0, done.stderr
    found = rows_of_cassandra(local.wiring.settings.section("store", StoreSettings), user)
    assert len(found) == LINES
    assert set(found) == wanted


def test_one_message_is_sent_received_read_and_told(embedded: Deployment, user: str) -> None:
    other = f"{user}-other"
    sent = embedded.twotick("send", "hello", "--as", user, "--to", other, "--wait", "sent", "--output", "jsonl")
    assert sent.returncode == 0, sent.stderr
    message = json.loads(sent.stdout)
    assert message["state"] == "sent"

    received = embedded.twotick(
        "receive", "--as", other, "--read", "--limit", "1", "--timeout", "30", "--output", "jsonl"
    )
    assert received.returncode == 0, received.stderr
    assert json.loads(received.stdout)["message_id"] == message["message_id"]

    with embedded.wiring.open_client(user) as client:
        assert client.find(message["message_id"]).wait("read", timeout_s=60) == "read"

    told = embedded.twotick("message", message["message_id"], "--output", "jsonl")
    assert told.returncode == 0, told.stderr
    steps = [json.loads(line) for line in told.stdout.splitlines()]
    in_store = [(step["what"], step["version"]) for step in steps if step["where"] == "store"]
    assert in_store[0] == ("sent", 1)
    assert in_store[-1][0] == "read"
    assert all(step["epoch"] >= 1 and "offset" in step["log"] for step in steps if step["where"] == "store")
    assert {step["where"] for step in steps} == {"store", f"outbox of {user}", f"inbox of {other}"}


def test_a_message_that_nobody_knows_ends_with_3(embedded: Deployment) -> None:
    done = embedded.twotick("message", str(uuid.uuid4()))
    assert (done.returncode, done.stdout) == (3, "")
    assert "hint:" in done.stderr


def test_an_empty_recipient_is_refused_before_anything_is_written(embedded: Deployment, user: str) -> None:
    done = embedded.twotick("send", "hello", "--as", user, "--to", "")
    assert done.returncode != 0
    assert done.stderr.startswith("error: ")
    listed = embedded.twotick("outbox", "list", "--as", user, "--output", "json")
    assert json.loads(listed.stdout) == []


def test_verify_finds_nothing_after_a_round_trip(embedded: Deployment):
    sent = embedded.twotick("send", "--as", "vera", "--to", "walt", "hello", "--wait", "sent")
    assert sent.returncode == 0, sent.stderr
    outbox = embedded.wiring.outbox_path("vera")
    ran = embedded.twotick("verify", "--outbox", str(outbox), "--output", "jsonl")
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr + ran.stdout
    assert "compared 1 messages of 1 outboxes" in ran.stderr
    assert "nothing is missing, nothing is odd" in ran.stderr
    assert embedded.twotick("verify", "--no-log", "--outbox", "/nowhere").returncode == 3
