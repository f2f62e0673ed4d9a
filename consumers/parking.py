"""A parked conversation: what makes or blocks messages in it waits, in order and bounded, until it is released. Pure.

A fold of the log like all else: PARK and RELEASE are events, and so is everything that waits. While a conversation is
parked, a first SEND or CANCEL, a BLOCK and an UNBLOCK are refused with PARKED, which is not final, and kept among the
dead letters; receipts and copies rest on nothing but their message's row and go on. RELEASE opens a gate for one at a
time: only the first of those that wait goes through, whoever sends it (the operator's redrive or a client's resend),
then the next; what is new lines up behind them. When none is left the conversation is open again by itself. So the
order holds without a moment at which all must stand still, also for those who found no room (`consumers.overflow`).

A row read cold may be ahead of the event, so a parking keeps where it began and ended and what went through meanwhile,
and is asked as of a position.
"""

from typing import Final, NamedTuple

from consumers.fold import FoldedConversation, Policy, stamp_after
from consumers.overflow import at_holds, has_holds, opened, turned_away, was_held
from consumers.rows import NOWHERE, At, ConversationRow, Parking, Position
from schemas.lifecycle import MESSAGE_KINDS, Kind, Outcome, Reason
from schemas.records import Event

PARKINGS_MAX: Final = 32
"""Parkings kept in one conversation: one more is refused until the oldest is out of the policy's window."""
GIVE_UP: Final = 1
"""The seq of a RELEASE that opens the conversation at once, whatever waits."""

_OF_MESSAGE = frozenset(kind.value for kind in MESSAGE_KINDS)


class Gate(NamedTuple):
    """What a parked conversation does with an event."""

    waits: bool
    keeps: bool
    """Whether it is to be kept among the dead letters: no copy of it waits already, and there is room."""
    parkings: tuple[Parking, ...] | None
    """The conversation's parkings after the event; None where they stay as they are."""


_OPEN: Final = Gate(waits=False, keeps=False, parkings=None)
_TOLD_AGAIN: Final = Gate(waits=True, keeps=False, parkings=None)
_KEPT_AGAIN: Final = Gate(waits=True, keeps=True, parkings=None)


def waiting_key(event: Event) -> bytes:
    """Return what an event waits under: its message, or itself where it is about none."""
    return event.message_id if event.kind in _OF_MESSAGE else event.event_id


def at_gate(event: Event, row: ConversationRow, at: At, policy: Policy) -> Gate:
    """Return whether an event that could make a message, or change who blocks whom, waits."""
    position = (at.generation, at.offset)
    if position <= row.applied:
        return _as_before(event, row.parkings, position)
    if not row.parkings:
        return _OPEN
    parking, key = row.parkings[-1], waiting_key(event)
    is_parked_now, waiting = parking.until == NOWHERE, parking.waiting
    if is_parked_now and key in waiting:
        if not parking.releasing or waiting[0] != key:
            return _TOLD_AGAIN
        moved = parking._replace(waiting=waiting[1:], passed=(*parking.passed, position))
        moved = moved if moved.waiting else opened(moved, at)
        return Gate(waits=False, keeps=False, parkings=(*row.parkings[:-1], moved))
    waits, parkings = at_holds(event, row.parkings, at)
    keeps = False
    if is_parked_now and not waits:
        waits, keeps = True, len(waiting) + len(parking.passed) < policy.parked_max
        moved = parking._replace(waiting=(*waiting, key)) if keeps else turned_away(event, parking)
        parkings = parkings if moved is parking else (*parkings[:-1], moved)
    return Gate(waits, keeps, None if parkings is row.parkings else parkings)


def _as_before(event: Event, parkings: tuple[Parking, ...], position: Position) -> Gate:
    """Return what was done with an event that the row is ahead of."""
    if _waited(parkings, position):
        return _KEPT_AGAIN
    return _TOLD_AGAIN if was_held(event, parkings, position) else _OPEN


def _waited(parkings: tuple[Parking, ...], position: Position) -> bool:
    """Say whether, as of `position`, a conversation was parked and did not let through what stands there."""
    return any(
        parking.since < position
        and (parking.until == NOWHERE or position <= parking.until)
        and position not in parking.passed
        for parking in parkings
    )


def is_parked(row: ConversationRow) -> bool:
    """Say whether a conversation is parked now."""
    return bool(row.parkings) and row.parkings[-1].until == NOWHERE


def with_parkings(
    before: ConversationRow, after: ConversationRow, parkings: tuple[Parking, ...], at: At
) -> ConversationRow:
    """Return the conversation after an event that changed its parkings, and made `before` into `after` besides."""
    if after.version > before.version:
        return after._replace(parkings=parkings)
    return after._replace(
        parkings=parkings,
        version=before.version + 1,
        applied=(at.generation, at.offset),
        stamp=stamp_after(at.appended_at, before.stamp),
    )


def fold_parking(event: Event, row: ConversationRow, at: At, policy: Policy) -> FoldedConversation:
    """Return what a PARK or a RELEASE makes of its conversation."""
    position = (at.generation, at.offset)
    if position > row.applied:
        kept = _askable(row.parkings, position, policy)
        parkings = _park(kept, position) if event.kind == Kind.PARK else _release(kept, event.seq, at)
        if len(parkings) > PARKINGS_MAX:
            return FoldedConversation(Outcome.REFUSED, Reason.INVALID, row, changed=False)
        if parkings != kept:
            moved = with_parkings(row, row, parkings, at)
            return FoldedConversation(Outcome.APPLIED, Reason.NONE, moved, changed=True)
    return FoldedConversation(Outcome.DUPLICATE, Reason.NONE, row, changed=False)


def _park(parkings: tuple[Parking, ...], position: Position) -> tuple[Parking, ...]:
    """Begin a parking; where one has not ended, stop its release."""
    if parkings and parkings[-1].until == NOWHERE:
        return (*parkings[:-1], parkings[-1]._replace(releasing=False))
    return (*parkings, Parking(position))


def _release(parkings: tuple[Parking, ...], seq: int, at: At) -> tuple[Parking, ...]:
    """Begin to let through what waits; end at once where nothing does, or it is given up."""
    if not parkings or parkings[-1].until != NOWHERE:
        return parkings
    last = parkings[-1]
    if seq == GIVE_UP or not last.waiting:
        return (*parkings[:-1], opened(last._replace(waiting=()), at))
    return (*parkings[:-1], last._replace(releasing=True))


def _askable(parkings: tuple[Parking, ...], position: Position, policy: Policy) -> tuple[Parking, ...]:
    """Return the parkings without those that ended, with all holds, before the policy's window."""
    start = (position[0], position[1] - policy.block_window_offsets)
    return tuple(
        parking
        for parking in parkings
        if parking.until == NOWHERE or parking.until >= start or has_holds(parking, start)
    )
