"""`twotick demo`: everything at once, with faults, and what came of it."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from compose.wiring import Wiring

_FAULTS = 1


def register(app: typer.Typer) -> None:
    """Add `demo`."""
    app.command("demo")(_demo)


def _demo(  # noqa: PLR0913 - its options
    context: typer.Context,
    *,
    stack: Annotated[
        Literal["embedded", "local"],
        typer.Option(help="embedded: an in-process broker and SQLite; local: real Kafka and Cassandra."),
    ] = "embedded",
    messages: Annotated[int, typer.Option(min=1, help="How many are sent.")] = 1500,
    workers: Annotated[int, typer.Option(min=1, max=8, help="Worker processes.")] = 3,
    seed: Annotated[int, typer.Option(help="Decides who writes what to whom.")] = 1,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep outboxes, logs and configuration, and the stack if it was started.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Send messages between six clients, kill a worker and cut a client off meanwhile, and count what went wrong.

    What went wrong is found in what the store and the outboxes hold afterwards. Exits with 1 if anything was lost,
    doubled, set back or got stuck.
    """
    from compose.demo.report import as_json, show
    from compose.demo.screen import open_screen
    from compose.demo.show import Wish, play
    from compose.sections import StackSettings

    wiring: Wiring = context.obj
    # Before anything is made or drawn: it may be wrong.
    servers = wiring.settings.section("stack", StackSettings) if stack == "local" else StackSettings()
    wish = Wish(stack=stack, messages=messages, workers=workers, seed=seed, keep=keep)
    report = play(servers, wish, open_screen(quiet=json))
    if json:
        sys.stdout.write(as_json(report) + "\n")
    else:
        show(report)
    if not report.findings.faultless:
        raise typer.Exit(_FAULTS)
