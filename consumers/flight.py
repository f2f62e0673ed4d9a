"""One batch of one partition on its way: rows, then answers, then finished."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from consumers.publisher import Outgoing
from consumers.work import Work
from schemas.records import DeadLetter, Record
from schemas.topics import DEAD_LETTERS, INBOX

if TYPE_CHECKING:
    from consumers.held import HeldPartition
    from consumers.owner import PartitionOwner
    from consumers.rows import ConversationWrite, MessageWrite


class Flight:
    """A batch whose rows are being written, then whose answers are being published."""

    __slots__ = ("conversations", "durable", "held", "letters", "messages", "owner", "published", "work")

    def __init__(
        self, held: "HeldPartition", owner: "PartitionOwner", work: Work, letters: Sequence[DeadLetter]
    ) -> None:
        self.held = held
        self.owner = owner
        self.work = work
        self.letters = letters
        self.messages: list[MessageWrite] = work.message_writes()
        self.conversations: list[ConversationWrite] = work.conversation_writes()
        self.durable = False
        self.published = False
        """Whether its answers are on their way; its rows need not stay in memory then."""

    def outgoing(self, encode: Callable[[Record], bytes]) -> Iterator[Outgoing]:
        """Yield the batch's answers, deliveries and dead letters, each encoded when it is asked for."""
        for acknowledgement in self.work.acknowledgements:
            yield INBOX, acknowledgement.user.encode(), encode(acknowledgement)
        for delivery in self.work.deliveries:
            yield INBOX, delivery.user.encode(), encode(delivery)
        for letter in self.letters:
            yield DEAD_LETTERS, letter.key, encode(letter)
