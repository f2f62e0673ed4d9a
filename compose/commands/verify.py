"""`twotick verify`: the log, the store and outboxes, one against the other."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compose.output import Output
from compose.wiring import Wiring
from consumers import clock

if TYPE_CHECKING:
    from compose.checking.history import Fault
    from compose.verifying import Outbox, Receipts, Verified
    from consumers.stores.contract import Store

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
    rate: Annotated[
        float, typer.Option(min=0, help="Events, then rows compared, a second at most; 0: as fast as it goes.")
    ] = 0,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds for which a message that moved may still be told otherwise.")
    ] = 60.0,
    output: Annotated[Output | None, typer.Option(help="By default a table on a terminal, else jsonl.")] = None,
) -> None:
    """Compare log, store and outboxes, beside live workers and clients, and print what is missing or odd.

    The log is folded again, as by `twotick replay`, and must give the store row for row; each outbox must agree with
    the store about what its user sent and received, and hold what it has itself written a receipt for: what a user has
    on another device is no loss. Changes nothing. Exits with 1 where something was found, with 3 where there is
    nothing to compare of a conversation that was named. Which PARK and RELEASE the workers took it knows as
    `twotick replay` does, and ends as that does (2) where it cannot be sure.
    """
    from compose.verifying import Receipts, read_outbox

    wiring: Wiring = context.obj
    if not log and not outbox:
        raise typer.BadParameter("without the log, name an outbox", param_hint="--outbox")
    for name, number in (("--rate", rate), ("--grace", grace)):
        if not isfinite(number):
            raise typer.BadParameter(f"{number} is no number", param_hint=name)
    # Before the store is looked at, which is at least as new then.
    held = [read_outbox(path) for path in dict.fromkeys(path.resolve() for path in outbox or ())]
    receipts = Receipts(held, _ms(grace))
    with closing(wiring.open_store()) as store:
        looked, elsewhere = _outboxes(held, store, grace)
        rows = list(looked)
        try:
            if log:
                rows.extend(_log(wiring, store, receipts, conversation or (), rate))
            lost = list(receipts.lost(store, clock.now_ms()))
            rows.extend(_row(fault, name) for name, fault in lost)
        finally:  # what the outboxes have shown is not lost with a log that cannot be read, or is not waited for
            wiring.show(rows, _COLUMNS, output)
        if log and not rows:
            _know(store, conversation or ())
    if there := len(elsewhere - {fault.message_id for _, fault in lost}):
        sys.stderr.write(
            f"{there:,} messages have arrived and are in none of the outboxes named of a recipient: "
            "another device may have them\n"
        )
    if rows:
        sys.stderr.write(f"{len(rows):,} found\n")
        raise typer.Exit(_FAULTS)
    sys.stderr.write("nothing is missing, nothing is odd\n")


def _know(store: "Store", conversations: Sequence[str]) -> None:
    """Raise NotFoundError where the store lacks one: nothing was compared, for what only the log has is missing."""
    from compose.errors import NotFoundError

    known = store.read((), conversations).conversations if conversations else {}
    if missing := [each for each in conversations if each not in known]:
        raise NotFoundError(
            f"there is nothing of a conversation {missing[0]} to compare",
            "Check its name; what was sent a moment ago must be folded first.",
        )


def _log(
    wiring: Wiring, store: "Store", receipts: "Receipts", conversations: Sequence[str], rate: float
) -> Iterator[Mapping[str, object]]:
    from consumers.cli.replay import row
    from consumers.cli.replay_job import ReplayJob
    from consumers.replay.spans import Wish

    job = ReplayJob(wiring, Wish(conversations=frozenset(conversations)), rate, None, receipts.hear)
    for found in job.rebuild(None, None, compares=True, mends=False, store=store):
        yield {"between": "log and store", **row(found)}


def _outboxes(
    held: "Sequence[Outbox]", store: "Store", grace_s: float
) -> tuple[Iterator[Mapping[str, object]], frozenset[bytes]]:
    """Return what outboxes and the store do not say alike, and which messages are on other devices, if not lost."""
    from compose.verifying import verify

    if not held:
        return iter(()), frozenset()
    conversations = {message_id: name for outbox in held for name, message_id in outbox.keys}
    found = verify(held, store, now_ms=clock.now_ms(), grace_ms=_ms(grace_s))
    sys.stderr.write(_summary(found, len(held)))
    return (_row(fault, conversations.get(fault.message_id, "")) for fault in found.faults), found.elsewhere


def _row(fault: "Fault", conversation_id: str) -> Mapping[str, object]:
    from schemas.identity import text_of

    return {
        "between": "outbox and store",
        "kind": fault.kind,
        "conversation_id": conversation_id,
        "message_id": text_of(fault.message_id),
        "detail": fault.detail,
    }


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _summary(found: "Verified", outboxes: int) -> str:
    young = f"; {found.young:,} moved too lately to tell" if found.young else ""
    return f"compared {found.messages:,} messages of {outboxes} outboxes with the store{young}\n"
