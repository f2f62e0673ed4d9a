"""What a run leaves behind, and what the checker says about it: plain records.

Whoever runs something (the simulation, the fault runs, the demo) fills a `History` from files, stores and topics after
the run. What was not recorded is None, and the rules that need it are left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from consumers.fold import Policy
from consumers.rows import At, ConversationRow
from consumers.stores.contract import StoredMessage
from schemas.lifecycle import SETTLED
from schemas.records import Event

FaultKind = Literal["lost", "duplicated", "regressed", "stuck", "reordered", "invented", "untrue", "diverged"]

KINDS: Final[Mapping[FaultKind, str]] = {
    "lost": "accepted, or said to have arrived, and not there",
    "duplicated": "one message under two ids, taken twice, or one step taken twice",
    "regressed": "a story that goes back or jumps: versions, offsets, ranks, owners",
    "stuck": "no terminal state after healing, or a sender who was not told of it",
    "reordered": "one sender's messages of a conversation applied in another order than they were sent",
    "invented": "a message, a receipt or a row without the event that it must come from",
    "untrue": "an answer or a tick that says more than is durable, or something else than the store",
    "diverged": "the store differs from the fold of the log",
}
"""Every kind of fault and what it means."""


class Sent(NamedTuple):
    """A send that returned."""

    user: str
    message_id: bytes
    """As it was returned; the outbox may have made the id anew before the first hand-over."""
    body: bytes
    """Unique in its history."""


class Own(NamedTuple):
    """A message as its sender's outbox holds it."""

    user: str
    message_id: bytes
    first_id: bytes
    """The id that send returned."""
    state: str
    ticks: tuple[str, ...] = ()
    """The states that were told, in order; empty where they are not recorded."""


class Taken(NamedTuple):
    """A message as a recipient's outbox holds it."""

    user: str
    message_id: bytes
    body: bytes


class Receipt(NamedTuple):
    """A receipt that a recipient's client wrote."""

    user: str
    message_id: bytes
    kind: str


class Logged(NamedTuple):
    """An event in the log, in the order of its partition."""

    at: At
    event: Event


class Answer(NamedTuple):
    """What an answer said when it went out, and how far the store was at that moment."""

    message_id: bytes
    version: int
    durable_version: int


class LateWrite(NamedTuple):
    """Rows of an owner that a store has taken although a later one had claimed the partition."""

    partition: int
    epoch: int
    lease_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that is judged."""

    sent: Sequence[Sent]
    own: Sequence[Own]
    stored: Sequence[StoredMessage]
    taken: Sequence[Taken]
    conversations: Sequence[ConversationRow] | None = None
    log: Sequence[Logged] | None = None
    receipts: Sequence[Receipt] | None = None
    answers: Sequence[Answer] | None = None
    late_writes: Sequence[LateWrite] | None = None
    """Of a store that can tell; None where it cannot, or they were not recorded."""
    forgotten: frozenset[tuple[str, bytes]] = frozenset()
    """(user, message id) of what an outbox knew until it was replaced by an older copy of itself: that there was such a
    message, or that Kafka had had it."""
    policy: Policy = field(default_factory=Policy)
    """What the owners folded with."""
    generations_at: Sequence[int] | None = ()
    """Log times in ms from which on the topic's second and further generations go: offsets begin anew there. None where
    nobody knows: then the places of steps in the log are not compared."""
    settled_within_s: float | None = None
    """How long after healing all had to end; what had not by then is stuck. None where nothing was broken."""
    terminal: frozenset[str] = frozenset(SETTLED)
    """The states in which a message may end."""


class Fault(NamedTuple):
    """One thing that must not be."""

    kind: FaultKind
    message_id: bytes
    """Empty where it is about no single message."""
    detail: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What a history shows; each kind of fault is counted in messages."""

    acknowledged: int
    """Sends that returned."""
    settled: int
    """Of these, how many ended in a terminal state, for the sender as in the store."""
    faults: tuple[Fault, ...]

    @property
    def faultless(self) -> bool:
        """Say whether nothing was found."""
        return not self.faults

    def count(self, kind: FaultKind) -> int:
        """Return how many messages a kind of fault hit."""
        return len({fault.message_id for fault in self.faults if fault.kind == kind})

    def counts(self) -> Mapping[str, int]:
        """Return all counts by name."""
        return {
            "acknowledged": self.acknowledged,
            "settled": self.settled,
            **{kind: self.count(kind) for kind in KINDS},
        }
