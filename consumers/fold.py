"""The fold: what one event makes of a message's row. Pure, and a function of the log's prefix alone.

Whoever folds the same prefix computes the same row, which is what makes a crash, a takeover and a replay harmless.
So nothing here may come from a clock, from chance, from the cache's extent or from who asks. `position` is compared
with the row's `applied` because a row read from the store can be ahead of the event: the former owner wrote past
its last commit. The rules are those of `schemas.lifecycle`; this module looks them up and works out the numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple

from consumers.rows import At, Block, ConversationRow, MessageRow, Position, Transition
from schemas.identity import bucket_of, time_of
from schemas.lifecycle import (
    CONVERSATION_TABLE,
    GUARDS,
    RANK,
    RECEIPTS,
    TABLE,
    Kind,
    Outcome,
    Reason,
    Rule,
    State,
    lowest,
)
from schemas.records import Event

_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes; for what is made for every event."""
_APPLIED = Outcome.APPLIED.value
_NONE = Reason.NONE.value
_EXPIRE = Kind.EXPIRE.value
_CANCEL = Kind.CANCEL.value
_FIRST_SEND = TABLE[State.PENDING.value][Kind.SEND.value]

_ID_AHEAD, _REJECTED, _EXPIRED, _BLOCKED = GUARDS.values()


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits that are part of the fold: every worker of a deployment must run with the same ones."""

    id_ahead_ms_max: int = 5_000
    """How far a message id's time may be ahead of its SEND's append time."""
    recipients_max: int = 256
    """A SEND to more recipients is FAILED(rejected)."""
    body_bytes_max: int = 256 * 1024
    """A SEND with a longer body is FAILED(rejected)."""
    delivery_timeout_s: int = 7 * 24 * 3600
    """For a SEND that does not say how long it may take."""
    blocks_max: int = 1_000
    """Block changes kept in one conversation."""
    parked_max: int = 1_000
    """Records that wait in one parked conversation; those beyond it are left to their clients to send again.
    Of the first 1,000 of those, each outbox's come in order all the same."""
    block_window_offsets: int = 1_000_000
    """How far back blocks and parkings can be asked about, and copies of a BLOCK or UNBLOCK that was applied are known.
    What an owner has not committed, and what it reads again before that, must always be less."""

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises ValueError."""
        if self.id_ahead_ms_max < 0:
            raise ValueError("policy.id_ahead_ms_max must not be negative")
        for name in ("recipients_max", "body_bytes_max", "delivery_timeout_s", "blocks_max", "parked_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"policy.{name} must be at least 1")


class Folded(NamedTuple):
    """What became of an event."""

    outcome: str
    reason: str
    row: MessageRow | None
    """The row after the event; None where there is none."""
    transition: Transition | None
    """What changed; None where nothing did."""


def digest_of(event: Event) -> bytes:
    """Return the 16 bytes by which two copies of a SEND are told to be the same.

    User ids hold no control characters, so NUL keeps the parts apart.
    """
    head = "\0".join((event.actor, *event.recipients, "", event.content_type, ""))
    return blake2b(head.encode() + event.body, digest_size=16).digest()


def stamp_after(appended_at: int, stamp: int) -> int:
    """Return the next stamp in µs of a row that stands at `stamp`, for an event appended at `appended_at` ms."""
    return max(appended_at * 1000, stamp + 1)


def fold(event: Event, row: MessageRow | None, conversation: ConversationRow, at: At, policy: Policy) -> Folded:
    """Return what one SEND, receipt, CANCEL or EXPIRE makes of its message's row.

    `row` is the message's row as known, None where the log has not shown it; `conversation` is asked only for a
    first SEND. An event at or below `row.applied` changes nothing and is answered again.
    """
    kind = event.kind
    if kind in RECEIPTS:
        return _receipt(event, row, at)
    if kind == _EXPIRE:
        # One that has an actor is that recipient's own word, like a receipt.
        return _receipt(event, row, at) if event.actor else _expire(row, at)
    if (row is None or (at.generation, at.offset) <= row.applied) and is_ahead(event.message_id, at, policy):
        # Where the row is ahead, this was refused the first time: another copy, later in the log, made it.
        return _unchanged(_ID_AHEAD, row)
    if kind == _CANCEL:
        return _cancel(event, row, at, policy)
    return _first_send(event, conversation, at, policy) if row is None else _send_again(event, row)


def _unchanged(rule: Rule, row: MessageRow | None) -> Folded:
    return Folded(rule.outcome, rule.reason, row, None)


def _receipt(event: Event, row: MessageRow | None, at: At) -> Folded:
    if row is None:
        return _unchanged(TABLE[State.PENDING][event.kind], None)
    try:
        index = row.recipients.index(event.actor)
    except ValueError:
        return Folded(Outcome.REFUSED, Reason.NOT_A_RECIPIENT, row, None)
    rule = TABLE[row.receipts[index]][event.kind]
    if rule.outcome != _APPLIED:
        return _unchanged(rule, row)
    if (at.generation, at.offset) <= row.applied:
        # The row is ahead and this receipt did not move it, so it stood before its SEND and was refused then too.
        return Folded(Outcome.REFUSED, Reason.UNKNOWN_MESSAGE, row, None)
    if len(row.receipts) == 1:
        receipts: tuple[str, ...] = (rule.after,)
    else:
        receipts = (*row.receipts[:index], rule.after, *row.receipts[index + 1 :])
    return _moved(row, receipts, rule.after, event.actor, at)


def _moved(row: MessageRow, receipts: tuple[str, ...], to: str, actor: str, at: At) -> Folded:
    """Return an accepted transition: version + 1, the next stamp, the lowest state of the recipients."""
    version = row.version + 1
    moved = _new(
        MessageRow,
        (
            row.conversation_id,
            row.message_id,
            lowest(receipts),
            row.sender,
            row.recipients,
            receipts,
            row.digest,
            row.install,
            row.seq,
            row.partition,
            row.sent_at,
            row.deliver_by,
            version,
            (at.generation, at.offset),
            stamp_after(at.appended_at, row.stamp),
        ),
    )
    transition = _new(Transition, (version, to, actor, at.appended_at, at.offset))
    return _new(Folded, (_APPLIED, _NONE, moved, transition))


def _first_send(event: Event, conversation: ConversationRow, at: At, policy: Policy) -> Folded:
    receipts: tuple[str, ...]
    if breaks_limit(event, policy):
        rule, receipts = _REJECTED, (_REJECTED.after,) * len(event.recipients)
    elif event.expires_at and at.appended_at > event.expires_at:
        rule, receipts = _EXPIRED, (_EXPIRED.after,) * len(event.recipients)
    else:
        receipts = _receipts_at_start(event, conversation, (at.generation, at.offset))
        rule = _BLOCKED if lowest(receipts) == _BLOCKED.after else _FIRST_SEND
    row = _first_row(event, rule.after, receipts, digest_of(event), at, policy)
    transition = _new(Transition, (1, rule.after, event.actor, at.appended_at, at.offset))
    return _new(Folded, (rule.outcome, rule.reason, row, transition))


def _first_row(  # noqa: PLR0913, PLR0917 - one value for each way in which first rows differ
    event: Event, state: str, receipts: tuple[str, ...], digest: bytes, at: At, policy: Policy
) -> MessageRow:
    timeout_s = event.delivery_timeout_s or policy.delivery_timeout_s
    return _new(
        MessageRow,
        (
            event.conversation_id,
            event.message_id,
            state,
            event.actor,
            event.recipients,
            receipts,
            digest,
            event.install,
            event.seq,
            at.partition,
            at.appended_at,
            at.appended_at + timeout_s * 1000,
            1,
            (at.generation, at.offset),
            at.appended_at * 1000,
        ),
    )


def is_ahead(message_id: bytes, at: At, policy: Policy) -> bool:
    """Say whether an id's time is too far ahead of the log's for an unknown message to be taken."""
    return time_of(message_id) > at.appended_at + policy.id_ahead_ms_max


def breaks_limit(event: Event, policy: Policy) -> bool:
    """Say whether a SEND is one that no resend can make acceptable."""
    return not 0 < len(event.recipients) <= policy.recipients_max or len(event.body) > policy.body_bytes_max


def _receipts_at_start(event: Event, conversation: ConversationRow, position: Position) -> tuple[str, ...]:
    """Return the recipients' first states: BLOCKED for those who, as of `position`, block the sender."""
    if not conversation.blocks:
        return (_FIRST_SEND.after,) * len(event.recipients)
    blockers = blockers_as_of(conversation.blocks, event.actor, position)
    return tuple(_BLOCKED.after if user in blockers else _FIRST_SEND.after for user in event.recipients)


def blockers_as_of(blocks: Sequence[Block], blocked: str, position: Position) -> set[str]:
    """Return who blocked `blocked` just before `position`, which must be within the policy's window."""
    known: dict[str, bool] = {}
    for change in blocks:
        if change.blocked == blocked:
            if change.position < position:
                known[change.blocker] = change.active
            else:  # changes of a pair take turns, so the first one after `position` tells what was true before it
                known.setdefault(change.blocker, not change.active)
    return {blocker for blocker, is_active in known.items() if is_active}


def _send_again(event: Event, row: MessageRow) -> Folded:
    """Return the original answer for a copy, a conflict where it is not a copy."""
    if event.actor != row.sender:
        return Folded(Outcome.CONFLICT, Reason.NOT_THE_SENDER, row, None)
    if row.digest and digest_of(event) != row.digest:
        return Folded(Outcome.CONFLICT, Reason.CONTENT_DIFFERS, row, None)
    return _unchanged(TABLE[row.state][Kind.SEND], row)


def _cancel(event: Event, row: MessageRow | None, at: At, policy: Policy) -> Folded:
    if row is not None:
        if event.actor != row.sender:
            return Folded(Outcome.REFUSED, Reason.NOT_THE_SENDER, row, None)
        return _unchanged(TABLE[row.state][Kind.CANCEL], row)
    rule = TABLE[State.PENDING][Kind.CANCEL]
    cancelled = _first_row(event, rule.after, (), b"", at, policy)
    return Folded(
        rule.outcome, rule.reason, cancelled, Transition(1, rule.after, event.actor, at.appended_at, at.offset)
    )


def _expire(row: MessageRow | None, at: At) -> Folded:
    rule = TABLE[row.state if row else State.PENDING][Kind.EXPIRE]
    if row is None or rule.outcome != Outcome.APPLIED:
        return _unchanged(rule, row)
    if at.appended_at < row.deliver_by or (at.generation, at.offset) <= row.applied:
        return Folded(Outcome.REFUSED, Reason.NOT_DUE, row, None)
    receipts = tuple(rule.after if RANK[own] < RANK[rule.after] else own for own in row.receipts)
    return _moved(row, receipts, rule.after, "", at)


class FoldedConversation(NamedTuple):
    """What became of a BLOCK or UNBLOCK, or of a SEND's part in the conversation."""

    outcome: str
    reason: str
    row: ConversationRow
    changed: bool


def fold_block(event: Event, row: ConversationRow, at: At, policy: Policy) -> FoldedConversation:
    """Return what a BLOCK or UNBLOCK makes of its conversation.

    A copy of one whose change the row still keeps changes nothing: another of the user's installs may have taken it
    back meanwhile. Kept are the changes within the policy's window, of this generation, and older BLOCKs that hold. A
    copy of what is older, or changed nothing at first, is an event like any other.
    """
    position = (at.generation, at.offset)
    change = Block(event.actor, event.subject, position, event.kind == Kind.BLOCK, event.event_id)
    if _is_kept(change, row.blocks):
        return FoldedConversation(Outcome.DUPLICATE, Reason.NONE, row, changed=False)
    is_blocked = event.actor in blockers_as_of(row.blocks, event.subject, position)
    rule = CONVERSATION_TABLE[is_blocked][event.kind]
    if rule.outcome != Outcome.APPLIED:
        return FoldedConversation(rule.outcome, rule.reason, row, changed=False)
    if position <= row.applied:
        return FoldedConversation(Outcome.DUPLICATE, Reason.NONE, row, changed=False)
    blocks = (*_askable(row.blocks, position, policy), change)
    if change.active and len(blocks) > policy.blocks_max:  # an UNBLOCK is always taken: there are no more than BLOCKs
        return FoldedConversation(Outcome.REFUSED, Reason.TOO_MANY_BLOCKS, row, changed=False)
    moved = row._replace(
        blocks=blocks, version=row.version + 1, applied=position, stamp=stamp_after(at.appended_at, row.stamp)
    )
    return FoldedConversation(Outcome.APPLIED, Reason.NONE, moved, changed=True)


def _is_kept(change: Block, blocks: tuple[Block, ...]) -> bool:
    """Say whether the event of a change has made it before."""
    same = change.event_id
    return any(kept.event_id == same and kept._replace(position=change.position) == change for kept in blocks)


def _askable(blocks: tuple[Block, ...], position: Position, policy: Policy) -> tuple[Block, ...]:
    """Return the changes without those that no question within the policy's window before `position` meets.

    Of what lies before the window only each pair's last change counts, and that only where it says "blocked".
    """
    start = (position[0], position[1] - policy.block_window_offsets)
    last = {change[:2]: change for change in blocks if change.position < start}
    return tuple(
        change for change in blocks if change.position >= start or (last[change[:2]] is change and change.active)
    )


def fold_membership(event: Event, row: ConversationRow, at: At) -> ConversationRow:
    """Return the conversation after an accepted SEND: the same object where it told nothing new."""
    position = (at.generation, at.offset)
    bucket = bucket_of(event.message_id)
    known = row.participants
    if bucket in row.buckets and event.actor in known and all(user in known for user in event.recipients):
        return row
    if position <= row.applied:
        return row
    return row._replace(
        participants=tuple(sorted({*known, event.actor, *event.recipients})),
        buckets=tuple(sorted({*row.buckets, bucket})),
        version=row.version + 1,
        applied=position,
        stamp=stamp_after(at.appended_at, row.stamp),
    )
