"""What an owner learns again from records that the owner before it has finished. Pure."""

from typing import Final

from consumers.cache import Conversation
from consumers.fold import fold, fold_block, fold_membership
from consumers.folding import HELLO, OF_CONVERSATION, SAME_MESSAGE, SEND, STARTS
from consumers.parking import at_gate, with_parkings
from consumers.partition_rows import PartitionRows
from consumers.rows import At, ConversationRow, MessageRow
from consumers.stores.contract import KeyObject, MessageKey
from schemas.lifecycle import PARKING_KINDS, State
from schemas.records import Event

_SENT: Final = State.SENT.value
_REJECTED: Final = State.REJECTED.value
_NO_CONVERSATION: Final = ConversationRow("")


class WarmUp:
    """Folds a partition's finished records into its rows in memory: nothing is written, nothing is said."""

    __slots__ = ("_rows",)

    def __init__(self, rows: PartitionRows) -> None:
        self._rows = rows

    def take(self, event: Event, at: At, now_ms: int) -> None:
        """Fold a finished record.

        A message that may have been there before the tail is left to be read when it is asked for. Its SEND was read,
        because it may still be owed.
        """
        kind = event.kind
        if kind in OF_CONVERSATION:
            conversation = self._rows.conversation_of(event)
            if conversation is not None:
                self._conversation(event, conversation, at)
            return
        if kind == HELLO:
            return
        key: KeyObject = (event.conversation_id, event.message_id)
        before = self._rows.messages.rows.get(key)
        if before is None:
            row = self._start(key, event, at)
        else:
            folded = fold(event, before, _NO_CONVERSATION, at, self._rows.settings.policy)
            row = folded.row
            if row is not None and folded.transition is not None:
                self._rows.messages.rows[key] = row
            if kind in STARTS and before.sent_at == at.appended_at and folded.outcome in SAME_MESSAGE:
                self._join(event, before, at)
        if row is None:
            return
        if _SENT not in row.receipts:
            self._rows.pending.settle(key)
        elif kind == SEND:
            self._rows.owe(row, at, min(at.appended_at, now_ms))

    def _conversation(self, event: Event, conversation: Conversation, at: At) -> None:
        known, policy = conversation.row, self._rows.settings.policy
        if event.kind in PARKING_KINDS:
            # What the owner before made of it, with its own operators, is in the row that was read.
            return
        if self._waits(event, conversation, at):
            return
        after = fold_block(event, known, at, policy).row
        parkings = conversation.row.parkings
        conversation.row = after if parkings is known.parkings else with_parkings(known, after, parkings, at)

    def _waits(self, event: Event, conversation: Conversation, at: At) -> bool:
        """Say whether a finished event waited; note what that, or its passage, made of the parkings."""
        row = conversation.row
        if not row.parkings:
            return False
        gate = at_gate(event, row, at, self._rows.settings.policy)
        if gate.parkings is not None:
            conversation.row = with_parkings(row, row, gate.parkings, at)
        return gate.waits

    def _start(self, key: MessageKey, event: Event, at: At) -> MessageRow | None:
        """Fold a finished first SEND or CANCEL; None where it is none, or may not be the first."""
        if event.kind not in STARTS:
            return None
        conversation = self._rows.conversation_of(event)
        if conversation is None:
            return None
        known = conversation.row
        if self._waits(event, conversation, at) or event.message_id < self._rows.messages.bound:
            return None
        row = fold(event, None, known, at, self._rows.settings.policy).row
        if row is None:
            return None
        self._rows.messages.add(key, row)
        if row.state != _REJECTED:
            self._joined(conversation, known, event, at)
            if event.kind == SEND and event.seq:
                conversation.reuses(event.install, event.seq, (at.generation, at.offset))
        return row

    def _join(self, event: Event, row: MessageRow, at: At) -> None:
        """Note who takes part through a message that is here, where its conversation is: else that is read later."""
        conversation = self._rows.conversations.rows.get(event.conversation_id)
        made_it = (event.kind == SEND) == bool(row.digest)  # a row without a digest was made by a CANCEL
        if conversation is None or row.state == _REJECTED or not made_it:
            return
        known = conversation.row
        if not self._waits(event, conversation, at):
            self._joined(conversation, known, event, at)

    def _joined(self, conversation: Conversation, known: ConversationRow, event: Event, at: At) -> None:
        """Note who takes part, `known` being the conversation before the event and its passage."""
        after, parkings = fold_membership(event, known, at), conversation.row.parkings
        conversation.row = after if parkings is known.parkings else with_parkings(known, after, parkings, at)
