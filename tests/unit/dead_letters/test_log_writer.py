"""A redrive goes on when the client's queue is full, and marks each letter by its own delivery report."""

# ruff: noqa: D102 - what stands in for the client is named after it

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

import consumers.dead_letters_redrive as redrive
from consumers.dead_letters_select import Letter
from consumers.errors import WorkerError
from schemas.codec import PLAIN
from schemas.records import DeadLetter
from schemas.topics import EVENTS


class Producer:
    """A client with room for `room` records, which refuses some values at once and some in their report."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._queue: list[tuple[bytes, Any]] = []
        self.log: list[bytes] = []

    def produce(self, _topic: str, value: bytes, *_: object, on_delivery: Any, **__: object) -> None:
        if value == b"large":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        if len(self._queue) >= self._room:
            raise BufferError("Local: Queue full")
        self._queue.append((value, on_delivery))

    def poll(self, timeout: float) -> None:
        if timeout:
            self.flush(timeout)

    def flush(self, _: float) -> int:
        for value, report in self._queue:
            if value == b"refused":
                report(KafkaError(KafkaError.INVALID_RECORD), None)
            else:
                self.log.append(value)
                report(None, SimpleNamespace(partition=lambda: 1, offset=lambda: len(self.log)))
        self._queue = []
        return 0

    def purge(self) -> None:
        self._queue = []


class Store:
    """Keeps the offsets of what was marked."""

    def __init__(self) -> None:
        self.marked: list[int] = []

    def mark_dead_letters(self, marks: Any) -> None:
        self.marked += [each.offset for each in marks]


def redriven(monkeypatch: pytest.MonkeyPatch, values: list[bytes], room: int) -> tuple[Producer, Store]:
    producer, store = Producer(room), Store()
    monkeypatch.setattr(redrive, "Producer", lambda _: producer)
    letters = [
        Letter(DeadLetter(EVENTS, 1, n, 1_000, b"c", value, (), "INVALID", "", 1, 5_000, "n", 1), None)
        for n, value in enumerate(values)
    ]
    kept: Any = store
    with redrive.LogWriter({}, PLAIN) as writer:
        writer.redrive(kept, letters, "me")
    return producer, store


def test_a_full_queue_is_waited_for(monkeypatch):
    values = [b"%d" % n for n in range(10)]
    producer, store = redriven(monkeypatch, values, 3)
    assert (producer.log, store.marked) == (values, list(range(10)))


@pytest.mark.parametrize(("bad", "marked"), [(b"refused", [0, 2]), (b"large", [0])])
def test_one_refused_record_leaves_no_other_unmarked(monkeypatch, bad, marked):
    store = Store()
    monkeypatch.setattr(f"{__name__}.Store", lambda: store)
    with pytest.raises(WorkerError):
        redriven(monkeypatch, [b"0", bad, b"2"], 3)
    assert store.marked == marked


def test_a_queue_that_stays_full_ends_the_wait(monkeypatch):
    monkeypatch.setattr(redrive, "TIMEOUT_S", -1.0)
    with pytest.raises(WorkerError, match="Queue full"):
        redriven(monkeypatch, [b"0"], 0)
