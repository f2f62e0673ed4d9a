"""What is found in a demo: by the checker, in what was planned and in what outboxes, store and recipients hold.

Pure. Nothing here was counted while the demo ran: the evidence is read when all is over, from the files and the
store, so a demo that miscounts cannot call itself faultless. Bodies are unique: they are the demo's own names of its
messages. The kinds of fault, in the demo's words:

- lost: planned, but in no outbox; sent as its sender was told, but not in the store; in the store with another content
  or for other people than planned; or told to be delivered to someone who does not have it.
- duplicate: one body under two ids, in an outbox, the store or a recipient's inbox; or one step taken twice.
- regression: a row whose story goes back or jumps: a version left out, an offset or a rank that falls, a state that is
  not the lowest of its recipients'; or a sender who was told more than the store knows.
- stuck: not in a final state, neither for its sender nor in the store.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from compose.checking.checker import check
from compose.checking.history import FaultKind, History, Own, Sent, Taken
from consumers.rows import NOWHERE, MessageRow, Owner, Transition
from consumers.stores.contract import Content, StoredMessage
from schemas.lifecycle import FAILED, FINAL, State

DemoFaultKind = Literal["lost", "duplicate", "regression", "stuck"]
_KINDS: Final[Mapping[FaultKind, DemoFaultKind]] = {
    "lost": "lost",
    "duplicated": "duplicate",
    "invented": "duplicate",
    "regressed": "regression",
    "reordered": "regression",
    "untrue": "regression",
    "diverged": "regression",
    "stuck": "stuck",
}
_NOBODY: Final = Owner(0, "")


class Planned(NamedTuple):
    """A message that a client was to send."""

    body: str
    """Unique: the demo's own name of the message."""
    sender: str
    recipients: tuple[str, ...]


class Outgoing(NamedTuple):
    """A message as its sender's outbox holds it."""

    message_id: str
    body: str
    sender: str
    state: str


class Step(NamedTuple):
    """One accepted transition, as the store holds it."""

    version: int
    state: str
    actor: str
    offset: int


class Stored(NamedTuple):
    """A message as the store holds it."""

    message_id: str
    body: str
    sender: str
    recipients: tuple[str, ...]
    receipts: tuple[str, ...]
    """Each recipient's state, in the order of `recipients`."""
    state: str
    version: int
    steps: tuple[Step, ...]


class Incoming(NamedTuple):
    """A message as a recipient's outbox file holds it."""

    message_id: str
    body: str
    user: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is judged."""

    planned: Sequence[Planned]
    outgoing: Sequence[Outgoing]
    stored: Sequence[Stored]
    incoming: Sequence[Incoming]
    conflicts: int = 0
    """Dead letters: records that the workers refused."""


class DemoFault(NamedTuple):
    """One thing that must not be."""

    kind: DemoFaultKind
    body: str
    """The message's body: it is the demo's own name of the message."""
    detail: str


@dataclass(frozen=True, slots=True)
class DemoFindings:
    """What the evidence shows. Each fault count is a number of messages."""

    messages: int
    sent: int
    delivered: int
    read: int
    failed: int
    lost: int
    duplicates: int
    regressions: int
    stuck: int
    conflicts: int
    faults: tuple[DemoFault, ...]

    @property
    def faultless(self) -> bool:
        """Say whether every tick was true."""
        return not self.faults


def judge(evidence: Evidence) -> DemoFindings:
    """Return what the evidence shows."""
    names = {_id(row.message_id): row.body for row in evidence.stored}
    names |= {_id(row.message_id): row.body for row in evidence.outgoing}
    found = (
        DemoFault(_KINDS[fault.kind], names.get(fault.message_id, ""), fault.detail)
        for fault in check(_history(evidence)).faults
    )
    faults = (*_missing_from_outboxes(evidence), *_for_others(evidence), *found)
    hit = Counter(kind for kind, _ in {(fault.kind, fault.body) for fault in faults})
    reached = Counter(_reached(row.state) for row in evidence.stored)
    return DemoFindings(
        messages=len(evidence.planned),
        sent=reached["sent"] + reached["delivered"] + reached["read"],
        delivered=reached["delivered"] + reached["read"],
        read=reached["read"],
        failed=sum(row.state in FAILED for row in evidence.outgoing),
        lost=hit["lost"],
        duplicates=hit["duplicate"],
        regressions=hit["regression"],
        stuck=hit["stuck"],
        conflicts=evidence.conflicts,
        faults=faults,
    )


def _reached(state: str) -> str:
    if state in FAILED - {State.UNDELIVERED}:
        return "failed"
    return {State.READ: "read", State.DELIVERED: "delivered"}.get(State(state), "sent")


def _missing_from_outboxes(evidence: Evidence) -> Iterator[DemoFault]:
    """Yield what was planned and is nowhere."""
    kept = {row.body for row in evidence.outgoing}
    for plan in evidence.planned:
        if plan.body not in kept:
            yield DemoFault("lost", plan.body, f"is not in the outbox of {plan.sender}")


def _for_others(evidence: Evidence) -> Iterator[DemoFault]:
    """Yield what is in the store for other people than it was planned for: a recipient who is left out gets nothing."""
    planned = {plan.body: plan for plan in evidence.planned}
    for row in evidence.stored:
        plan = planned.get(row.body)
        if plan is not None and set(plan.recipients) != set(row.recipients):
            listed = ", ".join(row.recipients) or "nobody"
            yield DemoFault("lost", row.body, f"is in the store for {listed}, not for {', '.join(plan.recipients)}")


def _history(evidence: Evidence) -> History:
    """Return the evidence as the checker takes it."""
    return History(
        sent=[Sent(row.sender, _id(row.message_id), row.body.encode()) for row in evidence.outgoing],
        own=[Own(row.sender, _id(row.message_id), _id(row.message_id), row.state) for row in evidence.outgoing],
        stored=[_stored(row) for row in evidence.stored],
        taken=[Taken(row.user, _id(row.message_id), row.body.encode()) for row in evidence.incoming],
        terminal=frozenset(FINAL),
    )


def _stored(row: Stored) -> StoredMessage:
    message = MessageRow(
        conversation_id="",
        message_id=_id(row.message_id),
        state=row.state,
        sender=row.sender,
        recipients=row.recipients,
        receipts=row.receipts,
        digest=b"",
        install=b"",
        seq=0,
        partition=0,
        sent_at=0,
        deliver_by=0,
        version=row.version,
        applied=NOWHERE,
        stamp=0,
    )
    steps = [(Transition(step.version, step.state, step.actor, 0, step.offset), _NOBODY) for step in row.steps]
    return StoredMessage(message, Content(row.body.encode(), ""), 0, _NOBODY, steps)


def _id(message_id: str) -> bytes:
    return message_id.encode()
