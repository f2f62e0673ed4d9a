"""A worker's turn, without servers: when what waits is folded, how much of it at once, and when it has to wait."""

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from consumers import pipeline as pipeline_module
from consumers import worker as worker_module
from consumers.batching import FOLDED_AT_ONCE
from consumers.errors import OwnerFencedError, StoreUnavailableError, StuckError
from consumers.held import HeldPartition, Stage
from consumers.kafka_errors import ALL_BROKERS_DOWN
from consumers.settings import WorkerSettings
from consumers.stores.contract import TopicRecord
from consumers.worker import Worker
from schemas.codec import PLAIN
from schemas.topics import EVENTS
from tests.unit.consumers.test_pipeline import FakeMessage, FakeStore
from tests.unit.consumers.world import entries, event, owner_of, send

BATCH = 5


class Turns:
    """A worker that owns one partition and is given no records but those that a test puts there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in (worker_module, pipeline_module):
            monkeypatch.setattr(module, "monotonic", lambda: self.now)
        self.store = FakeStore()
        store: Any = self.store
        settings = WorkerSettings(batch_records_max=BATCH)
        topic = TopicRecord(EVENTS, "id", 1, 1)
        self.worker = Worker(kafka={}, store=store, settings=settings, topic=topic, node="n", codec=PLAIN)
        worker: Any = self.worker
        worker._lease_at = worker._report_at = worker._commit_at = worker._remind_at = 1e9
        worker._publisher = SimpleNamespace(pump=lambda *_: None, unsent=0)
        worker._reader = SimpleNamespace(read=lambda _: (), keep_polling=lambda _: worker._pipeline.serve())
        self.pipeline = worker._pipeline
        self.held = HeldPartition(0)
        worker._assignment.held[0] = self.held

    def own(self, owner: Any, *events: Any) -> None:
        """Have a partition for which these were read."""
        self.held.stage, self.held.owner = Stage.OWNED, owner
        for entry in entries(events, owner.position):
            self.pipeline.take_in(self.held, entry, FakeMessage(EVENTS, b"c", b"raw", entry.offset))

    def turn(self, times: int = 1) -> None:
        """Take turns, 0.1 ms each."""
        for _ in range(times):
            self.now += 0.0001
            self.worker._turn()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(monkeypatch)


def test_what_waits_is_folded_while_nothing_is_written_and_so_much_at_once(turns: Turns) -> None:
    turns.own(owner_of(), *(send(number) for number in range(FOLDED_AT_ONCE * BATCH + 1)))
    turns.turn(3)
    assert [len(messages) for messages, _ in turns.store.writes] == [FOLDED_AT_ONCE * BATCH]
    turns.store.answer(0)
    turns.turn()
    assert [len(messages) for messages, _ in turns.store.writes] == [FOLDED_AT_ONCE * BATCH, 1]
    assert (turns.held.read_to, turns.held.waiting, turns.held.originals) == (FOLDED_AT_ONCE * BATCH + 1, [], [])
    assert turns.pipeline.unfinished == FOLDED_AT_ONCE * BATCH + 1
    turns.pipeline.give_up(turns.held)
    assert turns.pipeline.unfinished == 0


def test_a_read_that_failed_is_made_again_after_a_wait_though_something_else_was_answered(turns: Turns) -> None:
    # case C8
    turns.own(owner_of(from_the_start=False), event("DELIVERED", 1, "bob"))
    turns.store.read_error = StoreUnavailableError("down")
    turns.turn()
    turns.pipeline.done(lambda _: None)(None)
    turns.turn(200)
    assert len(turns.store.reads) == 1
    turns.store.read_error = None
    turns.now += 1
    turns.turn()
    assert (len(turns.store.reads), turns.held.waiting) == (2, [])


def is_back() -> None:
    """Answer as Kafka."""


def is_down() -> None:
    """Answer as nobody."""
    raise KafkaException(KafkaError(KafkaError._TRANSPORT))


@pytest.mark.parametrize(("answer", "lives"), [(is_down, True), (is_back, False)])
def test_records_that_wait_while_no_broker_is_reached_do_not_end_the_worker(
    turns: Turns, *, answer: Callable[[], None], lives: bool
) -> None:
    """Liveness means that the loop moves; a server that is down never fails it. The library says once that it is."""
    turns.own(owner_of(), send(1))
    turns.held.end = 1
    worker: Any = turns.worker
    worker._report_at = 0
    worker._consumer = SimpleNamespace(
        list_topics=lambda *_, **__: answer(), get_watermark_offsets=lambda *_, **__: (0, 1)
    )
    worker._consumer_error_event(KafkaError(ALL_BROKERS_DOWN))
    assert worker.status()["state"] == "kafka-down"
    began = turns.now
    with contextlib.nullcontext() if lives else pytest.raises(StuckError):
        while turns.now < began + 600:
            turns.now += 1
            worker._turn()
    assert (turns.now - began >= 600) == lives


def test_what_a_later_owner_has_is_not_waited_for_when_it_goes(turns: Turns) -> None:
    """Its write was refused, and nothing more comes of it: the group need not wait for the whole drain."""
    turns.own(owner_of(), send(1))
    turns.turn()
    turns.store.answer(0, OwnerFencedError(1, "n"))
    began, pumps = turns.now, iter(range(100))
    worker: Any = turns.worker

    def pump(*_: object) -> None:
        next(pumps)
        turns.now += 1

    worker._publisher.pump, worker._publisher.close, worker.status = pump, lambda _: 0, dict
    worker._drain([turns.held])
    assert turns.now - began <= 1
    assert worker._shut_down(), "nothing of its own was left undone"
