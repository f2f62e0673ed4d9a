"""One partition's rows in memory, where its owner starts, and what it is told. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from consumers.cache import Conversation, ConversationCache, MessageCache
from consumers.fold import Policy
from consumers.pending import PendingDeliveries
from consumers.redelivery import Schedule
from consumers.rows import At, ConversationRow, MessageRow, Owner
from consumers.stores.contract import MessageKey, Rows
from schemas.partitioner import partition_of
from schemas.records import Event


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


class PartitionRows:
    """The rows that are in memory, and the deliveries that are owed."""

    __slots__ = ("conversations", "messages", "pending", "settings", "takeover")

    def __init__(self, settings: OwnerSettings, takeover: Takeover, pending: PendingDeliveries) -> None:
        allowance_ms = settings.policy.id_ahead_ms_max + settings.broker_clock_skew_ms
        start = takeover.from_the_start
        self.messages = MessageCache(settings.messages_max, allowance_ms, from_the_start=start)
        # Whom the owner before let park is not in the log: what it has finished is read, though all else is here.
        complete = start and takeover.committed <= takeover.position
        self.conversations = ConversationCache(settings.conversations_max, complete=complete)
        self.pending = pending
        self.settings = settings
        self.takeover = takeover

    def load(self, cold: Rows) -> None:
        """Take in rows that were read; what is in memory is newer and stays.

        Another owner's are left out: the record that asked for them is in the wrong partition.
        """
        messages, conversations = self.messages, self.conversations
        for key, row in cold.messages.items():
            if key not in messages.rows and self.is_here(key[0]):
                messages.add(key, row)
        for conversation_id, conversation in cold.conversations.items():
            if conversation_id not in conversations.rows and self.is_here(conversation_id):
                conversations.add(conversation)

    def replace(self, messages: Iterable[MessageKey], conversations: Iterable[str], found: Rows) -> None:
        """Take rows as they were found where someone else has written them: what is in memory of them is wrong."""
        for key in messages:
            self.messages.replace(key, found.messages.get(key))
        for conversation_id in conversations:
            row = found.conversations.get(conversation_id) or ConversationRow(conversation_id)
            self.conversations.replace(row)

    def evict(self) -> None:
        """Put out what is over the limits; all of it must be in the store."""
        self.messages.evict()
        self.conversations.evict()

    def owe(self, row: MessageRow, at: At, since_ms: int) -> None:
        """Note that a message's recipients are owed it since its first delivery, if this is the copy that made it."""
        if row.sent_at == at.appended_at:
            due_ms = self.settings.schedule.due(row, 1, since_ms)
            self.pending.add((row.conversation_id, row.message_id), at.offset, since_ms, due_ms)

    def is_here(self, conversation_id: str) -> bool:
        """Say whether a conversation belongs to this partition; worked out once while it is in memory."""
        if conversation_id in self.conversations.rows:
            return True
        return partition_of(conversation_id.encode(), self.settings.partitions) == self.takeover.partition

    def conversation_of(self, event: Event) -> Conversation | None:
        """Return a record's conversation, None where it does not belong to this partition."""
        conversation_id = event.conversation_id
        found = self.conversations.rows.get(conversation_id)
        if found is not None or not self.is_here(conversation_id):
            return found
        return self.conversations.add(ConversationRow(conversation_id))
