"""The pure fold of a whole log, how a store differs from it, and what a real replay of it has changed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from compose.checking.history import Fault, History, Logged
from consumers.fold import Policy, fold, fold_block, fold_membership
from consumers.parking import GIVE_UP, at_gate, fold_parking, with_parkings
from consumers.rows import At, ConversationRow, MessageRow, Transition
from consumers.stores.contract import MessageKey
from schemas.lifecycle import CONVERSATION_KINDS, PARKING_KINDS, Kind, State
from schemas.records import Event

_MAKING = frozenset({Kind.SEND, Kind.CANCEL})


class Replayed(NamedTuple):
    """What the log makes of everything."""

    messages: dict[MessageKey, MessageRow]
    transitions: dict[MessageKey, list[Transition]]
    conversations: dict[str, ConversationRow]
    given_up: set[MessageKey]
    """What waited in a parking when it was given up."""


def replay(log: Sequence[Logged], policy: Policy) -> Replayed:
    """Fold a log from its first event; partitions share nothing, so their order among each other is of no meaning."""
    folded = Replayed({}, {}, {}, set())
    for at, event in log:
        if event.kind != Kind.HELLO:
            _step(folded, event, at, policy)
    return folded


def _step(folded: Replayed, event: Event, at: At, policy: Policy) -> None:
    """Fold one event."""
    name, key = event.conversation_id, (event.conversation_id, event.message_id)
    conversation = folded.conversations.get(name, ConversationRow(name))
    before = folded.messages.get(key)
    after, parkings = conversation, None
    if event.kind in PARKING_KINDS:
        after = fold_parking(event, conversation, at, policy).row
        if event.kind == Kind.RELEASE and event.seq == GIVE_UP and after is not conversation:
            folded.given_up.update((name, key) for key in conversation.parkings[-1].waiting)
    else:
        if event.kind in CONVERSATION_KINDS or (before is None and event.kind in _MAKING):
            waits, _, parkings = at_gate(event, conversation, at, policy)
            if waits:
                if parkings is not None:
                    folded.conversations[name] = with_parkings(conversation, conversation, parkings, at)
                return
        if event.kind in CONVERSATION_KINDS:
            after = fold_block(event, conversation, at, policy).row
        else:
            after = _message_step(folded, event, conversation, at, policy)
    if parkings is not None:
        after = with_parkings(conversation, after, parkings, at)
    if after is not conversation:
        folded.conversations[name] = after


def _message_step(
    folded: Replayed, event: Event, conversation: ConversationRow, at: At, policy: Policy
) -> ConversationRow:
    """Fold an event that is about a message; return its conversation."""
    key = (event.conversation_id, event.message_id)
    before = folded.messages.get(key)
    outcome = fold(event, before, conversation, at, policy)
    if outcome.transition is None or outcome.row is None:
        return conversation
    folded.messages[key] = outcome.row
    folded.transitions.setdefault(key, []).append(outcome.transition)
    if before is not None or outcome.row.state == State.REJECTED:
        return conversation
    return fold_membership(event, conversation, at)


def differences(history: History) -> Iterator[Fault]:
    """Yield where the store is not what the log makes; nothing where the log was not recorded."""
    if history.log is None:
        return
    replayed = replay(history.log, history.policy)
    stored = {each.key: each for each in history.stored}
    for key, row in replayed.messages.items():
        found = stored.get(key)
        if found is None:
            yield Fault("diverged", key[1], f"the log makes it {row.state}, the store does not hold it")
            continue
        if found.row != row:
            changed = [name for name in row._fields if getattr(row, name) != getattr(found.row, name)]
            told = ", ".join(f"{name} {getattr(found.row, name)!r} not {getattr(row, name)!r}" for name in changed)
            yield Fault("diverged", key[1], f"the store's row differs from the log's: {told}")
        told_steps = [step for step, _ in found.transitions]
        if told_steps != replayed.transitions[key]:
            yield Fault("diverged", key[1], f"its steps are {told_steps}, the log's are {replayed.transitions[key]}")
    for key in stored.keys() - replayed.messages.keys():
        yield Fault("invented", key[1], "the store holds it, the log never made it")
    if history.conversations is not None:
        yield from _conversations(replayed, history.conversations)


def _conversations(replayed: Replayed, rows: Sequence[ConversationRow]) -> Iterator[Fault]:
    """Yield conversations that differ in anything but `sequences`, which may lag behind the log."""
    stored = {row.conversation_id: row._replace(sequences=()) for row in rows}
    for name, row in replayed.conversations.items():
        if stored.get(name) != row:
            yield Fault("diverged", b"", f"conversation {name} is {stored.get(name)}, the log makes it {row}")
    for name in stored.keys() - replayed.conversations.keys():
        yield Fault("invented", b"", f"the store holds conversation {name}, the log never made it")


def changes(before: History, after: History) -> Iterator[Fault]:
    """Yield what the workers changed by folding the whole log once more; owners aside, that must be nothing.

    What has moved on by an event that came only then is left out: a delivery that is made again may arrive at last. So
    is what an outbox learns again that it had forgotten.
    """
    forgotten = before.forgotten
    ends: Counter[int] = Counter()
    for at, _ in before.log or ():
        ends[at.partition] = max(ends[at.partition], at.offset + 1)
    moved = {each.row.message_id for each in after.stored if each.row.applied[1] >= ends[each.row.partition]}
    for what, held, now in (
        ("the store", _stored(before), _stored(after)),
        ("what senders were told", _own(before), _own(after)),
        ("what recipients hold", _taken(before), _taken(after)),
    ):
        for key in held.keys() | now.keys():
            is_free = key[0] in moved or (key[1], key[0]) in forgotten
            if not is_free and held.get(key) != now.get(key):
                yield Fault("diverged", key[0], f"a replay changed {what}: {held.get(key)} into {now.get(key)}")


def _stored(history: History) -> dict[tuple[bytes, str], object]:
    """Return rows and steps without their owners."""
    return {
        (each.row.message_id, ""): (each.row, each.content, each.expires_at, [step for step, _ in each.transitions])
        for each in history.stored
    }


def _own(history: History) -> dict[tuple[bytes, str], object]:
    return {(each.message_id, each.user): each for each in history.own}


def _taken(history: History) -> dict[tuple[bytes, str], object]:
    return {(each.message_id, each.user): each.body for each in history.taken}
