"""What a worker asks of a store, and what every store promises.

- A write is idempotent: the same `MessageWrite` twice, or late, or after a newer one leaves the newer one. A store
  keeps each row's (stamp, owner) maximum and never goes back.
- `write` is asynchronous and reports durability exactly once through its callback, from any thread. It retries by
  itself nothing: the worker does, because a failed batch may be written again whole.
- `read` answers what is durable now; rows that are not there are left out. So is a row of which only a later move has
  landed yet, not the write that makes it: its SEND is still uncommitted, so whoever takes over folds it again.
- Two errors of `write` are about who else writes: `VersionConflictError` (in strict mode only: these rows are not as
  the fold left them; read them, fold again) and `OwnerFencedError` (a later owner has the partition; a store that can
  tell refuses, one that cannot keeps the later write all the same). The latter is also one of `spill` and
  `drop_spilled`: what an owner keeps for later, no earlier owner can make it forget.
- A foreign error never leaves a store: `StoreUnavailableError` (retriable: servers down, time-outs, overload),
  `StoreRefusedError` (not retriable: no such table, no permission, a schema of another version).
- A store belongs to the process that opened it: in a forked child every call raises StoreRefusedError at once, and
  so does every call after `close`; `write` and `spill` hand that error to `done`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from consumers.rows import ConversationRow, ConversationWrite, MessageRow, MessageWrite, Owner, Transition
from consumers.stores.shared import Shared

MessageKey = tuple[str, bytes]
"""(conversation_id, message_id)."""
KeyObject = Any
"""A `MessageKey` that stays one object where this is compiled: a tuple of a known length is taken apart there, and put
together again for each dictionary that it is looked up in."""

Done = Callable[[Exception | None], None]
"""Called once: None when all is durable, else the error."""


class Rows(NamedTuple):
    """What `read` found."""

    messages: Mapping[MessageKey, MessageRow]
    conversations: Mapping[str, ConversationRow]


class Content(NamedTuple):
    """A message's body, for a redelivery."""

    body: bytes
    content_type: str


class StoredMessage(NamedTuple):
    """One message's whole row, for people: history, one message's story, replay's comparison."""

    row: MessageRow
    content: Content
    expires_at: int
    owner: Owner
    transitions: Sequence[tuple[Transition, Owner]]
    """Ascending by version, each with the owner that wrote it."""

    @property
    def key(self) -> MessageKey:
        """Its (conversation_id, message_id)."""
        return self.row.conversation_id, self.row.message_id


class RowCounts(NamedTuple):
    """How many rows a store holds."""

    messages: int
    conversations: int


class Lease(NamedTuple):
    """Who owns a partition."""

    partition: int
    epoch: int
    node: str
    since: int
    """ms since 1970, by the claimer's clock; for people."""


class TopicRecord(NamedTuple):
    """What is recorded about the events topic: the generation rises when either of the others changes."""

    topic: str
    topic_id: str
    """Kafka's own id of the topic (KIP-516), or the cluster's where the broker tells none."""
    partitions: int
    generation: int
    earlier: tuple[tuple[int, ...], ...] = ()
    """Of the generations before this one that the same topic has seen, oldest first: by partition, the first offset
    that was not theirs. Empty once the topic was made anew."""


class Pending(NamedTuple):
    """A delivery that waits for its receipt, spilled out of the owner's memory."""

    conversation_id: str
    message_id: bytes
    attempt: int
    """Deliveries made so far."""

    @property
    def key(self) -> MessageKey:
        """Its message's (conversation_id, message_id)."""
        return self.conversation_id, self.message_id


class DeadLetterMark(NamedTuple):
    """What somebody did about a dead letter, by where the original stood in the events topic and when it came there."""

    partition: int
    offset: int
    appended_at: int
    deed: str
    """`redriven` or `discarded`."""
    who: str
    at: int
    """ms since 1970."""


class Store(Protocol):
    """One store, one connection pool; safe to use from one thread at a time, except for `write`'s callbacks."""

    def read(self, messages: Sequence[MessageKey], conversations: Sequence[str]) -> Rows:
        """Read the rows named, all at once. Raises StoreUnavailableError, StoreRefusedError."""

    def write(
        self,
        owner: Owner,
        messages: Sequence[MessageWrite],
        conversations: Sequence[ConversationWrite],
        done: Done,
        *,
        partition: int | None = None,
    ) -> None:
        """Start to make the rows durable; `done` is called once, also when it fails. Raises nothing itself.

        `partition` is the one whose lease `owner` claimed; None where nobody's lease is asked about.
        """

    def mend(
        self, owner: Owner, messages: Sequence[MessageWrite], conversations: Sequence[ConversationWrite], done: Done
    ) -> None:
        """Start to put whole rows in the place of what somebody else has made of them, else as `write`.

        A row of a later event or, under stamps, of a later stamp stays.
        """

    def contents(self, messages: Sequence[MessageKey]) -> Mapping[MessageKey, Content]:
        """Read bodies for redelivery. Raises StoreUnavailableError, StoreRefusedError."""

    def spill(self, owner: Owner, partition: int, bucket: int, pending: Sequence[Pending], done: Done) -> None:
        """Start to keep deliveries that are due in time bucket `bucket`; of one added twice the later attempt stays.

        A bucket that this owner or a later one has dropped stays empty: what is due at or before `spill_position` goes
        into a later one.
        """

    def spilled(self, partition: int, bucket: int) -> Iterator[Pending]:
        """Read a time bucket's deliveries, paged. Raises StoreUnavailableError, StoreRefusedError."""

    def drop_spilled(self, owner: Owner, partition: int, bucket: int) -> None:
        """Forget what owners up to this one keep in a time bucket, and remember that all up to it is worked off.

        What a later owner keeps, or remembers, stays. Raises OwnerFencedError, where the store can tell;
        StoreUnavailableError, StoreRefusedError.
        """

    def spill_position(self, partition: int) -> int | None:
        """Return the newest bucket that is worked off, by the latest owner that dropped one; None before the first."""

    def claim_lease(self, partition: int, node: str) -> Lease:
        """Take a partition with one conditional write: epoch + 1.

        Raises StoreUnavailableError where the outcome is unknown: claim again; an epoch may be skipped, never shared.
        """

    def leases(self) -> Sequence[Lease]:
        """Read all leases, serially: what is returned is not stale."""

    def topic_record(self, topic: str) -> TopicRecord | None:
        """Read what is recorded about a topic."""

    def record_topic(self, record: TopicRecord, expected: TopicRecord | None) -> bool:
        """Replace the record where it is still `expected` (None: there is none); say whether it was."""

    def message(self, key: MessageKey) -> StoredMessage | None:
        """Read one message whole."""

    def history(self, conversation_id: str, limit: int, *, newest_first: bool = True) -> Iterator[StoredMessage]:
        """Read a conversation's messages in the order of their ids, paged.

        Looks into the conversation row's `buckets` and nowhere else.
        """

    def find(self, message_id: bytes) -> Iterator[StoredMessage]:
        """Find a message without its conversation: a scan of the whole store, for people."""

    def messages(self, keys: Sequence[MessageKey]) -> Mapping[MessageKey, StoredMessage]:
        """Read messages whole, all at once; those that are not there are left out."""

    def all_messages(self) -> Iterator[StoredMessage]:
        """Read every message, in no particular order, paged; for checks over a whole store."""

    def all_conversations(self) -> Iterator[ConversationRow]:
        """Read every conversation, in no particular order, paged; for checks over a whole store."""

    def row_counts(self) -> RowCounts | None:
        """Count the rows, to say how far a look at all of them has got; None where only reading them would tell."""

    def mark_dead_letters(self, marks: Sequence[DeadLetterMark]) -> None:
        """Keep what was done about dead letters; of two marks of one letter the later stays."""

    def dead_letter_marks(self) -> Iterator[DeadLetterMark]:
        """Read all marks, paged."""

    def shared(self) -> Shared:
        """Return the tables of what nodes share beside messages; unlike the rest, usable from any thread."""

    def ping(self) -> None:
        """Make one round trip. Raises StoreUnavailableError, StoreRefusedError."""

    def close(self) -> None:
        """Finish what `write` and `spill` have started, then close connections; closing twice does nothing."""
