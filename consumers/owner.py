"""The owner of one partition: takes records, cold rows and the time, returns what is to be done. Pure.

The shell around it (a worker, or a simulation) does, for every batch:

1. `needs(entries)`: read these rows, all at once, and nothing else.
2. `fold(entries, rows, now)`: the writes, answers and refusals of the batch. Write the rows.
3. When they are durable: `durable()`; publish the answers and refusals. Then the next batch may be folded.
4. When those are reported: `finished(work)`. `commit_position` may have moved.

And now and then `due`, `redelivered` and `take_spill` for deliveries whose receipt does not come.

A shell that dies anywhere loses nothing: the next owner starts at the committed position minus the tail, folds the
tail without writing or answering (the warm-up: it fills the cache), and then goes on from the committed position.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from consumers.folding import HELLO, OF_CONVERSATION, STARTS, Folding
from consumers.intake import Entry
from consumers.low_water import LowWaterMark
from consumers.partition_rows import OwnerSettings, PartitionRows, Takeover
from consumers.pending import PendingDeliveries, Spill
from consumers.redelivery import Schedule, buckets_of
from consumers.rows import At, MessageRow, Owner
from consumers.stores.contract import KeyObject, MessageKey, Pending, Rows
from consumers.warm_up import WarmUp
from consumers.work import Conflict, Needs, Work

__all__ = ["OwnerSettings", "PartitionOwner", "Takeover"]


class PartitionOwner:
    """One partition's fold, cache, pending deliveries and low-water mark."""

    __slots__ = (
        "_committed",
        "_folding",
        "_low_water",
        "_rows",
        "_takeover",
        "_unwritten",
        "_warm_to",
        "_warm_up",
        "pending",
        "position",
        "spilled_to",
    )

    def __init__(self, settings: OwnerSettings, takeover: Takeover, pending: PendingDeliveries | None = None) -> None:
        self.pending = pending if pending is not None else PendingDeliveries()
        self.position = takeover.position
        """The next offset that it has not been given."""
        self.spilled_to = takeover.spilled_to
        """The newest bucket of spilled deliveries that is worked off; the shell moves it."""
        self._takeover = takeover
        self._rows = PartitionRows(settings, takeover, self.pending)
        self._folding = Folding(self._rows)
        self._warm_up = WarmUp(self._rows)
        self._warm_to = takeover.committed
        self._low_water = LowWaterMark(max(takeover.committed, takeover.position))
        self._committed = self._low_water.offset
        self._unwritten: Work | None = None
        """The batch whose rows may not be in the store."""

    @property
    def owner(self) -> Owner:
        """What its writes carry: the lease's epoch and the node."""
        return self._takeover.owner

    @property
    def partition(self) -> int:
        """Which partition it owns."""
        return self._takeover.partition

    @property
    def warming_up(self) -> bool:
        """Whether records before the committed position are still to come."""
        return self.position < self._warm_to

    @property
    def is_writing(self) -> bool:
        """Whether a batch's rows are not in the store yet: no other may be folded."""
        return self._unwritten is not None

    @property
    def low_water(self) -> int:
        """The offset below which every record is finished."""
        return self._low_water.offset

    @property
    def cached(self) -> int:
        """Message rows in memory."""
        return len(self._rows.messages.rows)

    @property
    def evicted(self) -> int:
        """Message rows put out of memory so far."""
        return self._rows.messages.evicted

    def adopt(self, schedule: Schedule) -> None:
        """Go on with another schedule; what is due already stays due then."""
        self._rows.settings = replace(self._rows.settings, schedule=schedule)

    def limit_memory(self, messages_max: int, conversations_max: int, pending_max: int) -> None:
        """Change how many rows and deliveries may be kept; what is over goes out with the next batch or spill."""
        self._rows.messages.limit = messages_max
        self._rows.conversations.limit = conversations_max
        self._rows.settings = replace(self._rows.settings, pending_max=pending_max)

    def needs(self, entries: Sequence[Entry]) -> Needs:
        """Return the rows that these records rest on and that are neither in memory nor known to be nowhere."""
        kept, generation, warm_to = self._rows, self._takeover.generation, self._warm_to
        self._cover(entries)
        rows, bound = kept.messages.rows, kept.messages.bound
        known, complete = kept.conversations.rows, kept.conversations.complete
        messages: dict[MessageKey, None] = {}
        conversations: dict[str, None] = {}
        for offset, _, event, _, _ in entries:
            if event is None:
                continue
            kind, conversation_id = event.kind, event.conversation_id
            asks = kind in OF_CONVERSATION
            if not asks:
                if kind == HELLO:
                    continue
                key: KeyObject = (conversation_id, event.message_id)
                row = rows.get(key)
                if row is None and event.message_id < bound and (offset >= warm_to or kind in STARTS):
                    messages[key] = None
                asks = kind in STARTS and (row is None or row.applied >= (generation, offset))
            if asks and not complete and conversation_id not in known:
                conversations[conversation_id] = None
        return Needs(list(messages), list(conversations))

    def _cover(self, entries: Sequence[Entry]) -> None:
        """Note from when on the cache has seen all that can be of this partition."""
        covers_from = self._takeover.covers_from
        if entries[-1].offset >= covers_from:
            first = next(entry for entry in entries if entry.offset >= covers_from)
            self._rows.messages.cover_from(first.appended_at)

    def fold(self, entries: Sequence[Entry], cold: Rows, now_ms: int) -> Work:
        """Fold records in the order of their offsets; `cold` is what was found of what `needs` named for them.

        `now_ms` (since 1970) is used for nothing but the times of redelivery. Raises RuntimeError while the batch
        before is not durable: what is written of a row is what has changed since it was.
        """
        if self._unwritten is not None:
            raise RuntimeError(f"partition {self.partition}: the batch before is not durable")
        self._cover(entries)
        self._rows.load(cold)
        self.position = entries[-1].offset + 1
        span = self._low_water.begin(max(self.position, self._low_water.offset))
        work = self._unwritten = Work(span, now_ms)
        generation, partition, warm_to = self._takeover.generation, self._takeover.partition, self._warm_to
        # Half the time of the named tuple's own constructor.
        apply, warm, make = self._folding.apply, self._warm_up.take, tuple.__new__
        for offset, appended_at, event, reason, detail in entries:
            if offset < warm_to:
                work.tally.warm += 1
                if event is not None:
                    warm(event, make(At, (generation, partition, offset, appended_at)), now_ms)
            elif event is None:
                work.tally.refuse(reason)
                work.refuse(offset, reason, detail)
            else:
                apply(event, make(At, (generation, partition, offset, appended_at)), work)
        return work

    def refold(self, work: Work, entries: Sequence[Entry], conflict: Conflict) -> Work:
        """Fold a batch once more after rows of it were changed by someone else and `replace` has taken them in.

        What was to be written of the others stays; they are ahead of these records now, as they are after a crash, so
        the answers are those of a replay.
        """
        again = self._unwritten = Work(work.span, work.now_ms)
        again.messages = {key: write for key, write in work.messages.items() if key not in conflict.messages}
        again.conversations = {
            name: write for name, write in work.conversations.items() if name not in conflict.conversations
        }
        generation, partition = self._takeover.generation, self._takeover.partition
        for offset, appended_at, event, reason, detail in entries:
            if offset < self._warm_to:
                again.tally.warm += 1
            elif event is None:
                again.tally.refuse(reason)
                again.refuse(offset, reason, detail)
            else:
                self._folding.apply(event, At(generation, partition, offset, appended_at), again)
        return again

    def replace(self, conflict: Conflict, found: Rows) -> None:
        """Take rows as they were found where someone else has written them."""
        self._rows.replace(conflict.messages, conflict.conversations, found)

    def durable(self) -> None:
        """Note that the batch's rows are in the store: what is over the limits goes out of memory."""
        self._unwritten = None
        self._rows.evict()

    def finished(self, work: Work) -> None:
        """Note that a batch's rows are durable and its answers reported."""
        self._low_water.finish(work.span)

    def commit_position(self) -> int:
        """Return the offset to commit: all below it is finished, and what is owed is in the store or in the tail."""
        position = self._low_water.offset
        oldest = self.pending.oldest_offset()
        if oldest is not None:
            position = min(position, oldest + self._rows.settings.tail_records)
        self._committed = max(self._committed, position)
        return self._committed

    def due(self, now_ms: int, limit: int) -> Sequence[Pending]:
        """Take up to `limit` deliveries that are due; tell what comes of each with `redelivered` or `put_off`."""
        taken = self.pending.due(now_ms, limit)
        return [Pending(*key, waiting.attempt) for key, waiting in taken]

    def redelivered(self, due: Iterable[Pending], waiting: Iterable[tuple[MessageRow, int]], now_ms: int) -> None:
        """Note what came of deliveries that were taken: those in `waiting`, with their deliveries so far, wait on."""
        schedule, pending = self._rows.settings.schedule, self.pending
        settled = {each.key for each in due}
        for row, attempt in waiting:
            key = (row.conversation_id, row.message_id)
            settled.discard(key)
            pending.again(key, schedule.due(row, attempt, now_ms), attempt)
        for key in settled:
            pending.settle(key)

    def put_off(self, due: Iterable[Pending], until_ms: int) -> None:
        """Note that deliveries which were taken could not be looked at now."""
        for pending in due:
            self.pending.again(pending.key, until_ms, pending.attempt)

    def row(self, key: MessageKey) -> MessageRow | None:
        """Return a message's row if it is in memory."""
        return self._rows.messages.rows.get(key)

    def is_durable(self, key: MessageKey) -> bool:
        """Say whether all that is known of a message is in the store."""
        return self._unwritten is None or key not in self._unwritten.messages

    def take_spill(self, now_ms: int, limit: int) -> tuple[Spill, dict[int, list[Pending]]] | None:
        """Take deliveries that must be kept in the store instead of in memory, by the bucket in which they are due.

        They hold the commit position until `pending.spilled` is told. None where there are none.
        """
        settings, low_water = self._rows.settings, self._low_water.offset
        spill = self.pending.take_spill(
            since_before_ms=now_ms - settings.grace_s * 1000,
            offset_before=low_water - settings.tail_records // 2,
            keep=settings.pending_max,
            limit=limit,
            durable=low_water,
        )
        if spill is None:
            return None
        buckets: dict[int, list[Pending]] = {}
        over = self._bucket_over(now_ms)
        for key, waiting in spill.waiting.items():
            bucket = settings.schedule.bucket(waiting.due_ms, over)
            buckets.setdefault(bucket, []).append(Pending(*key, waiting.attempt))
        return spill, buckets

    def spill_again(self, waiting: Sequence[tuple[MessageRow, int]], now_ms: int) -> dict[int, list[Pending]]:
        """Return deliveries that were worked off from a bucket and still wait, by their next bucket."""
        return buckets_of(waiting, self._rows.settings.schedule, now_ms, self._bucket_over(now_ms))

    def _bucket_over(self, now_ms: int) -> int:
        """Return the newest bucket to which nothing may be added: one behind it may be read at any time."""
        return max(self.spilled_to, self._rows.settings.schedule.bucket_at(now_ms))

    def buckets_due(self, now_ms: int) -> range:
        """Return the buckets that are over and not worked off."""
        return range(self.spilled_to + 1, self._rows.settings.schedule.bucket_at(now_ms))
