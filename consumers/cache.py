"""What an owner keeps in memory of its partition: bounded, oldest out first, and it knows what it can no longer tell.

Rows are put out only while all of them are in the store: reading one back would give an older one otherwise.
"""

from collections import deque

from consumers.rows import ConversationRow, MessageRow, Position
from consumers.stores.contract import KeyObject, MessageKey

EVERYTHING: bytes = b""
"""The read bound of a cache that has seen the log from its first record: every id compares at or above it."""

NOTHING: bytes = b"\xff" * 17
"""The read bound of a cache that may not yet rest on what it has seen: every id compares below it, and is read."""

INSTALLS_MAX = 256
"""Outboxes whose last seq is kept per conversation."""
PASSED_MAX = 16
"""Seqs of one outbox that may have been passed by a later one and still come."""


def read_bound(covered_from_ms: int, allowance_ms: int) -> bytes:
    """Return the least id (its first 6 bytes, as they compare) that cannot be in the store when it is not here.

    `covered_from_ms` is the append time from which on the cache has seen the log; `allowance_ms` is how far an id may
    be ahead of its append time, and how far brokers' clocks may differ.
    """
    return max(0, covered_from_ms + allowance_ms + 1).to_bytes(6, "big")


class MessageCache:
    """Rows by key, in the order in which they came. Use `rows` to look up and to replace, `add` for new ones."""

    __slots__ = ("_allowance_ms", "_covered_from", "_opened", "_order", "bound", "evicted", "limit", "rows")

    def __init__(self, limit: int, allowance_ms: int, *, from_the_start: bool) -> None:
        self.rows: dict[MessageKey, MessageRow] = {}
        self.limit = limit
        self.evicted = 0
        self.bound = EVERYTHING if from_the_start else NOTHING
        """An unknown message whose id is at or above it is in no store: no read is needed."""
        self._opened = from_the_start
        self._covered_from = -1
        self._allowance_ms = allowance_ms
        self._order: deque[MessageKey] = deque()

    def cover_from(self, appended_at: int) -> None:
        """Note the append time of the first record seen; further calls change nothing."""
        if not self._opened:
            self._opened = True
            self._covered_from = appended_at
            self.bound = read_bound(appended_at, self._allowance_ms)

    def add(self, key: KeyObject, row: MessageRow) -> None:
        """Keep a row that is not here yet."""
        self.rows[key] = row
        self._order.append(key)

    def replace(self, key: MessageKey, row: MessageRow | None) -> None:
        """Put another row in a row's place; None where there turned out to be none."""
        if row is None:
            if self.rows.pop(key, None) is not None:
                self._order.remove(key)
        elif key in self.rows:
            self.rows[key] = row
        else:
            self.add(key, row)

    def evict(self) -> None:
        """Put out the oldest rows until the limit holds; the read bound rises with them."""
        rows, order = self.rows, self._order
        while len(rows) > self.limit:
            sent_at = rows.pop(order.popleft()).sent_at
            self.evicted += 1
            if self._opened and sent_at > self._covered_from:
                self._covered_from = sent_at
                self.bound = read_bound(sent_at, self._allowance_ms)


class Conversation:
    """A conversation's row, the last seq seen from each outbox, and the few before it that were not seen."""

    __slots__ = ("known_to", "passed", "row", "sequences")

    def __init__(self, row: ConversationRow) -> None:
        self.row = row
        self.sequences = dict(row.sequences)
        self.passed: dict[bytes, set[int]] = {}
        """Seqs below an outbox's last that never came: a SEND that is tried again later is passed by the next one."""
        self.known_to: Position = row.applied
        """What was read tells of events up to here: their own seq among it is no reuse."""

    def reuses(self, install: bytes, seq: int, position: Position) -> bool:
        """Note a seq; say whether this outbox had already used it."""
        last = self.sequences.get(install)
        if last is None or seq > last:
            self.sequences[install] = seq
            if seq > (last or 0) + 1:
                self._pass(install, last or 0, seq)
            if len(self.sequences) > INSTALLS_MAX:
                oldest = next(iter(self.sequences))
                del self.sequences[oldest]
                self.passed.pop(oldest, None)
            return False
        passed = self.passed.get(install)
        if passed is not None and seq in passed:
            passed.remove(seq)
            return False
        return position > self.known_to

    def _pass(self, install: bytes, last: int, seq: int) -> None:
        """Note the newest of the seqs between two."""
        passed = self.passed.setdefault(install, set())
        passed.update(range(max(last + 1, seq - PASSED_MAX), seq))
        for oldest in sorted(passed)[:-PASSED_MAX]:
            passed.remove(oldest)


class ConversationCache:
    """Conversations by id, in the order in which they came."""

    __slots__ = ("_order", "complete", "limit", "rows")

    def __init__(self, limit: int, *, complete: bool) -> None:
        self.rows: dict[str, Conversation] = {}
        self.limit = limit
        self.complete = complete
        """Whether a conversation that is not here is in no store either."""
        self._order: deque[str] = deque()

    def add(self, row: ConversationRow) -> Conversation:
        """Keep a conversation that is not here yet."""
        found = self.rows[row.conversation_id] = Conversation(row)
        self._order.append(row.conversation_id)
        return found

    def replace(self, row: ConversationRow) -> None:
        """Put another row in a conversation's place; the seqs seen since stay."""
        before = self.rows.get(row.conversation_id)
        if before is None:
            self.add(row)
            return
        after = self.rows[row.conversation_id] = Conversation(row)
        for install, seq in before.sequences.items():
            after.sequences[install] = max(seq, after.sequences.get(install, 0))
        after.passed = before.passed

    def evict(self) -> None:
        """Put out the oldest until the limit holds."""
        while len(self.rows) > self.limit:
            del self.rows[self._order.popleft()]
            self.complete = False
