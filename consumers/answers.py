"""What the owner tells people: answers to actors, ticks to senders, deliveries to recipients. Pure."""

from typing import Final

from consumers.fold import Folded, FoldedConversation
from consumers.rows import At, MessageRow
from schemas.lifecycle import REASON_OF_FAILURE, Kind, Outcome, Reason, State
from schemas.records import NO_ID, Acknowledgement, Event

DEAD_LETTER_REASONS = frozenset(
    {
        Reason.UNKNOWN_MESSAGE.value,
        Reason.NOT_A_RECIPIENT.value,
        Reason.NOT_THE_SENDER.value,
        Reason.CONTENT_DIFFERS.value,
        Reason.ALREADY_FINAL.value,
        Reason.WRONG_PARTITION.value,
    }
)
"""Why a refused event, or a conflict, is kept for people to look at; ID_AHEAD and NOT_DUE pass by themselves."""

_SEND = Kind.SEND.value
_APPLIED = Outcome.APPLIED.value
_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes; for what is made for every event."""
_DUPLICATE = Outcome.DUPLICATE.value


def answer(event: Event, folded: Folded, at: At) -> Acknowledgement:
    """Return the answer to an event's actor: of its outcome and of where the message stands now."""
    row = folded.row
    reason = folded.reason
    if row is None:
        state, version, seq = State.PENDING.value, 0, event.seq
    else:
        state, version, seq = row.state, row.version, row.seq
        if folded.outcome == _DUPLICATE and event.kind == _SEND:
            reason = REASON_OF_FAILURE.get(state, reason)
    return _new(
        Acknowledgement,
        (
            event.actor,
            event.install,
            event.event_id,
            event.kind,
            event.actor,
            event.conversation_id,
            event.message_id,
            folded.outcome,
            reason,
            state,
            version,
            seq,
            at.appended_at,
            at.partition,
            at.offset,
        ),
    )


def tick(event: Event, row: MessageRow, at: At) -> Acknowledgement:
    """Return what a message's sender is told when an event moved the message."""
    return _new(
        Acknowledgement,
        (
            row.sender,
            row.install,
            event.event_id,
            event.kind,
            event.actor,
            row.conversation_id,
            row.message_id,
            _APPLIED,
            "",
            row.state,
            row.version,
            row.seq,
            at.appended_at,
            at.partition,
            at.offset,
        ),
    )


def answer_about_conversation(event: Event, folded: FoldedConversation, at: At) -> Acknowledgement:
    """Return the answer to a BLOCK or UNBLOCK."""
    return Acknowledgement(
        event.actor,
        event.install,
        event.event_id,
        event.kind,
        event.actor,
        event.conversation_id,
        NO_ID,
        folded.outcome,
        folded.reason,
        State.PENDING,
        folded.row.version,
        event.seq,
        at.appended_at,
        at.partition,
        at.offset,
    )
