"""The pure fold of a whole log, and how a store differs from it: what a replay would change."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from compose.checking.history import Fault, History, Logged
from consumers.fold import Policy, fold, fold_block, fold_membership
from consumers.rows import ConversationRow, MessageRow, Transition
from consumers.stores.contract import MessageKey
from schemas.lifecycle import CONVERSATION_KINDS, Kind, State


class Replayed(NamedTuple):
    """What the log makes of everything."""

    messages: dict[MessageKey, MessageRow]
    transitions: dict[MessageKey, list[Transition]]
    conversations: dict[str, ConversationRow]


def replay(log: Sequence[Logged], policy: Policy) -> Replayed:
    """Fold a log from its first event; partitions share nothing, so their order among each other is of no meaning."""
    folded = Replayed({}, {}, {})
    for at, event in log:
        conversation = folded.conversations.get(event.conversation_id, ConversationRow(event.conversation_id))
        if event.kind in CONVERSATION_KINDS:
            found = fold_block(event, conversation, at, policy)
            if found.changed:
                folded.conversations[event.conversation_id] = found.row
            continue
        if event.kind == Kind.HELLO:
            continue
        key = (event.conversation_id, event.message_id)
        before = folded.messages.get(key)
        outcome = fold(event, before, conversation, at, policy)
        if outcome.transition is None or outcome.row is None:
            continue
        folded.messages[key] = outcome.row
        folded.transitions.setdefault(key, []).append(outcome.transition)
        if before is None and outcome.row.state != State.REJECTED:
            folded.conversations[event.conversation_id] = fold_membership(event, conversation, at)
    return folded


def differences(history: History) -> Iterator[Fault]:
    """Yield where the store is not what the log makes; nothing where the log was not recorded."""
    if history.log is None:
        return
    replayed = replay(history.log, history.policy)
    stored = {(each.row.conversation_id, each.row.message_id): each for each in history.stored}
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
