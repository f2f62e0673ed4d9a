"""A row as it stood at an offset, worked out from the store's own account of it. Pure.

A replay that begins in the middle of the log meets receipts of messages whose SEND stands before it. The store's row
is ahead of these; what it was then follows from its transitions, so that the rest can be folded and compared.
"""

from collections.abc import Sequence

from consumers.errors import StoreRefusedError
from consumers.fold import stamp_after
from consumers.rows import MessageRow, MessageWrite, Transition
from consumers.stores.contract import StoredMessage
from schemas.identity import text_of
from schemas.lifecycle import RANK, State, lowest


def as_of(stored: StoredMessage, generation: int, offset: int, began_ms: int = 0) -> MessageWrite | None:
    """Return the write that makes a stored message as it was just before `offset`; None where it was not there yet.

    `began_ms` is the append time of the record at `offset`. Offsets of earlier generations say nothing about this one,
    so in a later generation than the first it is by their append times that a message's steps are told apart. Raises
    StoreRefusedError where somebody has emptied the row's receipts: who was blocked stands nowhere else.
    """
    if len(stored.row.receipts) != len(stored.row.recipients):
        raise StoreRefusedError(
            f"what message {text_of(stored.row.message_id)} was cannot be told: the store has lost its receipts",
            hint="Replay from the beginning of the log.",
        )
    steps = [step for step, _ in stored.transitions]
    if stored.row.applied[0] < generation:
        return write_of(stored, stored.row, steps)
    if generation == 1:
        before = [step for step in steps if step.offset < offset]
    else:
        before = [step for step in steps if (step.at, step.offset) < (began_ms, offset)]
    if not before:
        return None
    row = _row(stored.row, before)
    if generation > 1 and len(before) < len(steps):
        row = row._replace(applied=(generation, offset - 1))
    return write_of(stored, row, before)


def write_of(stored: StoredMessage, row: MessageRow, steps: Sequence[Transition]) -> MessageWrite:
    """Return the write that makes a stored message's whole row: as `row`, after these of its transitions."""
    body, content_type = stored.content
    return MessageWrite(row, tuple(steps), body, content_type, stored.expires_at)


def _row(row: MessageRow, steps: list[Transition]) -> MessageRow:
    """Return a row after some of its steps."""
    receipts = _first_receipts(row, steps[0])
    state, stamp = steps[0].state, row.sent_at * 1000
    for step in steps[1:]:
        receipts = _moved(row, receipts, step)
        state, stamp = lowest(receipts), stamp_after(step.at, stamp)
    last = steps[-1]
    return row._replace(
        state=state, receipts=receipts, version=last.version, applied=(row.applied[0], last.offset), stamp=stamp
    )


def _first_receipts(row: MessageRow, first: Transition) -> tuple[str, ...]:
    """Return each recipient's first state: who is blocked stays it."""
    if first.state != State.SENT:
        return row.receipts
    return tuple(str(State.BLOCKED if own == State.BLOCKED else State.SENT) for own in row.receipts)


def _moved(row: MessageRow, receipts: tuple[str, ...], step: Transition) -> tuple[str, ...]:
    if not step.actor:
        return tuple(step.state if RANK[own] < RANK[step.state] else own for own in receipts)
    return tuple(step.state if user == step.actor else own for user, own in zip(row.recipients, receipts, strict=True))
