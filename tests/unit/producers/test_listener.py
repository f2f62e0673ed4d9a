"""Where the listener starts, what it passes over, and what it keeps when the outbox cannot take it."""

# ruff: noqa: D101, D102 - what stands in for the real thing is named after it

from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError, KafkaException

from producers import listener as module
from producers.errors import DeniedError, OutboxFullError, UnreachableError
from producers.health import HealthBoard
from producers.kafka import KafkaConsumer, TopicFound
from producers.settings import ClientSettings
from schemas.lifecycle import State
from schemas.partitioner import partition_of
from schemas.topics import INBOX
from tests.unit.producers.world import PLACE


@dataclass
class Record:
    of: int
    data: bytes = b""
    user: bytes = b"alice"
    failure: KafkaError | None = None

    def error(self):
        return self.failure

    def key(self):
        return self.user

    def value(self):
        return self.data

    def offset(self):
        return self.of


@dataclass
class Log:
    """One partition, and what is wrong with it."""

    records: list[Record] = field(default_factory=list)
    low: int = 0
    high: int = 100
    partition_count: int = 1
    cluster_id: str = "cluster"
    assigned: list[int] = field(default_factory=list)
    raises: KafkaException | None = None
    closed: int = 0

    def topic(self, name, timeout_s):
        if self.raises:
            raise self.raises
        return TopicFound(self.cluster_id, self.partition_count)

    def watermarks(self, topic, partition, timeout_s):
        return self.low, self.high

    def assign(self, topic, partition, offset):
        assert (topic, partition) == PLACE[1:]
        self.assigned.append(offset)

    def read(self, most, timeout_s):
        found, self.records = self.records, []
        return found

    def close(self):
        self.closed += 1


@pytest.fixture
def log():
    return Log()


@pytest.fixture
def make(world, log):
    def made(**settings):
        return module.Listener(
            module.ListenerParts(
                arrivals=world.arrivals,
                user="alice",
                codec=world.codec,
                settings=ClientSettings(**settings),
                health=world.health,
                make_consumer=lambda _: log,
            )
        )

    return made


def sent(world):
    (written,) = world.send()
    world.run(world.pump())
    return written, world.event(written)


def test_a_new_outbox_starts_at_the_beginning_or_at_the_end(make, log):
    log.low = 7
    make().turn()
    make(inbox_from_start=False).turn()
    assert log.assigned == [7, 100]


def test_what_comes_while_an_outbox_that_started_at_the_end_is_closed_is_read(make, log):
    make(inbox_from_start=False).turn()
    log.high = 103
    make(inbox_from_start=False).turn()
    assert log.assigned == [100, 100]


def test_it_goes_on_where_it_was(world, make, log):
    world.apply(next_offset=42)
    make().turn()
    assert log.assigned == [42]
    assert world.health.read().gaps == 0


@pytest.mark.parametrize(("known", "low", "high"), [(5, 10, 100), (50, 0, 20)])
def test_a_position_that_the_log_does_not_hold(world, make, log, caplog, known, low, high):
    written, event = sent(world)
    world.apply(world.answer(event), next_offset=known)
    log.low, log.high = low, high
    make().turn()
    assert log.assigned == [low]
    assert world.health.read().gaps == 1
    assert f"no longer holds offset {known}, going on at {low}; 1 own messages" in caplog.text
    assert world.state(written) == State.SENT
    assert len(world.queued()) == 1


def test_a_log_that_is_another(world, make, log):
    _, event = sent(world)
    world.apply(world.answer(event), next_offset=42)
    log.cluster_id = "another"
    make().turn()
    assert log.assigned == [0]
    assert len(world.queued()) == 1


def test_a_partition_count_that_changes_while_reading_is_noticed(world, make, log, monkeypatch):
    written, event = sent(world)
    world.apply(world.answer(event), next_offset=50)
    monkeypatch.setattr(module, "LOOK_AGAIN_TURNS", 3, raising=False)
    places = []
    monkeypatch.setattr(log, "assign", lambda topic, partition, offset: places.append((partition, offset)))
    listener = make()
    listener.turn()
    log.partition_count = next(count for count in range(2, 9) if partition_of(b"alice", count))
    for _ in range(6):
        assert listener.turn() is True
    assert places == [(0, 50), (partition_of(b"alice", log.partition_count), 0)]
    assert world.queued(), "what was missed meanwhile is asked for"
    assert world.state(written) == State.SENT


def test_records_that_vanish_while_reading_are_noticed(world, make, log):
    listener = make()
    listener.turn()
    log.records = [Record(0), Record(5)]
    listener.turn()
    assert world.health.read().gaps == 1
    log.records = [Record(6, failure=KafkaError(KafkaError._AUTO_OFFSET_RESET))]
    log.low = 50
    listener.turn()
    listener.turn()
    assert log.assigned == [0, 50]


def test_what_stands_in_the_inbox_from_before_a_gap_does_not_end_the_asking(world, make, log):
    """An earlier owner's answer settles the copy before it is sent; strangers' records after it end the wait."""
    written, event = sent(world)
    world.apply(world.answer(event), next_offset=5)
    old = world.codec.encode(world.answer(event))
    log.low, log.high = 10, 13
    listener = make()
    log.records = [Record(10, old, b"alice")]
    listener.turn()
    assert (world.queued(), world.arrivals.gap_end()) == ([], 13)
    listener = make()  # the program was started again meanwhile
    log.records = [Record(11, old, b"bob"), Record(12, old, b"bob")]
    listener.turn()
    assert (world.queued(), world.arrivals.gap_end()) == ([("SEND", 1, 1, 0)], 0)
    assert world.state(written) == State.SENT


def test_other_users_and_rubbish(world, make, log):
    _, event = sent(world)
    mine = world.codec.encode(world.answer(event))
    strangers = world.codec.encode(world.answer(event, user="bob"))
    log.records = [
        Record(0, mine, b"bob"),
        Record(1, b"rubbish"),
        Record(2, strangers),
        Record(3, mine),
        Record(4, b""),
    ]
    listener = make()
    listener.turn()
    health = world.health.read()
    assert health.undecodable == 3
    assert world.arrivals.position(PLACE) == 5
    assert [tick.state for tick in world.views.ticks_after(0)] == ["sent"]


def test_a_full_disk_forgets_nothing_that_was_read(world, make, log, monkeypatch):
    written, event = sent(world)
    listener = make()
    listener.turn()
    log.records = [Record(0, world.codec.encode(world.answer(event)))]
    whole = world.arrivals.apply
    monkeypatch.setattr(world.arrivals, "apply", _full)
    for _ in range(2):
        with pytest.raises(OutboxFullError):
            listener.turn()
    monkeypatch.setattr(world.arrivals, "apply", whole)
    listener.turn()
    assert world.state(written) == State.SENT


def _full(*_):
    raise OutboxFullError("full")


def test_errors_that_pass_and_errors_that_do_not(world, make, log):  # case K2
    listener = make()
    log.raises = KafkaException(KafkaError(KafkaError._TRANSPORT))
    assert listener.turn() is False
    assert world.health.read().error is None
    log.raises = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert listener.turn() is False
    assert isinstance(world.health.read().error, DeniedError)
    log.raises = None
    assert listener.turn() is True
    log.records = [Record(0, failure=KafkaError(KafkaError._FATAL, "gone", True))]
    listener.turn()
    listener.turn()
    assert log.closed == 1
    assert log.assigned == [0, 0]


def test_a_topic_that_is_not_there_yet(world, make, log):
    log.partition_count = 0
    listener = make()
    assert listener.turn() is False
    error = world.health.read().error
    assert error.retriable
    assert INBOX in error.message
    log.partition_count = 1
    assert listener.turn() is True
    assert PLACE.topic == INBOX


def test_a_disconnect_that_passes_is_forgotten_though_nothing_is_sent(world, make, log):
    listener = make()
    assert listener.turn() is True
    world.health.set(reachable=False)
    world.health.fail(UnreachableError("Kafka was not reached: Disconnected"))
    log.raises = KafkaException(KafkaError(KafkaError._TRANSPORT))
    assert listener.turn() is False
    assert (world.health.read().reachable, world.health.read().error is None) == (False, False)
    log.raises = None
    assert listener.turn() is True
    assert (world.health.read().reachable, world.health.read().error) == (True, None)
    world.health.set(reachable=False)
    world.health.fail(DeniedError("Kafka refuses this client"))
    assert listener.turn() is True
    assert isinstance(world.health.read().error, DeniedError), "that it answers says nothing of what it refuses"


def test_health_forgets_an_error_once_kafka_answers():
    board = HealthBoard()
    board.fail(DeniedError("no"))
    board.set(reachable=True)
    assert board.read().error is None


def test_what_the_library_says_is_heard_while_nothing_is_assigned():
    heard = []
    consumer = KafkaConsumer({"bootstrap.servers": "127.0.0.1:1"}, heard.append)
    try:
        for _ in range(100):
            with pytest.raises(KafkaException):
                consumer.topic(INBOX, 0.1)
            if heard:
                break
        assert heard
    finally:
        consumer.close()
