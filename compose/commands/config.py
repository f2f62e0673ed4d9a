"""`twotick config`: `show` tells every setting as it counts here, the others are about all workers while they run."""

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from compose.output import Output
from compose.wiring import Wiring
from consumers.cli import hot


def register(app: typer.Typer) -> None:
    """Add `config`."""
    commands = typer.Typer(help="Look at settings, and change those that are hot.", no_args_is_help=True)
    commands.command("show")(_show)
    hot.add_to(commands)
    app.add_typer(commands, name="config")


def _show(
    context: typer.Context,
    *,
    sources: Annotated[bool, typer.Option("--sources", help="Also say where each value comes from.")] = False,
    output: Annotated[Output | None, typer.Option(help="By default a table on a terminal, else jsonl.")] = None,
) -> None:
    """Show every setting as it counts; secrets are masked."""
    wiring: Wiring = context.obj
    columns = ("setting", "value", "source") if sources else ("setting", "value")
    wiring.show(_rows(wiring, with_sources=sources), columns, output)


def _rows(wiring: Wiring, *, with_sources: bool) -> Iterator[Mapping[str, object]]:
    wiring.kafka()  # what librdkafka does not know is no setting, and may be a secret under a name that is misspelt
    for one in wiring.settings.effective():
        row: dict[str, object] = {"setting": one.key, "value": one.value}
        yield {**row, "source": one.source} if with_sources else row
