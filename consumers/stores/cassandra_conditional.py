"""Conditional writes (Paxos) and how an outcome that is unknown, or that the driver repeated, is settled.

A time-out of a conditional write says nothing: it may have been applied, or be applied later. A "not applied" may mean
that an earlier copy of the same attempt was. Both are settled alike: each attempt writes an id of its own, and a SERIAL
read, which finishes or buries every attempt before it, shows whose id stands there.
"""

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from cassandra.cluster import Session
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import PreparedStatement

from consumers.errors import StoreUnavailableError
from consumers.stores.cassandra_errors import ERRORS, outcome_is_unknown, translated, translating
from consumers.stores.cassandra_session import SERIAL
from consumers.stores.contract import Lease, TopicRecord
from consumers.stores.generations import from_text, to_text

CLAIMS_MAX: Final = 100
"""Attempts to claim one lease against others who claim it at the same time."""
CLAIM_S_MAX: Final = 30.0
"""After so long no further attempt is made: where each times out, a worker's loop must not stand still for all of them,
which its watchdog would take for a fault."""
CLAIM_WAIT_S_MAX: Final = 0.05
"""The longest jittered wait between two of them; Paxos ballots that collide get nowhere."""
_READS_IN_FLIGHT_MAX: Final = 32
"""Of the serial reads of all leases."""

_READ_LEASE: Final = (
    "SELECT epoch, claim, node, to_unix_timestamp(since) FROM {keyspace}.partition_leases WHERE log_partition = ?"
)
_LEASED: Final = "SELECT DISTINCT log_partition FROM {keyspace}.partition_leases"
_FIRST_LEASE: Final = (
    "INSERT INTO {keyspace}.partition_leases (epoch, node, since, claim, log_partition) VALUES (?, ?, ?, ?, ?)"
    " IF NOT EXISTS"
)
_NEXT_LEASE: Final = (
    "UPDATE {keyspace}.partition_leases SET epoch = ?, node = ?, since = ?, claim = ? WHERE log_partition = ?"
    " IF epoch = ?"
)
_READ_TOPIC: Final = "SELECT topic_id, partitions, generation, earlier FROM {keyspace}.topic_records WHERE topic = ?"
_FIRST_TOPIC: Final = (
    "INSERT INTO {keyspace}.topic_records (topic_id, partitions, generation, earlier, topic) VALUES (?, ?, ?, ?, ?)"
    " IF NOT EXISTS"
)
_NEXT_TOPIC: Final = (
    "UPDATE {keyspace}.topic_records SET topic_id = ?, partitions = ?, generation = ?, earlier = ? WHERE topic = ?"
    " IF topic_id = ? AND partitions = ? AND generation = ?"
)


def apply(session: Session, statement: PreparedStatement, values: Sequence[object], doing: str) -> bool | None:
    """Make one conditional write: applied, not applied, or None where its outcome is unknown.

    Raises StoreRefusedError.
    """
    try:
        return bool(session.execute(statement, values).was_applied)
    except ERRORS as error:
        if outcome_is_unknown(error):
            return None
        raise translated(error, doing) from error


def read_serially(
    session: Session, statement: PreparedStatement, values: Sequence[object], doing: str
) -> Sequence[tuple[Any, ...]]:
    """Read what no earlier conditional write can change any more. Raises StoreUnavailableError, StoreRefusedError."""
    with translating(doing):
        return list(session.execute(statement, values, execution_profile=SERIAL))


def read_each_serially(
    session: Session, keys: PreparedStatement, statement: PreparedStatement, doing: str
) -> list[tuple[Any, tuple[Any, ...]]]:
    """Read the rows of all keys, each as `read_serially` does: (key, row), by key.

    A scan cannot be serial, so `keys` finds their keys and `statement` reads them one by one, a bounded number at a
    time. Raises StoreUnavailableError, StoreRefusedError.
    """
    with translating(doing):
        found = sorted(row[0] for row in session.execute(keys))
        results = execute_concurrent_with_args(
            session,
            statement,
            [(key,) for key in found],
            concurrency=_READS_IN_FLIGHT_MAX,
            execution_profile=SERIAL,
        )
        return [(key, row) for key, (_, result) in zip(found, results, strict=True) for row in result]


class _Standing(NamedTuple):
    epoch: int
    claim: UUID
    node: str
    since: int

    def lease(self, partition: int) -> Lease:
        """Return it as the contract has it."""
        return Lease(partition, self.epoch, self.node, self.since)


class Leases:
    """Claims and reads partition leases."""

    def __init__(  # noqa: PLR0913 - time and chance are arguments
        self,
        session: Session,
        keyspace: str,
        now_ms: Callable[[], int],
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        chance: Random | None = None,
    ) -> None:
        self._session = session
        self._now_ms = now_ms
        self._sleep = sleep
        self._monotonic = monotonic
        self._chance = chance or Random()  # noqa: S311 - spreads attempts, guards nothing
        self._read = session.prepare(_READ_LEASE.format(keyspace=keyspace))
        self._leased = session.prepare(_LEASED.format(keyspace=keyspace))
        self._first = session.prepare(_FIRST_LEASE.format(keyspace=keyspace))
        self._next = session.prepare(_NEXT_LEASE.format(keyspace=keyspace))

    def claim(self, partition: int, node: str) -> Lease:
        """Take a partition: epoch + 1. Raises StoreUnavailableError, StoreRefusedError."""
        standing = self._standing(partition)
        deadline, attempts = self._monotonic() + CLAIM_S_MAX, 0
        while attempts < CLAIMS_MAX and self._monotonic() < deadline:
            attempts += 1
            claim, since = uuid4(), self._now_ms()
            epoch = standing.epoch + 1 if standing else 1
            if self._attempt(partition, standing, (epoch, node, since, claim)):
                return Lease(partition, epoch, node, since)
            standing = self._standing(partition)
            if standing and standing.claim == claim:
                return Lease(partition, epoch, node, since)
            self._sleep(self._chance.uniform(0, CLAIM_WAIT_S_MAX))
        raise StoreUnavailableError(
            f"the lease of partition {partition} was not to be had in {attempts} attempts", hint="Claim it again."
        )

    def _attempt(self, partition: int, standing: _Standing | None, values: tuple[object, ...]) -> bool | None:
        doing = f"a claim of partition {partition}"
        if standing is None:
            return apply(self._session, self._first, (*values, partition), doing)
        return apply(self._session, self._next, (*values, partition, standing.epoch), doing)

    def _standing(self, partition: int) -> _Standing | None:
        found = read_serially(self._session, self._read, (partition,), f"the lease of partition {partition}")
        return _Standing(*found[0]) if found else None

    def all(self) -> Sequence[Lease]:
        """Read all leases; each is what no earlier claim can change any more."""
        found = read_each_serially(self._session, self._leased, self._read, "the leases")
        return [_Standing(*row).lease(partition) for partition, row in found]


class TopicRecords:
    """Reads and replaces what is recorded about topics."""

    def __init__(self, session: Session, keyspace: str) -> None:
        self._session = session
        self._read = session.prepare(_READ_TOPIC.format(keyspace=keyspace))
        self._first = session.prepare(_FIRST_TOPIC.format(keyspace=keyspace))
        self._next = session.prepare(_NEXT_TOPIC.format(keyspace=keyspace))

    def read(self, topic: str) -> TopicRecord | None:
        """Read a topic's record, serially."""
        found = read_serially(self._session, self._read, (topic,), f"the record of topic {topic}")
        return TopicRecord._make((topic, *found[0][:3], from_text(found[0][3]))) if found else None

    def replace(self, record: TopicRecord, expected: TopicRecord | None) -> bool:
        """Replace the record where it is still `expected`; say whether it was.

        An unknown outcome is settled by reading: who finds the record it wanted has got what it wanted.
        """
        values = (*record[1:4], to_text(record.earlier), record.topic)
        doing = f"the record of topic {record.topic}"
        if expected is None:
            applied = apply(self._session, self._first, values, doing)
        else:
            known = (expected.topic_id, expected.partitions, expected.generation)
            applied = apply(self._session, self._next, (*values, *known), doing)
        return applied or (applied is None and self.read(record.topic) == record)
