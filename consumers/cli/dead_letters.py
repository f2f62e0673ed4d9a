"""`twotick dead-letters`: what could not be applied, and what to do about it."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from consumers.cli.shared import FORM_HELP, Form, who

if TYPE_CHECKING:
    from collections.abc import Iterator

    from consumers.dead_letters_redrive import Letters
    from consumers.dead_letters_select import Letter, Redrive, Wanted
    from consumers.settings import WorkerSettings
    from consumers.stores.contract import Store
    from schemas.codec import Codec
    from schemas.topics import Setting

_COLUMNS = ("letter", "failed_at", "reason", "attempts", "conversation", "kind", "actor", "bytes", "detail", "handled")
_PLAN_COLUMNS = ("letter", "conversation", "reason", "attempts", "what")
_PARTLY_DONE = 4


class LetterFactory(Protocol):
    """The deployment as these commands see it: `context.obj`."""

    def worker_settings(self) -> "WorkerSettings":
        """Return the workers' settings."""

    def kafka(self) -> "Mapping[str, Setting]":
        """Return what every Kafka client is given."""

    def codec(self) -> "Codec":
        """Return the codec."""

    def open_store(self) -> "Store":
        """Open the store, which knows what was done about letters."""

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says, foreign text made harmless."""


Names = Annotated[list[str] | None, typer.Argument(metavar="[LETTER]...", help="PARTITION:OFFSET, as `list` names it.")]
Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Only this reason; may be repeated.")]
Partitions = Annotated[list[int] | None, typer.Option("--partition", help="Only this partition of the events topic.")]
Conversations = Annotated[list[str] | None, typer.Option("--conversation", help="Only this conversation.")]
Since = Annotated[str | None, typer.Option("--since", help="Failed since so long ago: 90s, 15m, 2h, 3d.")]
FromTime = Annotated[str | None, typer.Option("--from-datetime", help="Failed from then on: ISO 8601 with a zone.")]
ToTime = Annotated[str | None, typer.Option("--to-datetime", help="Failed before then.")]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")]
Everything = Annotated[bool, typer.Option("--everything", help="All that nobody has dealt with.")]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for the workers to take note.")]


def register(app: typer.Typer) -> None:
    """Add `dead-letters`."""
    commands = typer.Typer(help="Look at what could not be applied, and deal with it.", no_args_is_help=True)
    commands.command("list")(_list)
    commands.command("show")(_show)
    commands.command("redrive")(_redrive)
    commands.command("discard")(_discard)
    commands.command("park")(_park)
    commands.command("release")(_release)
    app.add_typer(commands, name="dead-letters")


def _list(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    reason: Reasons = None,
    partition: Partitions = None,
    conversation: Conversations = None,
    since: Since = None,
    from_datetime: FromTime = None,
    to_datetime: ToTime = None,
    handled: Annotated[bool, typer.Option("--all", help="Also those that were redriven or discarded.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many at most, oldest first.")] = 1_000,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Show dead letters, oldest first: each original once, however often a takeover has written it again."""
    from consumers.cli.times import time_text
    from consumers.dead_letters_show import row

    factory: LetterFactory = context.obj
    wanted = _wanted(None, reason, partition, conversation, (since, from_datetime, to_datetime), handled=handled)
    with _opened(factory) as (store, letters):
        found = _select(store, letters, wanted)
    decode = factory.codec().decode
    factory.show((row(each, decode, time_text) for each in found[:limit]), _COLUMNS, output)
    if len(found) > limit:
        _say(f"{len(found) - limit:,} more: --limit")


def _show(
    context: typer.Context,
    letter: Annotated[str, typer.Argument(metavar="LETTER", help="PARTITION:OFFSET, as `list` names it.")],
    *,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Show one dead letter: why, where, when and how often, decoded beside its bytes. Exits with 3 if there is none."""
    from consumers.cli.times import time_text
    from consumers.dead_letters_show import fields, whole

    factory: LetterFactory = context.obj
    with _opened(factory) as (store, letters):
        found = _named(_select(store, letters, _wanted([letter], handled=True)), [letter])
    for each in found:
        told = whole(each, factory.codec().decode, time_text)
        as_fields = output == "table" or (output is None and sys.stdout.isatty())
        rows = fields(told, each.letter.value) if as_fields else [told]
        factory.show(rows, ("field", "value"), output)


def _redrive(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    letter: Names = None,
    reason: Reasons = None,
    partition: Partitions = None,
    conversation: Conversations = None,
    since: Since = None,
    from_datetime: FromTime = None,
    to_datetime: ToTime = None,
    everything: Everything = False,
    force: Annotated[bool, typer.Option("--force", help="Also those that failed too often.")] = False,
    execute: Execute = False,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Send originals back to the events topic, in the order in which the log had them; shows it until `--execute`.

    Bytes, key and headers are the original's, and a header counts the attempts. What is still bad comes back as one
    new letter and is not sent again by itself; what has failed `redrive_attempts_max` times is left out. Exits with 4
    where some were left out.
    """
    from consumers.dead_letters_redrive import Sender, parked_among
    from consumers.dead_letters_select import redrives

    factory: LetterFactory = context.obj
    wanted = _wanted(letter, reason, partition, conversation, (since, from_datetime, to_datetime))
    _insist(wanted, everything=everything)
    with _opened(factory) as (store, letters):
        found = _named(_select(store, letters, wanted), letter)
        plan = redrives(
            found,
            attempts_max=factory.worker_settings().redrive_attempts_max,
            forced=force,
            parked=parked_among(store, [each.conversation for each in found if each.letter.reason == "PARKED"]),
        )
        going = [each.letter for each in plan if not each.obstacle]
        factory.show((_planned(each, "redrive") for each in plan), _PLAN_COLUMNS, output)
        if execute:
            with Sender(factory.kafka(), factory.codec()) as sender:
                sender.redrive(store, going, who())
    _conclude(len(going), len(plan) - len(going), "redriven", executed=execute)


def _discard(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    letter: Names = None,
    reason: Reasons = None,
    partition: Partitions = None,
    conversation: Conversations = None,
    since: Since = None,
    from_datetime: FromTime = None,
    to_datetime: ToTime = None,
    everything: Everything = False,
    execute: Execute = False,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Note that dead letters need nothing done, so that `list` shows them no more; shows it until `--execute`.

    The letters themselves stay in their topic: `list --all` shows them, and they can still be redriven by name.
    """
    from consumers.dead_letters_redrive import DISCARDED, mark
    from consumers.dead_letters_select import Redrive

    factory: LetterFactory = context.obj
    wanted = _wanted(letter, reason, partition, conversation, (since, from_datetime, to_datetime))
    _insist(wanted, everything=everything)
    with _opened(factory) as (store, letters):
        found = _named(_select(store, letters, wanted), letter)
        factory.show((_planned(Redrive(each, ""), "discard") for each in found), _PLAN_COLUMNS, output)
        if execute:
            mark(store, found, DISCARDED, who())
    _conclude(len(found), 0, "discarded", executed=execute)


def _park(
    context: typer.Context,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id.")],
    *,
    execute: Execute = False,
    wait: Wait = 30.0,
) -> None:
    """Have what comes later in a conversation wait, in order and bounded, while others go on; needs `--execute`.

    New messages, blocks and cancels wait among the dead letters, and their senders' clients keep them as pending.
    Receipts of what is there already go on. Exits with 4 where no worker has taken note in time: it will.
    """
    from consumers.dead_letters_redrive import Sender, Workers, park

    factory: LetterFactory = context.obj
    if not execute:
        _say(f"would park {conversation!r}: add --execute")
        return
    workers = Workers(factory.kafka(), factory.worker_settings().group)
    with Sender(factory.kafka(), factory.codec()) as sender:
        noted = park(sender, workers, conversation, who(), wait)
    _say("parked" if noted else "the PARK is in the log; no worker has got there yet")
    if not noted:
        raise typer.Exit(_PARTLY_DONE)


def _release(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id.")],
    *,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Open it at once; what waits stays among the dead letters.")
    ] = False,
    execute: Execute = False,
    wait: Wait = 60.0,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Let a parked conversation go on: what waits is redriven, in order, then it is open; shows it until `--execute`.

    What comes meanwhile lines up behind. Exits with 4 where it is not open in time.
    """
    from consumers.dead_letters_redrive import Sender, Workers, release
    from consumers.dead_letters_select import Redrive
    from schemas.lifecycle import Kind

    factory: LetterFactory = context.obj
    with _opened(factory) as (store, letters):
        if not execute:
            found = _select(store, letters, _wanted(None, ["PARKED"], None, [conversation]))
            factory.show((_planned(Redrive(each, ""), "redrive") for each in found), _PLAN_COLUMNS, output)
            _say(f"{len(found):,} would be redriven: add --execute")
            return
        with Sender(factory.kafka(), factory.codec()) as sender:
            if give_up:
                sender.command(Kind.RELEASE, conversation, who(), give_up=True)
                _say("given up: the conversation goes on, what waited is among the dead letters")
                return
            workers = Workers(factory.kafka(), factory.worker_settings().group)
            count, is_open = release(sender, letters, store, workers, conversation, who(), wait)
    _say(f"{count:,} redriven; the conversation is {'open' if is_open else 'not open yet: release it again'}")
    if not is_open:
        raise typer.Exit(_PARTLY_DONE)


@contextmanager
def _opened(factory: LetterFactory) -> "Iterator[tuple[Store, Letters]]":
    from consumers.dead_letters_redrive import Letters

    store = factory.open_store()
    try:
        yield store, Letters(factory.kafka(), factory.codec())
    finally:
        store.close()


def _select(store: "Store", letters: "Letters", wanted: "Wanted") -> "list[Letter]":
    from consumers.dead_letters_redrive import marks_of
    from consumers.dead_letters_select import select

    found = select(letters.new(), marks_of(store), wanted)
    if letters.strangers:
        _say(f"{letters.strangers:,} records of the topic are no dead letters, and are passed over")
    return found


def _wanted(  # noqa: PLR0913 - the options that several commands share
    names: Sequence[str] | None,
    reasons: Sequence[str] | None = None,
    partitions: Sequence[int] | None = None,
    conversations: Sequence[str] | None = None,
    times: tuple[str | None, str | None, str | None] = (None, None, None),
    *,
    handled: bool = False,
) -> "Wanted":
    from consumers.cli.times import ago_ms, instant_ms
    from consumers.dead_letters_select import Wanted

    since, from_datetime, to_datetime = times
    return Wanted(
        names=frozenset(names or ()),
        reasons=frozenset(each.upper() for each in reasons or ()),
        partitions=frozenset(partitions or ()),
        conversations=frozenset(conversations or ()),
        from_ms=instant_ms(from_datetime, "--from-datetime") if since is None else ago_ms(since, "--since"),
        to_ms=instant_ms(to_datetime, "--to-datetime"),
        # Who names a letter means it, whatever was done about it before.
        handled=handled or bool(names),
    )


def _insist(wanted: "Wanted", *, everything: bool) -> None:
    """Refuse to take silence for all."""
    if wanted.is_everything != everything:
        raise typer.BadParameter(
            "together with a choice it is a contradiction"
            if everything
            else "name letters or a choice, or all of them",
            param_hint="--everything",
        )


def _named(found: "list[Letter]", names: Sequence[str] | None) -> "list[Letter]":
    """Return the letters; raise NotFoundError where one that was named is not there."""
    from consumers.cli.errors import NotFoundError

    there = {each.name for each in found}
    for name in names or ():
        if name not in there:
            raise NotFoundError(f"there is no dead letter {name}", "See `twotick dead-letters list --all`.")
    return found


def _planned(plan: "Redrive", deed: str) -> Mapping[str, object]:
    found = plan.letter
    return {
        "letter": found.name,
        "conversation": found.conversation,
        "reason": found.letter.reason,
        "attempts": found.letter.attempts,
        "what": f"left out: {plan.obstacle}" if plan.obstacle else deed,
    }


def _conclude(going: int, left: int, deed: str, *, executed: bool) -> None:
    beside = f"; {left:,} left out" if left else ""
    _say(f"{going:,} {deed}{beside}" if executed else f"{going:,} would be {deed}{beside}: add --execute")
    if left and executed:
        raise typer.Exit(_PARTLY_DONE)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
