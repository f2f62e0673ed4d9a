"""`twotick dead-letters park|release`: have one conversation wait while the others go on."""

from typing import Annotated

import typer

from consumers.cli.letters import PARTLY_DONE, PLAN_COLUMNS, Execute, LetterFactory, opened, planned, say, selected
from consumers.cli.shared import FORM_HELP, Form, who

Conversation = Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id.")]
Operator = Annotated[
    str | None, typer.Option("--operator", metavar="NAME", help="In whose name; by default user@host of this shell.")
]
Wait = Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for the workers to take note.")]


def register(commands: typer.Typer) -> None:
    """Add `park` and `release`."""
    commands.command("park")(_park)
    commands.command("release")(_release)


def _operator(factory: LetterFactory, name: str | None) -> str:
    """Return in whose name it is done. Raises OperatorError where the workers would refuse it."""
    from consumers.dead_letters_park import operator

    return operator(name or who(), factory.worker_settings().operators)


def _insist_usable(conversation: str) -> None:
    """Raise BadParameter where this can be no conversation's id: nothing of it comes into the log."""
    from schemas.identity import InvalidIdError, check_conversation

    try:
        check_conversation(conversation)
    except InvalidIdError as error:
        raise typer.BadParameter(str(error), param_hint="CONVERSATION") from None


def _park(
    context: typer.Context,
    conversation: Conversation,
    *,
    operator: Operator = None,
    execute: Execute = False,
    wait: Wait = 30.0,
) -> None:
    """Have what comes later in a conversation wait, in order and bounded, while others go on; needs `--execute`.

    New messages, blocks and cancels wait among the dead letters, and their senders' clients keep them as pending.
    Receipts of what is there already go on. Only who is named in `worker.operators` may do it. Exits with 4 where no
    worker has taken note in time: it will.
    """
    from consumers.dead_letters_park import Workers, park
    from consumers.dead_letters_redrive import LogWriter

    _insist_usable(conversation)
    factory: LetterFactory = context.obj
    name = _operator(factory, operator)
    if not execute:
        say(f"would park {conversation!r}: add --execute")
        return
    workers = Workers(factory.kafka(), factory.worker_settings().group)
    with opened(factory) as (store, _), LogWriter(factory.kafka(), factory.codec()) as writer:
        noted = park(writer, workers, store, conversation, name, wait)
    say("parked" if noted else "the PARK is in the log; no worker has got there yet")
    if not noted:
        raise typer.Exit(PARTLY_DONE)


def _release(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    conversation: Conversation,
    *,
    give_up: Annotated[
        bool,
        typer.Option(
            "--give-up", help="Open it at once; what waits stays among the dead letters, and may come out of order."
        ),
    ] = False,
    operator: Operator = None,
    execute: Execute = False,
    wait: Wait = 60.0,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Let a parked conversation go on: what waits is redriven, in order, then it is open; shows it until `--execute`.

    What comes meanwhile lines up behind. Only who is named in `worker.operators` may do it. Exits with 4 where it is
    not open in time, with 3 where it is not parked.
    """
    from consumers.dead_letters_park import Workers, parking_of, release, waiting_in
    from consumers.dead_letters_park import give_up as give_up_waiting
    from consumers.dead_letters_redrive import LogWriter
    from consumers.dead_letters_select import Redrive, waiting_of

    _insist_usable(conversation)
    factory: LetterFactory = context.obj
    name = _operator(factory, operator)
    with opened(factory) as (store, letters):
        if not execute:
            ever = selected(store, letters, waiting_in(conversation))
            found = waiting_of(ever, parking_of(store, conversation), letters.decode)
            factory.show((planned(Redrive(each, ""), "redrive") for each in found), PLAN_COLUMNS, output)
            say(f"{len(found):,} would be redriven: add --execute")
            return
        with LogWriter(factory.kafka(), factory.codec()) as writer:
            workers = Workers(factory.kafka(), factory.worker_settings().group)
            if not give_up:
                count, is_open = release(writer, letters, store, workers, conversation, name, wait)
                told = (
                    f"{count:,} redriven; the conversation is {'open' if is_open else 'not open yet: release it again'}"
                )
            elif is_open := give_up_waiting(writer, workers, store, conversation, name, wait):
                told = "given up: the conversation goes on, what waited is among the dead letters"
            else:
                told = "the RELEASE is in the log; no worker has got there yet"
    say(told)
    if not is_open:
        raise typer.Exit(PARTLY_DONE)
