"""Rows under `IF version = ?`: what each conditional write says, and what a row that is not as expected tells. Pure.

A row that stands elsewhere than expected is no conflict where the fold itself has moved it: an earlier write of ours
landed (go on from there), or a later one, or another owner folded the same log (nothing is left to be written). It is
one where the change at some version is not the fold's: then someone else has written the row.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from cassandra.query import UNSET_VALUE

from consumers.rows import Block, ConversationWrite, MessageWrite, Owner, Position
from consumers.stores.cassandra_found import milliseconds, uuid_of
from consumers.stores.contract import MessageKey
from consumers.stores.parkings import to_text
from schemas.identity import bucket_of

_MOVING: Final = "version = ?, stamp = ?, applied = ?, owner = ?, attempt = ?"
_MADE: Final = (
    "sent_at = ?, deliver_by = ?, expires_at = ?, origin = ?, sender = ?, recipients = ?, content_type = ?, body = ?"
)
_MESSAGE: Final = " WHERE conversation_id = ? AND bucket = ? AND message_id = ?"
_FREE, _HELD = " IF version = NULL", " IF version = ? AND owner <= ? AND applied <= ?"
_FOUND: Final = " IF version = ? AND applied <= ?"
_CONVERSATION: Final = (
    f"UPDATE {{keyspace}}.conversations SET {_MOVING}, participants = ?, buckets = ?, blocks = ?, sequences = ?,"
    " parkings = ? WHERE conversation_id = ?"
)
STATEMENTS: Final = {
    "make": f"UPDATE {{keyspace}}.messages SET {_MOVING}, state = ?, receipts = ?, transitions = transitions + ?,"
    f" {_MADE}{_MESSAGE}{_FREE}",
    "move": f"UPDATE {{keyspace}}.messages SET {_MOVING}, state = ?, receipts = ?, transitions = transitions + ?"
    f"{_MESSAGE}{_HELD}",
    "start": f"{_CONVERSATION}{_FREE}",
    "go_on": f"{_CONVERSATION}{_HELD}",
    "mend": f"UPDATE {{keyspace}}.messages SET {_MOVING}, state = ?, receipts = ?, transitions = ?, {_MADE}"
    f"{_MESSAGE}{_FOUND}",
    "mend_conversation": f"{_CONVERSATION}{_FOUND}",
    "messages": "SELECT message_id, version, applied, stamp, owner, attempt, transitions"
    " FROM {keyspace}.messages WHERE conversation_id = ? AND bucket = ? AND message_id IN ?",
    "conversation": "SELECT conversation_id, version, applied, stamp, owner, attempt"
    " FROM {keyspace}.conversations WHERE conversation_id = ?",
}

CassandraPartition = tuple[str, int] | tuple[str]
"""A message's (conversation_id, bucket), or a conversation's id."""


class Standing(NamedTuple):
    """What the store holds of a row."""

    version: int
    applied: Position
    stamp: int
    owner: Owner
    attempt: UUID | None
    transitions: dict[int, tuple[object, ...]]
    """A message's, without their owners."""


class Condition(NamedTuple):
    """What must stand there for a write to be applied: its version (0: no row), and at most this owner."""

    version: int
    owner: Owner


class WriteOutcome(NamedTuple):
    """What is to be done about a write that was not applied, or may have been."""

    landed: bool = False
    """Nothing: what it says is in the store."""
    conflict: bool = False
    fenced: bool = False
    again: Condition | None = None
    """Make it again, on this condition."""


LANDED: Final = WriteOutcome(landed=True)
CONFLICT: Final = WriteOutcome(conflict=True)
FENCED: Final = WriteOutcome(fenced=True)


def attempt_id(key: MessageKey | str, owner: Owner, version: int, applied: Position, stamp: int) -> UUID:
    """Return the id that one owner's write of one row brings along, the same each time that it makes it."""
    parts = (*key,) if isinstance(key, tuple) else (key,)
    text = repr((parts, owner.epoch, owner.node, version, *applied, stamp))
    return UUID(bytes=blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())


class MessageChange:
    """The write of a message's row."""

    __slots__ = ("attempt", "base", "condition", "key", "owner", "partition", "size", "version", "write")

    def __init__(self, write: MessageWrite, owner: Owner) -> None:
        row = write.row
        self.write = write
        self.owner = owner
        self.key = (row.conversation_id, row.message_id)
        self.partition = (row.conversation_id, bucket_of(row.message_id))
        self.version = row.version
        self.base = row.version - len(write.transitions)
        self.condition = Condition(self.base, owner)
        self.attempt = attempt_id(self.key, owner, row.version, row.applied, row.stamp)
        self.size = 400 + len(write.body or b"") + 100 * len(write.transitions) + 60 * len(row.recipients)

    def statement(self) -> tuple[str, Sequence[object]]:
        """Return the statement's name and values; raise ValueError where the row is not there to be moved."""
        row, condition = self.write.row, self.condition
        if condition.version:
            return "move", (*self._moving(condition.version), *self._key(), *condition, row.applied)
        return "make", (*self._moving(0), *self._made(), *self._key())

    def _moving(self, after: int) -> tuple[object, ...]:
        """Return the values that every event writes; of the transitions those behind a version."""
        row = self.write.row
        changes = {one.version: (*_change(one), *self.owner) for one in self.write.transitions if one.version > after}
        return (row.version, row.stamp, row.applied, self.owner, self.attempt, row.state, row.receipts, changes)

    def _made(self) -> tuple[object, ...]:
        """Return the values that are written once."""
        row, write = self.write.row, self.write
        origin = (uuid_of(row.install), row.seq, row.digest, row.partition)
        times = (row.sent_at, row.deliver_by, write.expires_at)
        return (*times, origin, row.sender, row.recipients, write.content_type, write.body)

    def _key(self) -> tuple[object, ...]:
        return (*self.partition, uuid_of(self.write.row.message_id))

    def judge(self, standing: Standing | None) -> WriteOutcome:
        """Return what is to be done, given what the store holds."""
        ours = {one.version: _change(one) for one in self.write.transitions}
        if standing is None:
            return _again(self, None) if self.base == 0 and self.write.body is not None else CONFLICT
        version, theirs = standing.version, standing.transitions
        if standing.attempt == self.attempt:
            return LANDED
        if version >= self.version:
            return LANDED if theirs.get(self.version) == ours[self.version] else CONFLICT
        if version == self.base or (version in ours and theirs.get(version) == ours[version]):
            return _again(self, standing)
        return CONFLICT


class ConversationChange:
    """The write of a conversation's row."""

    __slots__ = ("attempt", "base", "condition", "key", "owner", "partition", "size", "version", "write")

    def __init__(self, write: ConversationWrite, owner: Owner) -> None:
        row = write.row
        self.write = write
        self.owner = owner
        self.key = row.conversation_id
        self.partition = (row.conversation_id,)
        self.version = row.version
        self.base = write.base
        self.condition = Condition(self.base, owner)
        self.attempt = attempt_id(self.key, owner, row.version, row.applied, row.stamp)
        self.size = 400

    def statement(self) -> tuple[str, Sequence[object]]:
        """Return the statement's name and values."""
        values = self._values(UNSET_VALUE)
        if not self.condition.version:
            return "start", values
        return "go_on", (*values, *self.condition, self.write.row.applied)

    def _values(self, no_parkings: object) -> tuple[object, ...]:
        row = self.write.row
        return (
            *(row.version, row.stamp, row.applied, self.owner, self.attempt, row.participants, row.buckets),
            list(map(_block, row.blocks)),
            [(uuid_of(install), seq) for install, seq in row.sequences],
            to_text(row.parkings) if row.parkings else no_parkings,
            row.conversation_id,
        )

    def judge(self, standing: Standing | None) -> WriteOutcome:
        """Return what is to be done, given what the store holds.

        A conversation's row does not tell its story, so whether the fold wrote it shows in its attempt's id, which
        someone else's write does not have.
        """
        row = self.write.row
        if standing is None:
            return _again(self, None) if self.base == 0 else CONFLICT
        if standing.attempt == self.attempt:
            return LANDED
        version, applied = standing.version, standing.applied
        of_fold = standing.attempt == attempt_id(self.key, standing.owner, version, applied, standing.stamp)
        if version >= self.version:
            is_same = version > self.version or (applied, standing.stamp) == (row.applied, row.stamp)
            return LANDED if of_fold and is_same and applied >= row.applied else CONFLICT
        if version == self.base or (version > self.base and of_fold and applied <= row.applied):
            return _again(self, standing)
        return CONFLICT


class MessageMend(MessageChange):
    """The write of a message's whole row in the place of whatever else stands there."""

    __slots__ = ()

    def __init__(self, write: MessageWrite, owner: Owner) -> None:
        super().__init__(write, owner)
        self.attempt = uuid4()  # one that nobody has: what stands there may look as if it were this

    def statement(self) -> tuple[str, Sequence[object]]:
        """Return the statement's name and values."""
        if not self.condition.version:
            return super().statement()
        found = (self.condition.version, self.write.row.applied)
        return "mend", (*self._moving(0), *self._made(), *self._key(), *found)

    def judge(self, standing: Standing | None) -> WriteOutcome:
        """Return what is to be done, given what the store holds."""
        return _mended(self, standing)


class ConversationMend(ConversationChange):
    """The write of a conversation's whole row in the place of whatever else stands there."""

    __slots__ = ()

    def __init__(self, write: ConversationWrite, owner: Owner) -> None:
        super().__init__(write, owner)
        self.attempt = uuid4()

    def statement(self) -> tuple[str, Sequence[object]]:
        """Return the statement's name and values."""
        if not self.condition.version:
            return super().statement()
        return "mend_conversation", (*self._values(None), self.condition.version, self.write.row.applied)

    def judge(self, standing: Standing | None) -> WriteOutcome:
        """Return what is to be done, given what the store holds."""
        return _mended(self, standing)


Change = MessageChange | ConversationChange


def _mended(change: Change, standing: Standing | None) -> WriteOutcome:
    """Return that it is made again over what stands there, but not over a later event's row."""
    if standing is None:
        return WriteOutcome(again=Condition(0, change.owner))
    if standing.attempt == change.attempt:
        return LANDED
    if standing.applied > change.write.row.applied:
        return CONFLICT
    return WriteOutcome(again=Condition(standing.version, change.owner))


def _again(change: Change, standing: Standing | None) -> WriteOutcome:
    """Return that it is made again on what stands there, unless a later owner put it there.

    Epochs are counted by partition, so they compare within a generation of the topic only.
    """
    if standing is None:
        return WriteOutcome(again=Condition(0, change.owner))
    ours, theirs = change.write.row.applied, standing.applied
    if theirs[0] > ours[0] or (theirs[0] == ours[0] and standing.owner > change.owner):
        return FENCED
    if theirs > ours:
        return CONFLICT
    return WriteOutcome(again=Condition(standing.version, max(standing.owner, change.owner)))


def _block(one: Block) -> tuple[object, ...]:
    event_id = uuid_of(one.event_id) if one.event_id else None
    return (one.blocker, one.blocked, *one.position, one.active, event_id)


def _change(one: tuple[Any, ...]) -> tuple[object, ...]:
    """Return (state, actor, at, offset) of a transition."""
    return tuple(one[1:5])


def standings(found: Sequence[tuple[Any, ...]]) -> dict[object, Standing]:
    """Return rows that were read by "messages" or "conversation", by their key within their partition."""
    return {key: _standing(rest) for key, *rest in found if rest[0] is not None}


def _standing(found: Sequence[Any]) -> Standing:
    version, applied, stamp, owner, attempt, *more = found
    transitions = (more and more[0]) or {}
    return Standing(
        version,
        (applied[0], applied[1]),
        stamp,
        Owner(*owner),
        attempt,
        {number: _told(one) for number, one in transitions.items()},
    )


def _told(one: Any) -> tuple[object, ...]:  # noqa: ANN401 - the driver's own type
    state, actor, at, offset = one[:4]
    return state, actor, milliseconds(at), offset
