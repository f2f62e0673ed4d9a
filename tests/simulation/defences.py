"""The defences of the design, and how each is switched off in a simulated world, never in production."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import consumers.assignment
import consumers.fold
import consumers.folding
import consumers.owner
import consumers.parking
import consumers.pipeline
import consumers.positions
import consumers.stores.cassandra_strict
import consumers.stores.sqlite
import consumers.takeover
import consumers.warm_up
import producers.arrivals
import producers.backlog
from consumers.rows import NOWHERE, MessageRow

Replacement = tuple[object, str, object]


@dataclass(frozen=True, slots=True)
class Defences:
    """True: as in production."""

    fence: bool = True
    """Each claim of a lease raises its epoch, and an owner that is no longer named by it stops."""
    refusal: bool = True
    """A store that can tell refuses an owner after which another has claimed the partition."""
    conditions: bool = True
    """In strict mode a row is written on condition of what stands there."""
    judging: bool = True
    """In strict mode what was not applied, or may have been, is judged by what a serial read shows."""
    gate: bool = True
    """What waited in a parked conversation goes through first, one after another."""
    overflow: bool = True
    """Of those for whom it had no room, each sender's come in order."""
    block_copies: bool = True
    """A copy of a BLOCK or UNBLOCK that was applied is known as one."""
    own_buckets: bool = True
    """What an owner keeps for later, or remembers of it, no earlier owner makes it forget."""
    stamp: bool = True
    """The store keeps a row's larger stamp."""
    version: bool = True
    """A row that is read tells its version."""
    applied: bool = True
    """A row that is read tells how far in the log it is."""
    low_water: bool = True
    """Only what is finished is committed."""
    durable_first: bool = True
    """Answers go out when their rows are durable."""
    cold_reads: bool = True
    """What may be in the store and is not in memory is read before it is folded: a copy is known as one."""
    flush: bool = True
    """What the outbox has committed survives a crash."""
    handed_mark: bool = True
    """A row is marked as handed over before Kafka gets it."""
    dedupe: bool = True
    """A message that came in before is not taken as another."""
    recovery: bool = True
    """What a dead pump had in flight goes again."""
    redelivery: bool = True
    """What has no receipt is delivered again."""
    tail: bool = True
    """A new owner reads the log's tail to know what is still owed."""
    by_rank: bool = True
    """A client moves a message by rank, not by the order of arrival."""

    def without(self, name: str) -> "Defences":
        """Return these with one switched off."""
        return replace(self, **{name: False})


NAMES = tuple(each.name for each in fields(Defences))


def shown(defences: Defences) -> Callable[[MessageRow], MessageRow]:
    """Return what a worker is shown of a row that it reads."""
    if not defences.version:
        return lambda row: row._replace(version=0)
    if not defences.applied:
        return lambda row: row._replace(applied=NOWHERE)
    return lambda row: row


def _commit_what_was_read(owner: Any) -> int:
    return max(owner.position, owner._committed)


def _no_needs(owner: Any, entries: Any) -> Any:
    return consumers.owner.Needs([], [])


def _durable_at_once(pipeline: Any, flight: Any) -> None:
    _WRITE(pipeline, flight)
    pipeline._written(flight, None)


_WRITE = consumers.pipeline.Pipeline._write


def _written(pipeline: Any, flight: Any, error: Exception | None) -> None:
    if flight is flight.held.writing:
        _WRITTEN(pipeline, flight, error)


_WRITTEN = consumers.pipeline.Pipeline._written


def _no_tail(committed: int | None, low: int, high: int, _tail_records: int) -> Any:
    return consumers.takeover.start_of(committed, low, high, 0)


_DELIVERED = producers.arrivals.Arrivals._delivered


def _take_twice(arrivals: Any, connection: Any, delivery: Any) -> bool:
    if connection.execute("SELECT 1 FROM deliveries WHERE message_id = ?", (delivery.message_id,)).fetchone():
        other = delivery._replace(message_id=delivery.message_id[:-2] + delivery.attempt.to_bytes(2, "big"))
        return _DELIVERED(arrivals, connection, other)
    return _DELIVERED(arrivals, connection, delivery)


def _by_arrival(known: str, told: str) -> bool:
    return told not in {"", known}


def _taken_as_landed(writer: Any, group: Any) -> None:
    writer._next_batch(group)


def _open_gate(event: Any, row: Any, at: Any, policy: Any) -> Any:
    if row.parkings and row.parkings[-1].releasing:
        return consumers.parking.Gate(waits=False, keeps=False, parkings=None)
    return consumers.parking.at_gate(event, row, at, policy)


_UNCONDITIONAL = {name: text.split(" IF ")[0] for name, text in consumers.stores.cassandra_strict.STATEMENTS.items()}

_REPLACED: dict[str, tuple[Replacement, ...]] = {
    "fence": ((consumers.assignment.Assignment, "check_leases", lambda _: None),),
    "refusal": ((consumers.stores.sqlite, "_fence", lambda *_: None),),
    "conditions": ((consumers.stores.cassandra_strict, "STATEMENTS", _UNCONDITIONAL),),
    "judging": ((consumers.stores.cassandra_strict.StrictWriter, "_look", _taken_as_landed),),
    "gate": ((consumers.folding, "at_gate", _open_gate), (consumers.warm_up, "at_gate", _open_gate)),
    "overflow": ((consumers.parking, "at_holds", lambda _event, parkings, _at: (False, parkings)),),
    "block_copies": ((consumers.fold, "_is_kept", lambda _change, _blocks: False),),
    "low_water": ((consumers.owner.PartitionOwner, "commit_position", _commit_what_was_read),),
    "durable_first": (
        (consumers.pipeline.Pipeline, "_write", _durable_at_once),
        (consumers.pipeline.Pipeline, "_written", _written),
    ),
    "cold_reads": ((consumers.owner.PartitionOwner, "needs", _no_needs),),
    "handed_mark": ((producers.backlog, "_HAND", producers.backlog._HAND.replace("handed + 1", "handed")),),
    "dedupe": ((producers.arrivals.Arrivals, "_delivered", _take_twice),),
    "recovery": ((producers.backlog.Backlog, "recover", lambda _: 0),),
    "redelivery": (
        (consumers.owner.PartitionOwner, "due", lambda *_: []),
        (consumers.owner.PartitionOwner, "buckets_due", lambda *_: range(0)),
    ),
    "tail": ((consumers.positions, "start_of", _no_tail),),
    "by_rank": ((producers.arrivals, "rises", _by_arrival),),
}


def replacements(defences: Defences) -> tuple[Replacement, ...]:
    """Return what production must be made to do without what is switched off."""
    off = [name for name in NAMES if not getattr(defences, name)]
    return tuple(each for name in off for each in _REPLACED.get(name, ()))
