"""What the commands on dead letters share: the deployment they see, and the options that choose letters."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from inspect import Signature, signature
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from consumers.dead_letters_redrive import Letters
    from consumers.dead_letters_select import Letter, Redrive, Wanted
    from consumers.settings import WorkerSettings
    from consumers.stores.contract import Store
    from schemas.codec import Codec
    from schemas.topics import Setting

PLAN_COLUMNS = ("letter", "conversation", "reason", "attempts", "what")
PARTLY_DONE = 4

Execute = Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")]


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


def _chosen(  # noqa: PLR0913 - one parameter an option
    *,
    letter: Annotated[
        list[str] | None, typer.Argument(metavar="[LETTER]...", help="PARTITION:OFFSET, as `list` names it.")
    ] = None,
    reason: Annotated[list[str] | None, typer.Option(help="Only this reason; may be repeated.")] = None,
    partition: Annotated[list[int] | None, typer.Option(help="Only this partition of the events topic.")] = None,
    conversation: Annotated[list[str] | None, typer.Option(help="Only this conversation.")] = None,
    since: Annotated[str | None, typer.Option(help="Failed since so long ago: 90s, 15m, 2h, 3d.")] = None,
    from_datetime: Annotated[str | None, typer.Option(help="Failed from then on: ISO 8601 with a zone.")] = None,
    to_datetime: Annotated[str | None, typer.Option(help="Failed before then.")] = None,
) -> "Wanted":
    from consumers.cli.times import instant_ms, start_ms
    from consumers.dead_letters_select import Wanted

    return Wanted(
        names=frozenset(letter or ()),
        reasons=frozenset(_reason(each) for each in reason or ()),
        partitions=frozenset(partition or ()),
        conversations=frozenset(conversation or ()),
        from_ms=start_ms(from_datetime, since),
        to_ms=instant_ms(to_datetime, "--to-datetime"),
        # Who names a letter means it, whatever was done about it before.
        handled=bool(letter),
    )


def _reason(text: str) -> str:
    """Return a reason as letters have it; raise BadParameter where there is none of this name."""
    from schemas.lifecycle import Reason

    reasons = [each.value for each in Reason if each]
    if text.upper() not in reasons:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(reasons)}", param_hint="--reason")
    return text.upper()


def choosing(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose letters; it gets them as `wanted`, the `Wanted` that they make."""
    choice = signature(_chosen).parameters
    own = [each for each in signature(command).parameters.values() if each.name != "wanted"]

    def with_choice(**given: object) -> None:
        chosen: Callable[..., Wanted] = _chosen
        command(wanted=chosen(**{name: given.pop(name) for name in choice}), **given)

    # What Typer looks at: without it, it would see no options.
    merged = Signature([own[0], *choice.values(), *own[1:]])
    with_choice.__signature__ = merged  # type: ignore[attr-defined]
    with_choice.__annotations__ = {each.name: each.annotation for each in merged.parameters.values()}
    with_choice.__doc__ = command.__doc__
    return with_choice


@contextmanager
def opened(factory: LetterFactory) -> "Iterator[tuple[Store, Letters]]":
    """Open the store and the dead letters for as long as the block takes."""
    from consumers.dead_letters_redrive import Letters

    store = factory.open_store()
    try:
        yield store, Letters(factory.kafka(), factory.codec())
    finally:
        store.close()


def selected(store: "Store", letters: "Letters", wanted: "Wanted") -> "list[Letter]":
    """Return the letters that are wanted.

    Raises NotFoundError where a letter or a partition that was named is not there; WorkerError.
    """
    from consumers.cli.errors import NotFoundError
    from consumers.dead_letters_redrive import marks_of
    from consumers.dead_letters_select import select

    if wanted.partitions and (missing_partitions := sorted(wanted.partitions - letters.partitions())):
        raise NotFoundError(f"the events topic has no partition {missing_partitions[0]}", "They count from 0.")
    found = select(letters.new(), marks_of(store), wanted)
    if letters.strangers:
        say(f"{letters.strangers:,} records of the topic are no dead letters, and are passed over")
    if missing := sorted(wanted.names - {each.name for each in found}):
        raise NotFoundError(f"there is no dead letter {missing[0]}", "See `twotick dead-letters list --all`.")
    return found


def planned(plan: "Redrive", deed: str) -> Mapping[str, object]:
    """Return what is done with a letter, as a row."""
    found = plan.letter
    again = f"{deed} again, {found.handled} before" if found.mark else deed
    return {
        "letter": found.name,
        "conversation": found.conversation,
        "reason": found.letter.reason,
        "attempts": found.letter.attempts,
        "what": f"left out: {plan.obstacle}" if plan.obstacle else again,
    }


def say(line: str) -> None:
    """Tell people something beside the rows."""
    sys.stderr.write(line + "\n")
