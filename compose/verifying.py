"""Whether outboxes and the store say the same: what a look at a living deployment can tell.

Outboxes are read first, so the store is at least as new as each of them. What moved a moment ago may still be on its
way, and is counted instead of judged. The rules are the checker's.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from compose.checking.checker import check
from compose.checking.history import Fault, History, Own, Taken
from compose.errors import NotFoundError
from consumers.stores.contract import MessageKey, Store, StoredMessage
from schemas.lifecycle import State

KEYS_PER_READ: Final = 500


class Outbox(NamedTuple):
    """What one outbox holds."""

    user: str
    own: Sequence[Own]
    taken: Sequence[Taken]
    keys: frozenset[MessageKey]
    """Of all these messages."""


class Verified(NamedTuple):
    """What was found."""

    faults: Sequence[Fault]
    messages: int
    """Looked at."""
    young: int
    """Messages that moved a moment ago, and were not judged."""


def read_outbox(path: Path) -> Outbox:
    """Return what an outbox file holds; raise NotFoundError where it is none."""
    if not path.is_file():
        raise NotFoundError(f"there is no outbox {path}", "See `twotick config show` for user.outboxes.")
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        try:
            user = str(connection.execute("SELECT value FROM meta WHERE name = 'user'").fetchone()[0])
            sent = connection.execute("SELECT message_id, first_id, state, conversation_id FROM messages").fetchall()
            came = connection.execute("SELECT message_id, body, conversation_id FROM deliveries").fetchall()
        except (sqlite3.DatabaseError, TypeError) as error:
            raise NotFoundError(f"{path} is no outbox", "Name the SQLite file of one of your users.") from error
    return Outbox(
        user,
        [Own(user, message_id, first_id or message_id, state) for message_id, first_id, state, _ in sent],
        [Taken(user, message_id, body) for message_id, body, _ in came],
        frozenset((row[-1], row[0]) for row in (*sent, *came)),
    )


def verify(outboxes: Sequence[Outbox], store: Store, *, now_ms: int, grace_ms: int) -> Verified:
    """Return where outboxes and the store do not say the same. Raises the store's errors."""
    stored = list(_stored(store, frozenset().union(*(outbox.keys for outbox in outboxes))))
    known = {outbox.user for outbox in outboxes}
    history = History(
        sent=(),
        own=[own for outbox in outboxes for own in outbox.own],
        stored=stored,
        taken=[taken for outbox in outboxes for taken in outbox.taken],
        forgotten=_elsewhere(stored, known),
        terminal=frozenset(State),
    )
    moved_at = {each.row.message_id: each.transitions[-1][0].at for each in stored if each.transitions}
    waiting = {own.message_id for own in history.own if own.state == State.PENDING} - moved_at.keys()
    young = {message_id for message_id, at in moved_at.items() if at > now_ms - grace_ms}
    faults = [
        fault
        for fault in check(history).faults
        if fault.message_id not in young and not (fault.kind == "stuck" and fault.message_id in waiting)
    ]
    there = {each.row.message_id for each in stored}
    faults += [
        Fault("invented", taken.message_id, f"{taken.user} has it, the store does not hold it")
        for taken in history.taken
        if taken.message_id not in there
    ]
    return Verified(faults, len(moved_at.keys() | {own.message_id for own in history.own}), len(young))


def _stored(store: Store, keys: frozenset[MessageKey]) -> Iterator[StoredMessage]:
    ordered = sorted(keys)
    for start in range(0, len(ordered), KEYS_PER_READ):
        yield from store.messages(ordered[start : start + KEYS_PER_READ]).values()


def _elsewhere(stored: Sequence[StoredMessage], known: set[str]) -> frozenset[tuple[str, bytes]]:
    """Return who else sent or has a message: users whose outboxes were not named, about which nothing can be said."""
    return frozenset(
        (user, each.row.message_id)
        for each in stored
        for user in (each.row.sender, *each.row.recipients)
        if user not in known
    )
