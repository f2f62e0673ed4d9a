"""What is not where it must be: in its sender's outbox, in the store, with its recipients. Pure."""

from collections.abc import Iterator, Mapping

from compose.checking.history import Fault, History
from consumers.stores.contract import StoredMessage
from schemas.lifecycle import FAILED, State

_UNREACHED = FAILED | {State.PENDING, State.SENT}
"""States of a recipient that do not claim that the message reached it."""


def missing(history: History, stored: Mapping[bytes, StoredMessage]) -> Iterator[Fault]:
    """Yield messages that were accepted, or are said to have arrived, and are not there with their content."""
    yield from _missing_from_outboxes(history)
    yield from _missing_from_store(history, stored)
    yield from missing_from_recipients(history)
    yield from _other_content(history)


def _missing_from_outboxes(history: History) -> Iterator[Fault]:
    kept = {(own.user, own.first_id) for own in history.own}
    for sent in history.sent:
        if (sent.user, sent.message_id) not in kept:
            yield Fault("lost", sent.message_id, f"send returned, but the outbox of {sent.user} does not hold it")


def _missing_from_store(history: History, stored: Mapping[bytes, StoredMessage]) -> Iterator[Fault]:
    bodies = {(sent.user, sent.message_id): sent.body for sent in history.sent}
    for own in history.own:
        found = stored.get(own.message_id)
        if found is None:
            if own.state not in FAILED | {State.PENDING}:
                yield Fault("lost", own.message_id, f"{own.user} holds it as {own.state}, the store does not hold it")
            continue
        if found.row.sender != own.user:
            yield Fault("lost", own.message_id, f"{own.user} sent it, the store says {found.row.sender}")
        body = bodies.get((own.user, own.first_id))
        was_kept = found.row.state not in {State.REJECTED, State.CANCELLED}
        if body is not None and was_kept and found.content.body != body:
            yield Fault("lost", own.message_id, f"the store holds {found.content.body!r} instead of {body!r}")


def missing_from_recipients(history: History) -> Iterator[Fault]:
    """Yield messages that are said to have arrived, and that no outbox of their recipient holds."""
    has = {(taken.user, taken.message_id) for taken in history.taken} | history.forgotten
    for stored in history.stored:
        row = stored.row
        for recipient, state in zip(row.recipients, row.receipts, strict=False):
            if state not in _UNREACHED and (recipient, row.message_id) not in has:
                yield Fault("lost", row.message_id, f"{recipient} is said to have it ({state}), but does not")


def _other_content(history: History) -> Iterator[Fault]:
    got = {(taken.user, taken.message_id): taken.body for taken in history.taken}
    for stored in history.stored:
        row = stored.row
        for recipient in row.recipients:
            body = got.get((recipient, row.message_id))
            if body is not None and body != stored.content.body:
                yield Fault("lost", row.message_id, f"{recipient} has another content under its id: {body!r}")
