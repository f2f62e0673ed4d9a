"""The life of a message: one table that answers every (state, event) pair.

The rules, in prose:

1. Ranks only rise, and every accepted transition adds exactly 1 to the row's version.
2. Each recipient has a state of its own, and only a recipient's own receipt moves it. The message's state is the
   lowest of them by rank. A final failure ranks highest, so a recipient who blocked the sender does not hold a
   group's message back; where every recipient has failed, the message has.
3. READ implies DELIVERED for that message alone. A DELIVERED that comes after READ is stale.
4. The log decides: the first copy of a SEND makes the message SENT or FAILED for good. Every further copy is a
   duplicate and gets the message's state as its answer, never an error.
5. FAILED(undelivered) is the one failure that a later proof of delivery undoes; it ranks between SENT and DELIVERED.
   An EXPIRE makes it: the partition's owner writes one when the delivery time is over, for all who are still owed the
   message. A recipient may write one in its own name at any time, which like a receipt moves its own state alone: a
   gateway that receives for it does so when it gives up.
6. A CANCEL counts where no SEND came before it. It leaves a cancelled row, so a SEND that comes later fails.
7. The same message id with other content is a conflict: refused, counted, the first kept.
8. Before the table is asked, three kinds of event are refused: a receipt from someone who is no recipient, a CANCEL
   of another's message, an owner's EXPIRE appended before the message's delivery time is over.

For receipts and a recipient's EXPIRE the state looked up is the recipient's; else it is the message's. PENDING stands
for a message that the log has not seen. Guards (expiry, blocks, an id from the future) can turn the applied
transition of a SEND into another one; they are named beside the table in `GUARDS` and applied by the owner's fold.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """What an event says. BLOCK, UNBLOCK, HELLO, PARK and RELEASE are about no message."""

    SEND = "SEND"
    DELIVERED = "DELIVERED"
    READ = "READ"
    CANCEL = "CANCEL"
    EXPIRE = "EXPIRE"
    BLOCK = "BLOCK"
    UNBLOCK = "UNBLOCK"
    HELLO = "HELLO"
    PARK = "PARK"
    """An operator's: what comes later in the conversation waits. Answered by nobody, as is RELEASE."""
    RELEASE = "RELEASE"


class State(StrEnum):
    """Where a message, or one recipient of it, stands."""

    PENDING = "PENDING"
    SENT = "SENT"
    UNDELIVERED = "UNDELIVERED"
    DELIVERED = "DELIVERED"
    READ = "READ"
    EXPIRED = "EXPIRED"
    BLOCKED = "BLOCKED"
    REJECTED = "REJECTED"
    CANCELLED = "CANCELLED"


class Outcome(StrEnum):
    """What became of an event."""

    APPLIED = "APPLIED"
    DUPLICATE = "DUPLICATE"
    STALE = "STALE"
    CONFLICT = "CONFLICT"
    REFUSED = "REFUSED"


class Reason(StrEnum):
    """Why an event was not simply applied, or a record could not be."""

    NONE = ""
    EXPIRED = "EXPIRED"
    BLOCKED = "BLOCKED"
    REJECTED = "REJECTED"
    CANCELLED = "CANCELLED"
    ID_AHEAD = "ID_AHEAD"
    """Not final: the id's time is ahead of the log's; the same event is welcome once the log has caught up."""
    SEQUENCE_REUSED = "SEQUENCE_REUSED"
    """Applied, but this (install, seq) came before: the outbox was restored; start a new install."""
    ALREADY_SENT = "ALREADY_SENT"
    ALREADY_FINAL = "ALREADY_FINAL"
    NOT_DUE = "NOT_DUE"
    UNKNOWN_MESSAGE = "UNKNOWN_MESSAGE"
    NOT_A_RECIPIENT = "NOT_A_RECIPIENT"
    NOT_THE_SENDER = "NOT_THE_SENDER"
    CONTENT_DIFFERS = "CONTENT_DIFFERS"
    TOO_MANY_BLOCKS = "TOO_MANY_BLOCKS"
    UNDECODABLE = "UNDECODABLE"
    OVERSIZED = "OVERSIZED"
    INVALID = "INVALID"
    WRONG_KEY = "WRONG_KEY"
    WRONG_PARTITION = "WRONG_PARTITION"
    NOT_AN_OPERATOR = "NOT_AN_OPERATOR"
    """A PARK or a RELEASE by somebody whom the workers' settings do not name."""
    PARKED = "PARKED"
    """Not final: the conversation is parked, and the event waits in the dead letters until it is released."""


RANK: Final[dict[str, int]] = {
    State.PENDING: 0,
    State.SENT: 1,
    State.UNDELIVERED: 2,
    State.DELIVERED: 3,
    State.READ: 4,
    State.EXPIRED: 5,
    State.BLOCKED: 5,
    State.REJECTED: 5,
    State.CANCELLED: 5,
}

FINAL: Final = frozenset({State.READ, State.EXPIRED, State.BLOCKED, State.REJECTED, State.CANCELLED})
"""States that nothing leaves."""

FAILED: Final = frozenset({State.UNDELIVERED, State.EXPIRED, State.BLOCKED, State.REJECTED, State.CANCELLED})

SETTLED: Final = FINAL | {State.DELIVERED, State.UNDELIVERED}
"""States in which the server owes the recipients nothing any more."""

RECEIPTS: Final = frozenset({Kind.DELIVERED.value, Kind.READ.value})
MESSAGE_KINDS: Final = (Kind.SEND, Kind.DELIVERED, Kind.READ, Kind.CANCEL, Kind.EXPIRE)
CONVERSATION_KINDS: Final = frozenset({Kind.BLOCK.value, Kind.UNBLOCK.value})
PARKING_KINDS: Final = frozenset({Kind.PARK.value, Kind.RELEASE.value})
ANSWERED_KINDS: Final = tuple(kind for kind in Kind if kind not in PARKING_KINDS)
"""Kinds that an acknowledgement can be about."""


def label(state: str) -> str:
    """Return the state as people read it: `sent`, `failed(undelivered)`."""
    return f"failed({state.lower()})" if state in FAILED else state.lower()


def lowest(states: tuple[str, ...]) -> str:
    """Return the state of a message whose recipients stand at `states` (rule 2); `states` is not empty."""
    return states[0] if len(states) == 1 else min(states, key=RANK.__getitem__)


class Rule(NamedTuple):
    """The table's answer: what becomes of the event, the state after it, and why."""

    outcome: str
    after: str
    reason: str


def _rule(outcome: Outcome, after: State, reason: Reason = Reason.NONE) -> Rule:
    """Return a rule of plain texts: these are compared and looked up faster than members of an enum."""
    return Rule(outcome.value, after.value, reason.value)


def _applied(after: State) -> Rule:
    return _rule(Outcome.APPLIED, after)


def _duplicate(state: State) -> Rule:
    return _rule(Outcome.DUPLICATE, state)


def _stale(state: State, reason: Reason) -> Rule:
    return _rule(Outcome.STALE, state, reason)


def _refused(state: State, reason: Reason) -> Rule:
    return _rule(Outcome.REFUSED, state, reason)


def _plain(table: Mapping[State, Mapping[Kind, Rule]]) -> dict[str, dict[str, Rule]]:
    return {state.value: {kind.value: rule for kind, rule in row.items()} for state, row in table.items()}


def _failed_row(state: State) -> dict[Kind, Rule]:
    """Return the answers of a message that failed before it was sent: it never reached anyone."""
    return {
        Kind.SEND: _duplicate(state),
        Kind.DELIVERED: _refused(state, Reason.ALREADY_FINAL),
        Kind.READ: _refused(state, Reason.ALREADY_FINAL),
        Kind.CANCEL: _duplicate(state) if state is State.CANCELLED else _stale(state, Reason.ALREADY_FINAL),
        Kind.EXPIRE: _stale(state, Reason.ALREADY_FINAL),
    }


TABLE: Final = _plain(
    {
        State.PENDING: {
            Kind.SEND: _applied(State.SENT),
            Kind.DELIVERED: _refused(State.PENDING, Reason.UNKNOWN_MESSAGE),
            Kind.READ: _refused(State.PENDING, Reason.UNKNOWN_MESSAGE),
            Kind.CANCEL: _applied(State.CANCELLED),
            Kind.EXPIRE: _refused(State.PENDING, Reason.UNKNOWN_MESSAGE),
        },
        State.SENT: {
            Kind.SEND: _duplicate(State.SENT),
            Kind.DELIVERED: _applied(State.DELIVERED),
            Kind.READ: _applied(State.READ),
            Kind.CANCEL: _stale(State.SENT, Reason.ALREADY_SENT),
            Kind.EXPIRE: _applied(State.UNDELIVERED),
        },
        State.UNDELIVERED: {
            Kind.SEND: _duplicate(State.UNDELIVERED),
            Kind.DELIVERED: _applied(State.DELIVERED),
            Kind.READ: _applied(State.READ),
            Kind.CANCEL: _stale(State.UNDELIVERED, Reason.ALREADY_SENT),
            Kind.EXPIRE: _duplicate(State.UNDELIVERED),
        },
        State.DELIVERED: {
            Kind.SEND: _duplicate(State.DELIVERED),
            Kind.DELIVERED: _duplicate(State.DELIVERED),
            Kind.READ: _applied(State.READ),
            Kind.CANCEL: _stale(State.DELIVERED, Reason.ALREADY_SENT),
            Kind.EXPIRE: _stale(State.DELIVERED, Reason.ALREADY_FINAL),
        },
        State.READ: {
            Kind.SEND: _duplicate(State.READ),
            Kind.DELIVERED: _stale(State.READ, Reason.ALREADY_FINAL),
            Kind.READ: _duplicate(State.READ),
            Kind.CANCEL: _stale(State.READ, Reason.ALREADY_SENT),
            Kind.EXPIRE: _stale(State.READ, Reason.ALREADY_FINAL),
        },
        State.EXPIRED: _failed_row(State.EXPIRED),
        State.BLOCKED: _failed_row(State.BLOCKED),
        State.REJECTED: _failed_row(State.REJECTED),
        State.CANCELLED: _failed_row(State.CANCELLED),
    }
)
"""Every message state by every message event. Total: a test walks all pairs."""

CONVERSATION_TABLE: Final[dict[bool, dict[str, Rule]]] = {
    False: {
        Kind.BLOCK.value: _rule(Outcome.APPLIED, State.PENDING),
        Kind.UNBLOCK.value: _rule(Outcome.DUPLICATE, State.PENDING),
    },
    True: {
        Kind.BLOCK.value: _rule(Outcome.DUPLICATE, State.PENDING),
        Kind.UNBLOCK.value: _rule(Outcome.APPLIED, State.PENDING),
    },
}
"""By whether the actor blocks the subject already."""

GUARDS: Final[dict[str, Rule]] = {
    "the id's time is ahead of the log": _rule(Outcome.REFUSED, State.PENDING, Reason.ID_AHEAD),
    "the content breaks a limit": _rule(Outcome.APPLIED, State.REJECTED, Reason.REJECTED),
    "appended after expires_at": _rule(Outcome.APPLIED, State.EXPIRED, Reason.EXPIRED),
    "every recipient blocks the sender": _rule(Outcome.APPLIED, State.BLOCKED, Reason.BLOCKED),
}
"""What a first SEND meets before it becomes SENT, in this order."""

REASON_OF_FAILURE: Final[dict[str, str]] = {
    State.EXPIRED: Reason.EXPIRED,
    State.BLOCKED: Reason.BLOCKED,
    State.REJECTED: Reason.REJECTED,
    State.CANCELLED: Reason.CANCELLED,
}
