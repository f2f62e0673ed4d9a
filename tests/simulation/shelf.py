"""The simulated store under stamps: what is durable, and each worker's uncertain way to it.

A write is several rows that land one by one, in any order, perhaps after its answer, perhaps twice, perhaps never. The
shelf keeps each row's (stamp, owner) maximum, as the contract says.
"""

# ruff: noqa: D102 - what stands in for a library is named after it

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from consumers.errors import StoreUnavailableError
from consumers.rows import ConversationRow, ConversationWrite, MessageRow, MessageWrite, Owner, Transition
from consumers.stores.contract import Content, DeadLetterMark, Done, Lease, MessageKey, Pending, Rows, StoredMessage

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class SpillWrite:
    """Deliveries on their way into a bucket."""

    owner: Owner
    partition: int
    bucket: int
    pending: tuple[Pending, ...]


RowWrite = MessageWrite | ConversationWrite | SpillWrite


@dataclass
class Shelf:
    """What is durable."""

    world: "World"
    keeps_larger_stamp: bool = True
    """A defence: without it what lands last stays."""
    raises_epoch: bool = True
    """A defence: without it every claim is given the first epoch."""
    messages: dict[MessageKey, tuple[tuple[int, Owner], MessageRow]] = field(default_factory=dict)
    contents: dict[MessageKey, tuple[Content, int]] = field(default_factory=dict)
    transitions: dict[MessageKey, dict[int, tuple[Transition, Owner]]] = field(default_factory=dict)
    conversations: dict[str, tuple[tuple[int, Owner], ConversationRow]] = field(default_factory=dict)
    leases: dict[int, Lease] = field(default_factory=dict)
    by_epoch: bool = True
    """A defence: without it what an owner keeps or drops is anybody's."""
    spilled: dict[tuple[int, int], dict[MessageKey, tuple[int, int]]] = field(default_factory=dict)
    """Epoch and attempt of each."""
    dropped: dict[tuple[int, int], int] = field(default_factory=dict)
    """The newest epoch that has dropped each bucket."""
    progress: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Epoch and bucket."""
    marks: dict[tuple[int, int, int], DeadLetterMark] = field(default_factory=dict)
    late: list[tuple[Owner, RowWrite]] = field(default_factory=list)
    """Rows that are still under way, whoever sent them."""

    def land(self, owner: Owner, write: RowWrite) -> None:
        """Make one row durable."""
        what = write.bucket if isinstance(write, SpillWrite) else write.row.version
        self.world.note("store", type(write).__name__, owner.epoch, what)
        if isinstance(write, SpillWrite):
            self._land_spill(write)
        elif isinstance(write, ConversationWrite):
            held = self.conversations.get(write.row.conversation_id)
            if held is None or not self.keeps_larger_stamp or (write.row.stamp, owner) >= held[0]:
                self.conversations[write.row.conversation_id] = ((write.row.stamp, owner), write.row)
        else:
            self._land_message(owner, write)

    def _land_message(self, owner: Owner, write: MessageWrite) -> None:
        row = write.row
        key = (row.conversation_id, row.message_id)
        if write.body is not None:
            self.contents.setdefault(key, (Content(write.body, write.content_type), write.expires_at))
        steps = self.transitions.setdefault(key, {})
        for step in write.transitions:
            found = steps.get(step.version)
            if found is None or not self.keeps_larger_stamp or owner >= found[1]:
                steps[step.version] = (step, owner)
        held = self.messages.get(key)
        if held is None or not self.keeps_larger_stamp or (row.stamp, owner) >= held[0]:
            self.messages[key] = ((row.stamp, owner), row)

    def _land_spill(self, write: SpillWrite) -> None:
        epoch, where = self._epoch(write.owner), (write.partition, write.bucket)
        if epoch <= self.dropped.get(where, -1):
            return
        bucket = self.spilled.setdefault(where, {})
        for conversation_id, message_id, attempt in write.pending:
            key = (conversation_id, message_id)
            bucket[key] = max((epoch, attempt), bucket.get(key, (0, 0)))

    def _epoch(self, owner: Owner) -> int:
        return owner.epoch if self.by_epoch else 0

    def drop(self, owner: Owner, partition: int, bucket: int) -> int:
        """Forget what owners up to this one keep in a bucket; return how much that was."""
        epoch, where = self._epoch(owner), (partition, bucket)
        held = self.spilled.pop(where, {})
        kept = {key: each for key, each in held.items() if each[0] > epoch}
        if kept:
            self.spilled[where] = kept
        self.dropped[where] = max(epoch, self.dropped.get(where, -1))
        self.progress[partition] = max((epoch, bucket), self.progress.get(partition, (-1, 0)))
        return len(held) - len(kept)

    def claim(self, partition: int, node: str, now_ms: int) -> Lease:
        held = self.leases.get(partition)
        epoch = held.epoch + 1 if held is not None and self.raises_epoch else 1
        lease = self.leases[partition] = Lease(partition, epoch, node, now_ms)
        return lease

    def row(self, key: MessageKey) -> MessageRow | None:
        """Return a message's row where it can be read."""
        held = self.messages.get(key)
        return held[1] if held is not None and key in self.contents else None

    def session(self, process: "Process") -> "StoreSession":
        """Return a process's way to it."""
        return StoreSession(self.world, process, self)

    def land_later(self, owner: Owner, rows: Sequence[RowWrite]) -> None:
        """Leave rows to the network."""
        self.late += [(owner, row) for row in rows]

    @property
    def has_late(self) -> bool:
        """Whether something is still under way, whoever sent it."""
        return bool(self.late)

    def land_late(self) -> None:
        """Let one of these arrive."""
        self.land(*self.late.pop(self.world.chance.whole("late", 0, len(self.late) - 1)))

    def keeps_something(self) -> bool:
        """Say whether deliveries are kept for later."""
        return any(self.spilled.values())

    def conversation_rows(self) -> list[ConversationRow]:
        """Return every conversation."""
        return [row for _, row in self.conversations.values()]

    def version(self, key: MessageKey) -> int:
        """Return how far a message is durable, 0 where it is not."""
        row = self.row(key)
        return row.version if row is not None else 0

    def stored(self) -> list[StoredMessage]:
        """Return every message whole."""
        found = []
        for key, ((_, owner), row) in self.messages.items():
            if key in self.contents:
                content, expires_at = self.contents[key]
                steps = [self.transitions[key][version] for version in sorted(self.transitions[key])]
                found.append(StoredMessage(row, content, expires_at, owner, steps))
        return found


@dataclass
class Operation:
    """A write on its way."""

    owner: Owner
    rows: list[RowWrite]
    done: Done | None
    """None once it is answered, or when there is nobody to answer."""


class StoreSession:
    """One worker's store: the contract's calls, each of which may fail, and fail after it worked."""

    def __init__(self, world: "World", process: "Process", shelf: Shelf) -> None:
        self._world = world
        self._process = process
        self._shelf = shelf
        self.operations: list[Operation] = []

    def _call(self, what: str, odds: float = 0.0) -> None:
        self._process.touch(what)
        world = self._world
        if world.store_is_down() or (world.chaos and world.chance.happens(what, odds)):
            raise StoreUnavailableError(f"no answer to {what}")

    def read(self, messages: Sequence[MessageKey], conversations: Sequence[str]) -> Rows:
        self._call("read", self._world.faults.read_fails)
        shelf, shown = self._shelf, self._world.shown
        rows = {key: shown(row) for key in messages if (row := shelf.row(key)) is not None}
        return Rows(rows, {name: shelf.conversations[name][1] for name in conversations if name in shelf.conversations})

    def contents(self, messages: Sequence[MessageKey]) -> Mapping[MessageKey, Content]:
        self._call("contents", self._world.faults.read_fails)
        contents = self._shelf.contents
        return {key: contents[key][0] for key in messages if key in contents}

    def write(
        self,
        owner: Owner,
        messages: Sequence[MessageWrite],
        conversations: Sequence[ConversationWrite],
        done: Done,
        *,
        partition: int | None = None,
    ) -> None:
        self._process.touch("write")
        self.operations.append(Operation(owner, [*messages, *conversations], done))

    def spill(self, owner: Owner, partition: int, bucket: int, pending: Sequence[Pending], done: Done) -> None:
        self._process.touch("spill")
        self.operations.append(Operation(owner, [SpillWrite(owner, partition, bucket, tuple(pending))], done))

    def spilled(self, partition: int, bucket: int) -> Iterator[Pending]:
        self._call("spilled", self._world.faults.read_fails)
        held = sorted(self._shelf.spilled.get((partition, bucket), {}).items())
        self._process.worst_moment("bucket read")
        return iter([Pending(*key, attempt) for key, (_, attempt) in held])

    def drop_spilled(self, owner: Owner, partition: int, bucket: int) -> None:
        self._call("drop", self._world.faults.read_fails)
        gone = self._shelf.drop(owner, partition, bucket)
        self._world.note(self._process.name, "drop", partition, bucket, gone)

    def spill_position(self, partition: int) -> int | None:
        self._call("spill position", self._world.faults.read_fails)
        found = self._shelf.progress.get(partition)
        return found[1] if found else None

    def claim_lease(self, partition: int, node: str) -> Lease:
        self._process.touch("claim")
        world = self._world
        fails = world.store_is_down() or (world.chaos and world.chance.happens("claim", world.faults.claim_fails))
        if not fails or world.chance.happens("claim lands", 0.5):
            lease = self._shelf.claim(partition, node, self._process.wall_ms())
            world.note(self._process.name, "claim", partition, lease.epoch)
        if fails:
            raise StoreUnavailableError("the claim's outcome is unknown")
        return lease

    def leases(self) -> Sequence[Lease]:
        self._call("leases", self._world.faults.read_fails)
        return list(self._shelf.leases.values())

    def mark_dead_letters(self, marks: Sequence[DeadLetterMark]) -> None:
        self._call("mark", self._world.faults.read_fails)
        self._shelf.marks.update({one[:3]: one for one in marks})

    def dead_letter_marks(self) -> Iterator[DeadLetterMark]:
        self._call("marks", self._world.faults.read_fails)
        return iter(list(self._shelf.marks.values()))

    def topic_record(self, _topic: str) -> None:
        """Tell nothing: the simulated topic stays in its first generation."""

    def ping(self) -> None:
        self._call("ping", self._world.faults.read_fails)

    # how writes end

    @property
    def under_way(self) -> int:
        """How many requests have not ended."""
        return len(self.operations)

    def advance(self) -> None:
        """Let one write get on: a row of it lands, or it is answered, well or not."""
        world, chance, faults = self._world, self._world.chance, self._world.faults
        operation = self.operations[chance.whole("operation", 0, len(self.operations) - 1)]
        if world.store_is_down() or (world.chaos and chance.happens("write fails", faults.write_fails)):
            self._end(operation, StoreUnavailableError("the write failed"))
            return
        if world.chaos and chance.happens("write unknown", faults.write_lands_unknown):
            self._shelf.land_later(operation.owner, operation.rows)
            self._end(operation, StoreUnavailableError("the write timed out"))
            return
        if operation.rows:
            write = operation.rows.pop(chance.whole("row", 0, len(operation.rows) - 1))
            self._shelf.land(operation.owner, write)
            if world.chaos and chance.happens("write twice", faults.write_lands_twice):
                self._shelf.land_later(operation.owner, [write])
        if not operation.rows:
            self._end(operation, None)

    def _end(self, operation: Operation, error: Exception | None) -> None:
        self.operations.remove(operation)
        if operation.done is not None:
            operation.done(error)

    def die(self) -> None:
        """Leave what is under way to the network; nobody hears how it ends."""
        for operation in self.operations:
            late = [row for row in operation.rows if self._world.chance.happens("late write", 0.5)]
            self._shelf.land_later(operation.owner, late)
        self.operations.clear()
