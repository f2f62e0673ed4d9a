"""`twotick up|down|status`: real Kafka and Cassandra on this machine, and the workers that run here."""

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from compose.output import Output
from compose.wiring import Wiring

if TYPE_CHECKING:
    from compose.stacks.local import LocalStack, ServerStatus

_SERVERS: Final = "The local stack"
_ENDED: Final = frozenset({"gone", "stopped"})
_MIB: Final = 1024 * 1024
_NOT_ALL_RUNNING: Final = 5


def register(app: typer.Typer) -> None:
    """Add `up`, `down` and `status`."""
    app.command("up", rich_help_panel=_SERVERS)(_up)
    app.command("down", rich_help_panel=_SERVERS)(_down)
    app.command("status", rich_help_panel=_SERVERS)(_status)


def _stack(wiring: Wiring) -> "LocalStack":
    from compose.sections import StackSettings
    from compose.stacks.local import LocalStack

    settings = wiring.settings.section("stack", StackSettings)
    return LocalStack(settings.folder, settings.local)


def say(line: str) -> None:
    """Tell a person what goes on."""
    sys.stderr.write(f"{line}\n")


def _up(context: typer.Context) -> None:
    """Start real Kafka and Cassandra on this machine, without Docker, and make topics and tables.

    Needs Java 17 and Maven; the first start fetches the jars. Ports are on 127.0.0.1 only. What runs already is left
    alone, what died or hangs is started again, and all other commands find the servers by themselves.
    """
    from consumers import migrate

    wiring: Wiring = context.obj
    _stack(wiring).up(say)
    fresh = wiring.again()
    for step in migrate.apply(fresh.migration_targets()):
        say(f"{step.subject}: {step.what}")
    say(f"ready: Kafka at {fresh.kafka()['bootstrap.servers']}, topics and tables are there")
    say("next: `twotick consume` runs workers, `twotick send --as ann --to ben hello` sends")


def _down(
    context: typer.Context,
    *,
    remove_data: Annotated[bool, typer.Option("--remove-data", help="Also delete all that they stored.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Really delete it.")] = False,
) -> None:
    """Stop Kafka and Cassandra in good order. What they stored stays, but with `--remove-data --execute`."""
    if execute and not remove_data:
        raise typer.BadParameter("it deletes data, and goes with --remove-data alone", param_hint="--execute")
    stack = _stack(context.obj)
    stack.down(remove_data=remove_data and execute)
    if remove_data and not execute:
        say(f"stopped; would delete all data, logs and ports in {stack.data_folder}: add --execute")


def _status(
    context: typer.Context,
    *,
    output: Annotated[Output | None, typer.Option(help="By default a table on a terminal, else jsonl.")] = None,
) -> None:
    """Show servers and workers: what they do, where they listen, where their logs are. Exits with 5 unless all run."""
    wiring: Wiring = context.obj
    servers = [_row(server) for server in _stack(wiring).status()]
    columns = ("name", "state", "address", "pid", "uptime_s", "memory_mib", "log")
    wiring.show([*servers, *_workers(wiring.status_folder)], columns, output)
    if any(row["state"] != "running" for row in servers):
        raise typer.Exit(_NOT_ALL_RUNNING)


def _row(server: "ServerStatus") -> Mapping[str, object]:
    return {
        "name": server.name,
        "state": server.state.value,
        "address": server.address,
        "pid": server.pid,
        "uptime_s": round(server.uptime_s),
        "memory_mib": server.memory_bytes // _MIB,
        "log": str(server.log_path),
    }


def _workers(folder: Path) -> Iterator[Mapping[str, object]]:
    from compose.workers_here import workers

    for worker in workers(folder):
        yield {
            "name": f"worker {worker.node}",
            "state": worker.state,
            "pid": worker.pid,
            "uptime_s": round(time.time() - worker.started_at) if worker.state not in _ENDED else 0,
            "partitions": worker.partitions,
        }
