"""Random logs of one conversation, their pure fold, and a small world in which owners fold them under faults.

The world runs the production fold. Its defences are switched off here, by what the world does to rows, never there.
"""

import random
from dataclasses import dataclass, field

from consumers.fold import Folded, Policy, fold, fold_block, fold_membership
from consumers.rows import NOWHERE, At, ConversationRow, MessageRow, Transition
from schemas.identity import uuid7
from schemas.lifecycle import Kind, Outcome, State
from schemas.records import NO_ID, Event

CONVERSATION = "c"
START_MS = 1_800_000_000_000
POLICY = Policy(id_ahead_ms_max=5_000, recipients_max=3, body_bytes_max=10)
Entry = tuple[Event, At]


def event(kind, message_id=NO_ID, actor="alice", number=0, **more):
    return Event(kind, uuid7(START_MS, number), CONVERSATION, message_id, actor, bytes(16), **more)


def message_events(rng, number):
    """Return the events of one message in any order, receipts before their SEND and foreign ones among them."""
    message_id = uuid7(START_MS + rng.choice([-900_000_000, 0, 0, 0, 6_000, 12_000]), rng.getrandbits(74))
    recipients = rng.choice([("bob",), ("bob",), ("bob", "carol"), ("carol", "bob", "dave"), ("alice",), tuple("abcd")])
    send = event(
        Kind.SEND,
        message_id,
        seq=number + 1,
        recipients=recipients,
        body=rng.choice([b"hi", b"hi", b"hi", b"more than ten bytes"]),
        expires_at=rng.choice([0, 0, 0, START_MS + 5_000]),
        delivery_timeout_s=rng.choice([0, 1, 5]),
    )
    others = [send._replace(body=b"other"), send._replace(actor="mallory"), event(Kind.CANCEL, message_id)]
    events = [send] * rng.choice([1, 2, 3]) + rng.sample(others, rng.choice([0, 0, 0, 1, 2]))
    for user in (*recipients, *rng.sample(["mallory"], rng.choice([0, 1]))):
        events += [event(Kind.DELIVERED, message_id, user)] * rng.choice([0, 1, 2])
        events += [event(Kind.READ, message_id, user)] * rng.choice([0, 1, 2])
    events += [event(Kind.EXPIRE, message_id, "")] * rng.choice([0, 1, 1])
    rng.shuffle(events)
    return events


def block_events(rng, blocker):
    """Return what a user says of blocking alice, from several installs: copies come late, after what took them back."""
    turns = [Kind.BLOCK, Kind.UNBLOCK] * rng.choice([0, 0, 1, 2])
    events = [event(kind, actor=blocker, subject="alice", number=number) for number, kind in enumerate(turns)]
    for each in rng.sample(events, len(events) // 2):
        events.insert(rng.randint(events.index(each) + 1, len(events)), each)
    return events


def make_log(seed):
    """Return the log of a seed: what each message's events and some blocks become when they are interleaved."""
    rng = random.Random(seed)
    pools = [message_events(rng, number) for number in range(rng.randint(1, 5))]
    pools += [block_events(rng, blocker) for blocker in ("bob", "carol")]
    log, clock = [], START_MS
    while any(pools):
        clock += rng.choice([0, 0, 1, 5, 2_000, -3])  # append times may go back when a leader changes
        log.append((rng.choice([pool for pool in pools if pool]).pop(0), At(1, 0, len(log), clock)))
    return log


@dataclass
class Rows:
    """What is known of one conversation."""

    messages: dict[bytes, MessageRow] = field(default_factory=dict)
    conversation: ConversationRow = field(default_factory=lambda: ConversationRow(CONVERSATION))

    def copy(self):
        """Return rows of their own with the same content."""
        return Rows(dict(self.messages), self.conversation)


@dataclass(frozen=True)
class Defences:
    """What keeps the rows right; each can be left out to see that it is needed."""

    stamps: bool = True
    """The store keeps the larger stamp; else what lands last."""
    applied: bool = True
    """A row says how far it is; else it looks as if it stood before every event."""
    as_of: bool = True
    """Blocks are known with their positions; else only as they are now."""
    carried: bool = True
    """A write carries what an earlier one, not yet durable, brings too; else only its own events' transitions."""

    def row(self, row):
        """Return a row as the fold is shown it."""
        return row._replace(applied=NOWHERE) if row is not None and not self.applied else row

    def conversation(self, row):
        """Return a conversation as the fold is shown it."""
        if self.as_of:
            return row
        now = {change[:2]: change._replace(position=NOWHERE) for change in row.blocks}
        return row._replace(blocks=tuple(now.values()))


def step(rows: Rows, entry: Entry, defences=Defences(), policy=POLICY) -> Folded | None:
    """Fold one event into rows as an owner does; return the message's part, None for a block."""
    each, at = entry
    if each.kind in {Kind.BLOCK, Kind.UNBLOCK}:
        rows.conversation = fold_block(each, rows.conversation, at, policy).row
        return None
    before = rows.messages.get(each.message_id)
    known = defences.row(before)
    folded = fold(each, known, defences.conversation(rows.conversation), at, policy)
    if folded.transition is not None:
        rows.messages[each.message_id] = folded.row
    may_make = known is None or known.applied >= (at.generation, at.offset)
    is_same = folded.outcome in {Outcome.APPLIED, Outcome.DUPLICATE} and folded.row.state != State.REJECTED
    if each.kind in {Kind.SEND, Kind.CANCEL} and may_make and is_same:
        rows.conversation = fold_membership(each, rows.conversation, at)
    return folded


def pure(log):
    """Return the rows after a log and every transition, by message."""
    rows, transitions = Rows(), {}
    for entry in log:
        folded = step(rows, entry)
        if folded and folded.transition:
            transitions.setdefault(entry[0].message_id, []).append(folded.transition)
    return rows, transitions


@dataclass
class Write:
    """A row on its way into the store."""

    owner: "Owner"
    offset: int
    """Of the first event that it carries."""
    row: MessageRow | ConversationRow
    transitions: tuple[Transition, ...] = ()
    makes: bool = False


@dataclass
class World:
    """One partition: its log, its store, and the owners that believe that it is theirs."""

    rng: random.Random
    log: list[Entry]
    defences: Defences
    rows: Rows = field(default_factory=Rows)
    owners: dict[object, int] = field(default_factory=dict)
    made: set[bytes] = field(default_factory=set)
    transitions: dict[bytes, dict[int, Transition]] = field(default_factory=dict)
    committed: int = 0
    in_flight: list[Write] = field(default_factory=list)
    epochs: int = 0

    def land(self, write):
        """Let a write reach the store."""
        write.owner.unfinished = [each for each in write.owner.unfinished if each is not write]
        row = write.row
        if isinstance(row, ConversationRow):
            if self._is_newer(write, self.rows.conversation, CONVERSATION):
                self.rows.conversation = row
            return
        if write.makes:
            self.made.add(row.message_id)
        self.transitions.setdefault(row.message_id, {}).update({each.version: each for each in write.transitions})
        if self._is_newer(write, self.rows.messages.get(row.message_id), row.message_id):
            self.rows.messages[row.message_id] = row

    def _is_newer(self, write, held, key):
        if held is not None and self.defences.stamps:
            stands = (held.stamp, self.owners.get(key, 0))
            if (write.row.stamp, write.owner.epoch) < stands:
                return False
        self.owners[key] = write.owner.epoch
        return True

    def read(self, message_id):
        """Return a row that is there whole: a move that landed before the write that makes the row is no row yet."""
        return self.rows.messages.get(message_id) if message_id in self.made else None


class Owner:
    """Folds the log from the committed position on; it may be paused, replaced, and go on all the same."""

    def __init__(self, world):
        world.epochs += 1
        self.world, self.epoch, self.position = world, world.epochs, world.committed
        self.rows, self.known = Rows(conversation=world.rows.conversation), set()
        self.unfinished = []

    def poll(self, count):
        """Fold the next events and start to write what they made."""
        batch = self.world.log[self.position : self.position + count]
        dirty = {}
        for entry in batch:
            self._fold(entry, dirty)
        for write in dirty.values():  # several transitions of one message are one write
            self.unfinished.append(write)
            self.world.in_flight.append(write)
        self.position += len(batch)

    def _fold(self, entry, dirty):
        each, at = entry
        if each.message_id not in self.known:
            self.known.add(each.message_id)
            row = self.world.read(each.message_id)
            if row is not None:
                self.rows.messages[each.message_id] = row
        before = self.rows.messages.get(each.message_id)
        conversation = self.rows.conversation
        folded = step(self.rows, entry, self.world.defences)
        if self.rows.conversation is not conversation:
            first = dirty[CONVERSATION].offset if CONVERSATION in dirty else at.offset
            dirty[CONVERSATION] = Write(self, first, self.rows.conversation)
        if folded and folded.transition:
            held = self._held(each.message_id, dirty) or Write(self, at.offset, None, makes=before is None)
            first = dirty[each.message_id].offset if each.message_id in dirty else at.offset
            told = (*held.transitions, folded.transition)
            dirty[each.message_id] = Write(self, first, folded.row, told, held.makes)

    def _held(self, message_id, dirty):
        """Return the last write of a message that is not durable."""
        if message_id in dirty or not self.world.defences.carried:
            return dirty.get(message_id)
        of_message = (each for each in reversed(self.unfinished) if isinstance(each.row, MessageRow))
        return next((each for each in of_message if each.row.message_id == message_id), None)

    def commit(self):
        """Move the committed position up to the first event that is not durable."""
        low_water = min((write.offset for write in self.unfinished), default=self.position)
        self.world.committed = max(self.world.committed, low_water)


def run(seed, defences=Defences(), steps=250):
    """Run a world of crashes, paused owners, late and double writes; return it healed."""
    rng = random.Random(seed)
    world, paused = World(rng, make_log(seed), defences), []
    owner = Owner(world)
    for _ in range(steps):
        doing = rng.random()
        if doing < 0.35:
            owner.poll(rng.randint(1, 4))
        elif doing < 0.65 and world.in_flight:
            write = world.in_flight.pop(rng.randrange(len(world.in_flight)))
            world.land(write)
            if rng.random() < 0.1:
                world.in_flight.append(write)  # lands once more, later
        elif doing < 0.80:
            owner.commit()
        elif doing < 0.87:
            if rng.random() < 0.5:
                paused.append(owner)  # goes on later, not knowing that it lost the partition
            else:
                world.in_flight = [each for each in world.in_flight if each.owner is not owner or rng.random() < 0.5]
            owner = Owner(world)
        elif doing < 0.95 and paused:
            rng.choice(paused).poll(rng.randint(1, 4))
    Owner(world).poll(len(world.log))
    rng.shuffle(world.in_flight)
    for write in world.in_flight:
        world.land(write)
    return world


def difference(seed, defences=Defences()):
    """Return what is wrong in a world after a seed's history, empty where it equals the pure fold of its log."""
    world = run(seed, defences)
    rows, transitions = pure(world.log)
    wrong = [key.hex() for key in rows.messages if world.rows.messages.get(key) != rows.messages[key]]
    wrong += [key.hex() for key in world.rows.messages.keys() - rows.messages.keys()]
    if world.rows.conversation != rows.conversation:
        wrong.append(CONVERSATION)
    stored = {key: [told for _, told in sorted(of.items())] for key, of in world.transitions.items()}
    if stored != transitions:
        wrong.append("transitions")
    return wrong
