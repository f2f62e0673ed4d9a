"""`twotick dead-letters`: what could not be applied, and what to do about it."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli import parking
from consumers.cli.letters import (
    PARTLY_DONE,
    PLAN_COLUMNS,
    Execute,
    LetterFactory,
    choosing,
    opened,
    planned,
    say,
    selected,
)
from consumers.cli.shared import FORM_HELP, Form, who

if TYPE_CHECKING:
    from consumers.dead_letters_select import Wanted

_COLUMNS = ("letter", "failed_at", "reason", "attempts", "conversation", "kind", "actor", "bytes", "detail", "handled")

Everything = Annotated[bool, typer.Option("--everything", help="All that nobody has dealt with.")]


def register(app: typer.Typer) -> None:
    """Add `dead-letters`."""
    commands = typer.Typer(help="Look at what could not be applied, and deal with it.", no_args_is_help=True)
    commands.command("list")(choosing(_list))
    commands.command("show")(_show)
    commands.command("redrive")(choosing(_redrive))
    commands.command("discard")(choosing(_discard))
    parking.register(commands)
    app.add_typer(commands, name="dead-letters")


def _list(
    context: typer.Context,
    *,
    wanted: "Wanted",
    handled: Annotated[bool, typer.Option("--all", help="Also those that were redriven or discarded.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many at most, oldest first.")] = 1_000,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Show dead letters, oldest first: each original once, however often a takeover has written it again."""
    from consumers.cli.times import time_text
    from consumers.dead_letters_show import row

    factory: LetterFactory = context.obj
    with opened(factory) as (store, letters):
        found = selected(store, letters, replace(wanted, handled=handled or wanted.handled))
    found.sort(key=lambda one: one.letter.failed_at)
    decode = factory.codec().decode
    factory.show((row(each, decode, time_text) for each in found[:limit]), _COLUMNS, output)
    if len(found) > limit:
        say(f"{len(found) - limit:,} more: --limit")


def _show(
    context: typer.Context,
    letter: Annotated[str, typer.Argument(metavar="LETTER", help="PARTITION:OFFSET, as `list` names it.")],
    *,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Show one dead letter: why, where, when and how often, decoded beside its bytes. Exits with 3 if there is none."""
    from consumers.cli.times import time_text
    from consumers.dead_letters_select import Wanted
    from consumers.dead_letters_show import fields, whole

    factory: LetterFactory = context.obj
    with opened(factory) as (store, letters):
        found = selected(store, letters, Wanted(names=frozenset({letter}), handled=True))
    for each in found:
        told = whole(each, factory.codec().decode, time_text)
        as_fields = output == "table" or (output is None and sys.stdout.isatty())
        rows = fields(told, each.letter.value) if as_fields else [told]
        factory.show(rows, ("field", "value"), output)


def _redrive(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    wanted: "Wanted",
    everything: Everything = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also those that failed too often, or were redriven or discarded before.")
    ] = False,
    execute: Execute = False,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Send originals back to the events topic, in the order in which the log had them; shows it until `--execute`.

    Bytes, key and headers are the original's, and a header counts the attempts. What is still bad comes back as one
    new letter and is not sent again by itself; what has failed `redrive_attempts_max` times, or was redriven or
    discarded before, is left out. Exits with 4 where some were left out.
    """
    from consumers.dead_letters_park import parked_among
    from consumers.dead_letters_redrive import LogWriter
    from consumers.dead_letters_select import redrives

    factory: LetterFactory = context.obj
    _insist(wanted, everything=everything)
    with opened(factory) as (store, letters):
        found = selected(store, letters, wanted)
        plan = redrives(
            found,
            attempts_max=factory.worker_settings().redrive_attempts_max,
            forced=force,
            parked=parked_among(store, [each.conversation for each in found if each.letter.reason == "PARKED"]),
        )
        going = [each.letter for each in plan if not each.obstacle]
        factory.show((planned(each, "redrive") for each in plan), PLAN_COLUMNS, output)
        if execute:
            with LogWriter(factory.kafka(), factory.codec()) as writer:
                writer.redrive(store, going, who())
    _conclude(len(going), len(plan) - len(going), "redriven", executed=execute)


def _discard(
    context: typer.Context,
    *,
    wanted: "Wanted",
    everything: Everything = False,
    execute: Execute = False,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Note that dead letters need nothing done, so that `list` shows them no more; shows it until `--execute`.

    The letters themselves stay in their topic: `list --all` shows them, and `redrive --force` still redrives
    them by name.
    """
    from consumers.dead_letters_redrive import DISCARDED, mark
    from consumers.dead_letters_select import Redrive

    factory: LetterFactory = context.obj
    _insist(wanted, everything=everything)
    with opened(factory) as (store, letters):
        found = selected(store, letters, wanted)
        factory.show((planned(Redrive(each, ""), "discard") for each in found), PLAN_COLUMNS, output)
        if execute:
            mark(store, found, DISCARDED, who())
    _conclude(len(found), 0, "discarded", executed=execute)


def _insist(wanted: "Wanted", *, everything: bool) -> None:
    """Refuse to take silence for all."""
    if wanted.is_everything != everything:
        raise typer.BadParameter(
            "together with a choice it is a contradiction"
            if everything
            else "name letters or a choice, or all of them",
            param_hint="--everything",
        )


def _conclude(going: int, left: int, deed: str, *, executed: bool) -> None:
    beside = f"; {left:,} left out" if left else ""
    say(f"{going:,} {deed}{beside}" if executed else f"{going:,} would be {deed}{beside}: add --execute")
    if left and executed:
        raise typer.Exit(PARTLY_DONE)
