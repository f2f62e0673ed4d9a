"""`twotick locks`: who holds which lock, and freeing one whose holder is known to be gone."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from consumers.cli.shared import FORM_HELP, Form, SharedFactory, opened, time_text

if TYPE_CHECKING:
    from consumers.locks.contract import LockMeta

_COLUMNS = ("key", "state", "owner", "token", "since", "until")


def register(app: typer.Typer) -> None:
    """Add `locks`."""
    commands = typer.Typer(help="Look at locks between nodes, and free them.", no_args_is_help=True)
    commands.command("list")(_list)
    commands.command("break")(_break)
    app.add_typer(commands, name="locks")


def _list(
    context: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are free.")] = False,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Show the locks that are held: by whom, since when, until when, with which fencing token."""
    from consumers.locks.locking import meta_of

    factory: SharedFactory = context.obj
    with opened(factory) as store:
        found = [meta_of(standing) for standing in store.shared().locks.standings()]
    factory.show([_row(meta) for meta in found if everything or meta.is_held], _COLUMNS, output)


def _break(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The lock, as `twotick locks list` names it.")],
    *,
    token: Annotated[int | None, typer.Option(help="Only if it still has this fencing token.")] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")] = False,
    output: Annotated[Form | None, typer.Option(help=FORM_HELP)] = None,
) -> None:
    """Free a lock that somebody else holds; shows it until `--execute`. Exits with 3 where it is not held.

    It would end by itself at the time shown. A holder that is still at work finds out at its next renewal; until then
    what it writes is refused only where the next holder, whose token is larger, has written before it.
    """
    from consumers.cli.errors import NotFoundError
    from consumers.locks.locking import meta_of

    factory: SharedFactory = context.obj
    with opened(factory) as store:
        table = store.shared().locks
        standing = table.standing(key)
        if standing is None or not standing.holder:
            raise NotFoundError(f"the lock {key} is not held", "`twotick locks list` shows those that are.")
        if token is not None and standing.token != token:
            raise NotFoundError(
                f"the lock {key} is held with token {standing.token}, not {token}: it has changed hands",
                "`twotick locks list` shows by whom.",
            )
        factory.show([_row(meta_of(standing))], _COLUMNS, output)
        if not execute:
            sys.stderr.write("would be freed: add --execute\n")
        elif table.free(key, standing.token):
            sys.stderr.write("freed\n")
        else:
            raise NotFoundError(f"the lock {key} has ended or changed hands meanwhile", "Look at it again.")


def _row(meta: "LockMeta") -> Mapping[str, object]:
    return {
        "key": meta.key,
        "state": "held" if meta.is_held else "free",
        "owner": meta.owner,
        "token": meta.token,
        "since": time_text(meta.since),
        "until": time_text(meta.until),
    }
