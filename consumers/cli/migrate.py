"""`twotick migrate`: topics and tables as this version needs them."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import typer

if TYPE_CHECKING:
    from consumers.migrate_steps import Step, Target

_DIFFERENCES_LEFT = 4
_COLUMNS = ("kind", "subject", "what", "hint")


class MigrationFactory(Protocol):
    """The deployment as this command sees it: `context.obj`."""

    def migration_targets(self) -> "Sequence[Target]":
        """Return what is migrated, in order; `consumers.migrate.targets_of` builds it."""

    def show(self, rows: Iterable[Mapping[str, object]], columns: Sequence[str], form: str | None) -> None:
        """Print rows as `--output` says."""


def register(app: typer.Typer) -> None:
    """Add `migrate`."""
    app.command("migrate")(_migrate)


def _migrate(
    context: typer.Context,
    *,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; without this it is only shown.")] = False,
    output: Annotated[
        Literal["table", "json", "jsonl"] | None, typer.Option(help="By default a table on a terminal, else jsonl.")
    ] = None,
) -> None:
    """Bring topics and tables to what this version needs; shows what it would do until `--execute`.

    Safe to run again, and on several nodes at once. What is there is never altered or shrunk: a topic's settings or a
    keyspace's copies that differ are shown, and left to you. Exits with 4 where such differences are left.
    """
    from consumers.migrate import apply, obstacle, plan

    factory: MigrationFactory = context.obj
    targets = factory.migration_targets()
    steps = list(apply(targets)) if execute else plan(targets)
    factory.show(map(_row, steps), _COLUMNS, output)
    if (error := obstacle(steps)) is not None:
        raise error
    sys.stderr.write(_summary(steps, executed=execute))
    if execute and any(step.kind != "change" for step in steps):
        raise typer.Exit(_DIFFERENCES_LEFT)


def _row(step: "Step") -> Mapping[str, object]:
    return {"kind": step.kind.value, "subject": step.subject, "what": step.what, "hint": step.hint}


def _summary(steps: "Sequence[Step]", *, executed: bool) -> str:
    changes = sum(step.kind == "change" for step in steps)
    others = len(steps) - changes
    told = f"; {others} differences are left to you" if others else ""
    if not changes:
        return f"nothing to do{told}\n"
    if executed:
        return f"done: {changes} changes{told}\n"
    return f"{changes} changes to do{told}: add --execute\n"
