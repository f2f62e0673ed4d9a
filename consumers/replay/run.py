"""One replay from its plan to its end: reads, folds or prints, remembers how far it got, then compares.

Nothing here answers, leases or commits, so it runs beside live workers; they are asked only for what they have
committed, below which every row must be in the live store.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Final, TextIO

from consumers.errors import TopicChangedError
from consumers.intake import Intake
from consumers.replay.commands import Commands
from consumers.replay.compare import Reach
from consumers.replay.comparing import Checked, Comparison, Difference
from consumers.replay.control import Control, Report, unseen
from consumers.replay.jsonl import lines
from consumers.replay.log import Log
from consumers.replay.pace import Pace
from consumers.replay.progress_file import Asked, Progress
from consumers.replay.rebuild import Rebuild, RebuildTally
from consumers.replay.spans import Extent, ReplayRefusedError, Span, Wish, eras_of, records_in, spans_of
from consumers.settings import WorkerSettings
from consumers.stores.contract import Store, TopicRecord
from schemas.topics import EVENTS

BATCH_RECORDS: Final = 1_000
SAVE_INTERVAL_S: Final = 5.0
_NEVER: Final = 2**63
"""Later than anything: nothing was read of the newest generation, so all there is is older."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is read, and how."""

    log: Log
    begun: Progress
    wish: Wish
    intake: Intake
    control: Control
    commands: Commands | None = None
    """None: a PARK or a RELEASE is taken as the intake takes it."""


@dataclass(slots=True)
class ReplayOutcome:
    """What a replay came to."""

    spans: Sequence[Span]
    complete: bool = False
    """False: it was interrupted."""
    seconds: float = 0.0
    """What reading and folding took."""
    done: int = 0
    """Records read by this run."""
    lines: int = 0
    """JSON lines written by this run."""
    tally: RebuildTally = field(default_factory=RebuildTally)
    is_whole: bool = False
    """Whether it saw all that the rows of its partitions were ever folded from."""
    began_ms: dict[int, int] = field(default_factory=dict)
    """By partition, the append time of the first record that was read of the newest generation."""


def topic_of(live: Store, partitions: int, identity: str) -> TopicRecord:
    """Return what the live store has recorded about the topic. Raises TopicChangedError where it is another one now."""
    found = live.topic_record(EVENTS) or TopicRecord(EVENTS, "", partitions, 1)
    if found.partitions != partitions:
        raise TopicChangedError(
            f"{EVENTS} has {partitions} partitions, {found.partitions} are recorded", "See `twotick migrate`."
        )
    if found.topic_id not in ("", identity):
        raise TopicChangedError(
            f"{EVENTS} is another topic ({identity}) than was recorded ({found.topic_id})", "See `twotick migrate`."
        )
    return found


def extents_of(log: Log, wish: Wish) -> list[Extent]:
    """Return what the log has, by partition. Raises TopicChangedError where there is none."""
    extents = log.extents(wish)
    if not extents:
        raise TopicChangedError(f"the topic {EVENTS} is not there", "Run `twotick migrate --execute` to create it.")
    return extents


def plan(extents: Sequence[Extent], wish: Wish, asked: Asked, state: Path | None) -> Progress:
    """Return what is to be read, as it was begun before where `state` says so. Raises WorkerError."""
    begun = Progress.load(state, asked) if state is not None else None
    return begun or Progress(asked, tuple(spans_of(wish, extents)))


def _started(begun: Progress, control: Control) -> Progress:
    """Return progress whose target is this replay's from now on, so that it is gone on with after any end."""
    if begun.positions:
        return begun
    started = replace(begun, positions={span.partition: span.start for span in begun.spans})
    control.keep(started)
    return started


def _ended(progress: Progress) -> Progress:
    """Return the progress of a replay that has read all, though its last offsets may have held no record."""
    return replace(progress, positions={span.partition: span.end for span in progress.spans})


def rebuild(
    source: Source, *, target: Store, live: Store | None, topic: TopicRecord, settings: WorkerSettings
) -> ReplayOutcome:
    """Fold the spans into `target`, which is empty or holds what the same replay has put there. Raises WorkerError.

    What was folded in different generations of the topic is folded one after the other, each as it was then.
    """
    control, wish = source.control, source.wish
    _check_target(source.begun, target)
    begun = _started(source.begun, control)
    eras = eras_of(topic, begun.spans)
    is_whole = eras[0].is_first and all(span.is_whole for span in begun.spans)
    # A conversation may have been in another partition before, so a later era rests on all of those before it.
    is_complete = is_whole and not (wish.partitions and topic.earlier)
    tally, positions, began_ms = RebuildTally(), dict(begun.positions), dict(begun.began_ms)

    def progress() -> Progress:
        written = begun.written + tally.rows + tally.seeded
        kept = replace(begun, positions=positions, began_ms=began_ms, written=written)
        if (commands := source.commands) is None:
            return kept
        return replace(kept, doubted=tuple(commands.doubted.values()), refused=tuple(commands.refused.values()))

    reading = _Reading(source)
    reading.outcome.tally, reading.outcome.is_whole, reading.outcome.began_ms = tally, is_complete, began_ms
    for era in eras:
        folding = Rebuild(
            target=target,
            live=live,
            settings=settings.owner_settings(era.partitions),
            era=era,
            rests_on_target=is_complete,
            positions=begun.positions,
            began_ms=began_ms if era is eras[-1] else {},
            intake=source.intake,
            commands=source.commands,
            conversations=wish.conversations,
            tally=tally,
        )

        def save(folding: Rebuild = folding) -> None:
            folding.settle()
            for partition, position in folding.positions().items():
                positions[partition] = max(position, positions.get(partition, 0))
            control.keep(progress())

        if not reading.read(era.spans, folding.take, save):
            return reading.ended()
    control.keep(_ended(progress()))
    return reading.ended()


def _check_target(begun: Progress, target: Store) -> None:
    """Raise ReplayRefusedError where a store is not as this replay has left it."""
    is_empty = next(target.all_messages(), None) is None and next(target.all_conversations(), None) is None
    if not begun.positions and not is_empty:
        raise ReplayRefusedError(
            f"{begun.asked.target}: the store to rebuild into is not empty",
            "Name a new one; to go on with a replay, name its --state.",
        )
    if begun.written and is_empty:
        raise ReplayRefusedError(
            f"{begun.asked.target}: the rows that this replay has rebuilt before are gone",
            "Replay from the start with a new --state.",
        )


def to_jsonl(source: Source, out: TextIO) -> ReplayOutcome:
    """Write the spans' records as JSON lines; `out` is where they were left. Raises WorkerError, OSError."""
    control, chosen = source.control, source.wish.conversations
    begun = _started(source.begun, control)
    positions = dict(begun.positions)

    def take(partition: int, messages: Sequence[Any]) -> None:
        for line in lines(messages, source.intake, chosen, source.commands):
            out.write(line + "\n")
            reading.outcome.lines += 1
        positions[partition] = messages[-1].offset() + 1

    def progress() -> Progress:
        os.fsync(out.fileno())
        return replace(begun, positions=positions, written=out.tell())

    def save() -> None:
        out.flush()
        if control.state is not None:
            control.keep(progress())

    reading = _Reading(source)
    if reading.read(begun.spans, take, save) and control.state is not None:
        control.keep(_ended(progress()))
    return reading.ended()


class _Reading:
    """Reads what is left of the spans, some at a time, at the pace asked for."""

    def __init__(self, source: Source) -> None:
        self.outcome = ReplayOutcome(source.begun.spans, complete=True)
        self._source = source
        self._total = records_in(source.begun.spans)
        self._before = self._total - records_in(self._left(source.begun.spans))
        self._pace, self._started = Pace(source.control.rate, source.control.stopping), monotonic()
        self._save_at = self._started + SAVE_INTERVAL_S

    def _left(self, spans: Sequence[Span]) -> list[Span]:
        """Return the part of spans that an earlier run has not done."""
        done = self._source.begun.positions
        return [span._replace(start=min(max(span.start, done.get(span.partition, 0)), span.end)) for span in spans]

    def read(self, spans: Sequence[Span], take: Callable[[int, Sequence[Any]], None], save: Callable[[], None]) -> bool:
        """Give what is left of `spans` to `take`, and save now and then and at the end; False: somebody stopped it."""
        control, outcome = self._source.control, self.outcome
        for batch in self._source.log.batches(self._left(spans), control.at_once(BATCH_RECORDS)):
            for partition, messages in batch.items():
                take(partition, messages)
                outcome.done += len(messages)
            control.report(self._before + outcome.done, self._total)
            if control.stopping():
                outcome.complete = False
                break
            self._pace.spent(sum(map(len, batch.values())))
            if monotonic() >= self._save_at:
                save()
                self._save_at = monotonic() + SAVE_INTERVAL_S
        save()
        return outcome.complete

    def ended(self) -> ReplayOutcome:
        """Return what it came to."""
        self.outcome.seconds = monotonic() - self._started
        return self.outcome


def reaches(outcome: ReplayOutcome, generation: int, committed: dict[int, int]) -> dict[int, Reach]:
    """Return how far each side is, by partition; where nothing is committed all that was replayed must be there."""
    return {
        span.partition: Reach(
            generation,
            span.end,
            min(span.end, committed.get(span.partition, span.end)),
            outcome.began_ms.get(span.partition, _NEVER) if generation > 1 else 0,
        )
        for span in outcome.spans
    }


Bar = Callable[[str], AbstractContextManager[Report]]
"""Shows how far what it is told the name of has got."""


def compare(
    comparison: Comparison,
    outcome: ReplayOutcome,
    wish: Wish,
    *,
    mend: bool,
    bar: Bar = lambda _what: nullcontext(unseen),
) -> Iterator[Difference]:
    """Yield where the live store is not as the replay found it; conversations only where it saw all of their log.

    Raises OperatorsDifferError before anything is mended.
    """
    if mend and comparison.doubts:
        # Looked at once without mending: where it is found that workers took commands otherwise, nothing is changed.
        list(_compared(comparison, outcome, wish, mend=False, bar=bar))
        comparison.checked = Checked()
    yield from _compared(comparison, outcome, wish, mend=mend, bar=bar)


def _compared(
    comparison: Comparison, outcome: ReplayOutcome, wish: Wish, *, mend: bool, bar: Bar
) -> Iterator[Difference]:
    with bar("comparing messages") as report:
        yield from comparison.messages(mend=mend, report=report)
    if outcome.is_whole:
        with bar("comparing conversations") as report:
            yield from comparison.conversations(mend=mend, report=report)
        with bar("looking for messages that nobody sent") as report:
            yield from comparison.invented(wish.conversations, report=report)
