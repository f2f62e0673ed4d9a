"""Folds spans of the log into a store, with the owners that the workers have, and says nothing to anybody.

Answers and deliveries of a batch are dropped, nothing is leased, nothing is committed. Rows are written as made by
epoch 0, so at equal stamps a live worker's row stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from consumers import clock
from consumers.intake import Entry, Intake
from consumers.owner import PartitionOwner
from consumers.partition_rows import OwnerSettings, Takeover
from consumers.pending import NothingPending
from consumers.replay.commands import Commands
from consumers.replay.seed import as_of
from consumers.replay.spans import Era, Span
from consumers.replay.writes import Writes
from consumers.rows import MessageWrite, Owner
from consumers.stores.contract import MessageKey, Rows, Store
from consumers.work import Needs, Work

REPLAYER: Final = Owner(0, "replay")


@dataclass(slots=True)
class RebuildTally:
    """What a rebuild has seen."""

    events: int = 0
    """Folded."""
    passed_over: int = 0
    """Of other conversations than were asked for."""
    refused: int = 0
    """Records that are no events, or could not be applied."""
    rows: int = 0
    """Row writes."""
    seeded: int = 0
    """Messages that stood before the span: taken from the live store as they were then."""


class Rebuild:
    """Owners of all partitions of one era that are replayed. For one thread."""

    def __init__(  # noqa: PLR0913 - what a rebuild is made of
        self,
        *,
        target: Store,
        live: Store | None,
        settings: OwnerSettings,
        era: Era,
        rests_on_target: bool,
        positions: Mapping[int, int],
        began_ms: dict[int, int],
        intake: Intake,
        commands: Commands | None,
        conversations: frozenset[str],
        tally: RebuildTally,
    ) -> None:
        """Take the parts; `positions` are where an earlier run got to, `live` is asked for rows from before a span.

        It is not asked where `rests_on_target`, which holds all from before then. `began_ms` is by partition the append
        time of the first record that was read, and is added to.
        """
        self.tally = tally
        self._target = target
        self._live = live
        self._generation = era.generation
        self._began_ms = began_ms
        self._intake = intake
        self._commands = commands
        self._conversations = conversations
        self._writes = Writes(target.write, REPLAYER)
        self._taken: dict[int, int] = {}
        """By partition, the offset behind the last record that was taken, folded or passed over."""
        self._seeds_from = {
            span.partition for span in era.spans if not (rests_on_target or (era.is_first and span.is_whole))
        }
        self._owners = {
            span.partition: self._owner(settings, era, span, max(span.start, positions.get(span.partition, 0)))
            for span in era.spans
        }

    def _owner(self, settings: OwnerSettings, era: Era, span: Span, position: int) -> PartitionOwner:
        from_the_start = era.is_first and span.is_whole and position == 0
        takeover = Takeover(
            span.partition,
            era.generation,
            REPLAYER,
            position,
            position,
            from_the_start,
            spilled_to=0,
            # Of what earlier generations have put into the store this partition's records say nothing: all is read.
            covers_from=0 if era.is_first else span.end,
        )
        return PartitionOwner(settings, takeover, NothingPending())

    def take(self, partition: int, messages: Sequence[Any]) -> None:
        """Fold Kafka messages of one partition, in the order of their offsets. Raises WorkerError."""
        self._began_ms.setdefault(partition, messages[0].timestamp()[1])
        admit = self._intake.admit
        entries = [admit(each.offset(), each.timestamp()[1], each.key(), each.value()) for each in messages]
        if self._commands is not None:
            judge = self._commands.as_taken
            entries = [judge(entry, each) for entry, each in zip(entries, messages, strict=True)]
        self._taken[partition] = messages[-1].offset() + 1
        if self._conversations:
            entries = self._chosen(entries)
        if not entries:
            return
        owner = self._owners[partition]
        while owner.is_writing:
            self._writes.wait()
        needs = owner.needs(entries)
        cold = self._read(partition, entries, needs)
        work = owner.fold(entries, cold, clock.now_ms())
        self.tally.events += len(entries)
        self.tally.refused += len(work.refusals)
        rows = work.message_writes(), work.conversation_writes()
        self.tally.rows += len(rows[0]) + len(rows[1])
        self._writes.submit(*rows, partial(self._finished, owner, work))

    def _chosen(self, entries: Sequence[Entry]) -> list[Entry]:
        chosen = [
            each for each in entries if each.event is not None and each.event.conversation_id in self._conversations
        ]
        self.tally.passed_over += len(entries) - len(chosen)
        return chosen

    def _finished(self, owner: PartitionOwner, work: Work) -> None:
        owner.durable()
        owner.finished(work)

    def _read(self, partition: int, entries: Sequence[Entry], needs: Needs) -> Rows:
        """Read what the batch rests on from what is rebuilt, else as it was before the span from the live store."""
        messages, conversations = needs
        if not messages and not conversations:
            return Rows({}, {})
        found = self._target.read(messages, conversations)
        if self._live is None or partition not in self._seeds_from:
            return found
        rows = dict(found.messages)
        rows |= self._seed(entries, [key for key in messages if key not in rows])
        lacking = [name for name in conversations if name not in found.conversations]
        others = self._live.read((), lacking).conversations if lacking else {}
        return Rows(rows, {**others, **found.conversations})

    def _seed(self, entries: Sequence[Entry], keys: Sequence[MessageKey]) -> Mapping[MessageKey, Any]:
        """Put messages from before the span into the target, as they were then: before the first record about them.

        The span's own start tells nothing of what came from another partition: a backlog there may be older.
        """
        if self._live is None or not keys:
            return {}
        firsts: dict[MessageKey, Entry] = {}
        for entry in entries:
            if entry.event is not None:
                firsts.setdefault((entry.event.conversation_id, entry.event.message_id), entry)
        seeds: dict[MessageKey, MessageWrite] = {}
        for key, stored in self._live.messages(keys).items():
            write = as_of(stored, self._generation, firsts[key].offset, firsts[key].appended_at)
            if write is not None:
                seeds[key] = write
        if seeds:
            self._writes.submit(list(seeds.values()), [], lambda: None)
            self.tally.seeded += len(seeds)
        return {key: write.row for key, write in seeds.items()}

    def settle(self) -> None:
        """Wait until all that was folded is durable. Raises WorkerError."""
        self._writes.settle()

    def positions(self) -> dict[int, int]:
        """Return, by partition, the offset below which everything is durable or passed over; call it once settled."""
        return {number: owner.low_water for number, owner in self._owners.items()} | self._taken
