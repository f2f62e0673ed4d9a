"""One batch of one partition on its way: rows, then answers, then finished."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from consumers.gateway import Gateway, for_inboxes
from consumers.intake import Entry
from consumers.publisher import Outgoing
from consumers.work import Work
from schemas.records import DeadLetter, Delivery, Record
from schemas.topics import DEAD_LETTERS, INBOX

if TYPE_CHECKING:
    from consumers.held import HeldPartition
    from consumers.owner import PartitionOwner
    from consumers.rows import ConversationWrite, MessageWrite


class Flight:
    """A batch whose rows are being written, then whose answers are being published."""

    __slots__ = (
        "conflicts",
        "conversations",
        "entries",
        "held",
        "letters_of",
        "messages",
        "owner",
        "records",
        "work",
    )

    def __init__(
        self,
        held: "HeldPartition",
        owner: "PartitionOwner",
        work: Work,
        entries: Sequence[Entry],
        letters_of: Callable[[Work], Sequence[DeadLetter]],
    ) -> None:
        self.held = held
        self.owner = owner
        self.work = work
        self.entries = entries
        """What it was folded from."""
        self.records = len(entries)
        self.letters_of = letters_of
        """Makes the batch's dead letters."""
        self.conflicts = 0
        """How often it had to be folded again."""
        self.messages: list[MessageWrite] = work.message_writes()
        self.conversations: list[ConversationWrite] = work.conversation_writes()

    def folded_again(self, work: Work) -> None:
        """Take the outcome of another fold; its rows are to be written anew."""
        self.work = work
        self.messages, self.conversations = work.message_writes(), work.conversation_writes()

    def outgoing(self, encode: Callable[[Record], bytes], gateway: Gateway) -> Iterator[Outgoing]:
        """Yield the batch's answers, deliveries and dead letters, each encoded when it is asked for."""
        letters = self.letters_of(self.work)
        deliveries = for_inboxes(self.work.deliveries, gateway, self.held.partition, self.owner.owner)
        return self._encoded(letters, deliveries, encode)

    def _encoded(
        self, letters: Sequence[DeadLetter], deliveries: Iterable[Delivery], encode: Callable[[Record], bytes]
    ) -> Iterator[Outgoing]:
        for acknowledgement in self.work.acknowledgements:
            yield INBOX, acknowledgement.user.encode(), encode(acknowledgement)
        for delivery in deliveries:
            yield INBOX, delivery.user.encode(), encode(delivery)
        for letter in letters:
            yield DEAD_LETTERS, letter.key, encode(letter)
