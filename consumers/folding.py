"""What one event does to a partition's rows: writes, answers, refusals. Pure."""

from typing import Final

from consumers.answers import DEAD_LETTER_REASONS, answer, answer_about_conversation, tick
from consumers.cache import Conversation
from consumers.fold import Folded, fold, fold_block, fold_membership
from consumers.parking import at_gate, fold_parking, with_parkings
from consumers.partition_rows import PartitionRows
from consumers.redelivery import deliveries_of
from consumers.rows import At, ConversationRow, ConversationWrite, MessageRow, MessageWrite, Parking
from consumers.stores.contract import Content, KeyObject
from consumers.work import Work
from schemas.lifecycle import CONVERSATION_KINDS, PARKING_KINDS, Kind, Outcome, Reason, State
from schemas.records import Event

SEND = Kind.SEND.value
HELLO = Kind.HELLO.value
STARTS = frozenset({SEND, Kind.CANCEL.value})
"""Events that can make a message's row."""
OF_CONVERSATION = CONVERSATION_KINDS | PARKING_KINDS

_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes; for what is made for every event."""
_EXPIRE = Kind.EXPIRE.value
_SENT = State.SENT.value
_REJECTED = State.REJECTED.value
_APPLIED = Outcome.APPLIED.value
_TOLD_AGAIN = frozenset({Outcome.DUPLICATE.value, Outcome.STALE.value})
SAME_MESSAGE = frozenset({Outcome.APPLIED.value, Outcome.DUPLICATE.value})
_NOT_OURS = frozenset({Outcome.CONFLICT.value, Outcome.REFUSED.value})
_NO_CONVERSATION = ConversationRow("")
_WRONG_PARTITION = Folded(Outcome.REFUSED, Reason.WRONG_PARTITION, None, None)
_PARKED = Folded(Outcome.REFUSED, Reason.PARKED, None, None)


class Folding:
    """Folds events into one partition's rows."""

    __slots__ = ("_rows",)

    def __init__(self, rows: PartitionRows) -> None:
        self._rows = rows

    def apply(self, event: Event, at: At, work: Work) -> None:
        """Fold one event: its writes, answers and refusals go into `work`."""
        kind = event.kind
        if kind in OF_CONVERSATION:
            self._apply_block(event, at, work)
        elif kind in STARTS:
            self._apply_start(event, at, work)
        elif kind != HELLO:
            self._apply_receipt(event, at, work)

    def _apply_start(self, event: Event, at: At, work: Work) -> None:
        """Fold a SEND or a CANCEL."""
        key: KeyObject = (event.conversation_id, event.message_id)
        before = self._rows.messages.rows.get(key)
        conversation = None
        if before is None or not _is_copy(event, before, at):
            conversation = self._rows.conversation_of(event)
            if conversation is None:
                self._answer(event, _WRONG_PARTITION, at, work)
                return
        known = conversation.row if conversation else _NO_CONVERSATION
        passage = None
        if known.parkings and conversation is not None:
            waits, passage = self._at_gate(event, conversation, at, work)
            if waits:
                self._answer(event, _PARKED, at, work)
                return
        folded = fold(event, before, known, at, self._rows.settings.policy)
        row = folded.row
        if row is not None:
            if folded.transition is not None:
                self._rows.messages.add(key, row)
                # What broke a limit is not kept: it may be as large as a record can be.
                body = b"" if row.state == _REJECTED else event.body
                made = _new(MessageWrite, (row, (folded.transition,), body, event.content_type, event.expires_at))
                work.messages[key] = made
            if conversation is not None and folded.outcome in SAME_MESSAGE:
                folded = self._first_copy(event, folded, conversation, at, work)
        if passage is not None and conversation is not None:
            self._write_conversation(conversation, with_parkings(known, conversation.row, passage, at), work)
        self._answer(event, folded, at, work)

    def _at_gate(
        self, event: Event, conversation: Conversation, at: At, work: Work
    ) -> tuple[bool, tuple[Parking, ...] | None]:
        """Say whether an event waits, because its conversation is parked; else what the parkings are behind it."""
        row = conversation.row
        waits, keeps, parkings = at_gate(event, row, at, self._rows.settings.policy)
        if not waits:
            return False, parkings
        if parkings is not None:
            self._write_conversation(conversation, with_parkings(row, row, parkings, at), work)
        if keeps:
            work.refuse(at.offset, Reason.PARKED, f"{event.kind} by {event.actor!r}")
        return True, None

    def _first_copy(self, event: Event, folded: Folded, conversation: Conversation, at: At, work: Work) -> Folded:
        """Do what the copy that makes a message asks for, whether or not an owner before us got to it."""
        row = folded.row
        if row is None or row.state == _REJECTED:
            return folded
        self._join(event, conversation, at, work)
        if event.kind != SEND:
            return folded
        if _SENT in row.receipts:
            work.deliveries += deliveries_of(row, Content(event.body, event.content_type), 1)
            # Its first delivery goes out now, however long ago the log took it: working off a backlog reminds nobody.
            self._rows.owe(row, at, work.now_ms)
        if folded.transition is None or not event.seq:
            return folded
        if conversation.reuses(event.install, event.seq, (at.generation, at.offset)):
            work.tally.conflict(Reason.SEQUENCE_REUSED)
            return folded._replace(reason=folded.reason or Reason.SEQUENCE_REUSED)
        return folded

    def _join(self, event: Event, conversation: Conversation, at: At, work: Work) -> None:
        """Note who takes part in a conversation, and in which bucket it has messages."""
        before = conversation.row
        row = fold_membership(event, before, at)
        if row is not before:
            sequences = conversation.sequences
            if event.kind == SEND and event.seq > sequences.get(event.install, 0):
                sequences = {**sequences, event.install: event.seq}
            self._write_conversation(conversation, row._replace(sequences=tuple(sequences.items())), work)

    def _apply_receipt(self, event: Event, at: At, work: Work) -> None:
        """Fold a DELIVERED, READ or EXPIRE."""
        key: KeyObject = (event.conversation_id, event.message_id)
        before = self._rows.messages.rows.get(key)
        if before is None and not self._rows.is_here(event.conversation_id):
            self._answer(event, _WRONG_PARTITION, at, work)
            return
        folded = fold(event, before, _NO_CONVERSATION, at, self._rows.settings.policy)
        row, transition = folded.row, folded.transition
        if before is not None and row is not None:
            if transition is not None:
                self._rows.messages.rows[key] = row
                written: dict[KeyObject, MessageWrite] = work.messages
                held = written.get(key)
                if held is None:
                    written[key] = _new(MessageWrite, (row, (transition,), None, "", 0))
                else:
                    _, transitions, body, content_type, expires_at = held
                    moved = (row, (*transitions, transition), body, content_type, expires_at)
                    written[key] = _new(MessageWrite, moved)
                if row.state != before.state:
                    work.acknowledgements.append(tick(event, row, at))
                if _SENT not in row.receipts:
                    self._rows.pending.settle(key)
            elif folded.outcome in _TOLD_AGAIN and (at.generation, at.offset) <= row.applied:
                # An owner before us moved the row, and may have died before the tick was out.
                work.acknowledgements.append(tick(event, row, at))
        self._answer(event, folded, at, work)

    def _apply_block(self, event: Event, at: At, work: Work) -> None:
        conversation = self._rows.conversation_of(event)
        if conversation is None:
            self._answer(event, _WRONG_PARTITION, at, work)
            return
        if event.kind in PARKING_KINDS:
            self._apply_parking(event, conversation, at, work)
            return
        known = conversation.row
        waits, passage = self._at_gate(event, conversation, at, work) if known.parkings else (False, None)
        if waits:
            self._answer(event, _PARKED, at, work)
            return
        folded = fold_block(event, known, at, self._rows.settings.policy)
        if folded.changed or passage is not None:
            row = with_parkings(known, folded.row, passage, at) if passage is not None else folded.row
            row = row._replace(sequences=tuple(conversation.sequences.items()))
            self._write_conversation(conversation, row, work)
        work.tally.count(folded.outcome, folded.reason)
        work.acknowledgements.append(answer_about_conversation(event, folded, at))

    def _apply_parking(self, event: Event, conversation: Conversation, at: At, work: Work) -> None:
        """Fold a PARK or a RELEASE: an operator's, answered by nobody."""
        folded = fold_parking(event, conversation.row, at, self._rows.settings.policy)
        if folded.changed:
            self._write_conversation(conversation, folded.row, work)
        work.tally.count(folded.outcome, folded.reason)

    def _write_conversation(self, conversation: Conversation, row: ConversationRow, work: Work) -> None:
        held = work.conversations.get(row.conversation_id)
        base = conversation.row.version if held is None else held.base
        conversation.row = row
        work.conversations[row.conversation_id] = ConversationWrite(row, base)

    def _answer(self, event: Event, folded: Folded, at: At, work: Work) -> None:
        if event.actor and event.kind != _EXPIRE:
            work.acknowledgements.append(answer(event, folded, at))
        outcome = folded.outcome
        if outcome == _APPLIED:
            work.tally.applied += 1
            return
        work.tally.count(outcome, folded.reason)
        if outcome in _NOT_OURS and folded.reason in DEAD_LETTER_REASONS:
            work.refuse(at.offset, folded.reason, f"{event.kind} by {event.actor!r}")


def _is_copy(event: Event, row: MessageRow, at: At) -> bool:
    """Say whether a row was made by an event before this one; then the event rests on nothing but the row.

    One that was read cold may be ahead of the event. Then the event made it, or waited in a parked conversation until a
    later copy made it, or is a copy: append times tell the last from the others, and kinds, where both have the same.
    """
    if row.applied < (at.generation, at.offset) or row.sent_at < at.appended_at:
        return True
    return row.sent_at == at.appended_at and (event.kind == SEND) != bool(row.digest)
