"""A client on real Kafka: its log has a clock of its own, and limits of its own."""

import contextlib
import uuid

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from producers import Client, ClientSettings, DeliveryFailedError, Limits, Outgoing, RetryPolicy
from producers.clock import SystemClock
from schemas.identity import time_of
from schemas.lifecycle import Kind
from schemas.topics import EVENTS, INBOX, creation_config
from tests.integration.fake_server import FakeServer

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def kafka(local_stack):
    """Give the address of a Kafka that has our topics."""
    address = local_stack.addresses().kafka_bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, 8, 1, config=creation_config(name, 1)) for name in (EVENTS, INBOX)]
    for future in admin.create_topics(topics).values():
        try:
            future.result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    return address


@pytest.fixture
def server(kafka):
    with FakeServer(kafka, from_end=True) as made:
        yield made


@pytest.fixture
def client(kafka, tmp_path):
    with contextlib.ExitStack() as stack:

        def opened(user, *, settings=None, **more):
            settings = settings or ClientSettings(retry=RetryPolicy(first_s=1))
            made = Client(user, outbox=tmp_path / user, bootstrap_servers=kafka, settings=settings, **more)
            return stack.enter_context(made)

        yield opened


@pytest.fixture
def alice():
    """Name a user that no other run has had."""
    return f"alice-{uuid.uuid4()}"


@pytest.mark.parametrize("shift_ms", [-HOUR_MS, HOUR_MS])
def test_a_wall_clock_that_is_an_hour_wrong_harms_nobody(server, client, alice, shift_ms):  # case C3
    class Wrong(SystemClock):
        def wall_ms(self):
            return super().wall_ms() + shift_ms

    with client(alice, clock=Wrong(), offline=True) as writer:
        first = writer.send(to=f"{alice}-bob", body="before any contact", expires_in_s=60)
    me = client(alice, clock=Wrong())
    found = me.find(first.message_id)
    assert found.wait("sent", timeout_s=30) == "sent"
    assert me.send(to=f"{alice}-bob", body="after it", expires_in_s=60).wait("sent", timeout_s=30) == "sent"
    assert abs(me.stats().clock_shift_ms + shift_ms) < 5_000

    def seen():
        return [event for event in server.events if event.kind == Kind.SEND and event.actor == alice]

    # Other tests' workers may answer before this server has read.
    with server.changed:
        assert server.changed.wait_for(lambda: len({event.message_id for event in seen()}) == 2, timeout=20)
    sends = seen()
    right_ms = SystemClock().wall_ms()
    assert all(abs(event.expires_at - 60_000 - right_ms) < 40_000 for event in sends)
    assert all(time_of(event.message_id) < right_ms + 1_000 for event in sends)
    assert len({event.message_id for event in sends}) == 2


def test_a_body_as_large_as_may_be_and_more(server, client, alice):
    me = client(alice, settings=ClientSettings(limits=Limits(body_bytes_max=900_000)))
    small = me.send(to=f"{alice}-bob", body="small")
    # Below the broker's limit; the server's own limit is lower, and says so.
    large = me.send(to=f"{alice}-bob", body="x" * 900_000)
    after = me.send(to=f"{alice}-bob", body="after")
    assert small.wait("sent", timeout_s=30) == "sent"
    assert after.wait("sent", timeout_s=30) == "sent"
    with pytest.raises(DeliveryFailedError) as failed:
        large.wait("sent", timeout_s=30)
    assert failed.value.state == "failed(rejected)"


def test_a_backlog_in_many_conversations_keeps_their_order(server, client, alice):
    with client(alice, offline=True) as writer:
        for start in range(0, 3_000, 1_000):
            writer.send_many(Outgoing(to=f"{alice}-{n % 150}", body="x" * 100) for n in range(start, start + 1_000))
    me = client(alice)
    assert server.wait_until(lambda one: sum(row.sender == alice for row in one.rows.values()) == 3_000, 60)
    assert me.flush(30) == 0
    numbers = {}
    for event in server.events:
        if event.kind == Kind.SEND and event.actor == alice:
            seen = numbers.setdefault(event.conversation_id, [])
            if event.seq not in seen:
                seen.append(event.seq)
    assert all(seen == list(range(1, 21)) for seen in numbers.values())
