"""Writes rows under `IF version = ?`: strict mode, for deployments where someone else writes the rows too.

One conditional batch a Cassandra partition: it is applied whole or not at all. Where it is not applied, or nobody can
say whether it was, a SERIAL read, which finishes or buries every attempt before it, shows each row, and the row shows
what is left to do (`cassandra_strict_rows.py`). Writes of one Cassandra partition wait for each other, because Paxos
rounds on one partition that meet get nowhere; a bounded number of partitions is written at a time.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from cassandra.cluster import Session
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from consumers.errors import (
    OwnerFencedError,
    StoreUnavailableError,
    VersionConflictError,
    WorkerError,
)
from consumers.rows import ConversationWrite, MessageWrite, Owner
from consumers.stores.cassandra_errors import ERRORS, outcome_is_unknown, translated, unwritable
from consumers.stores.cassandra_found import uuid_of
from consumers.stores.cassandra_session import SERIAL
from consumers.stores.cassandra_strict_rows import (
    STATEMENTS,
    CassandraPartition,
    Change,
    Condition,
    ConversationChange,
    ConversationMend,
    MessageChange,
    MessageMend,
    standings,
)
from consumers.stores.contract import Done

CHANGES_PER_BATCH_MAX: Final = 30
ATTEMPTS_MAX: Final = 12
"""How often one batch is tried against others who write the same partition."""
_DOING: Final = "a conditional write"


class _Call:
    """One `write`: counts its groups down and tells once."""

    __slots__ = ("_done", "_groups", "_lock", "conversations", "error", "fenced", "messages", "owner")

    def __init__(self, owner: Owner, groups: int, done: Done) -> None:
        self.owner = owner
        self.error: WorkerError | None = None
        self.fenced = False
        self.messages: list[tuple[str, bytes]] = []
        self.conversations: list[str] = []
        self._groups = groups
        self._done = done
        self._lock = threading.Lock()

    def conflict(self, change: Change) -> None:
        """Note a row that someone else has written."""
        with self._lock:
            if isinstance(change, MessageChange):
                self.messages.append(change.key)
            else:
                self.conversations.append(change.key)

    def finished(self) -> None:
        """Note that one group is through; the last one tells."""
        with self._lock:
            self._groups -= 1
            if self._groups:
                return
        self._done(self._outcome())

    def _outcome(self) -> WorkerError | None:
        if self.fenced:
            return OwnerFencedError(*self.owner)
        if self.error is None and (self.messages or self.conversations):
            return VersionConflictError(self.messages, self.conversations)
        return self.error


class _Group:
    """The rows of one call that share a Cassandra partition, in batches one after another."""

    __slots__ = ("attempts", "batch", "call", "partition", "waiting")

    def __init__(self, partition: CassandraPartition, changes: Sequence[Change], bytes_max: int, call: _Call) -> None:
        self.partition = partition
        self.call = call
        self.waiting = deque(_batches(changes, bytes_max))
        self.batch: list[Change] = []
        self.attempts = 0


def _batches(changes: Sequence[Change], bytes_max: int) -> list[list[Change]]:
    """Return changes in batches: bounded, and never two of one row, the earlier version first."""
    batches: list[list[Change]] = []
    keys: set[object] = set()
    size = 0
    for change in sorted(changes, key=lambda each: each.version):
        size += change.size
        if not batches or change.key in keys or size > bytes_max or len(batches[-1]) >= CHANGES_PER_BATCH_MAX:
            batches.append([])
            keys, size = set(), change.size
        batches[-1].append(change)
        keys.add(change.key)
    return batches


class _Chain:
    """The groups that wait for one Cassandra partition, and what those before them have left there."""

    __slots__ = ("groups", "landed")

    def __init__(self) -> None:
        self.groups: deque[_Group] = deque()
        self.landed: dict[object, Condition] = {}


class StrictWriter:
    """The conditional writes of one session. Its callbacks run on the driver's thread."""

    def __init__(self, session: Session, keyspace: str, *, bytes_max: int, in_flight_max: int) -> None:
        self._session = session
        self._bytes_max = bytes_max
        self._in_flight_max = in_flight_max
        self._prepared: Mapping[str, PreparedStatement] = {
            name: session.prepare(query.format(keyspace=keyspace)) for name, query in STATEMENTS.items()
        }
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._chains: dict[CassandraPartition, _Chain] = {}
        self._ready: deque[_Group] = deque()
        self._out = 0
        self._sending = False

    def write(
        self,
        owner: Owner,
        messages: Iterable[MessageWrite],
        conversations: Iterable[ConversationWrite],
        done: Done,
        *,
        mends: bool = False,
    ) -> None:
        """Start to write rows; `done` is called once. Raises nothing.

        With `mends` each row is written whole, in the place of whatever stands there but a later event's.
        """
        of_message, of_conversation = (MessageMend, ConversationMend) if mends else (MessageChange, ConversationChange)
        partitions: dict[CassandraPartition, list[Change]] = {}
        for write in messages:
            change = of_message(write, owner)
            partitions.setdefault(change.partition, []).append(change)
        for conversation in conversations:
            other = of_conversation(conversation, owner)
            partitions.setdefault(other.partition, []).append(other)
        if not partitions:
            done(None)
            return
        call = _Call(owner, len(partitions), done)
        with self._lock:
            for partition, changes in partitions.items():
                self._enqueue(_Group(partition, changes, self._bytes_max, call))
        self._start_ready()

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Wait until nothing is under way; say whether that came true in time."""
        with self._lock:
            return self._idle.wait_for(lambda: not self._chains, timeout_s)

    def _enqueue(self, group: _Group) -> None:
        chain = self._chains.setdefault(group.partition, _Chain())
        chain.groups.append(group)
        if len(chain.groups) == 1:
            self._ready.append(group)

    def _start_ready(self) -> None:
        """Start what may be started. One thread at a time, in a loop: what fails at once must not recurse."""
        with self._lock:
            if self._sending:
                return
            self._sending = True
        while (group := self._next()) is not None:
            self._next_batch(group)

    def _next(self) -> _Group | None:
        with self._lock:
            if self._ready and self._out < self._in_flight_max:
                self._out += 1
                return self._ready.popleft()
            self._sending = False
            return None

    def _next_batch(self, group: _Group) -> None:
        """Begin a group's next batch, or end the group."""
        call = group.call
        while group.waiting and call.error is None and not call.fenced:
            group.batch = self._known(group, group.waiting.popleft())
            group.attempts = 0
            if group.batch:
                self._attempt(group)
                return
        self._end(group)

    def _known(self, group: _Group, batch: Sequence[Change]) -> list[Change]:
        """Return what is left of a batch after what this writer itself has just left in the partition."""
        landed = self._chains[group.partition].landed
        left: list[Change] = []
        for change in batch:
            known = landed.get(change.key)
            if known is None or known.owner != change.owner or known.version < change.base:
                left.append(change)
            elif known.version < change.version:
                change.condition = known
                left.append(change)
        return left

    def _attempt(self, group: _Group) -> None:
        group.attempts += 1
        try:
            statements = [change.statement() for change in group.batch]
            bound = [self._prepared[name].bind(values) for name, values in statements]
        except Exception as error:  # noqa: BLE001 - the driver raises whatever a value does not fit with
            self._fail(group, unwritable(error))
            return
        statement: Any = bound[0]
        if len(bound) > 1:
            statement = BatchStatement(BatchType.UNLOGGED)
            for each in bound:
                statement.add(each)
        self._execute(group, statement, self._answered, self._unanswered)

    def _execute(
        self,
        group: _Group,
        statement: Any,  # noqa: ANN401 - the driver has no types
        answered: Callable[[Any, _Group], None],
        failed: Callable[[Exception, _Group], None],
        **options: Any,  # noqa: ANN401
    ) -> None:
        try:
            future = self._session.execute_async(statement, **options)
        except ERRORS as error:
            failed(error, group)
            return
        future.add_callbacks(callback=answered, callback_args=(group,), errback=failed, errback_args=(group,))

    def _answered(self, rows: Any, group: _Group) -> None:  # noqa: ANN401
        if next(iter(rows))[0]:
            for change in group.batch:
                self._landed(group, change)
            self._next_batch(group)
        else:
            self._look(group)

    def _unanswered(self, error: Exception, group: _Group) -> None:
        if outcome_is_unknown(error):
            self._look(group)
        else:
            self._fail(group, translated(error, _DOING))

    def _look(self, group: _Group) -> None:
        """Read what stands there now; nothing that was tried before can change it any more."""
        if len(group.partition) == 1:
            bound = self._prepared["conversation"].bind(group.partition)
        else:
            ids = [uuid_of(change.key[1]) for change in group.batch if isinstance(change, MessageChange)]
            bound = self._prepared["messages"].bind((*group.partition, ids))
        self._execute(group, bound, self._seen, self._unseen, execution_profile=SERIAL)

    def _unseen(self, error: Exception, group: _Group) -> None:
        self._fail(group, translated(error, "a serial read"))

    def _seen(self, rows: Any, group: _Group) -> None:  # noqa: ANN401
        found = standings(list(rows))
        left: list[Change] = []
        for change in group.batch:
            key = uuid_of(change.key[1]) if isinstance(change, MessageChange) else change.key
            outcome = change.judge(found.get(key))
            if outcome.again is not None:
                change.condition = outcome.again
                left.append(change)
            elif outcome.conflict:
                group.call.conflict(change)
            elif outcome.fenced:
                group.call.fenced = True
        group.batch = left
        if not left or group.call.fenced:
            self._next_batch(group)
        elif group.attempts >= ATTEMPTS_MAX:
            self._fail(group, _contended(group.attempts))
        else:
            self._attempt(group)

    def _landed(self, group: _Group, change: Change) -> None:
        with self._lock:
            self._chains[group.partition].landed[change.key] = Condition(change.version, change.owner)

    def _fail(self, group: _Group, error: WorkerError) -> None:
        group.call.error = group.call.error or error
        self._next_batch(group)

    def _end(self, group: _Group) -> None:
        with self._lock:
            self._out -= 1
            chain = self._chains[group.partition]
            chain.groups.popleft()
            if chain.groups:
                self._ready.append(chain.groups[0])
            else:
                del self._chains[group.partition]
        group.call.finished()
        self._start_ready()
        with self._lock:
            if not self._chains:
                self._idle.notify_all()


def _contended(attempts: int) -> WorkerError:
    return StoreUnavailableError(
        f"rows could not be written in {attempts} attempts: others write them, or Cassandra does not answer in time",
        hint="It is tried again; see who else writes them, and whether the nodes are up: `nodetool status`.",
    )
