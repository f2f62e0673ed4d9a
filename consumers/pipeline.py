"""Batches in flight: rows into the store, then answers into Kafka, then the low-water mark.

A partition has one batch at a time on its way into the store, so answers go out in the order of the batches.
A write that failed is made again, the same one, after a growing wait; meanwhile nothing more is read.
Where someone else has written a row (strict mode), the row is read and the batch is folded on it and written again, a
bounded number of times.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from random import random
from time import monotonic
from typing import Final, Protocol

from consumers.conflicts import ConflictKind
from consumers.counters import Counters
from consumers.dead_letters import Original, dead_letter
from consumers.errors import OwnerFencedError, VersionConflictError, WorkerError
from consumers.flight import Flight
from consumers.gateway import Gateway, Nobody, for_inboxes
from consumers.held import HeldPartition, Stage
from consumers.intake import Entry
from consumers.outage import Outage
from consumers.owner import PartitionOwner
from consumers.publisher import Outgoing, Publication, Publisher
from consumers.rows import Owner
from consumers.stores.contract import Done, Store
from consumers.work import Conflict, Work
from schemas.records import DeadLetter, Delivery, Event, Record
from schemas.topics import EVENTS, INBOX

LOG = logging.getLogger(__name__)

CONFLICTS_MAX: Final = 20
"""How often a batch is folded again before the worker ends: someone writes faster than it does."""


class Settled(Protocol):
    """What is told, on the worker's thread, how a write ended."""

    def __call__(self, error: Exception | None) -> None:
        """Take the outcome."""


class Pipeline:
    """The batches of all partitions of a worker. For one thread; the store's callbacks only put into a queue."""

    def __init__(  # noqa: PLR0913 - the parts of a worker that meet here
        self,
        store: Store,
        publisher: Publisher,
        encode: Callable[[Record], bytes],
        outage: Outage,
        counters: Counters,
        *,
        gateway: Gateway | None = None,
    ) -> None:
        self._store = store
        self._gateway = gateway or Nobody()
        self._publisher = publisher
        self._encode = encode
        self._outage = outage
        self._counters = counters
        self._settled: SimpleQueue[tuple[Settled, Exception | None]] = SimpleQueue()
        self._retries: list[Callable[[], None]] = []
        self.fenced: list[HeldPartition] = []
        """Partitions of which the store says that a later owner has them."""
        self.unwritten = 0
        """Writes that the store has not answered."""
        self.finished = 0
        """Records that are finished, since the start."""
        self.unfinished = 0
        """Records that were read and are not finished."""

    def done(self, settled: Settled) -> Done:
        """Return a store's callback that has `settled` called on the worker's thread."""
        self.unwritten += 1
        put = self._settled.put
        return lambda error: put((settled, error))

    def take_in(self, held: HeldPartition, entry: Entry, original: Original) -> None:
        """Let a record wait for its partition's next batch."""
        held.waiting.append(entry)
        held.originals.append(original)
        held.read_to = entry.offset + 1
        self.unfinished += 1

    def start(  # noqa: PLR0913, PLR0917 - a batch and where it comes from
        self,
        held: HeldPartition,
        owner: PartitionOwner,
        work: Work,
        entries: Sequence[Entry],
        messages: Sequence[Original],
        now_ms: int,
    ) -> None:
        """Send a batch of `held`'s owner on its way; it was folded from `entries`, which `messages` were in Kafka."""
        held.writing = Flight(held, owner, work, entries, partial(_letters, messages, owner.owner, now_ms))
        self._write(held.writing)

    def _write(self, flight: Flight) -> None:
        if flight.held.stage is not Stage.OWNED:
            return
        if not flight.messages and not flight.conversations:
            self._written(flight, None)
            return
        self._counters.row_writes += len(flight.messages) + len(flight.conversations)
        done = self.done(partial(self._written, flight))
        owner = flight.owner.owner
        self._store.write(owner, flight.messages, flight.conversations, done, partition=flight.held.partition)

    def _written(self, flight: Flight, error: Exception | None) -> None:
        if flight.held.stage is not Stage.OWNED:
            return
        if error is None:
            self._publish(flight)
        elif isinstance(error, VersionConflictError):
            self._conflict(flight, error)
        elif isinstance(error, OwnerFencedError):
            self.fence(flight.held)
        else:
            self.retry(error, partial(self._write, flight))

    def _conflict(self, flight: Flight, error: VersionConflictError) -> None:
        """Fold a batch again whose rows were written by someone else; raise where that has no end."""
        rows = len(error.messages) + len(error.conversations)
        self._counters.version_conflicts += rows
        self._counters.conflict(ConflictKind.VERSION, rows)
        flight.conflicts += 1
        if flight.conflicts > CONFLICTS_MAX:
            raise error
        LOG.warning(
            "rows were changed by someone else: they are read and folded again",
            extra={"partition": flight.held.partition, "rows": rows},
        )
        self._fold_again(flight, Conflict(set(error.messages), set(error.conversations)).widened(flight.work))

    def _fold_again(self, flight: Flight, conflict: Conflict) -> None:
        """Read the rows, fold the batch on them, write it again."""
        if flight.held.stage is not Stage.OWNED:
            return
        if monotonic() < self._outage.until:  # each further read would wait for its time-out as well
            self._retries.append(partial(self._fold_again, flight, conflict))
            return
        try:
            found = self._store.read(list(conflict.messages), list(conflict.conversations))
        except WorkerError as error:
            self.retry(error, partial(self._fold_again, flight, conflict))
            return
        self._outage.over()
        flight.owner.replace(conflict, found)
        flight.folded_again(flight.owner.refold(flight.work, flight.entries, conflict))
        self._write(flight)

    def fence(self, held: HeldPartition) -> None:
        """Note that the store has refused what this worker wrote: a later owner has the partition."""
        self._counters.fenced_writes += 1
        self.fenced.append(held)

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

    def _publish(self, flight: Flight) -> None:
        """Publish the answers of a batch whose rows are in the store; the next one may be folded."""
        held = flight.held
        held.writing = None
        held.flights.append(flight)
        flight.owner.durable()
        flight.messages, flight.conversations = [], []
        self._publisher.submit(Publication(flight.outgoing(self._encode, self._gateway), partial(self._finish, flight)))
        flight.entries, flight.letters_of = (), _no_letters

    def publish(
        self,
        owner: PartitionOwner,
        deliveries: Iterable[Delivery],
        events: Iterable[Event],
        finished: Callable[[], None],
    ) -> None:
        """Publish what is no batch's: `owner`'s deliveries, those that are the gateway's excepted, and events.

        `finished` is called once, when all of it is in the log.
        """
        for_inbox = for_inboxes(deliveries, self._gateway, owner.partition, owner.owner)
        self._publisher.submit(Publication(_outgoing(for_inbox, events, self._encode), finished))

    def _finish(self, flight: Flight) -> None:
        held, work = flight.held, flight.work
        if held.stage is not Stage.OWNED:
            return
        self.unfinished -= flight.records
        self.finished += flight.records
        held.flights.remove(flight)
        flight.owner.finished(work)
        counters = self._counters
        counters.add(work.tally)
        held.counted.add(work, flight.records)
        counters.answers += len(work.acknowledgements)
        counters.deliveries += len(work.deliveries)
        counters.dead_letters += len(work.refusals)

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

    def drop_waiting(self, held: HeldPartition) -> None:
        """Forget what was read and is not folded."""
        self.unfinished -= len(held.waiting)
        held.waiting, held.originals = [], []

    def give_up(self, held: HeldPartition) -> None:
        """Forget a partition's batches; what the store or Kafka still says about them is ignored."""
        self.unfinished -= held.unfinished
        held.give_up()


def _outgoing(
    deliveries: Iterable[Delivery], events: Iterable[Event], encode: Callable[[Record], bytes]
) -> Iterator[Outgoing]:
    """Yield records as they go out, each encoded when it is asked for."""
    for delivery in deliveries:
        yield INBOX, delivery.user.encode(), encode(delivery)
    for event in events:
        yield EVENTS, event.conversation_id.encode(), encode(event)


def _letters(messages: Sequence[Original], owner: Owner, now_ms: int, work: Work) -> list[DeadLetter]:
    """Return the dead letters of a batch that was folded from these Kafka messages."""
    if not work.refusals:
        return []
    by_offset = {message.offset(): message for message in messages}
    return [dead_letter(each, by_offset[each.offset], owner, now_ms) for each in work.refusals]


def _no_letters(_work: Work) -> list[DeadLetter]:
    """Stand for `_letters` once a batch's records are being published: nothing of Kafka's is kept any longer."""
    return []
