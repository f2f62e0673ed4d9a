"""One `twotick replay` as it was asked for: its target, what it says, and what ends it."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from consumers.cli.replay_result import ReplayResult

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import TextIO

    from consumers.intake import Intake
    from consumers.replay.commands import Commands
    from consumers.replay.comparing import Checked, Difference
    from consumers.replay.control import Control
    from consumers.replay.log import Log
    from consumers.replay.progress_file import Progress
    from consumers.replay.run import ReplayOutcome, Source
    from consumers.replay.spans import Wish
    from consumers.settings import WorkerSettings
    from consumers.stores.contract import Store
    from schemas.codec import Codec
    from schemas.records import Event, Record
    from schemas.topics import Setting

_INTERRUPTED = 130


class ReplayFactory(Protocol):
    """The deployment as this command sees it: `context.obj`."""

    def worker_settings(self) -> "WorkerSettings":
        """Return the workers' settings: the fold's limits and the group."""

    def kafka(self) -> "Mapping[str, Setting]":
        """Return what every Kafka client is given."""

    def codec(self) -> "Codec":
        """Return the codec."""

    def open_store(self) -> "Store":
        """Open the live store."""

    def open_keyspace(self, keyspace: str) -> "Store":
        """Open another keyspace of the same Cassandra, making it where it is not there."""

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says."""


def rows_beside(state: Path) -> Path:
    """Return the file that rows are rebuilt in to be compared, where it is to outlive a run that keeps its progress."""
    return state.with_name(f"{state.name}.rows.sqlite")


class ReplayJob:
    """One replay as it was asked for."""

    def __init__(
        self,
        factory: ReplayFactory,
        wish: "Wish",
        rate: float,
        state: Path | None,
        hear: "Callable[[Event], None] | None" = None,
    ) -> None:
        """Take what is asked for; `hear` is told every event that is read."""
        self._factory = factory
        self._hear = hear
        self._wish = wish
        self._rate = rate
        self._state = state
        self.result = ReplayResult()

    def to_jsonl(self, path: Path) -> None:
        """Write the records as JSON lines."""
        from consumers.cli.bar import progress_bar
        from consumers.replay.progress_file import Asked
        from consumers.replay.run import Source, extents_of, plan, to_jsonl
        from consumers.topic_check import identity_of

        with self._reading() as (log, control):
            extents = extents_of(log, self._wish)
            identity = identity_of(self._factory.kafka(), self._factory.worker_settings())
            asked = Asked(f"the file of JSON lines {path}", str(self._wish), identity)
            begun = plan(extents, self._wish, asked, self._state)
            self._say_what_is_left(begun)
            commands = self._commands(begun, len(extents))
            source = Source(log, begun, self._wish, self._intake(), control, commands)
            with _opened(path, begun) as out, progress_bar("reading") as control.report:
                outcome = to_jsonl(source, out)
        self.result.records, self.result.lines = outcome.done, outcome.lines
        _say(f"{outcome.done:,} records in {outcome.seconds:.1f} s{_rate(outcome)}")
        _say_of(commands)
        _end_if_interrupted(outcome, self._state)
        if not outcome.lines and not begun.written:
            self.result.unknown = tuple(sorted(self._wish.conversations))
        self.result.complete = True

    def rebuild(
        self, file: Path | None, keyspace: str | None, *, compares: bool, mends: bool, store: "Store | None" = None
    ) -> "Sequence[Difference]":
        """Rebuild into a file, a keyspace or for the moment; return what the live store has otherwise.

        `store` is the live store where it is open already; it is left open.
        """
        from consumers.cli.bar import progress_bar
        from consumers.replay.progress_file import Asked
        from consumers.replay.run import Source, extents_of, plan, rebuild, topic_of
        from consumers.topic_check import identity_of

        opened = nullcontext(store) if store is not None else closing(self._factory.open_store())
        with opened as live, self._reading() as (log, control):
            settings = self._factory.worker_settings()
            extents = extents_of(log, self._wish)
            partitions, identity = len(extents), identity_of(self._factory.kafka(), settings)
            topic = topic_of(live, partitions, identity)
            asked = Asked(self._target_text(file, keyspace), str(self._wish), identity, topic.generation)
            begun = plan(extents, self._wish, asked, self._state)
            self._say_what_is_left(begun)
            commands = self._commands(begun, partitions)
            source = Source(log, begun, self._wish, self._intake(), control, commands)
            # Opened only now, so that nothing is made where the replay is refused.
            with self._target(file, keyspace, begun) as target:
                with progress_bar("folding") as control.report:
                    outcome = rebuild(source, target=target, live=live, topic=topic, settings=settings)
                tally = outcome.tally
                self.result.records, self.result.folded = outcome.done, tally.events
                self.result.refused = tally.refused
                _say(
                    f"folded {tally.events:,} of {outcome.done:,} records in {outcome.seconds:.1f} s{_rate(outcome)}; "
                    f"{tally.rows:,} row writes, {tally.refused:,} records refused as they were"
                )
                _say_of(commands)
                if tally.seeded:
                    _say(f"{tally.seeded:,} messages were not from the start: taken as the live store had them before")
                _end_if_interrupted(outcome, self._state)
                found: Sequence[Difference] = ()
                if compares or not (file or keyspace):
                    found = self._compare(target, live, outcome, partitions, topic.generation, source, mends=mends)
                if (file or keyspace) and topic.topic_id and not str(self._wish):
                    target.record_topic(topic._replace(topic_id=identity), None)
                    _say("workers may take it up if they have not worked since: what they finish now is not in it")
                self.result.unknown = self._unknown(target, live)
                self.result.complete = True
                return found

    def _unknown(self, target: "Store", live: "Store") -> tuple[str, ...]:
        """Return the conversations that were named and are in neither store."""
        names = self._wish.conversations
        if not names:
            return ()
        known = {name for store in (target, live) for name in store.read((), sorted(names)).conversations}
        return tuple(sorted(names - known))

    def _compare(  # noqa: PLR0913, PLR0917 - the two stores and what they hold
        self,
        target: "Store",
        live: "Store",
        outcome: "ReplayOutcome",
        partitions: int,
        generation: int,
        source: "Source",
        *,
        mends: bool,
    ) -> "Sequence[Difference]":
        from consumers.cli.bar import progress_bar
        from consumers.replay.comparing import Comparison
        from consumers.replay.log import committed
        from consumers.replay.run import compare, reaches
        from schemas.topics import EVENTS

        group = self._factory.worker_settings().group
        done = committed(self._factory.kafka(), EVENTS, group, [span.partition for span in outcome.spans])
        control, reached = source.control, reaches(outcome, generation, done)
        comparison = Comparison(
            target,
            live,
            reached,
            partitions,
            control,
            commands=source.commands,
            rests_on_live=not outcome.is_whole,
        )
        found = list(compare(comparison, outcome, self._wish, mend=mends, bar=progress_bar))
        self._count(comparison.checked, found)
        _say(_summary(comparison.checked, found, mended=mends))
        if control.stopping():
            _say("interrupted: not all rows were compared")
            raise typer.Exit(_INTERRUPTED)
        if not outcome.is_whole:
            _say("conversations and rows that nobody sent are compared only where the log has been from its beginning")
        return found

    def _count(self, checked: "Checked", found: "Sequence[Difference]") -> None:
        counts, result = checked.messages + checked.conversations, self.result
        result.checked, result.ahead, result.behind = checked.rows, counts["ahead"], counts["behind"]
        result.differing, result.changed = len(found), sum(each.mended for each in found)

    @contextmanager
    def _reading(self) -> "Iterator[tuple[Log, Control]]":
        from consumers.cli.bar import interruptible
        from consumers.replay.control import Control
        from consumers.replay.log import Log
        from schemas.topics import EVENTS

        with Log(self._factory.kafka(), EVENTS) as log, interruptible() as stopping:
            yield log, Control(rate=self._rate, state=self._state, stopping=stopping)

    @contextmanager
    def _target(self, file: Path | None, keyspace: str | None, begun: "Progress") -> "Iterator[Store]":
        """Give the store to rebuild into; where nobody named one, a file beside the state's or one that goes away.

        Raises ReplayRefusedError where the file is another's.
        """
        from tempfile import TemporaryDirectory

        from consumers.replay.spans import ReplayRefusedError
        from consumers.stores.sqlite import SqliteStore

        if file is not None and file.exists() and not begun.positions:
            raise ReplayRefusedError(
                f"{file} is there already", "Name a new file; to go on with a replay, name its --state."
            )
        open_target: Callable[[], Store]
        with TemporaryDirectory(prefix="twotick-replay-") as folder:
            if keyspace is not None:
                open_target = lambda: self._factory.open_keyspace(keyspace)  # noqa: E731
            else:
                path = file or (self._state and rows_beside(self._state)) or Path(folder) / "rows.sqlite"
                open_target = lambda: SqliteStore.open(path)  # noqa: E731
            target = open_target()
            try:
                yield target
            finally:
                target.close()

    def _target_text(self, file: Path | None, keyspace: str | None) -> str:
        """Return a target's kind and name."""
        if keyspace is not None:
            return f"the keyspace {keyspace}"
        if file is not None:
            return f"the SQLite file {file}"
        return (
            f"the live store compared by way of {rows_beside(self._state) if self._state else 'a file that goes away'}"
        )

    def _say_what_is_left(self, begun: "Progress") -> None:
        if not any(span.start < span.end for span in begun.spans):
            _say("the log holds nothing of what was asked for")
        elif begun.is_complete:
            _say(
                f"{self._state}: this replay was complete, so nothing is read again; "
                "name a new --state and a new target to read what has come since"
            )

    def _intake(self) -> "Intake":
        from consumers.intake import Intake
        from schemas.topics import VALUE_BYTES_MAX

        decode: Callable[[bytes | None], Record] = self._factory.codec().decode
        if self._hear is not None:
            decode = _overheard(decode, self._hear)
        return Intake(decode, VALUE_BYTES_MAX, self._factory.worker_settings().operators)

    def _commands(self, begun: "Progress", partitions: int) -> "Commands":
        from consumers.replay.commands import Commands, account_of

        kafka, codec, group = self._factory.kafka(), self._factory.codec(), self._factory.worker_settings().group
        return Commands(
            lambda: account_of(kafka, group, codec, range(partitions)),
            codec.decode,
            self._wish.conversations,
            begun.doubted,
            begun.refused,
        )


def _overheard(
    decode: "Callable[[bytes | None], Record]", hear: "Callable[[Event], None]"
) -> "Callable[[bytes | None], Record]":
    """Return what decodes, and tells of every event."""
    from schemas.records import Event

    def overheard(value: bytes | None) -> "Record":
        record = decode(value)
        if type(record) is Event:
            hear(record)
        return record

    return overheard


@contextmanager
def files_told() -> "Iterator[None]":
    """Translate what the system says of a file; raise ReplayFileError."""
    from consumers.replay.spans import ReplayFileError

    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        about = error.filename or "a file"
        raise ReplayFileError(
            f"{about}: {error.strerror or error}", "Name another file, or see to its folder and the room on the disk."
        ) from error


def _opened(path: Path, begun: "Progress") -> "AbstractContextManager[TextIO]":
    """Return a new file, or the one that was begun, cut to what the progress knows of; raise ReplayRefusedError."""
    from consumers.replay.spans import ReplayRefusedError

    if str(path) == "-":
        return nullcontext(sys.stdout)
    if not begun.positions:
        return path.open("x", encoding="utf-8")
    if not path.exists() or path.stat().st_size < begun.written:
        raise ReplayRefusedError(
            f"{path}: the lines that this replay has written before are gone",
            "Replay from the start with a new --state.",
        )
    os.truncate(path, begun.written)
    return path.open("a", encoding="utf-8")


def _end_if_interrupted(outcome: "ReplayOutcome", state: Path | None) -> None:
    if not outcome.complete:
        _say(f"interrupted; {'the same command' if state else '`twotick replay` with --state FILE'} goes on")
        raise typer.Exit(_INTERRUPTED)


def _summary(checked: "Checked", found: "Sequence[Difference]", *, mended: bool) -> str:
    counts = checked.messages + checked.conversations
    beside = "".join(f", {counts[kind]:,} {kind}" for kind in ("ahead", "behind") if counts[kind])
    left = sum(not each.mended for each in found)
    told = f"checked {checked.rows:,} rows: {len(found):,} differ{beside}; {len(found) - left:,} changed"
    if left and not mended:
        return f"{told} (--execute writes them as the log makes them)"
    if left:
        return f"{told}, {left:,} could not be mended: someone else has written them under a later time"
    return told


def _rate(outcome: "ReplayOutcome") -> str:
    return f" ({outcome.done / outcome.seconds:,.0f}/s)" if outcome.seconds > 0 else ""


def _say_of(commands: "Commands") -> None:
    if told := commands.summary():
        _say(told)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
