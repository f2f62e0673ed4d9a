"""Taking partitions while a server does not answer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from consumers.assignment import Assignment
from consumers.counters import Counters
from consumers.errors import StoreUnavailableError, WorkerError
from consumers.settings import WorkerSettings
from consumers.stores.contract import Lease, TopicRecord
from schemas.topics import EVENTS

if TYPE_CHECKING:
    from consumers.held import HeldPartition


class SilentStore:
    """Answers no claim."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def claim_lease(self, partition: int, _node: str) -> Lease:
        """Do not answer."""
        self.asked.append(partition)
        raise StoreUnavailableError("no answer", "")


class Notes:
    """What is noted of a failed store, in the pipeline's place; and a consumer that takes every assignment."""

    def __init__(self) -> None:
        self.fenced: list[HeldPartition] = []
        self.errors: list[WorkerError] = []

    def store_failed(self, error: WorkerError) -> None:
        """Note it."""
        self.errors.append(error)

    def incremental_assign(self, _partitions: list[TopicPartition]) -> None:
        """Take it."""


@pytest.fixture
def store() -> SilentStore:
    return SilentStore()


@pytest.fixture
def assignment(store: SilentStore) -> Iterator[Assignment]:
    notes: Any = Notes()
    made = Assignment(
        store=store,  # type: ignore[arg-type]
        pipeline=notes,
        settings=WorkerSettings(retry_first_s=60, retry_s_max=60),
        topic=TopicRecord(EVENTS, "id", 64, 1),
        node="n-0",
        counters=Counters(),
        drain=lambda _: None,
        forget=lambda _: None,
    )
    made.on_assign(notes, [TopicPartition(EVENTS, partition) for partition in range(3)])
    yield made
    assert len(notes.errors) == len(store.asked)


def test_a_server_that_does_not_answer_is_asked_once_a_turn(assignment: Assignment, store: SilentStore) -> None:
    # cases K1, C8: 64 partitions would make 64 time-outs in which nobody polls
    assignment.take()
    assert store.asked == [0]
    for _ in range(5):
        assignment.take()
    assert store.asked == [0, 1, 2]
