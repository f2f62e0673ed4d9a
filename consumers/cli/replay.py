"""`twotick replay`: the log folded again, beside the workers."""

from collections.abc import Mapping
from contextlib import nullcontext
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from consumers.replay.comparing import Difference

COLUMNS = ("kind", "conversation_id", "message_id", "detail", "mended")
_FAILED, _PARTLY_DONE = 1, 4


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
    output: Annotated[
        Literal["table", "json", "jsonl"] | None, typer.Option(help="By default a table on a terminal, else jsonl.")
    ] = None,
) -> None:
    """Fold the log again beside the live workers: nothing is answered, delivered or committed.

    Without another target it must find the live store as the log makes it: it says how many rows it checked, lists
    those that differ and, with `--execute`, writes them as the log makes them. With a new SQLite file or keyspace it
    rebuilds all rows there, and compares. The first Ctrl-C stops it in good order (130); with `--state` the same
    command goes on where it was. Exits with 1 where rows differ, with 4 where some could not be mended.

    What the workers took of PARK and RELEASE it takes from the dead letters, and says so where `worker.operators` is
    another one here. That setting decides only about what they have not committed, and what is older than the letters
    that are left; where rows differ by it, nothing more is shown or mended (2).
    """
    from consumers.cli.replay_job import ReplayJob, files_told
    from consumers.cli.times import instant_ms, start_ms
    from consumers.replay.progress_file import alone_with
    from consumers.replay.spans import Wish

    from_ms = start_ms(from_datetime, since)
    if sum(target is not None for target in (into_sqlite, into_keyspace, to_jsonl)) > 1:
        raise typer.BadParameter("there is more than one target", param_hint="--into-sqlite")
    if execute and (to_jsonl is not None or not compare):
        raise typer.BadParameter("nothing is compared, so nothing can be mended", param_hint="--execute")
    if not isfinite(rate):
        raise typer.BadParameter(f"{rate} is no number of events", param_hint="--rate")
    if state is not None and not state.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {state.parent}", param_hint="--state")
    if state is not None and str(to_jsonl) == "-":
        raise typer.BadParameter(
            "what went to standard output cannot be gone on with: name a file", param_hint="--state"
        )
    if state is not None and state.resolve() in {each.resolve() for each in (into_sqlite, to_jsonl) if each}:
        raise typer.BadParameter("it is the target itself: name another file", param_hint="--state")
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
    with files_told(), alone_with(state) if state else nullcontext():
        if to_jsonl is not None:
            job.to_jsonl(to_jsonl)
            return
        found = job.rebuild(into_sqlite, into_keyspace, compares=compare, mends=execute)
    context.obj.show(map(row, found), COLUMNS, output)
    left = sum(not each.mended for each in found)
    if left:
        raise typer.Exit(_PARTLY_DONE if execute and left < len(found) else _FAILED)


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
