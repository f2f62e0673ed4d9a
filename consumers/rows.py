"""What a worker keeps: the rows that the fold computes, and the writes that carry them into a store.

Both rows are folds of the log, so both carry where they stand in it: `version` (accepted transitions so far),
`applied` (the position of the last event that changed them) and `stamp` (a hybrid logical clock in µs: the larger of
the event's append time and the row's last stamp + 1), under which a store keeps the newer of two writes.
"""

from typing import NamedTuple

Position = tuple[int, int]
"""(topic generation, offset): compares across a topic that was made anew or repartitioned."""

NOWHERE: Position = (0, -1)
"""Before every event."""


class At(NamedTuple):
    """Where an event stands in the log."""

    generation: int
    partition: int
    offset: int
    appended_at: int
    """Log append time, ms since 1970."""


class MessageRow(NamedTuple):
    """A message as the log tells it, without its body; immutable."""

    conversation_id: str
    message_id: bytes
    state: str
    sender: str
    recipients: tuple[str, ...]
    receipts: tuple[str, ...]
    """Each recipient's own state, in the order of `recipients`."""
    digest: bytes
    """Of sender, recipients and content; empty where a CANCEL came before any SEND."""
    install: bytes
    seq: int
    partition: int
    sent_at: int
    """Append time of the event that made the row, ms since 1970."""
    deliver_by: int
    """Log time in ms after which what is not delivered becomes undelivered."""
    version: int
    applied: Position
    stamp: int


class Block(NamedTuple):
    """One change of who blocks whom, kept with the place in the log where it happened."""

    blocker: str
    blocked: str
    position: Position
    active: bool
    event_id: bytes = b""
    """Of the event that made it, by which a copy of it is known; empty in rows of versions that did not keep it."""


class Hold(NamedTuple):
    """An outbox that a full parking turned away; see `consumers.overflow`."""

    install: bytes
    seqs: tuple[int, ...]
    """Running numbers that are still to come, ascending."""
    passed: tuple[Position, ...] = ()
    """Where those that were let in, once the parking had ended, stand."""
    until: Position = NOWHERE
    """Where it ended."""
    moved_at: int = 0
    """Append time in ms of the last event that was let in, or that ended the parking."""


class Parking(NamedTuple):
    """One time in which a conversation was parked; see `consumers.parking`."""

    since: Position
    until: Position = NOWHERE
    """Where it ended: the last event that went through belongs to it. NOWHERE: it has not ended."""
    releasing: bool = False
    """Whether those that wait go through, one after another."""
    waiting: tuple[bytes, ...] = ()
    """What waits, in order: message ids, and event ids of BLOCK and UNBLOCK."""
    passed: tuple[Position, ...] = ()
    """Where those that went through stand."""
    holds: tuple[Hold, ...] = ()
    """Whom it had no room for."""


class ConversationRow(NamedTuple):
    """What other rows' folds depend on, asked *as of* a position; immutable."""

    conversation_id: str
    participants: tuple[str, ...] = ()
    """Everyone who sent or was sent a message, sorted."""
    buckets: tuple[int, ...] = ()
    """The ten-day buckets that hold messages, ascending."""
    blocks: tuple[Block, ...] = ()
    """By position; the last few changes of each pair."""
    sequences: tuple[tuple[bytes, int], ...] = ()
    """(install, seq) as far as they were known when the row was last written; may lag behind the log."""
    version: int = 0
    applied: Position = NOWHERE
    stamp: int = 0
    parkings: tuple[Parking, ...] = ()
    """The last times in which it was parked, by position."""


class Transition(NamedTuple):
    """One accepted change of a message."""

    version: int
    state: str
    """The actor's own new state for a receipt, else the message's."""
    actor: str
    at: int
    """Append time of its event, ms since 1970."""
    offset: int


class Owner(NamedTuple):
    """Who wrote a row: at equal stamps a store keeps the larger, so the later epoch."""

    epoch: int
    node: str


class MessageWrite(NamedTuple):
    """The row after one or more events of a batch."""

    row: MessageRow
    transitions: tuple[Transition, ...]
    """What this write adds; never empty."""
    body: bytes | None
    """The content where the write makes the row, None where it only moves it on."""
    content_type: str = ""
    expires_at: int = 0


class ConversationWrite(NamedTuple):
    """The conversation after one or more events of a batch."""

    row: ConversationRow
    base: int = 0
    """The newest version that was known to be durable before it."""
