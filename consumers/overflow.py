"""Senders for whose messages a parked conversation had no room: they come in order all the same, once it is open. Pure.

What is turned away waits nowhere but with its client, which sends it again when it likes: a later message may come
first. So a parking notes, for each outbox that was turned away, the running numbers that are still to come. Once the
conversation is open, only the lowest of them is let in, then the next; another SEND, or a CANCEL of what is nowhere,
is told PARKED and comes again. The hold ends when none is left, or when nothing of that outbox was let in for so long
that its next one may never come (it was replaced by a backup). What is noted is bounded: `HELD_MAX` in one parking.
What is beyond that too applies in the order in which it comes.
"""

from typing import Final

from consumers.rows import NOWHERE, At, Hold, Parking, Position
from schemas.lifecycle import Kind
from schemas.records import Event

HELD_MAX: Final = 1_000
"""Running numbers that one parking notes of what it turned away."""
HOLD_MS: Final = 600_000
"""In the log's time: a hold of which nothing was let in for so long ends with what comes next. Clients' longest wait
before they send again is 150 s by default."""

_SEND = Kind.SEND.value
_CANCEL = Kind.CANCEL.value


def turned_away(event: Event, parking: Parking) -> Parking:
    """Return a parking that had no room for an event: the same object where there is nothing to note."""
    if event.kind != _SEND or not event.seq or _room(parking) <= 0:
        return parking
    for index, hold in enumerate(parking.holds):
        if hold.install == event.install:
            return _with(parking, index, _noted(event, hold))
    return parking._replace(holds=(*parking.holds, Hold(event.install, (event.seq,))))


def opened(parking: Parking, at: At) -> Parking:
    """Return a parking that ends with the event at `at`."""
    holds = tuple(hold._replace(moved_at=at.appended_at) for hold in parking.holds)
    return parking._replace(until=(at.generation, at.offset), holds=holds)


def has_holds(parking: Parking, start: Position) -> bool:
    """Say whether a hold of a parking has not ended, or not before `start`."""
    return any(hold.until == NOWHERE or hold.until >= start for hold in parking.holds)


def at_holds(event: Event, parkings: tuple[Parking, ...], at: At) -> tuple[bool, tuple[Parking, ...]]:
    """Say whether an event comes before one that must go first; and return the parkings after it."""
    if not _is_held_kind(event):
        return False, parkings
    for number, parking in enumerate(parkings):
        if parking.until == NOWHERE:
            continue
        for index, hold in enumerate(parking.holds):
            if hold.install != event.install or hold.until != NOWHERE:
                continue
            waits, after = _at_hold(event, hold, at, _room(parking))
            if after is not hold:
                parkings = (*parkings[:number], _with(parking, index, after), *parkings[number + 1 :])
            if waits:
                return True, parkings
    return False, parkings


def was_held(event: Event, parkings: tuple[Parking, ...], position: Position) -> bool:
    """Say whether, as of `position`, what stands there came before one that had to go first."""
    return _is_held_kind(event) and any(
        hold.install == event.install
        and NOWHERE != parking.until < position
        and (hold.until == NOWHERE or position <= hold.until)
        and position not in hold.passed
        for parking in parkings
        for hold in parking.holds
    )


def _is_held_kind(event: Event) -> bool:
    # A CANCEL has no running number, but would take the place of the SEND whose number is waited for.
    return event.kind == _CANCEL or (event.kind == _SEND and event.seq > 0)


def _at_hold(event: Event, hold: Hold, at: At, room: int) -> tuple[bool, Hold]:
    position = (at.generation, at.offset)
    passed = (*hold.passed, position)
    if at.appended_at - hold.moved_at > HOLD_MS:
        return False, hold._replace(seqs=(), passed=passed, until=position)
    if event.kind != _SEND:
        return True, hold
    if event.seq > hold.seqs[0] or (event.seq < hold.seqs[0] and room <= 0):
        return True, hold if room <= 0 else _noted(event, hold)
    left = tuple(seq for seq in hold.seqs if seq != event.seq)
    until = NOWHERE if left else position
    return False, hold._replace(seqs=left, passed=passed, until=until, moved_at=at.appended_at)


def _noted(event: Event, hold: Hold) -> Hold:
    if event.seq in hold.seqs:
        return hold
    return hold._replace(seqs=tuple(sorted((*hold.seqs, event.seq))))


def _room(parking: Parking) -> int:
    return HELD_MAX - sum(len(hold.seqs) + len(hold.passed) for hold in parking.holds)


def _with(parking: Parking, index: int, hold: Hold) -> Parking:
    if hold is parking.holds[index]:
        return parking
    return parking._replace(holds=(*parking.holds[:index], hold, *parking.holds[index + 1 :]))
