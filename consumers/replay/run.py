"""One replay from its plan to its verdict: reads, folds or prints, remembers how far it got, then compares.

Nothing here answers, leases or commits, so it runs beside live workers; they are asked only for what they have
committed, below which every row must be in the live store.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final, TextIO

from consumers.errors import TopicChangedError
from consumers.intake import Intake
from consumers.replay.compare import Reach
from consumers.replay.comparing import Comparison, Difference
from consumers.replay.jsonl import lines
from consumers.replay.log import Log
from consumers.replay.pace import Pace
from consumers.replay.progress_file import Progress
from consumers.replay.rebuild import Rebuild, Tally
from consumers.replay.spans import ReplayRefusedError, Span, Wish, records_in, spans_of
from consumers.settings import WorkerSettings
from consumers.stores.contract import Store, TopicRecord
from schemas.topics import EVENTS

BATCH_RECORDS: Final = 1_000
SAVE_INTERVAL_S: Final = 5.0

Report = Callable[[int, int], None]
"""Told (records done, records in all) now and then."""


@dataclass(slots=True)
class Control:
    """How a replay is watched, held back and ended."""

    rate: float = 0.0
    """Events a second at most; 0: as fast as it goes."""
    state: Path | None = None
    """Where it keeps how far it got."""
    report: Report = lambda _done, _all: None
    stopping: Callable[[], bool] = lambda: False
    """Whether somebody wants it to end; it can be gone on with later."""


@dataclass(frozen=True, slots=True)
class Source:
    """What is read, and how."""

    log: Log
    begun: Progress
    wish: Wish
    intake: Intake
    control: Control


@dataclass(slots=True)
class Outcome:
    """What a replay came to."""

    spans: Sequence[Span]
    complete: bool = False
    """False: it was interrupted."""
    seconds: float = 0.0
    """What reading and folding took."""
    done: int = 0
    """Records read by this run."""
    tally: Tally = field(default_factory=Tally)

    @property
    def is_whole(self) -> bool:
        """Whether it began with the first record of every partition that it read."""
        return all(span.is_whole for span in self.spans)


def topic_of(live: Store, partitions: int) -> TopicRecord:
    """Return what the live store has recorded about the topic. Raises TopicChangedError."""
    found = live.topic_record(EVENTS) or TopicRecord(EVENTS, "", partitions, 1)
    if found.partitions != partitions:
        raise TopicChangedError(
            f"{EVENTS} has {partitions} partitions, {found.partitions} are recorded", "See `twotick migrate`."
        )
    return found


def plan(log: Log, wish: Wish, what: str, state: Path | None) -> tuple[Progress, int]:
    """Return what is to be read, as it was begun before where `state` says so; and the topic's partition count."""
    extents = log.extents(wish)
    if not extents:
        raise TopicChangedError(f"the topic {EVENTS} is not there", "Run `twotick migrate --execute` to create it.")
    begun = Progress.load(state, what) if state is not None else None
    return begun or Progress(what, tuple(spans_of(wish, extents))), len(extents)


def rebuild(
    source: Source, *, target: Store, live: Store | None, topic: TopicRecord, settings: WorkerSettings
) -> Outcome:
    """Fold the spans into `target`, which is empty or holds what the same replay has put there. Raises WorkerError."""
    begun, control = source.begun, source.control
    if not begun.positions and next(target.all_messages(), None) is not None:
        raise ReplayRefusedError(
            "the store to rebuild into is not empty", "Name a new one; to go on with a replay, name its --state."
        )
    folding = Rebuild(
        target=target,
        live=live,
        settings=settings.owner_settings(topic.partitions),
        generation=topic.generation,
        spans=begun.spans,
        positions=begun.positions,
        intake=source.intake,
        conversations=source.wish.conversations,
    )

    def save() -> None:
        folding.settle()
        if control.state is not None:
            Progress(begun.what, begun.spans, folding.positions()).save(control.state)

    outcome = _read(source, folding.take, save)
    outcome.tally = folding.tally
    return outcome


def to_jsonl(source: Source, out: TextIO) -> Outcome:
    """Write the spans' records as JSON lines. Raises WorkerError, OSError."""
    begun, control, chosen = source.begun, source.control, source.wish.conversations
    positions = dict(begun.positions)

    def take(partition: int, messages: Sequence[Any]) -> None:
        out.writelines(line + "\n" for line in lines(messages, source.intake, chosen))
        positions[partition] = messages[-1].offset() + 1

    def save() -> None:
        out.flush()
        if control.state is not None:
            Progress(begun.what, begun.spans, positions).save(control.state)

    return _read(source, take, save)


def _read(source: Source, take: Callable[[int, Sequence[Any]], None], save: Callable[[], None]) -> Outcome:
    """Read what is left of the spans, at the pace asked for, and save now and then and at the end, however it ends."""
    begun, control = source.begun, source.control
    left = [span._replace(start=max(span.start, begun.positions.get(span.partition, 0))) for span in begun.spans]
    total, before = records_in(begun.spans), records_in(begun.spans) - records_in(left)
    pace, started = Pace(control.rate), monotonic()
    outcome, save_at = Outcome(begun.spans), started + SAVE_INTERVAL_S
    size = BATCH_RECORDS if not control.rate else max(1, min(BATCH_RECORDS, int(control.rate / 4)))
    for batch in source.log.batches(left, size):
        for partition, messages in batch.items():
            take(partition, messages)
            outcome.done += len(messages)
        control.report(before + outcome.done, total)
        if control.stopping():
            break
        pace.spent(sum(map(len, batch.values())))
        if monotonic() >= save_at:
            save()
            save_at = monotonic() + SAVE_INTERVAL_S
    else:
        outcome.complete = True
    save()
    outcome.seconds = monotonic() - started
    return outcome


def reaches(outcome: Outcome, generation: int, committed: dict[int, int]) -> dict[int, Reach]:
    """Return how far each side is, by partition; where nothing is committed all that was replayed must be there."""
    return {
        span.partition: Reach(generation, span.end, min(span.end, committed.get(span.partition, span.end)))
        for span in outcome.spans
    }


def compare(comparison: Comparison, outcome: Outcome, wish: Wish, *, mend: bool) -> Iterator[Difference]:
    """Yield where the live store is not as the replay found it; conversations only where it saw the whole log."""
    yield from comparison.messages(mend=mend)
    if outcome.is_whole:
        yield from comparison.conversations(mend=mend)
        yield from comparison.invented(wish.conversations)
