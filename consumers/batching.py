"""Begins batches: what waits for partitions that write nothing is folded, on rows that one round of reads found."""

from collections.abc import Sequence
from typing import Any, Final

from consumers import clock
from consumers.assignment import Assignment
from consumers.counters import Counters
from consumers.errors import StoreUnavailableError
from consumers.pipeline import Pipeline
from consumers.stores.contract import MessageKey, Rows, Store
from consumers.work import Needs

FOLDED_AT_ONCE: Final = 4
"""Batches as they are read, at most, that are one batch of their partition."""
_NOTHING: Final = Rows({}, {})


class Batching:
    """Reads, folds and hands over to the pipeline. For one thread."""

    def __init__(self, store: Store, assignment: Assignment, pipeline: Pipeline, counters: Counters) -> None:
        self._store = store
        self._assignment = assignment
        self._pipeline = pipeline
        self._counters = counters

    def begin(self, records_max: int) -> None:
        """Begin a batch of each of them, none where the store does not answer; `records_max` is of one poll."""
        ready = [(held, owner) for held, owner in self._assignment.owned() if held.waiting and held.writing is None]
        if not ready:
            return
        most = FOLDED_AT_ONCE * records_max
        needs = [owner.needs(held.waiting[:most]) for held, owner in ready]
        try:
            found = self._read(needs)
        except StoreUnavailableError as error:
            self._pipeline.store_failed(error)
            return
        now_ms = clock.now_ms()
        for (held, owner), need in zip(ready, needs, strict=True):
            entries, originals = held.take_waiting(most)
            work = owner.fold(entries, _of(found, need), now_ms)
            self._counters.events += len(entries)
            if not owner.warming_up:
                held.traffic.saw(entries)
            held.since_ms = entries[-1].appended_at
            self._pipeline.start(held, owner, work, entries, originals, now_ms)

    def _read(self, needs: Sequence[Needs]) -> Rows:
        """Read all that the batches rest on and that is not in memory. Raises StoreUnavailableError."""
        messages = [key for need in needs for key in need.messages]
        conversations = [name for need in needs for name in need.conversations]
        if not messages and not conversations:
            return _NOTHING
        self._counters.cold_reads += len(messages) + len(conversations)
        return self._store.read(messages, conversations)


def _of(found: Rows, need: Needs) -> Rows:
    """Return the part of what was read that one owner had asked for."""
    if found is _NOTHING:
        return found
    messages: dict[MessageKey, Any] = {key: found.messages[key] for key in need.messages if key in found.messages}
    names = need.conversations
    return Rows(messages, {name: found.conversations[name] for name in names if name in found.conversations})
