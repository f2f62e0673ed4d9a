"""What an answer or a tick makes of an own message: pure, and by rank only, never by order of arrival."""

from typing import NamedTuple

from schemas.identity import time_of
from schemas.lifecycle import RANK, REASON_OF_FAILURE, Kind, Outcome, Reason, State
from schemas.records import Acknowledgement

NO_STATE = ""
PARKED_WAIT_MS = 15_000
"""Each copy of an event in a parked conversation is one more record in the log."""

_NOT_FINAL = frozenset({Reason.ID_AHEAD, Reason.PARKED})


class Verdict(NamedTuple):
    """What an acknowledgement says about the event that it answers, and about the message."""

    settles: bool
    """False: the event is not decided, send it again later."""
    state: str
    """The message's state by this acknowledgement; empty where it says none."""
    reason: str
    restart_install: bool
    """The outbox was restored from a backup: its running numbers come again."""


def verdict(ack: Acknowledgement) -> Verdict:
    """Return what `ack` says, whether it answers an event of ours or is a tick."""
    if ack.outcome == Outcome.REFUSED and ack.reason in _NOT_FINAL:
        return Verdict(settles=False, state=NO_STATE, reason=ack.reason, restart_install=False)
    restart = ack.reason == Reason.SEQUENCE_REUSED
    reason = Reason.NONE if restart else ack.reason
    if ack.outcome in {Outcome.CONFLICT, Outcome.REFUSED}:
        # What the state of such an answer describes is a row that is not ours, or no row at all.
        state = State.REJECTED if ack.kind == Kind.SEND else NO_STATE
        return Verdict(settles=True, state=state, reason=reason, restart_install=restart)
    if ack.kind == Kind.CANCEL:
        # What is said of a CANCEL, such as that it came too late, is no reason of its message's.
        reason = REASON_OF_FAILURE.get(ack.state, Reason.NONE)
    return Verdict(settles=True, state=ack.state, reason=reason, restart_install=restart)


def rises(known: str, told: str) -> bool:
    """Say whether `told` moves a message on that stands at `known`."""
    return told != NO_STATE and RANK[told] > RANK[known]


def again_in_ms(ack: Acknowledgement) -> int:
    """Return in how many ms to send an event again whose refusal is not final.

    An id that is ahead of the log is welcome when its time has come; at least 1 s.
    """
    if ack.reason == Reason.PARKED:
        return PARKED_WAIT_MS
    return max(1_000, time_of(ack.message_id) - ack.appended_at)
