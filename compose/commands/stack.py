"""`twotick up|down|status`: real Kafka and Cassandra on this machine, and the workers that run here."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from compose.output import Output
from compose.wiring import Wiring

if TYPE_CHECKING:
    from compose.stacks.local import LocalStack, ServerStatus
    from compose.workers_here import WorkerHere

_SERVERS: Final = "The local stack"
_ENDED: Final = frozenset({"gone", "stopped"})
_MIB: Final = 1024 * 1024
_PARTLY_DONE: Final = 4
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
    alone, what died or hangs is started again. From then until `down` all other commands find the servers by
    themselves, unless the settings name some: then topics and tables are not made either. Exits with 4 where some are
    there that are not as they must be.
    """
    from consumers import migrate
    from consumers.migrate_steps import StepKind

    wiring: Wiring = context.obj
    _stack(wiring).up(say)
    fresh = wiring.again()
    if not fresh.uses_stack:
        say("ready; no topics and tables are made: the settings name other servers (`twotick config show --sources`)")
        return
    is_ready = True
    for step in migrate.apply(fresh.migration_targets()):
        is_ready &= step.kind is not StepKind.DIFFERENCE
        say(f"{step.subject}: {step.what}")
        if step.hint:
            say(f"hint: {step.hint}")
    at = fresh.kafka()["bootstrap.servers"]
    if not is_ready:
        say(f"Kafka is at {at}; what is told above is not as it must be, and was left")
        raise typer.Exit(_PARTLY_DONE)
    say(f"ready: Kafka at {at}, topics and tables are there")
    say("next: `twotick consume` runs workers, `twotick send --as ann --to ben hello` sends")


def _down(
    context: typer.Context,
    *,
    remove_data: Annotated[bool, typer.Option("--remove-data", help="Also delete all that they stored.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Really delete it.")] = False,
) -> None:
    """Stop Kafka and Cassandra in good order. What they stored stays.

    With `--remove-data` it goes too; then nothing is stopped or deleted, and only told, until `--execute`.
    """
    if execute and not remove_data:
        raise typer.BadParameter("it deletes data, and goes with --remove-data alone", param_hint="--execute")
    wiring: Wiring = context.obj
    stack = _stack(wiring)
    working = [worker.node for worker in _all_workers(wiring.status_folder) if worker.state not in _ENDED]
    if working and wiring.uses_stack:
        what = "have to be ended" if remove_data else "wait for these servers until they are up again"
        say(f"workers that run here {what}: {', '.join(working)}")
    if remove_data and not execute:
        _say_what_would_go(stack)
    else:
        stack.down(remove_data=remove_data)


def _say_what_would_go(stack: "LocalStack") -> None:
    if not (known := stack.known_servers()):
        say(f"there is nothing to stop or delete in {stack.data_folder}")
        return
    if living := [name for name, lives in stack.started().items() if lives]:
        say(f"would stop {', '.join(living)}")
    say(f"would delete all data, logs and ports of {', '.join(known)} in {stack.data_folder}")
    say("nothing is done yet: add --execute")


def _all_workers(folder: Path) -> "Sequence[WorkerHere]":
    from compose.workers_here import workers

    return workers(folder)


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
    for worker in _all_workers(folder):
        yield {
            "name": f"worker {worker.node}",
            "state": worker.state,
            "pid": worker.pid,
            "uptime_s": round(time.time() - worker.started_at) if worker.state not in _ENDED else 0,
            "partitions": worker.partitions,
        }
