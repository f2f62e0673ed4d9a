"""What an answer or a tick makes of an own message: pure, and by rank only, never by order of arrival."""

from typing import NamedTuple

from schemas.lifecycle import FINAL, RANK, Kind, Outcome, Reason, State
from schemas.records import Acknowledgement

NO_STATE = ""
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
    return Verdict(settles=True, state=ack.state, reason=reason, restart_install=restart)


def rises(known: str, told: str) -> bool:
    """Say whether `told` moves a message on that stands at `known`."""
    return told != NO_STATE and RANK[told] > RANK[known]


def is_final(state: str) -> bool:
    """Say whether nothing leaves `state`, so that the content need not be kept for a resend."""
    return state in FINAL


def ahead_wait_ms(id_ms: int, appended_at: int) -> int:
    """Return how many ms to wait until an id that is ahead of the log by these two times is welcome; at least 1 s."""
    return max(1_000, id_ms - appended_at)
