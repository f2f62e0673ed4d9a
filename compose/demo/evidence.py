"""Collects what a demo is judged by: the plan, the outbox files, the store's rows, the dead letters."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from compose import outboxes
from compose.demo.findings import Evidence, Incoming, Outgoing, Planned, Step, Stored
from compose.demo.plan import Intended, Plan, intentions
from consumers.stores.contract import Store, StoredMessage
from schemas.identity import text_of

_ALL: Final = 2**31 - 1


def gather(plan: Plan, outbox_of: Mapping[str, Path], store: Store, dead_letters: int) -> Evidence:
    """Read everything; `outbox_of` names each user's outbox file."""
    intended = list(intentions(plan))
    conversations = sorted({one.conversation_id for one in intended})
    return Evidence(
        planned=[Planned(one.body, one.sender, one.recipients) for one in intended],
        outgoing=list(_outgoing(intended, outbox_of)),
        stored=[_stored(row) for conversation in conversations for row in store.history(conversation, _ALL)],
        incoming=[
            Incoming(arrival.message_id, arrival.body, user)
            for user, path in outbox_of.items()
            for arrival in outboxes.arrivals(path)
        ],
        conflicts=dead_letters,
    )


def _outgoing(intended: Iterable[Intended], outbox_of: Mapping[str, Path]) -> Iterator[Outgoing]:
    """Yield the senders' side; an outbox drops a body once its message was read, so the running number names it."""
    bodies = {(one.sender, one.conversation_id, one.seq): one.body for one in intended}
    for user, path in outbox_of.items():
        for own in outboxes.own_messages(path):
            unplanned = f"unplanned message {own.seq} of {user} in {own.conversation_id}"
            body = bodies.get((user, own.conversation_id, own.seq), unplanned)
            yield Outgoing(own.message_id, body, user, own.state)


def _stored(message: StoredMessage) -> Stored:
    row = message.row
    return Stored(
        message_id=text_of(row.message_id),
        body=message.content.body.decode(errors="replace"),
        sender=row.sender,
        recipients=row.recipients,
        receipts=row.receipts,
        state=row.state,
        version=row.version,
        steps=tuple(Step(step.version, step.state, step.actor, step.offset) for step, _ in message.transitions),
    )
