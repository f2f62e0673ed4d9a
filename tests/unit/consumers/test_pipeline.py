"""Batches in flight, with a store and a producer that do what the test says: order, retries, fatal errors."""

# ruff: noqa: D102 - the fakes' methods are those of what they stand for

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from consumers import pipeline as pipeline_module
from consumers import publisher as publisher_module
from consumers.counters import Counters
from consumers.errors import KafkaRefusedError, StoreRefusedError, StoreUnavailableError
from consumers.held import HeldPartition, Stage
from consumers.kafka_clients import LOG as KAFKA_LOG
from consumers.kafka_errors import ALL_BROKERS_DOWN, FATAL
from consumers.outage import KafkaOutage, Outage
from consumers.pipeline import Pipeline
from consumers.publisher import Publication, Publisher
from consumers.stores.contract import Rows
from schemas.codec import PLAIN, encode
from schemas.records import DeadLetter
from schemas.topics import DEAD_LETTERS, INBOX
from tests.unit.consumers.world import NOTHING, START_MS, entries, event, owner_of, send

if TYPE_CHECKING:
    from collections.abc import Callable

    from consumers.owner import PartitionOwner


class FakeMessage:
    """A delivery report's message, or a record that was read."""

    def __init__(self, topic: str, key: bytes | None, value: bytes | None, offset: int = 0) -> None:
        self.parts = (topic, key, value, offset)

    def topic(self) -> str:
        return self.parts[0]

    def key(self) -> bytes | None:
        return self.parts[1]

    def value(self) -> bytes | None:
        return self.parts[2]

    def offset(self) -> int:
        return self.parts[3]

    def partition(self) -> int:
        return 0

    def timestamp(self) -> tuple[int, int]:
        return (2, START_MS)

    def headers(self) -> list[tuple[str, bytes]]:
        return [("traceparent", b"00-x")]


class FakeProducer:
    """Takes up to `room` records and reports them when told."""

    def __init__(self) -> None:
        self.queued: list[tuple[str, bytes | None, bytes, Any]] = []
        self.reported: list[tuple[str, bytes]] = []
        self.room = 10_000
        self.dead = False

    def produce(self, topic: str, value: bytes, key: bytes | None, _partition: int, on_delivery: Any) -> None:
        if self.dead:
            raise KafkaException(KafkaError(FATAL, "fatal", fatal=True))
        if len(self.queued) >= self.room:
            raise BufferError
        self.queued.append((topic, key, value, on_delivery))

    def report(self, error: KafkaError | None = None, only: str = "") -> None:
        queued, self.queued = self.queued, []
        for topic, key, value, on_delivery in queued:
            if only and topic != only:
                self.queued.append((topic, key, value, on_delivery))
                continue
            if error is None:
                self.reported.append((topic, value))
            on_delivery(error, FakeMessage(topic, key, value))

    def poll(self, _timeout: float) -> int:
        return 0

    def purge(self) -> None:
        self.report(KafkaError(KafkaError._PURGE_QUEUE))

    def __len__(self) -> int:
        return len(self.queued)


class FakeStore:
    """Keeps each write until the test answers it."""

    def __init__(self) -> None:
        self.writes: list[tuple[list[Any], Callable[[Exception | None], None]]] = []
        self.conversations: list[list[Any]] = []
        self.rows: dict[Any, Any] = {}
        """What is read."""
        self.reads: list[tuple[set[Any], set[Any]]] = []
        self.read_error: Exception | None = None

    def write(
        self, _owner: Any, messages: list[Any], conversations: list[Any], done: Any, *, partition: int | None = None
    ) -> None:
        assert partition == 0
        self.writes.append((messages, done))
        self.conversations.append(conversations)

    def read(self, messages: list[Any], conversations: list[Any]) -> Rows:
        self.reads.append((set(messages), set(conversations)))
        if self.read_error is not None:
            raise self.read_error
        return Rows(
            {key: self.rows[key] for key in messages if key in self.rows},
            {key: self.rows[key] for key in conversations if key in self.rows},
        )

    def answer(self, number: int, error: Exception | None = None) -> None:
        self.writes[number][1](error)


class Bench:
    """A pipeline on fakes, with one owned partition."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(pipeline_module, "monotonic", lambda: self.now)
        monkeypatch.setattr(publisher_module, "monotonic", lambda: self.now)
        self.producers: list[FakeProducer] = []
        self.counters = Counters()
        self.kafka_outage = KafkaOutage()
        self.publisher = Publisher(self._make, self.counters, self.kafka_outage)
        self.store = FakeStore()
        self.outage = Outage(1.0, 4.0)
        store: Any = self.store
        self.pipeline = Pipeline(store, self.publisher, encode, self.outage, self.counters)
        self.owner: PartitionOwner = owner_of()
        self.held = HeldPartition(0)
        self.held.stage, self.held.owner = Stage.OWNED, self.owner

    def _make(self, error: Any) -> Any:
        self.errors = error
        self.producers.append(FakeProducer())
        return self.producers[-1]

    @property
    def producer(self) -> FakeProducer:
        if not self.producers:
            self.publisher.pump()
        return self.producers[-1]

    def batch(self, *events: Any) -> None:
        batch = entries(events, self.owner.position)
        messages = [FakeMessage("t", b"c", b"raw", entry.offset) for entry in batch]
        self.pipeline.unfinished += len(batch)
        work = self.owner.fold(batch, NOTHING, START_MS)
        self.pipeline.start(self.held, self.owner, work, batch, messages, START_MS)

    def turn(self) -> None:
        self.pipeline.serve()
        self.publisher.pump()


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_answers_go_out_when_rows_are_durable_and_in_order(bench: Bench) -> None:
    # case M7
    bench.batch(send(1))
    bench.turn()
    assert bench.producer.queued == []
    bench.store.answer(0)
    bench.turn()
    bench.batch(event("DELIVERED", 1, "bob"))
    bench.turn()
    assert len(bench.producer.queued) == 2
    bench.store.answer(1)
    bench.turn()
    kinds = [PLAIN.decode(value) for _, _, value, _ in bench.producer.queued]
    assert [getattr(each, "kind", "delivery") for each in kinds] == ["SEND", "delivery", "DELIVERED", "DELIVERED"]
    assert bench.owner.commit_position() == 0
    bench.producer.report()
    bench.turn()
    assert bench.owner.commit_position() == 2
    assert (bench.counters.applied, bench.counters.answers, bench.counters.deliveries) == (2, 3, 1)


def test_a_write_that_failed_is_made_again_and_holds_what_is_behind_it(bench: Bench) -> None:
    # cases C8, K9
    bench.batch(send(1), send(2))
    bench.store.answer(0, StoreUnavailableError("down"))
    bench.turn()
    assert len(bench.store.writes) == 1
    assert (bench.producer.queued, bench.held.writing is None) == ([], False)
    bench.now = 2.0
    bench.turn()
    assert len(bench.store.writes) == 2
    assert bench.store.writes[1][0] == bench.store.writes[0][0]
    bench.store.answer(1)
    bench.turn()
    assert bench.held.writing is None
    bench.producer.report()
    bench.turn()
    assert bench.owner.commit_position() == 2
    assert not bench.outage.active


def test_what_the_store_refuses_ends_the_worker(bench: Bench) -> None:
    bench.batch(send(1))
    bench.store.answer(0, StoreRefusedError("no such table"))
    with pytest.raises(StoreRefusedError):
        bench.turn()


def test_a_failed_dead_letter_write_holds_the_offset(bench: Bench) -> None:
    # case M5: it fails, so nothing is committed; it succeeds, so it is
    bench.batch(event("READ", 9, "bob"))
    bench.turn()
    bench.producer.report(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS), only=DEAD_LETTERS)
    bench.producer.report(only=INBOX)
    bench.turn()
    assert bench.owner.commit_position() == 0
    bench.now += publisher_module.RETRY_S
    bench.turn()
    ((topic, key, value, _),) = bench.producer.queued
    letter = PLAIN.decode(value)
    assert (topic, key) == (DEAD_LETTERS, b"c")
    assert isinstance(letter, DeadLetter)
    assert (letter.value, letter.reason, letter.headers) == (b"raw", "UNKNOWN_MESSAGE", (("traceparent", b"00-x"),))
    bench.producer.report()
    bench.turn()
    assert bench.owner.commit_position() == 1
    assert bench.counters.dead_letters == 1


def test_a_full_queue_is_worked_off_bit_by_bit(bench: Bench) -> None:
    bench.producer.room = 1
    bench.batch(send(1), send(2))
    bench.store.answer(0)
    for _ in range(4):
        assert bench.owner.commit_position() == 0
        bench.turn()
        bench.producer.report()
    bench.turn()
    bench.turn()
    assert len(bench.producer.reported) == 4
    assert bench.owner.commit_position() == 2


def test_a_fatal_producer_is_made_anew_and_the_unreported_goes_again(bench: Bench) -> None:
    # case K14
    bench.batch(send(1))
    bench.store.answer(0)
    bench.turn()
    first = bench.producer
    first.dead = True
    bench.batch(send(2))
    bench.store.answer(1)
    bench.turn()
    bench.turn()
    assert bench.producer is not first
    bench.now += publisher_module.RETRY_S
    bench.turn()
    assert len(bench.producer.queued) == 4
    bench.producer.report()
    bench.turn()
    assert bench.owner.commit_position() == 2
    assert (bench.counters.producer_rebuilds, bench.counters.republished) == (1, 2)


@pytest.mark.parametrize(
    "refused",
    [
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED),
        KafkaError(FATAL, KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED).str(), fatal=True),
    ],
)
def test_what_may_not_be_written_ends_the_worker_with_its_cause(bench: Bench, refused: KafkaError) -> None:
    # case K2
    bench.batch(send(1))
    bench.store.answer(0)
    bench.turn()
    bench.producer.report(refused)
    with pytest.raises(KafkaRefusedError, match="authorization failed") as caught:
        bench.turn()
    assert "ACLs" in caught.value.hint
    assert bench.owner.commit_position() == 0


def test_an_error_event_of_the_producer_that_refuses_ends_the_worker_and_another_does_not(bench: Bench) -> None:
    # case K2
    bench.turn()
    bench.errors(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    bench.turn()
    bench.errors(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))
    with pytest.raises(KafkaRefusedError):
        bench.turn()


def test_that_no_broker_is_reached_counts_until_one_reports(bench: Bench) -> None:
    bench.batch(send(1))
    bench.store.answer(0)
    bench.turn()
    bench.producer.poll = lambda _timeout: bench.errors(KafkaError(ALL_BROKERS_DOWN)) or 1  # events are counted too
    bench.turn()
    del bench.producer.poll
    bench.producer.report(KafkaError(KafkaError._MSG_TIMED_OUT))
    bench.turn()
    assert bench.kafka_outage.active
    bench.now += publisher_module.RETRY_S
    bench.turn()
    bench.producer.report()
    bench.turn()
    assert not bench.kafka_outage.active


def test_an_error_that_comes_again_and_again_is_told_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.turn()
    # As the library logs it, and then hands it to us.
    KAFKA_LOG.error("FAIL [rdkafka#producer-1] [thrd:h:1/1]: h:1/1: the cable was pulled (after 3ms in state UP)")
    for _ in range(50):
        bench.errors(KafkaError(KafkaError._TRANSPORT, "h:1/1: the cable was pulled (after 4ms in state UP)"))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert bench.counters.kafka_errors == 50


def test_a_publisher_that_was_never_pumped_has_made_nothing(bench: Bench) -> None:
    assert bench.producers == []
    assert bench.publisher.close(0) == 0
    assert bench.producers == []


def test_what_is_given_up_is_neither_answered_nor_finished(bench: Bench) -> None:
    # case K8
    bench.batch(send(1))
    bench.store.answer(0)
    bench.turn()
    bench.batch(send(2))
    bench.pipeline.give_up(bench.held)
    bench.store.answer(1)
    bench.turn()
    bench.producer.report()
    bench.turn()
    assert len(bench.producer.reported) == 2
    assert bench.owner.commit_position() == 0
    assert (bench.pipeline.unfinished, bench.pipeline.unwritten) == (0, 0)


def test_a_delivery_report_never_raises() -> None:
    # case K13
    publication = Publication((), lambda: None)
    publication.left = 1
    publication(KafkaError(KafkaError._PURGE_QUEUE), FakeMessage("t", None, None))  # type: ignore[arg-type]
    assert (publication.left, publication.failed) == (0, [("t", None, b"")])
