"""Deliveries that wait for their receipt in the owner's memory: when they are due, which is the oldest.

Bounded in three ways: what has waited for the grace time is spilled into the store, so is what lies too far behind
the low-water mark to be rebuilt from the log's tail on a takeover, and so is whatever is over the limit.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from consumers.stores.contract import KeyObject, MessageKey

_SLACK = 1_024
_LOOKS = 5
"""Messages looked at in one go for each that is taken."""
_PUT_OFF_MS = 1_000
_new: Final = tuple.__new__
"""Makes a named tuple in half the time that its own constructor takes; for what is made for every message."""


class Waiting(NamedTuple):
    """One message that some recipient is still owed."""

    offset: int
    """Of its first SEND."""
    since_ms: int
    due_ms: int
    attempt: int
    """Deliveries made so far."""


class Spill(NamedTuple):
    """Deliveries on their way into the store; until they are there they hold the low-water mark."""

    waiting: dict[MessageKey, Waiting]


class PendingDeliveries:
    """Waiting messages by key, by due time and by offset."""

    __slots__ = ("_due", "_order", "_spills", "entries")

    def __init__(self) -> None:
        self.entries: dict[MessageKey, Waiting] = {}
        self._due: list[tuple[int, int, MessageKey]] = []
        self._order: deque[tuple[int, MessageKey]] = deque()
        self._spills: list[Spill] = []

    def add(self, key: KeyObject, offset: int, since_ms: int, due_ms: int) -> None:
        """Note a message's first delivery; offsets only rise. One that is noted already stays as it is."""
        if key in self.entries:
            return
        self.entries[key] = _new(Waiting, (offset, since_ms, due_ms, 1))
        heappush(self._due, (due_ms, offset, key))
        self._order.append((offset, key))

    def settle(self, key: KeyObject) -> None:
        """Forget a message that nobody is owed any more."""
        self.entries.pop(key, None)

    def again(self, key: MessageKey, due_ms: int, attempt: int) -> None:
        """Note the next due time of a message that still waits."""
        waiting = self.entries.get(key)
        if waiting is not None:
            self.entries[key] = waiting._replace(due_ms=due_ms, attempt=attempt)
            heappush(self._due, (due_ms, waiting.offset, key))

    def due(self, now_ms: int, limit: int) -> list[tuple[MessageKey, Waiting]]:
        """Take up to `limit` messages that are due; each stays noted, its next time is for the caller to give.

        Not more than a quarter of them are of one conversation while others are due: what it has more of is put off a
        little, so a recipient who is away from a busy conversation holds up nobody else.
        """
        self._compact()
        heap, entries = self._due, self.entries
        taken: list[tuple[MessageKey, Waiting]] = []
        over: list[tuple[MessageKey, Waiting]] = []
        of_conversation: dict[str, int] = {}
        looks, each = _LOOKS * limit, max(1, limit // 4)
        while heap and looks and len(taken) < limit and heap[0][0] <= now_ms:
            due_ms, offset, key = heappop(heap)
            waiting = entries.get(key)
            if waiting is None or waiting.due_ms != due_ms or waiting.offset != offset:
                continue
            looks -= 1
            count = of_conversation[key[0]] = of_conversation.get(key[0], 0) + 1
            (taken if count <= each else over).append((key, waiting))
        room = limit - len(taken)
        for key, waiting in over[room:]:
            self.again(key, now_ms + _PUT_OFF_MS, waiting.attempt)
        return taken + over[:room]

    def _compact(self) -> None:
        """Drop what has settled once it is more than what waits, so that memory follows the latter."""
        entries = self.entries
        if len(self._due) > 2 * len(entries) + _SLACK:
            self._due = [(waiting.due_ms, waiting.offset, key) for key, waiting in entries.items()]
            heapify(self._due)
        if len(self._order) > 2 * len(entries) + _SLACK:
            self._order = deque((offset, key) for offset, key in self._order if self._stands(offset, key))

    def _stands(self, offset: int, key: MessageKey) -> bool:
        waiting = self.entries.get(key)
        return waiting is not None and waiting.offset == offset

    def oldest_offset(self) -> int | None:
        """Return the least offset that a takeover must still see in the log's tail; None where there is none."""
        order = self._order
        while order and not self._stands(*order[0]):
            order.popleft()
        oldest = [order[0][0]] if order else []
        oldest += [min(waiting.offset for waiting in spill.waiting.values()) for spill in self._spills]
        return min(oldest, default=None)

    def take_spill(self, since_before_ms: int, offset_before: int, keep: int, limit: int, durable: int) -> Spill | None:
        """Take up to `limit` messages to be spilled, oldest first; None where none has to be.

        Those that have waited since before `since_before_ms`, those whose SEND is below `offset_before`, and those
        over `keep`; but none at or above `durable`, whose row may not be in the store yet.
        """
        order, entries = self._order, self.entries
        taken: dict[MessageKey, Waiting] = {}
        while order and len(taken) < limit:
            offset, key = order[0]
            if self._stands(offset, key):
                waiting = entries[key]
                over = len(entries) > keep
                if offset >= durable or not (over or offset < offset_before or waiting.since_ms < since_before_ms):
                    break
                taken[key] = entries.pop(key)
            order.popleft()
        if not taken:
            return None
        spill = Spill(taken)
        self._spills.append(spill)
        return spill

    def spilled(self, spill: Spill) -> None:
        """Note that a spill is durable: it holds the low-water mark no longer."""
        self._spills = [other for other in self._spills if other is not spill]


class NothingPending(PendingDeliveries):
    """For who folds without delivering anything: nothing ever waits."""

    __slots__ = ()

    def add(self, key: KeyObject, offset: int, since_ms: int, due_ms: int) -> None:
        """Forget it."""
