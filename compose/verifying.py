"""Whether outboxes and the store say the same: what a look at a living deployment can tell.

Outboxes are read first, so the store is at least as new as each of them. What moved a moment ago may still be on its
way, and is counted instead of judged. The rules are the checker's, but for those that need more than is at hand: the
order in the log is the replay's to judge, and what an outbox does not hold is judged only where it can neither be on
another device nor have been pruned.

That a user has a message, as the store tells it, says nothing of any one outbox: each of a user's devices has its own,
one of them was enough, and nobody knows whether all of them were named. But a receipt names the install that wrote it,
and an outbox writes it in one transaction with the message. So an outbox has lost what it has itself said to hold, in
the log or in what it has yet to send; without such a receipt the message is on another device.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from compose.checking.checker import check
from compose.checking.history import Fault, History, Own, Taken
from compose.checking.missing import missing_from_recipients
from compose.errors import ComposeError, NotFoundError, UnreachableError
from consumers.stores.contract import MessageKey, Store, StoredMessage
from schemas.identity import time_of
from schemas.lifecycle import RECEIPTS, State
from schemas.records import Event

KEYS_PER_READ: Final = 500
BUSY_S: Final = 10.0
"""How long to wait for whoever has locked an outbox."""


class Outbox(NamedTuple):
    """What one outbox holds."""

    user: str
    own: Sequence[Own]
    taken: Sequence[Taken]
    keys: frozenset[MessageKey]
    """Of all these messages."""
    install: bytes
    """Whose messages it sends; another one before it was restored from a backup."""
    sent_since: float
    """It holds all that it sent from this log time on, in ms since 1970. `inf`: unknown."""
    came_since: float
    """It holds all that came and that may be delivered until this log time or later. `inf`: unknown."""
    said: frozenset[MessageKey] = frozenset()
    """What it has a receipt for that was not answered yet."""
    written_at: float = inf
    """When it was last written, in ms since 1970: a copy knows nothing of what came later. `inf`: now."""


class Verified(NamedTuple):
    """What was found."""

    faults: Sequence[Fault]
    messages: int
    """Looked at."""
    young: int
    """Messages that moved a moment ago, and were not judged."""
    elsewhere: frozenset[bytes]
    """Messages that have arrived at a user of whom an outbox was given, though none of these holds them."""


def read_outbox(path: Path) -> Outbox:
    """Return what an outbox file holds.

    Raises NotFoundError where it is none, UnreachableError where it is locked, ComposeError where it cannot be read.
    """
    if not path.is_file():
        raise NotFoundError(f"there is no outbox {path}", "See `twotick config show` for user.outboxes.")
    written_at = _written_at(path)  # before it is read: what is written meanwhile may not be seen
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)) as connection:
            user = str(connection.execute("SELECT value FROM meta WHERE name = 'user'").fetchone()[0])
            sent = connection.execute("SELECT message_id, first_id, state, conversation_id FROM messages").fetchall()
            came = connection.execute("SELECT message_id, body, conversation_id FROM deliveries").fetchall()
            said = connection.execute(_SAID).fetchall()
            install, sent_since, came_since = connection.execute(_KEPT).fetchone()
    except (sqlite3.DatabaseError, TypeError) as error:
        raise _unreadable(path, error) from error
    return Outbox(
        user,
        [Own(user, message_id, first_id or message_id, state) for message_id, first_id, state, _ in sent],
        [Taken(user, message_id, body) for message_id, body, _ in came],
        frozenset((row[-1], row[0]) for row in (*sent, *came)),
        bytes(install),
        inf if sent_since is None else sent_since,
        inf if came_since is None else came_since,
        frozenset(said),
        written_at,
    )


def _written_at(path: Path) -> float:
    """Return when a SQLite file was last written, in ms since 1970; what is new stands beside it at first."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return max(file.stat().st_mtime_ns for file in files if file.is_file()) / 1_000_000


def _unreadable(path: Path, error: Exception) -> ComposeError:
    """Tell a file that is no outbox from one that SQLite cannot read here or now."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without its extension
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return UnreachableError(
            f"the outbox {path} is locked by another program", "Try again once that has let go of it."
        )
    if isinstance(error, sqlite3.OperationalError) and code != sqlite3.SQLITE_ERROR:  # that is: no such table
        return ComposeError(
            f"the outbox {path} cannot be read: {error}",
            "SQLite reads the file and writes beside it (-wal, -shm): run this as the outbox's owner, or name a copy "
            "in a folder of your own, which the owner makes with `sqlite3 FILE '.backup COPY'`.",
        )
    return NotFoundError(f"{path} is no outbox", "Name the SQLite file of one of your users.")


def verify(outboxes: Sequence[Outbox], store: Store, *, now_ms: int, grace_ms: int) -> Verified:
    """Return where outboxes and the store do not say the same. Raises the store's errors."""
    stored = list(_stored(store, frozenset().union(*(outbox.keys for outbox in outboxes))))
    history = History(
        sent=(),
        own=[own for outbox in outboxes for own in outbox.own],
        stored=stored,
        taken=list(dict.fromkeys(taken for outbox in outboxes for taken in outbox.taken)),  # by all of a user's devices
        forgotten=_unknown(stored, outboxes),
        generations_at=None,
        terminal=frozenset(State),
    )
    moved_at = {each.row.message_id: each.transitions[-1][0].at for each in stored if each.transitions}
    waiting = {own.message_id for own in history.own if own.state == State.PENDING} - moved_at.keys()
    young = {message_id for message_id, at in moved_at.items() if at > now_ms - grace_ms}
    unheld = frozenset(missing_from_recipients(history))
    faults = [
        fault
        for fault in (*_judged(history, unheld), *_held_twice(outboxes), *_never_sent(stored, outboxes))
        if fault.message_id not in young and not (fault.kind == "stuck" and fault.message_id in waiting)
    ]
    there = {each.row.message_id for each in stored}
    faults += [
        Fault("invented", taken.message_id, f"{taken.user} has it, the store does not hold it")
        for taken in history.taken
        if taken.message_id not in there
    ]
    seen = len(moved_at.keys() | {own.message_id for own in history.own})
    return Verified(faults, seen, len(young), frozenset(fault.message_id for fault in unheld) - young)


def _stored(store: Store, keys: frozenset[MessageKey]) -> Iterator[StoredMessage]:
    ordered = sorted(keys)
    for start in range(0, len(ordered), KEYS_PER_READ):
        yield from store.messages(ordered[start : start + KEYS_PER_READ]).values()


def _judged(history: History, unheld: frozenset[Fault]) -> Iterator[Fault]:
    """Yield what the checker finds, but for what nobody sent or holds: it does not know outboxes apart."""
    return (fault for fault in check(history).faults if fault.kind != "invented" and fault not in unheld)


def _held_twice(outboxes: Sequence[Outbox]) -> Iterator[Fault]:
    for outbox in outboxes:
        for message_id, times in Counter(taken.message_id for taken in outbox.taken).items():
            if times > 1:
                yield Fault("duplicated", message_id, f"{outbox.user} holds it {times} times in one outbox")


def _never_sent(stored: Sequence[StoredMessage], outboxes: Sequence[Outbox]) -> Iterator[Fault]:
    """Yield messages of the outboxes' installs that these would still hold, and do not."""
    held = {own.message_id for outbox in outboxes for own in outbox.own}
    since = {outbox.install: outbox.sent_since for outbox in outboxes}
    for each in stored:
        row = each.row
        if row.message_id not in held and row.sent_at >= since.get(row.install, inf):
            yield Fault("invented", row.message_id, f"nobody sent it; the store says {row.sender}")


class Receipts:
    """What outboxes have said to hold, and did not hold when they were read."""

    def __init__(self, outboxes: Sequence[Outbox], grace_ms: int) -> None:
        """Take outboxes; what they have said in the last `grace_ms` before they were written may not be in them."""
        self._grace_ms = grace_ms
        self._outboxes: dict[bytes, list[Outbox]] = {}
        self._held: dict[bytes, set[bytes]] = {}
        self._missing: dict[tuple[bytes, MessageKey], None] = {}
        for outbox in outboxes:
            self._outboxes.setdefault(outbox.install, []).append(outbox)
            self._held.setdefault(outbox.install, set()).update(taken.message_id for taken in outbox.taken)
        for outbox in outboxes:
            for key in sorted(outbox.said):
                self._note(outbox.install, key)

    def hear(self, event: Event) -> None:
        """Take an event of the log."""
        if event.kind not in RECEIPTS or event.install not in self._outboxes:
            return
        said_at = time_of(event.event_id) + self._grace_ms
        if any(outbox.user == event.actor and said_at <= outbox.written_at for outbox in self._outboxes[event.install]):
            self._note(event.install, (event.conversation_id, event.message_id))

    def _note(self, install: bytes, key: MessageKey) -> None:
        if key[1] not in self._held[install]:
            self._missing[install, key] = None

    def lost(self, store: Store, now_ms: int) -> Iterator[tuple[str, Fault]]:
        """Yield what is missing of what the store knows, each with its conversation. Raises the store's errors."""
        stored = {each.row.message_id: each for each in _stored(store, frozenset(key for _, key in self._missing))}
        for install, (conversation_id, message_id) in self._missing:
            found, outboxes = stored.get(message_id), self._outboxes[install]
            if found is None or not any(outbox.came_since <= found.row.deliver_by for outbox in outboxes):
                continue
            if not found.transitions or found.transitions[-1][0].at <= now_ms - self._grace_ms:
                detail = f"{outboxes[0].user} has it by the receipt of an outbox that does not hold it"
                yield conversation_id, Fault("lost", message_id, detail)


def _unknown(stored: Sequence[StoredMessage], outboxes: Sequence[Outbox]) -> frozenset[tuple[str, bytes]]:
    """Return who else has a message, or may have had it: nothing can be said about them."""
    since: dict[str, float] = {}
    for outbox in outboxes:
        since[outbox.user] = min(outbox.came_since, since.get(outbox.user, inf))
    return frozenset(
        (user, each.row.message_id)
        for each in stored
        for user in each.row.recipients
        if each.row.deliver_by < since.get(user, inf)
    )


_SAID: Final = "SELECT conversation_id, message_id FROM events WHERE kind IN ('DELIVERED', 'READ')"
_KEPT: Final = """
    SELECT (SELECT value FROM meta WHERE name = 'install'),
    (SELECT CASE WHEN EXISTS (SELECT 1 FROM sequences)
        THEN (SELECT min(changed_at) FROM messages WHERE state NOT IN ('PENDING', 'SENT')) ELSE 0 END),
    (SELECT CASE count(*) WHEN coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'deliveries'), 0)
        THEN 0 ELSE coalesce((SELECT value FROM meta WHERE name = 'deliveries_pruned_before'),
            min(CASE taken WHEN 1 THEN deliver_by END)) END FROM deliveries)"""
"""The install, and since when nothing was pruned: what ended, or could be delivered, before the first that is kept may
be gone; see `producers.pruning`."""
