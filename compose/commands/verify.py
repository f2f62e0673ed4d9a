"""`twotick verify`: the log, the store and outboxes, one against the other."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compose.output import Output
from compose.wiring import Wiring

if TYPE_CHECKING:
    from compose.verifying import Verified

_COLUMNS = ("between", "kind", "conversation_id", "message_id", "detail")
_FAULTS = 1


def register(app: typer.Typer) -> None:
    """Add `verify`."""
    app.command("verify")(_verify)


def _verify(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    outbox: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="An outbox to compare; may be repeated.")
    ] = None,
    log: Annotated[bool, typer.Option("--log/--no-log", help="Whether to fold the log and compare the store.")] = True,
    conversation: Annotated[list[str] | None, typer.Option(help="Of the log, only this; may be repeated.")] = None,
    rate: Annotated[float, typer.Option(min=0, help="Events a second at most; 0: as fast as it goes.")] = 0,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds for which a message that moved may still be told otherwise.")
    ] = 60.0,
    output: Annotated[Output | None, typer.Option(help="By default a table on a terminal, else jsonl.")] = None,
) -> None:
    """Compare log, store and outboxes, beside live workers and clients, and print what is missing or odd.

    The log is folded again, as by `twotick replay`, and must give the store row for row; each outbox must agree with
    the store about what its user sent and received. Changes nothing. Exits with 1 where something was found,
    with 3 where there is nothing to compare of a conversation that was named. As for `twotick replay`,
    `worker.operators` has to be here what it is for the workers.
    """
    wiring: Wiring = context.obj
    if not log and not outbox:
        raise typer.BadParameter("without the log, name an outbox", param_hint="--outbox")
    rows = list(_outboxes(wiring, outbox or (), grace))
    try:
        if log:
            rows.extend(_log(wiring, conversation or (), rate))
    finally:  # what the outboxes have shown is not lost with a log that cannot be read, or is not waited for
        wiring.show(rows, _COLUMNS, output)
    if rows:
        sys.stderr.write(f"{len(rows):,} found\n")
        raise typer.Exit(_FAULTS)
    if log:
        _know(wiring, conversation or ())
    sys.stderr.write("nothing is missing, nothing is odd\n")


def _know(wiring: Wiring, conversations: Sequence[str]) -> None:
    """Raise NotFoundError where the store lacks one: nothing was compared, for what only the log has is missing."""
    from compose.errors import NotFoundError

    if not conversations:
        return
    store = wiring.open_store()
    try:
        known = store.read((), conversations).conversations
    finally:
        store.close()
    if missing := [each for each in conversations if each not in known]:
        raise NotFoundError(
            f"there is nothing of a conversation {missing[0]} to compare",
            "Check its name; what was sent a moment ago must be folded first.",
        )


def _log(wiring: Wiring, conversations: Sequence[str], rate: float) -> Iterator[Mapping[str, object]]:
    from consumers.cli.replay import row
    from consumers.cli.replay_job import ReplayJob
    from consumers.replay.spans import Wish

    job = ReplayJob(wiring, Wish(conversations=frozenset(conversations)), rate, None)
    for found in job.rebuild(None, None, compares=True, mends=False):
        yield {"between": "log and store", **row(found)}


def _outboxes(wiring: Wiring, files: Sequence[Path], grace_s: float) -> Iterator[Mapping[str, object]]:
    from compose.verifying import read_outbox, verify
    from schemas.identity import text_of

    if not files:
        return
    held = [read_outbox(path) for path in dict.fromkeys(path.resolve() for path in files)]
    conversations = {message_id: name for outbox in held for name, message_id in outbox.keys}
    store = wiring.open_store()
    try:
        found = verify(held, store, now_ms=time.time_ns() // 1_000_000, grace_ms=round(grace_s * 1000))
    finally:
        store.close()
    sys.stderr.write(_summary(found, len(held)))
    for fault in found.faults:
        yield {
            "between": "outbox and store",
            "kind": fault.kind,
            "conversation_id": conversations.get(fault.message_id, ""),
            "message_id": text_of(fault.message_id),
            "detail": fault.detail,
        }


def _summary(found: "Verified", outboxes: int) -> str:
    young = f"; {found.young:,} moved too lately to tell" if found.young else ""
    return f"compared {found.messages:,} messages of {outboxes} outboxes with the store{young}\n"
