"""Batches in flight: rows into the store, then answers into Kafka, then the low-water mark.

Within a partition answers go out in the order of the batches, each when its rows and those before it are durable.
A write that failed is made again, the same one, after a growing wait; meanwhile nothing more is read (case C8).
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from random import random
from time import monotonic
from typing import Protocol

from consumers.counters import Counters
from consumers.dead_letters import Original, dead_letter
from consumers.errors import WorkerError
from consumers.flight import Flight
from consumers.held import HeldPartition, Stage
from consumers.outage import Outage
from consumers.owner import PartitionOwner
from consumers.publisher import Job, Publisher
from consumers.stores.contract import Done, Store
from consumers.work import Work
from schemas.records import Record

LOG = logging.getLogger(__name__)


class Settled(Protocol):
    """What is told, on the worker's thread, how a write ended."""

    def __call__(self, error: Exception | None) -> None:
        """Take the outcome."""


class Pipeline:
    """The batches of all partitions of a worker. For one thread; the store's callbacks only put into a queue."""

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        encode: Callable[[Record], bytes],
        outage: Outage,
        counters: Counters,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._encode = encode
        self._outage = outage
        self._counters = counters
        self._settled: SimpleQueue[tuple[Settled, Exception | None]] = SimpleQueue()
        self._retries: list[Callable[[], None]] = []
        self.unwritten = 0
        """Writes that the store has not answered."""
        self.unfinished = 0
        """Batches that are not finished."""

    def done(self, settled: Settled) -> Done:
        """Return a store's callback that has `settled` called on the worker's thread."""
        self.unwritten += 1
        put = self._settled.put
        return lambda error: put((settled, error))

    def start(
        self, held: HeldPartition, owner: PartitionOwner, work: Work, messages: Sequence[Original], now_ms: int
    ) -> None:
        """Send a batch of `held`'s owner on its way; `messages` are the Kafka messages it was folded from."""
        letters = []
        if work.refusals:
            by_offset = {message.offset(): message for message in messages}
            letters = [dead_letter(each, by_offset[each.offset], owner.owner, now_ms) for each in work.refusals]
        flight = Flight(held, owner, work, letters)
        held.flights.append(flight)
        self.unfinished += 1
        self._write(flight)

    def _write(self, flight: Flight) -> None:
        if flight.held.stage is not Stage.OWNED:
            return
        if not flight.messages and not flight.conversations:
            self._written(flight, None)
            return
        done = self.done(partial(self._written, flight))
        self._counters.row_writes += len(flight.messages) + len(flight.conversations)
        self._store.write(flight.owner.owner, flight.messages, flight.conversations, done)

    def _written(self, flight: Flight, error: Exception | None) -> None:
        held = flight.held
        if held.stage is not Stage.OWNED:
            return
        if error is not None:
            self.retry(error, partial(self._write, flight))
            return
        flight.durable = True
        self._publish_durable(held)

    def retry(self, error: Exception, again: Callable[[], None]) -> None:
        """Have a failed write made again when the store is tried next; raise what it will not get over."""
        self.store_failed(error)
        self._retries.append(again)

    def store_failed(self, error: Exception) -> None:
        """Note that the store did not answer; raise what it will not get over."""
        self._counters.store_errors += 1
        if not isinstance(error, WorkerError) or not error.retriable:
            raise error
        if monotonic() >= self._outage.until:
            wait_s = self._outage.failed(str(error), monotonic(), random())  # noqa: S311 - spreads retries
            LOG.warning("the store does not answer", extra={"error": str(error), "wait_s": round(wait_s, 2)})

    def _publish_durable(self, held: HeldPartition) -> None:
        """Publish the answers of the batches that are durable and have nothing unwritten before them."""
        for flight in held.flights:
            if not flight.durable:
                return
            if not flight.published:
                flight.published = True
                flight.messages, flight.conversations = [], []
                flight.owner.durable(flight.work)
                self._publisher.submit(Job(flight.outgoing(self._encode), partial(self._finish, flight)))

    def _finish(self, flight: Flight) -> None:
        held, work = flight.held, flight.work
        if held.stage is not Stage.OWNED:
            return
        self.unfinished -= 1
        held.flights.remove(flight)
        flight.owner.finished(work)
        counters = self._counters
        counters.add(work.tally)
        counters.answers += len(work.acknowledgements)
        counters.deliveries += len(work.deliveries)
        counters.dead_letters += len(flight.letters)

    @property
    def tries_again(self) -> bool:
        """Whether something is on its way to the store, or will be, that shows whether the store is back."""
        return self.unwritten > 0 or bool(self._retries)

    def serve(self, wait_s: float = 0.0) -> None:
        """Take what the store has answered, waiting at most `wait_s` for the first; try failed writes again."""
        settled = self._settled
        try:
            target, error = settled.get(timeout=wait_s) if wait_s else settled.get_nowait()
            while True:
                self.unwritten -= 1
                if error is None:
                    self._outage.over()
                target(error)
                target, error = settled.get_nowait()
        except Empty:
            pass
        if self._retries and monotonic() >= self._outage.until:
            retries, self._retries = self._retries, []
            for again in retries:
                again()

    def give_up(self, held: HeldPartition) -> None:
        """Forget a partition's batches; what the store or Kafka still says about them is ignored."""
        self.unfinished -= len(held.flights)
        held.give_up()
