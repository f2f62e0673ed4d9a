"""`twotick consume`: the workers of one machine, or with `--slot` the one worker that this process is."""

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from consumers.addresses import PORT_MAX
from consumers.errors import EXIT_CODES

if TYPE_CHECKING:
    from consumers.claims.settings import WebhookSettings
    from consumers.cli.ports import ServerFactory
    from consumers.settings import WorkerSettings


class Protocols(StrEnum):
    """The group protocols."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class LogForm(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


_CODES = "\n\n".join(f"{int(code)}: {text}." for code, text in EXIT_CODES.items())
_EPILOG = f"Exit codes, of each worker (`code` in the log) and so of the command:\n\n{_CODES}"


def register(app: typer.Typer) -> None:
    """Add `consume`."""
    app.command("consume", epilog=_EPILOG)(_consume)


def _consume(  # noqa: PLR0913 - one parameter an option
    context: typer.Context,
    *,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Worker processes on this machine.")] = 1,
    slot: Annotated[int | None, typer.Option(hidden=True, min=0, help="Be the worker of this slot.")] = None,
    protocol: Annotated[Protocols | None, typer.Option(help="Group protocol; by default worker.protocol.")] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=PORT_MAX,
            help="Prometheus port of the first worker, the others follow; by default worker.metrics_port.",
        ),
    ] = None,
    deliver: Annotated[
        str | None,
        typer.Option(
            metavar="webhook:URL",
            help="Post deliveries there instead of into inboxes; by default the setting webhook.url.",
        ),
    ] = None,
    deliver_to: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="For these recipients (* and ? match); by default webhook.users."),
    ] = None,
    log: Annotated[LogForm, typer.Option(help="Form of the log lines on standard error.")] = LogForm.TEXT,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(help="Least level of the log lines; by default worker.log_level."),
    ] = None,
) -> None:
    """Fold the events topic into the store and answer, until told to stop.

    SIGTERM or Ctrl-C finishes what has begun and stops; a second one ends at once. A worker that dies is started
    again after a growing wait, also while no server is reached. Not after 2, 12, 13 or a second 10: it would end the
    same way. The command ends when no worker is left to run, with the first code that is not 0.

    With --deliver each delivery is a POST of JSON with an Idempotency-Key: 2xx took it, most other 4xx refuse it for
    good, all else is tried again, webhook.attempts_max times in all; then the message is failed(undelivered). What its
    Authorization header says stands in the file that webhook.authorization_file names.
    """
    from consumers.logs import configure
    from consumers.process import node_name

    factory: ServerFactory = context.obj
    settings = _settings(factory, protocol, metrics_port)
    if log_level is not None:
        settings = replace(settings, log_level=log_level)
    node = node_name(settings, slot) if slot is not None else "supervisor"
    configure(node=node, json_lines=log is LogForm.JSON, level=settings.log_level)
    webhook = _webhook(factory, deliver, deliver_to)
    if slot is not None:
        raise typer.Exit(_worker(factory, settings, slot, webhook))
    if settings.metrics_port and settings.metrics_port + workers - 1 > PORT_MAX:
        raise typer.BadParameter(
            f"from {settings.metrics_port} on there is no port for each of {workers} workers",
            param_hint="--metrics-port",
        )
    options = [f"--protocol={settings.protocol}", f"--metrics-port={settings.metrics_port}"]
    options += [f"--log={log.value}", f"--log-level={settings.log_level}"]
    options += [f"--deliver={deliver}"] if deliver else []
    options += [f"--deliver-to={pattern}" for pattern in deliver_to or ()]
    raise typer.Exit(_supervise(factory, settings, workers, options))


def _settings(factory: "ServerFactory", protocol: Protocols | None, metrics_port: int | None) -> "WorkerSettings":
    settings = factory.worker_settings()
    return replace(
        settings,
        protocol=protocol.value if protocol else settings.protocol,
        metrics_port=settings.metrics_port if metrics_port is None else metrics_port,
        status_folder=settings.status_folder or factory.status_folder,
    )


def _webhook(factory: "ServerFactory", deliver: str | None, users: Sequence[str] | None) -> "WebhookSettings":
    webhook = factory.webhook_settings()
    if deliver is not None:
        kind, _, url = deliver.partition(":")
        if kind != "webhook" or not url:
            raise typer.BadParameter(f"{deliver!r} is not webhook:URL", param_hint="--deliver")
        try:
            webhook = replace(webhook, url=url)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--deliver") from None
    if users and not webhook.url:
        raise typer.BadParameter(
            "it says for whom, but not where to: add --deliver webhook:URL", param_hint="--deliver-to"
        )
    if webhook.url and find_spec("urllib3") is None:
        raise typer.BadParameter("it needs the extra: pip install twotick[webhook]", param_hint="--deliver")
    return replace(webhook, users=tuple(users)) if users else webhook


def _worker(factory: "ServerFactory", settings: "WorkerSettings", slot: int, webhook: "WebhookSettings") -> int:
    from consumers.process import run_worker

    return run_worker(
        kafka=factory.kafka(),
        open_store=factory.make_store,
        settings=settings,
        slot=slot,
        codec=factory.codec(),
        webhook=webhook,
    )


def _supervise(factory: "ServerFactory", settings: "WorkerSettings", workers: int, options: Sequence[str]) -> int:
    from consumers.supervisor import Supervisor

    return Supervisor(
        lambda number: [*factory.worker_command(number), *options],
        workers,
        drain_timeout_s=settings.drain_timeout_s,
    ).run()
