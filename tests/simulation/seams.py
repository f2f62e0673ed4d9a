"""Where production asks for the time, for chance and for Kafka's clients: answered by the world that is running.

Production's modules import these names; a run replaces them in those modules and puts them back. One world runs at a
time in a process.
"""

# ruff: noqa: D102 - what stands in for a library is named after it

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from typing import TYPE_CHECKING, Any
from uuid import UUID

import consumers.assignment
import consumers.claims.cassandra
import consumers.clock
import consumers.dead_letters_park
import consumers.dead_letters_redrive
import consumers.pipeline
import consumers.publisher
import consumers.status
import consumers.stores.cassandra_conditional
import consumers.stores.cassandra_strict
import consumers.worker
import producers.backlog
import producers.meta
import producers.outbox
import producers.pump
from consumers.owner import PartitionOwner
from tests.simulation.cassandra import Batch, one_after_another

if TYPE_CHECKING:
    from tests.simulation.world import World

CACHED_MESSAGES = 5
"""Rows that an owner keeps here: so few that reading cold is common."""
_active: list["World"] = []


def world() -> "World":
    """Return the world that is running."""
    return _active[-1]


def monotonic() -> float:
    return world().current.steady_ms() / 1000


def time_ns() -> int:
    return world().current.wall_ms() * 1_000_000


def random() -> float:
    return world().chance.stream("production").random()


def sleep(wait_s: float) -> None:
    world().meanwhile(wait_s)


def uuid4() -> UUID:
    return UUID(int=world().chance.stream("attempts").getrandbits(128), version=4)


class Secrets:
    """Stands in for the module `secrets`."""

    @staticmethod
    def token_bytes(count: int) -> bytes:
        return world().chance.stream("ids").randbytes(count)

    @staticmethod
    def randbits(count: int) -> int:
        return world().chance.stream("ids").getrandbits(count)


class RandomModule:
    """Stands in for the module `random`."""

    random = staticmethod(random)


class SimQueue:
    """Stands in for SimpleQueue: who waits lets the world go on."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    def put(self, item: object) -> None:
        self._held.append(item)

    def get(self, timeout: float) -> Any:
        if not self._held:
            world().wait(timeout)
        return self.get_nowait()

    def get_nowait(self) -> Any:
        if not self._held:
            raise Empty
        return self._held.pop(0)


def make_consumer(config: dict[str, Any]) -> Any:
    return world().make_group_consumer(config)


def make_producer(config: dict[str, Any]) -> Any:
    return world().make_worker_producer(config)


def _limit_memory(owner: PartitionOwner, *_shares: int) -> None:
    owner._rows.messages.limit = CACHED_MESSAGES


_REPLACED: tuple[tuple[object, str, object], ...] = (
    (consumers.clock, "time_ns", time_ns),
    (consumers.clock, "machine_s", monotonic),
    (consumers.worker, "monotonic", monotonic),
    (consumers.worker, "Consumer", make_consumer),
    (consumers.worker, "Producer", make_producer),
    (consumers.assignment, "monotonic", monotonic),
    (consumers.assignment, "random", random),
    (consumers.status, "monotonic", monotonic),
    (consumers.pipeline, "monotonic", monotonic),
    (consumers.pipeline, "random", random),
    (consumers.pipeline, "SimpleQueue", SimQueue),
    (consumers.publisher, "monotonic", monotonic),
    (consumers.dead_letters_park, "monotonic", monotonic),
    (consumers.dead_letters_park, "sleep", sleep),
    (consumers.dead_letters_redrive, "Producer", make_producer),
    (consumers.dead_letters_redrive, "monotonic", monotonic),
    (consumers.dead_letters_redrive, "randbits", Secrets.randbits),
    (consumers.stores.cassandra_strict, "BatchStatement", Batch),
    (consumers.stores.cassandra_conditional, "uuid4", uuid4),
    (consumers.claims.cassandra, "uuid4", uuid4),
    (consumers.stores.cassandra_conditional, "execute_concurrent_with_args", one_after_another),
    (PartitionOwner, "limit_memory", _limit_memory),
    (producers.backlog, "random", RandomModule),
    (producers.pump, "random", RandomModule),
    (producers.meta, "secrets", Secrets),
    (producers.outbox, "secrets", Secrets),
)


@contextmanager
def replaced(several: tuple[tuple[object, str, object], ...]) -> Iterator[None]:
    """Set attributes, and put back what was there."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in several]
    for owner, name, value in several:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in reversed(before):
            setattr(owner, name, value)


@contextmanager
def running(this: "World") -> Iterator[None]:
    """Let production see a world's time and chance."""
    logging.disable(logging.CRITICAL)
    _active.append(this)
    try:
        with replaced(_REPLACED):
            yield
    finally:
        _active.pop()
        logging.disable(logging.NOTSET)
