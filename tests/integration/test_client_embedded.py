"""Whole clients, in threads and processes, on the embedded broker and a small server."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from compose.stacks.embedded import EmbeddedBroker
from producers import (
    Client,
    ClientClosedError,
    ClientSettings,
    DeliveryFailedError,
    Outgoing,
    RetryPolicy,
    WaitTimeoutError,
)
from producers.clock import SystemClock
from schemas.identity import text_of
from schemas.lifecycle import Kind, State
from tests.integration.fake_server import FakeServer

QUICK = ClientSettings(retry=RetryPolicy(first_s=0.3, max_s=2), close_timeout_s=2)


@pytest.fixture
def broker():
    with EmbeddedBroker({"twotick.events": 4, "twotick.inbox": 4}) as made:
        yield made


@pytest.fixture
def server(broker):
    with FakeServer(broker.bootstrap_servers) as made:
        yield made


@pytest.fixture
def client(broker, tmp_path):
    """Open clients that are closed at the end."""
    with contextlib.ExitStack() as stack:

        def opened(user, *, name="", settings=QUICK, **more):
            made = Client(
                user,
                outbox=tmp_path / f"{name or user}.sqlite",
                kafka={"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10},
                settings=settings,
                **more,
            )
            return stack.enter_context(made)

        yield opened


@contextlib.contextmanager
def child(task, outbox, broker, *more):
    command = [sys.executable, "-m", "tests.integration.client_process", task, str(outbox), broker, *map(str, more)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def arrived(client, count, timeout_s=20):
    found = []
    for message in client.incoming(timeout_s=timeout_s):
        found.append(message)
        if len(found) == count:
            break
    return found


def test_the_first_screen(server, client):
    me, bob = client("alice"), client("bob")
    ticks, read = [], threading.Event()

    def on_tick(tick):
        ticks.append(tick.state)
        if tick.state == "read":
            read.set()

    me.on_tick(on_tick)
    sent = me.send(to="bob", body="hi")
    assert sent.wait("sent", timeout_s=20) in {"sent", "delivered"}
    (message,) = arrived(bob, 1)
    assert (message.text, message.sender, message.message_id) == ("hi", "alice", sent.message_id)
    assert message.mark_read() is True
    assert sent.wait("read", timeout_s=20) == "read"
    assert sent.version == 3
    assert read.wait(10)
    assert ticks == ["sent", "delivered", "read"]
    assert me.flush(10) == 0


def test_a_callback_that_raises_does_not_end_the_ticks(server, client, caplog):
    me = client("alice")
    client("bob")
    ticks, done = [], threading.Event()

    def failing(tick):
        ticks.append(tick.state)
        if tick.state == "delivered":
            done.set()
        raise ZeroDivisionError

    me.on_tick(failing)
    me.send(to="bob", body="hi")
    assert done.wait(20)
    assert ticks == ["sent", "delivered"]
    assert "a callback for ticks failed" in caplog.text


def test_everything_twice_is_counted_once(broker, client):  # case K3
    with FakeServer(broker.bootstrap_servers, answers_each=3) as server:
        me, bob = client("alice"), client("bob")
        ticks = []
        me.on_tick(lambda tick: ticks.append((tick.message_id, tick.state)))
        sent = me.send_many([Outgoing(to="bob", body=str(number)) for number in range(20)])
        messages = arrived(bob, 20)
        for message in messages:
            message.mark_read()
        for one in sent:
            assert one.wait("read", timeout_s=20) == "read"
        assert [message.text for message in messages] == [str(number) for number in range(20)]
        assert max(Counter(ticks).values()) == 1
        assert bob.health().deliveries == 20
        assert server.states() == {State.READ: 20}


def test_several_recipients_and_a_block(server, client):
    me, bob, carol = client("alice"), client("bob"), client("carol")
    carol.block("alice", conversation="all")
    assert server.wait_until(lambda one: one.seen[Kind.BLOCK] == 1)
    sent = me.send(to=["bob", "carol"], conversation="all", body="hi")
    assert sent.wait("delivered", timeout_s=20) == "delivered"
    assert [message.text for message in carol.incoming(timeout_s=0.2)] == []
    to_carol = me.send(to="carol", conversation="all", body="only you")
    with pytest.raises(DeliveryFailedError) as failed:
        to_carol.wait("sent", timeout_s=20)
    assert (failed.value.state, failed.value.reason) == ("failed(blocked)", "BLOCKED")
    assert bob.stats().outbox.waiting == 1


def test_nobody_answers(broker, client):
    with FakeServer(broker.bootstrap_servers) as server:
        me = client("alice")
        me.send(to="bob", body="first").wait("sent", timeout_s=20)
        server.pause()
        sent = me.send(to="bob", body="hi", expires_in_s=1.5)
        with pytest.raises(WaitTimeoutError) as late:
            sent.wait("sent", timeout_s=2)
        assert late.value.retriable
        assert late.value.state == "pending"
        # Kafka has it, so it may have been sent in time: only the log knows.
        assert sent.not_confirmed
        server.resume()
        assert sent.wait("sent", timeout_s=20) == "sent"
        assert not sent.not_confirmed


def test_kafka_is_away_and_comes_back(broker, server, client):  # cases K2 K10
    me, bob = client("alice"), client("bob")
    me.send(to="bob", body="before").wait("delivered", timeout_s=20)
    broker.go_down()
    sent = me.send_many([Outgoing(to="bob", body=str(number)) for number in range(50)])
    assert me.flush(0.5) == 50
    assert sent[0].state == "pending"
    broker.come_up()
    for one in sent:
        one.wait("delivered", timeout_s=40)
    assert [message.text for message in arrived(bob, 51)] == ["before", *map(str, range(50))]
    assert {row.version for row in server.rows.values()} == {2}


def test_the_inbox_forgot_what_was_not_read(broker, server, client):
    me = client("alice")
    first = me.send(to="bob", body="one")
    first.wait("sent", timeout_s=20)
    me.close()
    bob = client("bob")
    arrived(bob, 1)
    assert server.wait_until(lambda one: one.states() == {State.DELIVERED: 1})
    # The tick for alice is in the inbox; now it is gone.
    server.flush()
    for partition in range(4):
        broker.drop_records("twotick.inbox", partition, before_offset=_end(broker, partition))
    again = client("alice")
    found = again.find(first.message_id)
    assert found.wait("delivered", timeout_s=30) == "delivered"
    assert again.health().gaps == 1


def _end(broker, partition):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "look"})
    try:
        return consumer.get_watermark_offsets(TopicPartition("twotick.inbox", partition), timeout=10)[1]
    finally:
        consumer.close()


def test_rubbish_in_the_inbox_is_passed_over(server, client):
    me = client("alice")
    me.send(to="bob", body="one").wait("sent", timeout_s=20)
    for raw in (b"", b"\xc3\x01rubbish", b"\xff" * 5000):
        server.tell("alice", None, raw=raw or b"\0")
    me.send(to="bob", body="two").wait("sent", timeout_s=20)
    assert me.health().undecodable == 3


def test_killed_right_after_send_returned(broker, server, client, tmp_path):  # case O4
    outbox = tmp_path / "alice.sqlite"
    with child("send-and-die", outbox, broker.bootstrap_servers) as process:
        message_id = process.stdout.readline().strip()
        assert process.wait(20) == -signal.SIGKILL
    me, bob = client("alice"), client("bob")
    assert me.find(message_id).wait("delivered", timeout_s=20) == "delivered"
    assert [(one.text, one.message_id) for one in arrived(bob, 1)] == [("the last words", message_id)]
    assert len(server.rows) == 1


def test_killed_in_the_middle_of_the_pump(broker, server, client, tmp_path):  # cases K11 K12
    with client("alice", offline=True) as writer:
        sent = writer.send_many([Outgoing(to="bob", body=str(number)) for number in range(3_000)])
        ids = {one.message_id for one in sent}
    with child("pump", tmp_path / "alice.sqlite", broker.bootstrap_servers) as process:
        assert process.stdout.readline() == "ready\n"
        assert server.wait_until(lambda one: one.seen[Kind.SEND] > 100)
        process.send_signal(signal.SIGKILL)
        process.wait(20)
    me = client("alice")
    assert server.wait_until(lambda one: len(one.rows) == 3_000)
    for one in sent[-5:]:
        me.find(one.message_id).wait("sent", timeout_s=30)
    assert me.flush(30) == 0
    assert set(map(text_of, server.rows)) == ids
    assert {row.version for row in server.rows.values()} == {1}


def test_terminated_with_a_hundred_queued(broker, client, tmp_path):  # case K12
    broker.go_down()
    with child("send-until-terminated", tmp_path / "alice.sqlite", broker.bootstrap_servers) as process:
        assert process.stdout.readline() == "sent\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "closed\n"
        assert process.wait(20) == 0
    broker.come_up()
    with FakeServer(broker.bootstrap_servers) as server:
        client("alice")
        assert server.wait_until(lambda one: len(one.rows) == 100)
        assert [event.seq for event in server.events if event.kind == Kind.SEND][:100] == list(range(1, 101))


def test_four_processes_a_thousand_sends_each(tmp_path):  # case O1
    outbox = tmp_path / "alice.sqlite"
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(child("send-many", outbox, "-", 1_000, name)) for name in "abcd"]
        for process in children:
            assert process.stdout.readline() == "ready\n"
        for process in children:
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait(120) for process in children] == [0, 0, 0, 0]
    database = sqlite3.connect(outbox)
    assert database.execute("SELECT count(*), min(seq), max(seq) FROM messages").fetchone() == (4_000, 1, 4_000)
    assert database.execute("SELECT count(DISTINCT seq) FROM messages").fetchone() == (4_000,)
    database.close()


def test_two_clients_on_one_outbox_pump_one_at_a_time(server, client):  # case O3
    settings = ClientSettings(retry=RetryPolicy(first_s=60, max_s=60))
    one, other = client("alice", settings=settings), client("alice", settings=settings)
    sent = []
    threads = [
        threading.Thread(target=lambda me=me: sent.extend(me.send(to="bob", body="hi") for _ in range(100)))
        for me in (one, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for handle in sent:
        handle.wait("sent", timeout_s=30)
    assert server.seen[Kind.SEND] == 200
    assert sorted([one.health().pumping, other.health().pumping]) == [False, True]


def test_who_stands_by_takes_over_from_a_killed_holder(broker, server, client, tmp_path):  # case O3
    with child("pump", tmp_path / "alice.sqlite", broker.bootstrap_servers) as holder:
        assert holder.stdout.readline() == "ready\n"
        assert server.wait_until(lambda one: one.seen[Kind.HELLO] == 1)
        me = client("alice")
        ticks, both = [], threading.Event()
        me.on_tick(lambda tick: ticks.append(tick.state) or (len(ticks) == 2 and both.set()))
        # The other process pumps and listens; its ticks show here.
        me.send(to="bob", body="one").wait("sent", timeout_s=20)
        assert not me.health().pumping
        holder.send_signal(signal.SIGKILL)
        holder.wait(20)
        me.send(to="bob", body="two").wait("sent", timeout_s=20)
        assert me.health().pumping
        assert both.wait(10)
        assert ticks == ["sent", "sent"]


def test_a_restored_backup_starts_a_new_install(server, client, tmp_path):
    with client("alice") as me:
        me.send(to="bob", body="one").wait("sent", timeout_s=20)
    for name in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copy(tmp_path / f"alice.sqlite{name}", tmp_path / f"backup.sqlite{name}")
    with client("alice") as me:
        me.send(to="bob", body="two").wait("sent", timeout_s=20)
    with client("alice", name="backup", offline=True) as restored:
        restored.send(to="bob", body="again two")
    me = client("alice", name="backup")
    me.listing(1)
    assert server.wait_until(lambda one: len(one.rows) == 3)
    assert len(server.reuses) == 1
    for one in me.listing(10):
        me.find(one.message_id).wait("sent", timeout_s=20)
    me.send(to="bob", body="three").wait("sent", timeout_s=20)
    # Both that bore number 2 were kept, and the next one is of another install.
    assert len(server.rows) == 4
    assert len({row.install for row in server.rows.values()}) == 2


@pytest.mark.parametrize("shift_ms", [-3_600_000, 3_600_000])
def test_a_wall_clock_that_is_an_hour_wrong(server, client, shift_ms):  # case C3
    class Wrong(SystemClock):
        def wall_ms(self):
            return super().wall_ms() + shift_ms

    # The embedded broker tells no time, so this client's own clock counts as the log's: the server's is the wrong one.
    me = client("alice", clock=Wrong())
    sent = me.send(to="bob", body="hi")
    if shift_ms < 0:
        assert sent.wait("sent", timeout_s=20) == "sent"
    else:
        with pytest.raises(WaitTimeoutError):
            sent.wait("sent", timeout_s=1.5)
        assert sent.outlook().attempts == 1
        assert server.wait_until(lambda one: one.seen[Kind.SEND] == 1)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_client_used_after_a_fork(server, client):  # case C6
    me = client("alice")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            me.send(to="bob", body="hi")
        except ClientClosedError as error:
            os.write(writer, error.message.encode())
        finally:
            me.close()
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    assert b"before a fork" in os.read(reader, 1000)
    os.close(reader)
    assert me.send(to="bob", body="hi").wait("sent", timeout_s=20) == "sent"


def test_close_may_be_called_twice_and_ends_everything(broker, client):
    me = client("alice")
    me.close()
    me.close()
    with pytest.raises(ClientClosedError):
        me.send(to="bob", body="hi")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("twotick-alice")]


def test_what_was_handed_over_and_not_dealt_with_comes_again(server, client):
    me = client("alice")
    for number in range(3):
        me.send(to="bob", body=str(number)).wait("sent", timeout_s=20)
    with client("bob") as bob:
        assert [one.text for one in arrived(bob, 2)] == ["0", "1"]
        # In this process it goes on after the last one.
        assert [one.text for one in arrived(bob, 1)] == ["2"]
    # The loops were left at 1 and 2: whether they were dealt with, nobody said.
    bob = client("bob")
    assert [one.text for one in bob.incoming(timeout_s=0.5)] == ["1", "2"]


def test_a_large_backlog_takes_bounded_memory(broker, server, tmp_path):
    outbox = tmp_path / "alice.sqlite"
    with Client("alice", outbox=outbox, offline=True) as writer:
        for start in range(0, 20_000, 2_000):
            writer.send_many(Outgoing(to=f"user-{number}", body="x" * 200) for number in range(start, start + 2_000))
    with child("pump", outbox, broker.bootstrap_servers) as process:
        assert process.stdout.readline() == "ready\n"
        assert server.wait_until(lambda one: len(one.rows) == 20_000, 100)
        peak_kib = _peak_kib(process.pid)
    assert peak_kib < 80 * 1024


def _peak_kib(pid):
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
