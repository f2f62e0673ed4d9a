"""Whether two folds of one log came to the same row. Exact, and pure.

One of them may have folded further than the other, so up to the shorter one every transition must be the same, and
what the longer one has beyond it must stand where the shorter one had not been yet. Owners and epochs are left out:
they say who wrote a row, not what the log makes of it. A conversation's `sequences` may lag behind the log, and are
left out too.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from consumers.rows import ConversationRow, MessageRow, Transition
from consumers.stores.contract import StoredMessage


class ComparisonResult(StrEnum):
    """What a comparison found; a value that is not in `DIFFERENCES` is as it should be."""

    SAME = "same"
    AHEAD = "ahead"
    """The store has folded further than the replay, and agrees as far as that went."""
    BEHIND = "behind"
    """The workers have not got there yet, and agree as far as they have."""
    MISSING = "missing"
    """The log makes the row, and the store does not hold it."""
    DIFFERS = "differs"
    INVENTED = "invented"
    """The store holds a row that the log never made."""


DIFFERENCES: Final = frozenset({ComparisonResult.MISSING, ComparisonResult.DIFFERS, ComparisonResult.INVENTED})


class Compared(NamedTuple):
    """A result and, for people, what it rests on."""

    result: ComparisonResult
    detail: str = ""


class Reach(NamedTuple):
    """How far each side has folded a row's partition: the first offsets that it has not seen."""

    generation: int
    replayed: int
    committed: int
    """What the workers have committed: all below it is in the store."""
    began_ms: int = 0
    """When the generation began here, by append time: both sides have all that is older."""

    def place(self, step: Transition) -> int:
        """Return the offset of a transition, -1 where it is of an earlier generation."""
        return step.offset if step.at >= self.began_ms else -1


_SAME: Final = Compared(ComparisonResult.SAME)
_MADE_ONCE: Final = (
    "conversation_id",
    "message_id",
    "sender",
    "recipients",
    "digest",
    "install",
    "seq",
    "partition",
    "sent_at",
    "deliver_by",
)


def compare_message(ours: StoredMessage, theirs: StoredMessage | None, reach: Reach) -> Compared:
    """Return how the store's row stands to the replay's."""
    steps = [step for step, _ in ours.transitions]
    if theirs is None:
        if steps and reach.place(steps[0]) >= reach.committed:
            return Compared(ComparisonResult.BEHIND)
        return Compared(ComparisonResult.MISSING, f"the log makes it {ours.row.state}")
    if detail := _made_otherwise(ours, theirs):
        return Compared(ComparisonResult.DIFFERS, detail)
    others = [step for step, _ in theirs.transitions]
    if detail := _other_steps(steps, others, reach):
        return Compared(ComparisonResult.DIFFERS, detail)
    if len(steps) == len(others):
        detail = _changed(ours.row, theirs.row, MessageRow._fields)
        return Compared(ComparisonResult.DIFFERS, detail) if detail else _SAME
    return Compared(ComparisonResult.AHEAD if len(others) > len(steps) else ComparisonResult.BEHIND)


def _other_steps(ours: list[Transition], theirs: list[Transition], reach: Reach) -> str:
    """Say which transition is another one, is missing or is too many; empty where none is."""
    common = min(len(ours), len(theirs))
    for one, other in zip(ours[:common], theirs[:common], strict=True):
        if one != other:
            return f"transition {other}, the log makes it {one}"
    if any(reach.place(step) < reach.replayed for step in theirs[common:]):
        return f"transition {theirs[common]}, which the log does not make"
    if any(reach.place(step) < reach.committed for step in ours[common:]):
        return f"transition {ours[common]} is missing"
    return ""


def _made_otherwise(ours: StoredMessage, theirs: StoredMessage) -> str:
    """Say in what that is written once two rows differ; empty where in nothing."""
    if ours.content != theirs.content:
        return f"content {theirs.content}, the log makes it {ours.content}"
    if ours.expires_at != theirs.expires_at:
        return f"expires_at {theirs.expires_at}, the log makes it {ours.expires_at}"
    return _changed(ours.row, theirs.row, _MADE_ONCE)


def _changed(ours: NamedTuple, theirs: NamedTuple, names: tuple[str, ...]) -> str:
    changed = [name for name in names if getattr(ours, name) != getattr(theirs, name)]
    return ", ".join(f"{name} {getattr(theirs, name)!r}, the log makes it {getattr(ours, name)!r}" for name in changed)


_OF_CONVERSATION: Final = tuple(name for name in ConversationRow._fields if name != "sequences")


def compare_conversation(ours: ConversationRow, theirs: ConversationRow | None, reach: Reach) -> Compared:
    """Return how the store's conversation stands to the replay's."""
    replayed, committed = (reach.generation, reach.replayed), (reach.generation, reach.committed)
    if theirs is None:
        if ours.applied >= committed:
            return Compared(ComparisonResult.BEHIND)
        return Compared(ComparisonResult.MISSING, "the log makes the conversation")
    detail = _changed(_without_unkept(ours, theirs), theirs, _OF_CONVERSATION)
    if not detail:
        return _SAME
    if theirs.applied >= replayed and theirs.version > ours.version:
        return Compared(ComparisonResult.AHEAD)
    if ours.applied >= committed and theirs.version < ours.version:
        return Compared(ComparisonResult.BEHIND)
    return Compared(ComparisonResult.DIFFERS, detail)


def _without_unkept(ours: ConversationRow, theirs: ConversationRow) -> ConversationRow:
    """Return our row without the event ids that theirs, written before these were kept, cannot have."""
    if len(ours.blocks) != len(theirs.blocks):
        return ours
    pairs = zip(ours.blocks, theirs.blocks, strict=True)
    return ours._replace(blocks=tuple(one if other.event_id else one._replace(event_id=b"") for one, other in pairs))


def invented(theirs: StoredMessage, reach: Reach) -> Compared:
    """Return what it means that the store holds a message that the replay has not made."""
    if theirs.transitions and reach.place(theirs.transitions[0][0]) >= reach.replayed:
        return Compared(ComparisonResult.AHEAD)
    return Compared(ComparisonResult.INVENTED, f"the store has it as {theirs.row.state}")
