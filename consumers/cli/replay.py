"""`twotick replay`: the log folded again, beside the workers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

if TYPE_CHECKING:
    from consumers.cli.replay_job import ReplayJob
    from consumers.replay.comparing import Difference

COLUMNS = ("kind", "conversation_id", "message_id", "detail", "mended")
_FAILED, _PARTLY_DONE = 1, 4
_KEYSPACE: Final = re.compile(r"\w{1,48}", re.ASCII)


def register(app: typer.Typer) -> None:
    """Add `replay`."""
    app.command("replay")(_replay)


def _replay(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    from_offset: Annotated[int | None, typer.Option(min=0, help="First offset, in every partition.")] = None,
    from_datetime: Annotated[str | None, typer.Option(help="First append time: ISO 8601 with a zone.")] = None,
    since: Annotated[str | None, typer.Option(help="From so long ago on: 90s, 15m, 2h, 3d.")] = None,
    to_offset: Annotated[int | None, typer.Option(min=0, help="First offset that is not read.")] = None,
    to_datetime: Annotated[str | None, typer.Option(help="First append time that is not read.")] = None,
    partition: Annotated[list[int] | None, typer.Option(help="Only this partition; may be repeated.")] = None,
    conversation: Annotated[list[str] | None, typer.Option(help="Only this conversation; may be repeated.")] = None,
    into_sqlite: Annotated[Path | None, typer.Option(metavar="FILE", help="Rebuild into a new SQLite file.")] = None,
    into_keyspace: Annotated[str | None, typer.Option(metavar="NAME", help="Rebuild into a new keyspace.")] = None,
    to_jsonl: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the records as JSON lines; `-` is standard output.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Mend what differs in the live store.")] = False,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="Whether to compare a rebuild with the live store.")
    ] = True,
    rate: Annotated[
        float, typer.Option(min=0, help="Events, then rows compared, a second at most; 0: as fast as it goes.")
    ] = 0,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep here how far it got, and go on from there if it is there.")
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write here what it came to, in numbers: one JSON object."),
    ] = None,
    output: Annotated[
        Literal["table", "json", "jsonl"] | None, typer.Option(help="By default a table on a terminal, else jsonl.")
    ] = None,
) -> None:
    """Fold the log again beside the live workers: nothing is answered, delivered or committed.

    Without another target it must find the live store as the log makes it: it says how many rows it checked, lists
    those that differ and, with `--execute`, writes them as the log makes them. With a new SQLite file or keyspace it
    rebuilds all rows there, and compares. The first Ctrl-C stops it in good order (130); with `--state` the same
    command goes on where it was. Exits with 1 where rows differ, with 4 where some could not be mended, with 3 where
    there is nothing of a conversation that was named.

    Before workers are given a store that was rebuilt, stop them, and rebuild it once more or go on with --state: what
    they finish after its last record is not in it.

    What the workers took of PARK and RELEASE it takes from the dead letters, and says so where `worker.operators` is
    another one here. That setting decides only about what they have not committed, and what is older than the letters
    that are left; where rows differ by it, nothing more is shown or mended (2).
    """
    from consumers.cli.errors import NotFoundError
    from consumers.cli.replay_job import ReplayJob, files_told
    from consumers.cli.times import instant_ms, start_ms
    from consumers.replay.progress_file import alone_with
    from consumers.replay.spans import Wish

    from_ms = start_ms(from_datetime, since)
    if sum(target is not None for target in (into_sqlite, into_keyspace, to_jsonl)) > 1:
        raise typer.BadParameter("there is more than one target", param_hint="--into-sqlite")
    if into_keyspace is not None and not _KEYSPACE.fullmatch(into_keyspace):
        raise typer.BadParameter(
            f"{into_keyspace!r} cannot be a keyspace: its name is up to 48 of A-Z, a-z, 0-9 and _",
            param_hint="--into-keyspace",
        )
    if execute and (to_jsonl is not None or not compare):
        raise typer.BadParameter("nothing is compared, so nothing can be mended", param_hint="--execute")
    if not isfinite(rate):
        raise typer.BadParameter(f"{rate} is no number of events", param_hint="--rate")
    _check_files(state, summary, into_sqlite, to_jsonl)
    wish = Wish(
        from_offset=from_offset,
        from_ms=from_ms,
        since=since or "",
        to_offset=to_offset,
        to_ms=instant_ms(to_datetime, "--to-datetime"),
        partitions=frozenset(partition or ()),
        conversations=frozenset(conversation or ()),
    )
    job = ReplayJob(context.obj, wish, rate, state)
    with files_told(), alone_with(state) if state else nullcontext(), _summarized(job, summary):
        if to_jsonl is not None:
            job.to_jsonl(to_jsonl)
            found: Sequence[Difference] = ()
        else:
            found = job.rebuild(into_sqlite, into_keyspace, compares=compare, mends=execute)
    if to_jsonl is None:
        context.obj.show(map(row, found), COLUMNS, output)
    left = sum(not each.mended for each in found)
    if left:
        raise typer.Exit(_PARTLY_DONE if execute and left < len(found) else _FAILED)
    if job.result.unknown:
        raise NotFoundError(
            f"there is nothing of a conversation {job.result.unknown[0]}",
            "Check its name; what was sent a moment ago may not be in the log yet.",
        )


def _check_files(state: Path | None, summary: Path | None, into_sqlite: Path | None, to_jsonl: Path | None) -> None:
    """Refuse files that cannot be, or are one. Raises typer.BadParameter."""
    from consumers.cli.replay_job import rows_beside
    from consumers.replay.progress_file import lock_of

    if state is not None and not state.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {state.parent}", param_hint="--state")
    if state is not None and str(to_jsonl) == "-":
        raise typer.BadParameter(
            "what went to standard output cannot be gone on with: name a file", param_hint="--state"
        )
    if str(summary) == "-":
        raise typer.BadParameter("standard output is for rows: name a file", param_hint="--summary")
    beside = (rows_beside(state), lock_of(state)) if state else ()
    taken = {each.resolve() for each in (into_sqlite, to_jsonl, *beside) if each}
    for name, path in (("--state", state), ("--summary", summary)):
        if path is None:
            continue
        if path.resolve() in taken:
            raise typer.BadParameter("it is another of this command's files: name one of its own", param_hint=name)
        taken.add(path.resolve())


@contextmanager
def _summarized(job: "ReplayJob", path: Path | None) -> "Iterator[None]":
    """Write what a job came to, however it ends; at its beginning too, so that no earlier one's is taken for it."""
    if path is None:
        yield
        return
    job.result.save(path)
    try:
        yield
    finally:
        job.result.save(path)


def row(difference: "Difference") -> Mapping[str, object]:
    """Return a difference as a row for people and programs."""
    from schemas.identity import text_of

    kind, conversation_id, message_id, detail, mended = difference
    return {
        "kind": kind.value,
        "conversation_id": conversation_id,
        "message_id": text_of(message_id) if message_id else "",
        "detail": detail,
        "mended": mended,
    }
