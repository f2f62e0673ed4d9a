"""The verdict: set arithmetic over what was to be sent, what outboxes and the store hold, and what recipients got.

Pure. Nothing here was counted while the demo ran: the evidence is read when all is over, from the files and the
store, so a demo that miscounts cannot call itself faultless. Bodies are unique, which is how the same message under
two ids is found. The kinds of fault:

- lost: planned, but in no outbox; sent as its sender was told, but not in the store; in the store with another content;
  or told to be delivered to someone who does not have it.
- duplicate: one body under two ids, in an outbox, the store or a recipient's inbox; or one step taken twice.
- regression: a row whose story goes back or jumps: a version left out, an offset or a rank that falls, a state that is
  not the lowest of its recipients'; or a sender who was told more than the store knows.
- stuck: not in a final state, neither for its sender nor in the store.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from schemas.lifecycle import FAILED, FINAL, RANK, State, lowest

FaultKind = Literal["lost", "duplicate", "regression", "stuck"]
_UNREACHED: Final = FAILED | {State.PENDING, State.SENT}
"""States of a recipient that do not claim that the message reached it."""


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


class Fault(NamedTuple):
    """One thing that must not be."""

    kind: FaultKind
    body: str
    """The message's body: it is the demo's own name of the message."""
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
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
    faults: tuple[Fault, ...]

    @property
    def faultless(self) -> bool:
        """Say whether every tick was true."""
        return not self.faults


def judge(evidence: Evidence) -> Verdict:
    """Return what the evidence shows."""
    faults = (
        *_missing_from_outboxes(evidence),
        *_missing_from_store(evidence),
        *_missing_from_recipients(evidence),
        *_twice(evidence),
        *(fault for row in evidence.stored for fault in _bad_story(row)),
        *_told_too_much(evidence),
        *_stuck(evidence),
    )
    hit = Counter(kind for kind, _ in {(fault.kind, fault.body) for fault in faults})
    reached = Counter(_reached(row.state) for row in evidence.stored)
    return Verdict(
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


def _missing_from_outboxes(evidence: Evidence) -> Iterator[Fault]:
    kept = {row.body for row in evidence.outgoing}
    for plan in evidence.planned:
        if plan.body not in kept:
            yield Fault("lost", plan.body, f"is not in the outbox of {plan.sender}")


def _missing_from_store(evidence: Evidence) -> Iterator[Fault]:
    """Yield what its sender was told is sent and is not there; what still waits in an outbox is not lost."""
    stored = {row.message_id: row for row in evidence.stored}
    for row in evidence.outgoing:
        found = stored.get(row.message_id)
        if found is None:
            if row.state not in FAILED | {State.PENDING}:
                yield Fault("lost", row.body, f"{row.sender} holds it as {row.state}, the store does not hold it")
        elif (found.body, found.sender) != (row.body, row.sender):
            yield Fault("lost", row.body, f"the store holds another content under its id: {found.body!r}")


def _missing_from_recipients(evidence: Evidence) -> Iterator[Fault]:
    got = {(row.user, row.message_id): row.body for row in evidence.incoming}
    for row in evidence.stored:
        for recipient, state in zip(row.recipients, row.receipts, strict=True):
            body = got.get((recipient, row.message_id))
            if body is None and state not in _UNREACHED:
                yield Fault("lost", row.body, f"{recipient} is said to have it ({state}), but does not")
            if body is not None and body != row.body:
                yield Fault("lost", row.body, f"{recipient} has another content under its id: {body!r}")


def _twice(evidence: Evidence) -> Iterator[Fault]:
    places = {
        "the outbox of": [(row.sender, row.body) for row in evidence.outgoing],
        "the store, from": [(row.sender, row.body) for row in evidence.stored],
        "the inbox of": [(row.user, row.body) for row in evidence.incoming],
    }
    for place, rows in places.items():
        for (user, body), times in Counter(rows).items():
            if times > 1:
                yield Fault("duplicate", body, f"stands {times} times in {place} {user}")
    for row in evidence.stored:
        taken = Counter((step.actor, step.state) for step in row.steps)
        for (actor, state), times in taken.items():
            if times > 1:
                yield Fault("duplicate", row.body, f"became {state} by {actor or 'its owner'} {times} times")


def _bad_story(row: Stored) -> Iterator[Fault]:
    versions = [step.version for step in row.steps]
    if versions != list(range(1, row.version + 1)):
        yield Fault("regression", row.body, f"has version {row.version}, but its steps are {versions}")
    if not _rises(step.offset for step in row.steps):
        yield Fault("regression", row.body, "has steps that do not follow the log")
    for actor, ranks in _ranks_of_each(row.steps).items():
        if not all(earlier <= later for earlier, later in pairwise(ranks)):
            yield Fault("regression", row.body, f"fell back for {actor}: ranks {ranks}")
    if row.receipts and row.state != lowest(row.receipts):
        yield Fault("regression", row.body, f"is {row.state}, but its recipients are {', '.join(row.receipts)}")


def _rises(numbers: Iterable[int]) -> bool:
    return all(earlier < later for earlier, later in pairwise(numbers))


def _ranks_of_each(steps: Iterable[Step]) -> Mapping[str, list[int]]:
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for step in steps:
        ranks[step.actor].append(RANK[step.state])
    return ranks


def _told_too_much(evidence: Evidence) -> Iterator[Fault]:
    stored = {row.message_id: row for row in evidence.stored}
    for row in evidence.outgoing:
        found = stored.get(row.message_id)
        if found is not None and RANK[row.state] > RANK[found.state]:
            yield Fault("regression", row.body, f"{row.sender} was told {row.state}, the store says {found.state}")


def _stuck(evidence: Evidence) -> Iterator[Fault]:
    stored = {row.message_id: row for row in evidence.stored}
    for row in evidence.outgoing:
        found = stored.get(row.message_id)
        if found is None and row.state == State.PENDING:
            yield Fault("stuck", row.body, f"waits in the outbox of {row.sender}")
        elif found is not None and not (row.state in FINAL and found.state in FINAL):
            yield Fault("stuck", row.body, f"is {row.state} for {row.sender}, {found.state} in the store")
