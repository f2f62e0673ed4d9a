"""Outbox files are read from outside, whatever their names have in them."""

from pathlib import Path
from uuid import UUID

import pytest

from compose import outboxes
from producers import Client, default_outbox
from schemas.identity import direct_conversation


@pytest.mark.parametrize("user", ["ann@example.org", "ann smith", "née", "a?b#c%41"])
def test_the_outbox_of_any_user_is_read(user: str, tmp_path: Path) -> None:
    path = tmp_path / default_outbox(user).name
    with Client(user, outbox=path, offline=True) as client:
        sent = client.send(to="ben", body="hi")
        raw = UUID(sent.message_id).bytes
        assert [(entry.user, entry.what) for entry in outboxes.entries(path, raw)] == [(user, "written")]
        assert outboxes.conversation_of(path, raw) == direct_conversation(user, "ben")
        assert outboxes.states(path).total() == len(outboxes.own_messages(path)) == 1


def test_a_file_that_sqlite_cannot_open_tells_nothing(tmp_path: Path) -> None:
    nowhere = tmp_path / "gone.sqlite"
    assert outboxes.entries(nowhere, bytes(16)) == []
    assert outboxes.conversation_of(nowhere, bytes(16)) is None
