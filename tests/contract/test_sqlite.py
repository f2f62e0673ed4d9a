"""What only SQLite can get wrong: several processes on one file, durability, its own schema."""

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from consumers.errors import StoreRefusedError, StoreUnavailableError
from consumers.rows import Block, ConversationWrite, Owner
from consumers.stores.sqlite import SqliteStore
from consumers.stores.sqlite_schema import MIGRATIONS, connect, seen_migrations
from tests.contract.made import OWNER, Written, conversation, id_of, made, moved, row, write

PROCESSES = 4
WRITES = 100


def _work(path: Path, number: int) -> None:
    """Open, claim and write as a worker process does; every process opens the file at the same time."""
    store = SqliteStore.open(path)
    lease = store.claim_lease(1, f"node-{number}")
    all_written = [Written() for _ in range(WRITES)]
    for index, written in enumerate(all_written):
        store.write(Owner(lease.epoch, lease.node), [made(f"c{number}", index)], [], written.done)
    for written in all_written:
        written.wait()
    store.close()


# case O1, for the store
def test_processes_share_a_file_and_none_is_busy(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_work, args=(path, number)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    store = SqliteStore.open(path)
    assert len(list(store.all_messages())) == PROCESSES * WRITES
    assert store.leases()[0].epoch == PROCESSES
    store.close()


# case O2, for the store
def test_a_commit_is_on_disk_before_it_is_told(tmp_path: Path) -> None:
    connection = connect(tmp_path / "store.sqlite", 1)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    connection.close()
    SqliteStore.open(tmp_path / "store.sqlite").close()
    connection = connect(tmp_path / "store.sqlite", 1)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_locked_file_is_unavailable_not_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = SqliteStore.open(path, busy_timeout_s=0.05)
    blocker = connect(path, 1)
    blocker.execute("BEGIN IMMEDIATE")
    written = Written()
    store.write(OWNER, [made("c", 1)], [], written.done)
    with pytest.raises(StoreUnavailableError):
        written.wait()
    with pytest.raises(StoreUnavailableError):
        store.claim_lease(1, "node")
    blocker.execute("ROLLBACK")
    blocker.close()
    write(store, [made("c", 1)])  # the same call again
    assert store.claim_lease(1, "node").epoch == 1
    store.close()


def test_a_write_that_is_refused_fails_alone(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.sqlite")
    good, bad = made("c", 1), made("c", 2)
    bad = bad._replace(row=bad.row._replace(seq=2**63))
    all_written = [Written() for _ in range(9)]
    for number, written in enumerate(all_written):
        store.write(OWNER, [bad if number == 4 else good], [], written.done)
    for number, written in enumerate(all_written):
        if number == 4:
            with pytest.raises(StoreRefusedError):
                written.wait()
        else:
            written.wait()
    assert store.read([("c", id_of(1)), ("c", id_of(2))], []).messages == {("c", id_of(1)): row("c", 1)}
    store.close()


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "store.sqlite")
    bad = moved("c", 2, 2, "READ")
    written = Written()
    store.write(OWNER, [made("c", 1), bad._replace(row=bad.row._replace(seq=2**63))], [], written.done)
    with pytest.raises(StoreRefusedError):
        written.wait()
    assert list(store.all_messages()) == []
    store.close()


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    SqliteStore.open(path).close()
    assert seen_migrations(path) == len(MIGRATIONS)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreRefusedError) as caught:
        SqliteStore.open(path)
    assert "Upgrade" in caught.value.hint


def test_blocks_of_before_events_ids_were_kept_are_read_and_stay(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = SqliteStore.open(path)
    write(store, [], [ConversationWrite(conversation("c"))])
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(
            """UPDATE conversations SET blocks = '[["ben","ann",[2,7],true],["ben","ann",[2,9],false]]'"""
        )
    connection.close()
    old = (Block("ben", "ann", (2, 7), active=True), Block("ben", "ann", (2, 9), active=False))
    assert store.read([], ["c"]).conversations == {"c": conversation("c")._replace(blocks=old)}
    longer = conversation("c", 2)._replace(blocks=(*old, Block("ben", "ann", (2, 11), active=True, event_id=id_of(1))))
    write(store, [], [ConversationWrite(longer)])
    assert store.read([], ["c"]).conversations == {"c": longer}
    store.close()


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"this is a text, not a database at all" * 100)
    with pytest.raises(StoreRefusedError):
        SqliteStore.open(path)
