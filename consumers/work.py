"""What comes of one batch of one partition: data for the shell to carry out, in this order.

Write the rows; when they are durable, publish the answers and the dead letters; when those are reported, tell the
owner that the batch is finished.
"""

from typing import TYPE_CHECKING, NamedTuple

from consumers.low_water import BatchSpan
from consumers.rows import ConversationWrite, MessageWrite
from consumers.stores.contract import MessageKey
from schemas.lifecycle import Outcome

if TYPE_CHECKING:
    from schemas.records import Acknowledgement, Delivery


class Needs(NamedTuple):
    """Rows that a batch rests on and that the owner does not have."""

    messages: list[MessageKey]
    conversations: list[str]


class Conflict(NamedTuple):
    """Rows that someone else has written."""

    messages: set[MessageKey]
    conversations: set[str]

    def widened(self, work: "Work") -> "Conflict":
        """Return it with the messages that a batch made in those conversations: their first states rest on them."""
        made = {key for key, write in work.messages.items() if write.body is not None and key[0] in self.conversations}
        return Conflict(self.messages | made, self.conversations)


class Refusal(NamedTuple):
    """A record for the dead letters."""

    offset: int
    reason: str
    detail: str


class Tally:
    """How often what became of an event, of one batch."""

    __slots__ = ("applied", "conflicts", "duplicates", "refused", "stale", "warm")

    def __init__(self) -> None:
        self.applied = 0
        self.duplicates = 0
        self.stale = 0
        self.warm = 0
        """Records below the committed position, folded again only to fill the cache."""
        self.conflicts: dict[str, int] = {}
        """By reason; a SEQUENCE_REUSED counts here although its message was applied."""
        self.refused: dict[str, int] = {}
        """By reason; records that are no events included."""

    def count(self, outcome: str, reason: str) -> None:
        """Count one event."""
        if outcome == Outcome.APPLIED:
            self.applied += 1
        elif outcome == Outcome.DUPLICATE:
            self.duplicates += 1
        elif outcome == Outcome.STALE:
            self.stale += 1
        elif outcome == Outcome.CONFLICT:
            self.conflict(reason)
        else:
            self.refuse(reason)

    def conflict(self, reason: str) -> None:
        """Count a conflict."""
        self.conflicts[reason] = self.conflicts.get(reason, 0) + 1

    def refuse(self, reason: str) -> None:
        """Count a refusal."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


class Work:
    """A batch's outcome; filled by the owner, read by the shell."""

    __slots__ = (
        "acknowledgements",
        "conversations",
        "deliveries",
        "messages",
        "now_ms",
        "refusals",
        "span",
        "tally",
    )

    def __init__(self, span: BatchSpan, now_ms: int) -> None:
        self.span = span
        self.now_ms = now_ms
        self.messages: dict[MessageKey, MessageWrite] = {}
        """Each tells all of its row that is not in the store: what the batch changes."""
        self.conversations: dict[str, ConversationWrite] = {}
        self.acknowledgements: list[Acknowledgement] = []
        self.deliveries: list[Delivery] = []
        self.refusals: list[Refusal] = []
        self.tally = Tally()

    def refuse(self, offset: int, reason: str, detail: str) -> None:
        """Note a record for the dead letters."""
        self.refusals.append(Refusal(offset, reason, detail))

    def message_writes(self) -> list[MessageWrite]:
        """Return the rows to write: one write a row, however many events moved it."""
        return list(self.messages.values())

    def conversation_writes(self) -> list[ConversationWrite]:
        """Return the conversations to write."""
        return list(self.conversations.values())
