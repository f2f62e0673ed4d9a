"""A client without Kafka: its file, its settings, what it hands to the program."""

import os
import queue
import threading
from datetime import timedelta
from uuid import UUID

import pytest

from producers import (
    Client,
    ClientError,
    DeniedError,
    InvalidMessageError,
    UnknownMessageError,
    UnreachableError,
    WaitTimeoutError,
)
from producers import incoming as incoming_module
from producers.arrivals import Arrivals, Place
from producers.clock import Estimate, SystemClock
from producers.meta import put_estimate
from schemas.lifecycle import Kind, Outcome, State
from schemas.records import NO_ID, Acknowledgement, Delivery

YEAR_MS = 365 * 24 * 3600 * 1000


def receive(client, count, deliver_by=2**42):
    arrivals = Arrivals(client._database, client._outbox, client.user, client._clock)
    deliveries = [
        Delivery(client.user, "c", bytes([number]) * 16, "bob", (client.user,), b"hi", "", 1, deliver_by, 1)
        for number in range(count)
    ]
    arrivals.apply(deliveries, Place("cluster", "twotick.inbox", 0), count)


def test_a_program_may_change_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with Client("alice", outbox="alice.sqlite", offline=True) as me:
        os.chdir(elsewhere)
        sender = threading.Thread(target=lambda: me.send(to="bob", body="hi"))
        sender.start()
        sender.join()
        assert me.stats().outbox.fresh == 1
    assert list(elsewhere.iterdir()) == []


def test_two_names_of_one_file_have_one_pump(tmp_path):
    (tmp_path / "other.sqlite").symlink_to(tmp_path / "alice.sqlite")
    one, other = (Client("alice", outbox=tmp_path / name) for name in ("alice.sqlite", "other.sqlite"))
    assert one._engine._lock.lock_file == other._engine._lock.lock_file


@pytest.mark.parametrize("kafka", [{"boostrap.servers": "x"}, {"security.protocol": "nonsense"}])
def test_settings_that_the_library_does_not_take_are_told_to_who_waits(tmp_path, kafka, caplog):
    with Client("alice", outbox=tmp_path / "alice.sqlite", kafka=kafka) as me:
        sent = me.send(to="bob", body="hi")
        with pytest.raises(DeniedError) as refused:
            sent.wait(timeout_s=20)
        me.close(flush_timeout_s=0)
    assert next(iter(kafka)) in refused.value.message
    assert "Traceback" not in caplog.text


def test_a_wait_that_ends_says_why_in_its_message(tmp_path):
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as me:
        sent = me.send(to="bob", body="hi")

        def ended():
            with pytest.raises(WaitTimeoutError) as error:
                sent.wait(timeout_s=0)
            return error.value

        begin = f"message {sent.message_id} is pending after 0 s, not sent"
        assert str(ended()) == f"{begin}: Kafka has not been reached"
        me._health.fail(UnreachableError("Kafka was not reached: refused", "Check bootstrap.servers."))
        assert str(ended()) == f"{begin}: Kafka was not reached: refused"
        assert ended().hint.startswith("Check bootstrap.servers. It stays in the outbox")
        me._health.set(reachable=True)
        assert str(ended()) == begin


def test_what_is_no_message_no_callback_and_no_address_is_refused_in_words(tmp_path):
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as me:
        for call in (me.cancel, me.find, me.mark_read, me.retry_now):
            with pytest.raises(UnknownMessageError, match="5 is no message id"):
                call(5)
        with pytest.raises(InvalidMessageError, match="the message is str"):
            me.send_many(["x"])
        with pytest.raises(TypeError, match="the callback is NoneType"):
            me.on_tick(None)
        with pytest.raises(UnknownMessageError, match="'x' is no message that came in"):
            me.mark_taken("x")
    for empty in ({"bootstrap_servers": ""}, {"kafka": {"bootstrap.servers": ""}}):
        with pytest.raises(ClientError, match="bootstrap_servers is empty"):
            Client("alice", outbox=tmp_path / "alice.sqlite", **empty)
    for wrong in ({"bootstrap_servers": ["a:1", "b:2"]}, {"kafka": {"bootstrap.servers": ["a:1"]}}, {"settings": {}}):
        with pytest.raises(ClientError, match=r"is (list|dict)") as refused:
            Client("alice", outbox=tmp_path / "alice.sqlite", **wrong)
        assert refused.value.hint


@pytest.mark.timeout(20)
@pytest.mark.parametrize("timeout_s", [float("nan"), "x", True, [1]])
def test_a_time_that_nobody_can_wait_for_is_refused(tmp_path, timeout_s):
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as me:
        sent = me.send(to="bob", body="hi")
        for call in (lambda wait_s: sent.wait("read", timeout_s=wait_s), me.incoming, me.flush, me.close):
            with pytest.raises(ValueError, match="it must be a number of seconds"):
                call(timeout_s)
        for short in (0, -(10**400), float("-inf")):
            assert me.flush(short) == 1
        me.cancel(sent)
        for long in (10**400, float("inf")):
            assert me.flush(long) == 0


@pytest.mark.parametrize("limit", [-1, 2**70, "x", 1.5, True])
def test_a_listing_of_no_number_of_messages_is_refused(tmp_path, limit):
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as me:
        me.send(to="bob", body="hi")
        with pytest.raises(ValueError, match=r"limit is .*, it must be a whole number"):
            me.listing(limit)
        assert (len(me.listing(0)), len(me.listing(2**63 - 1))) == (0, 1)


def test_a_slow_program_hears_little_again_after_a_crash(tmp_path, monkeypatch):
    me = Client("alice", outbox=tmp_path / "alice.sqlite", offline=True).open()
    receive(me, 5)
    monkeypatch.setattr(incoming_module, "_TAKEN_S", 0.0)
    messages = me.incoming(timeout_s=0)
    for _ in range(3):
        next(messages)
    # As another process sees it while the third is dealt with.
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as after:
        assert len(list(after.incoming(timeout_s=0))) == 3
    me.close()


def test_nothing_is_forgotten_by_a_clock_that_may_be_wrong(tmp_path):
    class Ahead(SystemClock):
        def wall_ms(self):
            return super().wall_ms() + YEAR_MS

    clock = Ahead()
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True, clock=clock) as me:
        receive(me, 1, deliver_by=clock.wall_ms() - YEAR_MS)
        assert len(list(me.incoming(timeout_s=0))) == 1
        assert me._wiring.prune() is None
        with me._database.transaction() as connection:
            offset = clock.wall_ms() - YEAR_MS - clock.steady_ms()
            put_estimate(connection, Estimate(offset, 1.0, clock.steady_ms(), clock.boot))
        assert me._wiring.prune() == 0
        with me._database.transaction() as connection:
            later = offset + timedelta(days=31) / timedelta(milliseconds=1)
            put_estimate(connection, Estimate(later, 1.0, clock.steady_ms(), clock.boot))
        assert me._wiring.prune() == 1


def test_a_time_that_no_calendar_has_stops_nothing(tmp_path):
    ticks = queue.SimpleQueue()
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as me:
        me.on_tick(ticks.put)
        sent = [me.send(to="bob", body="hi") for _ in range(2)]
        arrivals = Arrivals(me._database, me._outbox, me.user, me._clock)
        answers = [
            Acknowledgement(
                *("alice", NO_ID, NO_ID, Kind.SEND, "alice", "c", UUID(one.message_id).bytes),
                *(Outcome.APPLIED, "", State.SENT, 1, 1, appended_at, 0, 0),
            )
            for one, appended_at in zip(sent, (2**62, 1), strict=True)
        ]
        place = Place("cluster", "twotick.inbox", 0)
        arrivals.apply(answers, place, 2)
        assert [ticks.get(timeout=20).message_id for _ in sent] == [one.message_id for one in sent]
        far = Delivery("alice", "c", bytes(15) + b"1", "bob", ("alice",), b"hi", "", -(2**62), 2**42, 1)
        arrivals.apply([far, far._replace(message_id=bytes(15) + b"2", sent_at=1)], place, 4)
        assert len(list(me.incoming(timeout_s=0))) == 2


def test_what_was_dealt_with_before_a_clean_end_does_not_come_again(tmp_path):
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as me:
        receive(me, 5)
        messages = me.incoming(timeout_s=0)
        for _ in range(4):
            next(messages)
    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as me:
        assert [message.arrival for message in me.incoming(timeout_s=0)] == [4, 5]
    messages.close()  # says nothing: all is noted


def test_a_callback_that_wants_to_end_the_program_ends_no_ticks(tmp_path):
    ticks = queue.SimpleQueue()

    def leave(tick):
        ticks.put(tick)
        raise SystemExit(1)

    with Client("alice", outbox=tmp_path / "alice.sqlite", offline=True) as me:
        me.on_tick(leave)
        sent = [me.send(to="bob", body="hi") for _ in range(2)]
        for one in sent:
            me.cancel(one)
        assert [ticks.get(timeout=20).message_id for _ in sent] == [one.message_id for one in sent]
