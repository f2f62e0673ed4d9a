"""A partition in miniature: a log, a store that keeps the larger stamp, owners that die at any step."""

import random
from dataclasses import dataclass, field

from consumers.fold import Policy, fold, fold_block, fold_membership
from consumers.intake import Entry
from consumers.owner import PartitionOwner
from consumers.partition_rows import OwnerSettings, Takeover
from consumers.redelivery import Schedule, redeliver
from consumers.rows import At, ConversationRow, ConversationWrite, MessageRow, MessageWrite, Owner
from consumers.stores.contract import Content, MessageKey, Pending, Rows
from consumers.work import Work
from schemas.identity import uuid7
from schemas.lifecycle import State
from schemas.records import NO_ID, Acknowledgement, Delivery, Event

DAY_MS = 24 * 3600 * 1000
START_MS = 1_800_000_000_000
INSTALL = b"i" * 16


def message_id(number: int, at_ms: int = START_MS) -> bytes:
    return uuid7(at_ms, number + (number * 0x9E3779B97F4A7C15 << 8))


def event(kind: str, number: int, actor: str, *, at_ms: int = START_MS, conversation: str = "c", **more) -> Event:
    event_id = uuid7(at_ms, random.Random(f"{kind}{number}{actor}{more}").getrandbits(74))
    about = NO_ID if kind in {"BLOCK", "UNBLOCK", "HELLO"} else message_id(number, at_ms)
    return Event(kind, event_id, conversation, about, actor, INSTALL, **more)


def send(number: int, *, at_ms: int = START_MS, to: tuple[str, ...] = ("bob",), **more) -> Event:
    return event("SEND", number, "alice", at_ms=at_ms, recipients=to, body=b"hi", seq=number + 1, **more)


def entries(events, first_offset: int = 0, step_ms: int = 1000) -> list[Entry]:
    return [Entry(first_offset + n, START_MS + n * step_ms, each) for n, each in enumerate(events)]


def owner_of(
    *,
    position: int = 0,
    committed: int = 0,
    from_the_start: bool = True,
    epoch: int = 1,
    partitions: int = 1,
    **settings,
) -> PartitionOwner:
    takeover = Takeover(0, 1, Owner(epoch, "n"), position, committed, from_the_start, spilled_to=0)
    return PartitionOwner(OwnerSettings(partitions=partitions, **settings), takeover)


NOTHING = Rows({}, {})


@dataclass
class Shelf:
    """A store: each row's (stamp, owner) maximum, and the transitions of all writes."""

    messages: dict[MessageKey, tuple[tuple[int, Owner], MessageRow]] = field(default_factory=dict)
    bodies: dict[MessageKey, bytes] = field(default_factory=dict)
    transitions: dict[MessageKey, dict[int, object]] = field(default_factory=dict)
    conversations: dict[str, tuple[tuple[int, Owner], ConversationRow]] = field(default_factory=dict)
    spilled: dict[int, dict[MessageKey, int]] = field(default_factory=dict)
    spilled_to: int = 0

    def write(self, owner: Owner, write: MessageWrite | ConversationWrite) -> None:
        """Land one write."""
        row = write.row
        if isinstance(write, ConversationWrite):
            held = self.conversations.get(row.conversation_id)
            if held is None or (row.stamp, owner) > held[0]:
                self.conversations[row.conversation_id] = ((row.stamp, owner), row)
            return
        key = (row.conversation_id, row.message_id)
        if write.body is not None:
            self.bodies[key] = write.body
        self.transitions.setdefault(key, {}).update({each.version: each for each in write.transitions})
        held = self.messages.get(key)
        if held is None or (row.stamp, owner) > held[0]:
            self.messages[key] = ((row.stamp, owner), row)

    def read(self, messages, conversations) -> Rows:
        """Read what is there, as a store does."""
        return Rows(
            {key: self.messages[key][1] for key in messages if key in self.messages and key in self.bodies},
            {name: self.conversations[name][1] for name in conversations if name in self.conversations},
        )


@dataclass
class Truth:
    """The pure fold of a whole log: what every store must hold at the end."""

    messages: dict[MessageKey, MessageRow] = field(default_factory=dict)
    conversations: dict[str, ConversationRow] = field(default_factory=dict)
    moves: list[tuple[bytes, str, bytes]] = field(default_factory=list)
    """(event id, sender, message id) of each event that moved a message as a whole."""

    @classmethod
    def of(cls, log: list[Entry], policy: Policy) -> "Truth":
        """Return the fold of a log."""
        truth = cls()
        for entry in log:
            each, at = entry.event, At(1, 0, entry.offset, entry.appended_at)
            assert each is not None
            conversation = truth.conversations.get(each.conversation_id, ConversationRow(each.conversation_id))
            if each.kind in {"BLOCK", "UNBLOCK"}:
                truth.conversations[each.conversation_id] = fold_block(each, conversation, at, policy).row
                continue
            key = (each.conversation_id, each.message_id)
            before = truth.messages.get(key)
            folded = fold(each, before, conversation, at, policy)
            if folded.transition is None or folded.row is None:
                continue
            truth.messages[key] = folded.row
            if before is None:
                if folded.row.state != State.REJECTED:
                    truth.conversations[each.conversation_id] = fold_membership(each, conversation, at)
            elif before.state != folded.row.state:
                truth.moves.append((each.event_id, folded.row.sender, each.message_id))
        return truth


@dataclass
class Flight:
    """One batch on its way: which of its writes have landed, whether its answers are out."""

    owner: PartitionOwner
    work: Work
    writes: list[MessageWrite | ConversationWrite]
    durable: bool = False


class World:
    """Runs owners over a log, one random step at a time."""

    def __init__(self, seed: int, log: list[Entry], settings: OwnerSettings) -> None:
        self.random = random.Random(seed)
        self.log = log
        self.settings = settings
        self.store = Shelf()
        self.committed = 0
        self.inbox: list[Acknowledgement | Delivery] = []
        self.refused: list[int] = []
        self.flights: list[Flight] = []
        self.late: list[tuple[Owner, MessageWrite | ConversationWrite]] = []
        self.epoch = 0
        self.now_ms = log[0].appended_at
        self.owner = self.take_over()

    def take_over(self) -> PartitionOwner:
        """Return a new owner, one epoch on."""
        self.epoch += 1
        position = max(0, self.committed - self.settings.tail_records)
        takeover = Takeover(
            0, 1, Owner(self.epoch, "n"), position, self.committed, position == 0, self.store.spilled_to
        )
        return PartitionOwner(self.settings, takeover)

    def crash(self) -> None:
        """Lose the owner; its writes may land later, or never, and its answers are lost."""
        for flight in self.flights:
            self.late += [(flight.owner.owner, write) for write in flight.writes if self.random.random() < 0.5]
        self.flights.clear()
        self.owner = self.take_over()

    def poll(self) -> None:
        """Fold the next few records, unless the batch before is not in the store."""
        if self.owner.is_writing:
            return
        batch = self.log[self.owner.position : self.owner.position + self.random.randint(1, 5)]
        if not batch:
            return
        self.now_ms = max(self.now_ms, batch[-1].appended_at)
        needs = self.owner.needs(batch)
        cold = self.store.read(needs.messages, needs.conversations)
        work = self.owner.fold(batch, cold, self.now_ms)
        self.flights.append(Flight(self.owner, work, [*work.message_writes(), *work.conversation_writes()]))

    def land(self) -> None:
        """Let one write of any batch reach the store."""
        waiting = [flight for flight in self.flights if flight.writes]
        if waiting:
            flight = self.random.choice(waiting)
            write = flight.writes.pop(self.random.randrange(len(flight.writes)))
            self.store.write(flight.owner.owner, write)
            if self.random.random() < 0.1:
                self.late.append((flight.owner.owner, write))

    def land_late(self) -> None:
        """Let a write of an owner that is gone reach the store."""
        if self.late:
            self.store.write(*self.late.pop(self.random.randrange(len(self.late))))

    def publish(self) -> None:
        """Answer what is durable; finish batches in any order."""
        newest = self.flights[-1] if self.flights else None
        if newest is not None and not newest.writes and not newest.durable:
            newest.durable = True
            newest.owner.durable()
            self.inbox += [*newest.work.acknowledgements, *newest.work.deliveries]
            self.refused += [refusal.offset for refusal in newest.work.refusals]
        ready = [flight for flight in self.flights if flight.durable]
        if ready:
            flight = self.random.choice(ready)
            self.owner.finished(flight.work)
            self.flights.remove(flight)

    def commit(self) -> None:
        """Commit, never backwards."""
        position = self.owner.commit_position()
        assert position >= self.committed
        self.committed = position

    def spill(self) -> None:
        """Spill what must not stay in memory; now and then die before that is known."""
        taken = self.owner.take_spill(self.now_ms, 2)
        if taken is None:
            return
        spill, buckets = taken
        self._keep(buckets)
        if self.random.random() < 0.8:
            self.owner.pending.spilled(spill)
        else:
            self.crash()

    def _keep(self, buckets: dict[int, list[Pending]]) -> None:
        for bucket, several in buckets.items():
            assert bucket > self.store.spilled_to
            for each in several:
                self.store.spilled.setdefault(bucket, {})[each.conversation_id, each.message_id] = each.attempt

    def work_off(self) -> None:
        """Work off the oldest bucket that is over."""
        bucket = next(iter(self.owner.buckets_due(self.now_ms)), None)
        if bucket is None:
            return
        due = [Pending(*key, attempt) for key, attempt in self.store.spilled.get(bucket, {}).items()]
        self._keep(self.owner.spill_again(self._redeliver(due), self.now_ms))
        self.store.spilled.pop(bucket, None)
        self.store.spilled_to = self.owner.spilled_to = bucket

    def _redeliver(self, due: list[Pending]) -> list[tuple[MessageRow, int]]:
        keys = [(each.conversation_id, each.message_id) for each in due]
        rows = {**self.store.read(keys, []).messages}
        rows.update({key: row for key in keys if (row := self.owner.row(key)) is not None})
        contents = {key: Content(self.store.bodies[key], "") for key in keys if key in self.store.bodies}
        done = redeliver(due, rows, contents, self.now_ms)
        self.inbox += done.deliveries
        return done.again

    def redeliver_due(self) -> None:
        """Make deliveries again that are due."""
        due = self.owner.due(self.now_ms, 3)
        if due:
            self.owner.redelivered(due, self._redeliver(list(due)), self.now_ms)

    def check_tail(self) -> None:
        """What is owed is in the store's buckets or will be seen again by whoever takes over."""
        oldest = self.owner.pending.oldest_offset()
        assert oldest is None or self.committed <= max(oldest + self.settings.tail_records, self.committed_at_start)

    committed_at_start = 0

    def run(self, steps: int) -> None:
        """Take random steps."""
        doings = [self.poll, self.land, self.land, self.land, self.land_late, self.publish, self.publish, self.commit]
        doings += [self.spill, self.work_off, self.redeliver_due]
        for _ in range(steps):
            if self.random.random() < 0.04:
                self.crash()
            self.now_ms += self.random.choice([0, 0, 10, 5_000])
            self.random.choice(doings)()
            self.check_tail()

    def settle(self) -> None:
        """One owner works through all that is left, and every late write lands."""
        self.crash()
        while self.owner.position < len(self.log) or self.flights:
            self.poll()
            while any(flight.writes for flight in self.flights):
                self.land()
            while self.flights:
                self.publish()
            self.commit()
        while self.late:
            self.land_late()


SMALL = {"schedule": Schedule(first_wait_s=3, bucket_s=10), "tail_records": 6, "grace_s": 8, "pending_max": 5}
