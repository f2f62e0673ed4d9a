"""What is in the outbox after a call, and after a call that failed."""

import contextlib
import os
import sqlite3
import stat
import subprocess
import sys
import threading

import pytest

from producers import tables
from producers.checks import Limits, Outgoing, check
from producers.database import Database
from producers.errors import (
    ClientClosedError,
    OutboxBusyError,
    OutboxError,
    OutboxFullError,
    UnknownMessageError,
)
from producers.meta import get_install, start_install
from schemas.identity import is_uuid7, time_of
from schemas.lifecycle import Kind, State
from schemas.records import Event
from tests.unit.producers.world import START_MS, World


def events(world):
    rows = world.database.connection().execute("SELECT payload FROM events ORDER BY position").fetchall()
    return [world.codec.decode_as(Event, payload) for (payload,) in rows]


def test_a_send_is_on_disk_before_it_returns(world):  # case O4
    (written,) = world.send()
    other = sqlite3.connect(world.path)
    assert other.execute("SELECT message_id FROM messages").fetchall() == [(written.message_id,)]
    other.close()


def test_synchronous_is_full_on_every_connection(world):  # case O2
    assert world.database.connection().execute("PRAGMA synchronous").fetchone() == (2,)
    assert world.database.connection().execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_ids_are_of_their_time_and_numbers_run_by_conversation(world):
    world.send(2)
    world.send(1, to="carol")
    world.send(1)
    sends = events(world)
    assert [(event.conversation_id, event.seq) for event in sends] == [
        ("direct:alice+bob", 1),
        ("direct:alice+bob", 2),
        ("direct:alice+carol", 1),
        ("direct:alice+bob", 3),
    ]
    ids = [event.message_id for event in sends] + [event.event_id for event in sends]
    assert len(set(ids)) == 8
    assert all(is_uuid7(one) and time_of(one) == START_MS for one in ids)
    assert {event.install for event in sends} == {get_install(world.database.connection())}


def test_ids_of_one_ms_are_in_the_order_of_sending(world):
    for count in (300, 1, 300):
        world.send(count)
    ids = [event.message_id for event in events(world)]
    assert {time_of(one) for one in ids} == {START_MS}
    assert ids == sorted(ids)


def test_many_are_one_transaction(world):
    world.database.connection().execute("PRAGMA max_page_count = 60")
    with pytest.raises(OutboxFullError, match="nothing was written") as full:
        world.send(5_000)
    assert full.value.retriable
    assert events(world) == []
    assert world.database.connection().execute("SELECT count(*) FROM sequences").fetchone() == (0,)
    # There is room for a few, and the numbers of the failed ones were not used up.
    world.send(3)
    assert [event.seq for event in events(world)] == [1, 2, 3]


def test_a_lock_that_is_held_too_long_is_a_clear_error(tmp_path):
    world = World(tmp_path / "a")
    world.database.close()
    world.database = Database(world.path, busy_timeout_s=0.01)
    world.outbox._database = world.database
    other = sqlite3.connect(world.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OutboxBusyError) as busy:
        world.send()
    assert busy.value.retriable
    other.execute("ROLLBACK")
    other.close()
    world.send()
    world.database.close()


def test_the_file_is_for_its_owner_alone(tmp_path):
    world = World(tmp_path / "new folder" / "a")
    world.send()
    for name in ("a", "a-wal", "a-shm"):
        assert stat.S_IMODE((tmp_path / "new folder" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new folder").stat().st_mode) == 0o700
    world.database.close()


def test_a_newer_outbox_is_left_alone(tmp_path):
    world = World(tmp_path / "a")
    world.database.connection().execute(f"PRAGMA user_version = {tables.VERSION + 1}")
    world.database.close()
    with pytest.raises(OutboxError, match="version 2") as newer:
        World(tmp_path / "a")
    assert "newer" in newer.value.hint


def test_anothers_outbox_is_refused(tmp_path):
    World(tmp_path / "a").database.close()
    with pytest.raises(OutboxError, match="belongs to 'alice'"):
        World(tmp_path / "a", user="bob")


def test_a_file_that_is_no_outbox_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"no database" * 1000)
    with pytest.raises(OutboxError, match="no outbox"):
        World(tmp_path / "a")
    with pytest.raises(OutboxError, match="cannot be"):
        World(tmp_path / "a" / "b")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("version", [0, tables.VERSION])
def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path, version):
    path = tmp_path / "others.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
        connection.execute(f"PRAGMA user_version = {version}")
        database = Database(path)
        with pytest.raises(OutboxError, match="no outbox") as caught:
            database.open()
        database.close()
        assert "move it away" not in caught.value.hint
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("users",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)


def test_an_outbox_is_of_no_use_in_a_forked_child(world):  # case C6
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            world.send()
            os.write(writer, b"sent")
        except ClientClosedError as error:
            os.write(writer, error.message.encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert b"before a fork" in os.read(reader, 1000)
    os.close(reader)
    world.send()


def test_closed_means_closed(world):
    world.database.close()
    world.database.close()
    with pytest.raises(ClientClosedError):
        world.send()


def test_threads_that_ended_leave_no_connection_open(world):
    made = []
    for _ in range(20):
        thread = threading.Thread(target=lambda: made.append(world.database.connection()))
        thread.start()
        thread.join()
    world.send()
    still_open = []
    for connection in made:
        with contextlib.suppress(sqlite3.ProgrammingError):
            still_open.append(connection.execute("SELECT 1").fetchone())
    assert len(still_open) <= 1


def test_a_signal_may_close_the_client_in_the_middle_of_a_write(tmp_path):
    code = f"""
import signal
from pathlib import Path
from producers import ClientClosedError
from tests.unit.producers.world import World
world = World(Path({str(tmp_path / "alice.sqlite")!r}))
signal.signal(signal.SIGUSR1, lambda *_: world.database.close())
try:
    with world.database.transaction() as connection:
        connection.execute("DELETE FROM meta")
        signal.raise_signal(signal.SIGUSR1)
        connection.execute("DELETE FROM ticks")
except ClientClosedError:
    print("closed")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout == "closed\n", result.stderr
    again = World(tmp_path / "alice.sqlite")
    assert len(again.send()) == 1  # what the write had begun was undone
    again.database.close()


def test_who_waits_while_it_is_closed_is_told(tmp_path):
    database = Database(tmp_path / "a")
    database.open()
    raised, waiting = [], threading.Event()

    def wait():
        try:
            while True:
                with database.reading() as connection:
                    connection.execute("SELECT 1").fetchone()
                waiting.set()
                database.wait_for_change(database.generation, 60)
        except ClientClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waiting.wait(10)
    database.close()
    thread.join(10)
    assert len(raised) == 1


def test_what_kafka_never_had_is_cancelled_here(world):
    (written,) = world.send()
    assert world.outbox.cancel(written.message_id) == State.CANCELLED
    assert world.outbox.cancel(written.message_id) == State.CANCELLED
    assert world.queued() == []
    assert events(world) == []
    assert [tick.state for tick in world.views.ticks_after(0)] == ["failed(cancelled)"]


def test_what_kafka_may_have_is_for_the_log_to_cancel(world):
    (written,) = world.send()
    world.run(world.pump())
    assert world.outbox.cancel(written.message_id) == State.PENDING
    assert world.outbox.cancel(written.message_id) == State.PENDING
    cancels = [event for event in events(world) if event.kind == Kind.CANCEL]
    assert [event.message_id for event in cancels] == [written.message_id]


def test_an_unknown_message_cannot_be_cancelled_or_read(world):
    with pytest.raises(UnknownMessageError):
        world.outbox.cancel(bytes(16))
    with pytest.raises(UnknownMessageError):
        world.outbox.mark_read(bytes(16))


def test_a_new_install_counts_from_one_again(world):
    world.send(2)
    with world.database.transaction() as connection:
        install = start_install(connection)
    world.send(1)
    last = events(world)[-1]
    assert (last.install, last.seq) == (install, 1)
    assert len({event.install for event in events(world)}) == 2


def test_expiries_are_in_the_logs_time(world):
    world.outbox.write_sends([check(Outgoing(to="bob", expires_in_s=60), "alice", Limits())])
    assert [event.expires_at for event in events(world)] == [START_MS + 60_000]


def test_a_block_is_an_event_of_its_conversation(world):
    world.outbox.write_block("bob", "c", Kind.BLOCK)
    (block,) = events(world)
    assert (block.kind, block.subject, block.conversation_id, block.message_id) == (Kind.BLOCK, "bob", "c", bytes(16))


def test_a_block_that_was_undone_is_not_sent_after_what_undid_it(world):
    pump = world.pump()
    world.outbox.write_block("bob", "c", Kind.BLOCK)
    world.outbox.write_block("carol", "c", Kind.BLOCK)
    world.outbox.write_block("bob", "d", Kind.BLOCK)
    world.run(pump)
    world.clock.pass_ms(1_900)
    world.outbox.write_block("bob", "c", Kind.UNBLOCK)
    world.run(pump, ms=100)
    sent = [(event.kind, event.subject, event.conversation_id) for _, event in world.broker.log]
    assert sent.count((Kind.BLOCK, "bob", "c")) == 1
    assert sent.count((Kind.BLOCK, "carol", "c")) == sent.count((Kind.BLOCK, "bob", "d")) == 2  # nobody answered
    assert sent.index((Kind.UNBLOCK, "bob", "c")) > sent.index((Kind.BLOCK, "bob", "c"))


def test_a_raising_block_leaves_no_trace(world):
    def fail():
        with world.database.transaction() as connection:
            connection.execute("INSERT INTO meta VALUES ('x', 1)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert world.database.connection().execute("SELECT 1 FROM meta WHERE name = 'x'").fetchone() is None
