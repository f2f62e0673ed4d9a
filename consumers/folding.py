"""One partition's rows in memory, and what one event does to them. Pure.

`apply` folds an event that is to be written and answered; `warm` folds one that an owner before us has finished.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from consumers.answers import DEAD_LETTER_REASONS, answer, answer_about_conversation, tick
from consumers.cache import Conversation, ConversationCache, MessageCache
from consumers.fold import Folded, Policy, fold, fold_block, fold_membership
from consumers.parking import at_gate, fold_parking, with_parkings
from consumers.pending import PendingDeliveries
from consumers.redelivery import Schedule, deliveries_of
from consumers.rows import At, ConversationRow, ConversationWrite, MessageRow, MessageWrite, Owner, Parking
from consumers.stores.contract import Content, KeyObject, MessageKey, Rows
from consumers.work import Work
from schemas.lifecycle import CONVERSATION_KINDS, PARKING_KINDS, Kind, Outcome, Reason, State
from schemas.partitioner import partition_of
from schemas.records import Event

SEND = Kind.SEND.value
HELLO = Kind.HELLO.value
STARTS = frozenset({SEND, Kind.CANCEL.value})
"""Events that can make a message's row."""
OF_PARKING = frozenset(kind.value for kind in PARKING_KINDS)
OF_CONVERSATION = frozenset(kind.value for kind in CONVERSATION_KINDS) | OF_PARKING

_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes; for what is made for every event."""
_EXPIRE = Kind.EXPIRE.value
_SENT = State.SENT.value
_REJECTED = State.REJECTED.value
_APPLIED = Outcome.APPLIED.value
_TOLD_AGAIN = frozenset({Outcome.DUPLICATE.value, Outcome.STALE.value})
_SAME_MESSAGE = frozenset({Outcome.APPLIED.value, Outcome.DUPLICATE.value})
_NOT_OURS = frozenset({Outcome.CONFLICT.value, Outcome.REFUSED.value})
_NO_CONVERSATION = ConversationRow("")
_WRONG_PARTITION = Folded(Outcome.REFUSED, Reason.WRONG_PARTITION, None, None)
_PARKED = Folded(Outcome.REFUSED, Reason.PARKED, None, None)


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """What an owner is told; the same for every partition."""

    partitions: int
    """Of the events topic."""
    policy: Policy = field(default_factory=Policy)
    schedule: Schedule = field(default_factory=Schedule)
    broker_clock_skew_ms: int = 1_000
    """How far the brokers' clocks may differ."""
    tail_records: int = 20_000
    """How far before the committed position a takeover starts to read."""
    grace_s: int = 120
    """How long a delivery waits in memory before it is spilled."""
    pending_max: int = 20_000
    """Deliveries that wait in memory, per partition."""
    messages_max: int = 100_000
    """Message rows kept, per partition."""
    conversations_max: int = 50_000
    """Conversations kept, per partition."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Where an owner starts."""

    partition: int
    generation: int
    owner: Owner
    position: int
    """Of the first record it will be given."""
    committed: int
    """Records below it are finished; those it is given are for the warm-up."""
    from_the_start: bool
    """Whether `position` is the very first record of the topic's first generation: then what the cache does not
    hold is nowhere."""
    spilled_to: int
    """The newest time bucket of spilled deliveries that is worked off."""
    covers_from: int = 0
    """Offset of the first record from which on a message that is not in memory cannot be in the store.

    In the topic's first generation that is the very first it is given. When the partition count has changed, messages
    of conversations that were elsewhere before are in the store too, and this partition's older records say nothing
    about them: only what is appended after the takeover does.
    """


class Folding:
    """The rows of one partition that are in memory."""

    __slots__ = ("_settings", "_takeover", "conversations", "messages", "pending")

    def __init__(self, settings: OwnerSettings, takeover: Takeover, pending: PendingDeliveries) -> None:
        allowance_ms = settings.policy.id_ahead_ms_max + settings.broker_clock_skew_ms
        start = takeover.from_the_start
        self.messages = MessageCache(settings.messages_max, allowance_ms, from_the_start=start)
        self.conversations = ConversationCache(settings.conversations_max, complete=start)
        self.pending = pending
        self._settings = settings
        self._takeover = takeover

    def load(self, cold: Rows) -> None:
        """Take in rows that were read; what is in memory is newer and stays.

        Another owner's are left out: the record that asked for them is in the wrong partition.
        """
        messages, conversations = self.messages, self.conversations
        for key, row in cold.messages.items():
            if key not in messages.rows and self._is_here(key[0]):
                messages.add(key, row)
        for conversation_id, conversation in cold.conversations.items():
            if conversation_id not in conversations.rows and self._is_here(conversation_id):
                conversations.add(conversation)

    def replace(self, messages: Iterable[MessageKey], conversations: Iterable[str], found: Rows) -> None:
        """Take rows as they were found where someone else has written them: what is in memory of them is wrong."""
        for key in messages:
            self.messages.replace(key, found.messages.get(key))
        for conversation_id in conversations:
            row = found.conversations.get(conversation_id) or ConversationRow(conversation_id)
            self.conversations.replace(row)

    def adopt(self, schedule: Schedule) -> None:
        """Go on with another schedule."""
        self._settings = replace(self._settings, schedule=schedule)

    def evict(self, work: Work) -> None:
        """Put out what is over the limits, but nothing that the batch has yet to write."""
        self.messages.evict(work.messages)
        self.conversations.evict(work.conversations)

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
        before = self.messages.rows.get(key)
        conversation = None
        if before is None or not _is_copy(event, before, at):
            conversation = self._conversation(event)
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
        folded = fold(event, before, known, at, self._settings.policy)
        row = folded.row
        if row is not None:
            if folded.transition is not None:
                self.messages.add(key, row)
                # What broke a limit is not kept: it may be as large as a record can be.
                body = b"" if row.state == _REJECTED else event.body
                made = _new(MessageWrite, (row, (folded.transition,), body, event.content_type, event.expires_at))
                work.messages[key] = made
            if conversation is not None and folded.outcome in _SAME_MESSAGE:
                folded = self._first_copy(event, folded, conversation, at, work)
        if passage is not None and conversation is not None:
            self._write_conversation(conversation, with_parkings(known, conversation.row, passage, at), work)
        self._answer(event, folded, at, work)

    def _at_gate(
        self, event: Event, conversation: Conversation, at: At, work: Work
    ) -> tuple[bool, tuple[Parking, ...] | None]:
        """Say whether an event waits, because its conversation is parked; else what the parkings are behind it."""
        row = conversation.row
        waits, keeps, parkings = at_gate(event, row, at, self._settings.policy)
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
            self._owe(row, at, work.now_ms)
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

    def _owe(self, row: MessageRow, at: At, since_ms: int) -> None:
        """Note that a message's recipients are owed it since its first delivery, if this is the copy that made it."""
        if row.sent_at == at.appended_at:
            due_ms = self._settings.schedule.due(row, 1, since_ms)
            self.pending.add((row.conversation_id, row.message_id), at.offset, since_ms, due_ms)

    def _apply_receipt(self, event: Event, at: At, work: Work) -> None:
        """Fold a DELIVERED, READ or EXPIRE."""
        key: KeyObject = (event.conversation_id, event.message_id)
        before = self.messages.rows.get(key)
        if before is None and not self._is_here(event.conversation_id):
            self._answer(event, _WRONG_PARTITION, at, work)
            return
        folded = fold(event, before, _NO_CONVERSATION, at, self._settings.policy)
        row, transition = folded.row, folded.transition
        if before is not None and row is not None:
            if transition is not None:
                self.messages.rows[key] = row
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
                    self.pending.settle(key)
            elif folded.outcome in _TOLD_AGAIN and (at.generation, at.offset) <= row.applied:
                # An owner before us moved the row, and may have died before the tick was out.
                work.acknowledgements.append(tick(event, row, at))
        self._answer(event, folded, at, work)

    def _apply_block(self, event: Event, at: At, work: Work) -> None:
        conversation = self._conversation(event)
        if conversation is None:
            self._answer(event, _WRONG_PARTITION, at, work)
            return
        if event.kind in OF_PARKING:
            self._apply_parking(event, conversation, at, work)
            return
        known = conversation.row
        waits, passage = self._at_gate(event, conversation, at, work) if known.parkings else (False, None)
        if waits:
            self._answer(event, _PARKED, at, work)
            return
        folded = fold_block(event, known, at, self._settings.policy)
        if folded.changed or passage is not None:
            row = with_parkings(known, folded.row, passage, at) if passage is not None else folded.row
            row = row._replace(sequences=tuple(conversation.sequences.items()))
            self._write_conversation(conversation, row, work)
        work.tally.count(folded.outcome, folded.reason)
        work.acknowledgements.append(answer_about_conversation(event, folded, at))

    def _apply_parking(self, event: Event, conversation: Conversation, at: At, work: Work) -> None:
        """Fold a PARK or a RELEASE: an operator's, answered by nobody."""
        folded = fold_parking(event, conversation.row, at, self._settings.policy)
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

    def _is_here(self, conversation_id: str) -> bool:
        """Say whether a conversation belongs to this partition; worked out once while it is in memory."""
        if conversation_id in self.conversations.rows:
            return True
        return partition_of(conversation_id.encode(), self._settings.partitions) == self._takeover.partition

    def _conversation(self, event: Event) -> Conversation | None:
        """Return a record's conversation, None where it does not belong to this partition."""
        conversation_id = event.conversation_id
        found = self.conversations.rows.get(conversation_id)
        if found is not None or not self._is_here(conversation_id):
            return found
        return self.conversations.add(ConversationRow(conversation_id))

    def warm(self, event: Event, at: At, now_ms: int) -> None:
        """Fold a record that is finished, to know again what the owner before us knew; nothing is written or said.

        A message that may have been there before the tail is left to be read when it is asked for. Its SEND was read,
        because it may still be owed.
        """
        kind = event.kind
        if kind in OF_CONVERSATION:
            conversation = self._conversation(event)
            if conversation is not None:
                self._warm_conversation(event, conversation, at)
            return
        if kind == HELLO:
            return
        key: KeyObject = (event.conversation_id, event.message_id)
        before = self.messages.rows.get(key)
        if before is None:
            row = self._warm_start(key, event, at)
        else:
            folded = fold(event, before, _NO_CONVERSATION, at, self._settings.policy)
            row = folded.row
            if row is not None and folded.transition is not None:
                self.messages.rows[key] = row
            if kind in STARTS and before.sent_at == at.appended_at and folded.outcome in _SAME_MESSAGE:
                self._warm_join(event, before, at)
        if row is None:
            return
        if _SENT not in row.receipts:
            self.pending.settle(key)
        elif kind == SEND:
            self._owe(row, at, min(at.appended_at, now_ms))

    def _warm_conversation(self, event: Event, conversation: Conversation, at: At) -> None:
        known, policy = conversation.row, self._settings.policy
        if event.kind in OF_PARKING:
            conversation.row = fold_parking(event, known, at, policy).row
            return
        if self._warm_gate(event, conversation, at):
            return
        after = fold_block(event, known, at, policy).row
        parkings = conversation.row.parkings
        conversation.row = after if parkings is known.parkings else with_parkings(known, after, parkings, at)

    def _warm_gate(self, event: Event, conversation: Conversation, at: At) -> bool:
        """Say whether a finished event waited; note what that, or its passage, made of the parkings."""
        row = conversation.row
        if not row.parkings:
            return False
        gate = at_gate(event, row, at, self._settings.policy)
        if gate.parkings is not None:
            conversation.row = with_parkings(row, row, gate.parkings, at)
        return gate.waits

    def _warm_start(self, key: MessageKey, event: Event, at: At) -> MessageRow | None:
        """Fold a finished first SEND or CANCEL; None where it is none, or may not be the first."""
        if event.kind not in STARTS:
            return None
        conversation = self._conversation(event)
        if conversation is None:
            return None
        known = conversation.row
        if self._warm_gate(event, conversation, at) or event.message_id < self.messages.bound:
            return None
        row = fold(event, None, known, at, self._settings.policy).row
        if row is None:
            return None
        self.messages.add(key, row)
        if row.state != _REJECTED:
            self._joined(conversation, known, event, at)
            if event.kind == SEND and event.seq:
                conversation.reuses(event.install, event.seq, (at.generation, at.offset))
        return row

    def _warm_join(self, event: Event, row: MessageRow, at: At) -> None:
        """Note who takes part through a message that was read, where its conversation was not."""
        conversation = self._conversation(event)
        made_it = (event.kind == SEND) == bool(row.digest)  # a row without a digest was made by a CANCEL
        if conversation is None or row.state == _REJECTED or not made_it:
            return
        known = conversation.row
        if not self._warm_gate(event, conversation, at):
            self._joined(conversation, known, event, at)

    def _joined(self, conversation: Conversation, known: ConversationRow, event: Event, at: At) -> None:
        """Note who takes part, `known` being the conversation before the event and its passage."""
        after, parkings = fold_membership(event, known, at), conversation.row.parkings
        conversation.row = after if parkings is known.parkings else with_parkings(known, after, parkings, at)


def _is_copy(event: Event, row: MessageRow, at: At) -> bool:
    """Say whether a row was made by an event before this one; then the event rests on nothing but the row.

    One that was read cold may be ahead of the event. Then the event made it, or waited in a parked conversation until a
    later copy made it, or is a copy: append times tell the last from the others, and kinds, where both have the same.
    """
    if row.applied < (at.generation, at.offset) or row.sent_at < at.appended_at:
        return True
    return row.sent_at == at.appended_at and (event.kind == SEND) != bool(row.digest)
