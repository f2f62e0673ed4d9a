"""What a comparison finds otherwise in a SQLite store, mending puts right, whichever part of a row it is."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from consumers.replay.compare import Reach
from consumers.replay.comparing import Comparison
from consumers.rows import ConversationWrite
from consumers.stores.sqlite import SqliteStore
from tests.contract.made import conversation, made, write


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Give what a replay rebuilt and the live store, which are the same."""
    opened = SqliteStore.open(tmp_path / "rebuilt"), SqliteStore.open(tmp_path / "live")
    for each in opened:
        write(each, [made("c", 1), made("c", 2)], [ConversationWrite(conversation("c"))])
    yield opened
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    "change",
    [
        "contents SET body = x'00'",
        "contents SET content_type = 'x/y'",
        "contents SET expires_at = 1",
        "messages SET sender = 'eve'",
        "messages SET recipients = '[\"eve\"]'",
        "messages SET digest = x'00'",
        "messages SET install = x'00'",
        "messages SET seq = 99",
        "messages SET log_partition = 99",
        "messages SET sent_at = 1",
        "messages SET deliver_by = 1",
        "messages SET state = 'READ'",
        "transitions SET actor = 'eve', epoch = 99",
        "transitions SET version = 2",
        "conversations SET participants = '[]', epoch = 99",
    ],
)
def test_each_part_of_a_row_is_mended(stores: tuple[SqliteStore, SqliteStore], tmp_path: Path, change: str) -> None:
    rebuilt, live = stores
    with closing(sqlite3.connect(tmp_path / "live")) as connection, connection:
        connection.execute(f"UPDATE {change}")
    comparison = Comparison(rebuilt, live, {0: Reach(2, 1_000, 1_000)}, 1)
    found = [*comparison.messages(mend=True), *comparison.conversations(mend=True)]
    assert found
    assert all(each.mended for each in found), found
    assert [*comparison.messages(), *comparison.conversations()] == []
