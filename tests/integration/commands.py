"""The server's commands, run in this process on a deployment of the tests."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import typer
from typer.testing import CliRunner

from compose.app import exit_code
from compose.commands import verify
from consumers.cli import dead_letters, replay
from consumers.settings import WorkerSettings
from consumers.stores.contract import Store
from consumers.stores.sqlite import SqliteStore
from schemas.codec import PLAIN, Codec
from tests.integration.deployment import Deployment


@dataclass
class Factory:
    """`context.obj` for one deployment."""

    deployment: Deployment
    shown: list[Mapping[str, Any]] = field(default_factory=list)

    def worker_settings(self) -> WorkerSettings:
        """Return the workers' settings."""
        return WorkerSettings(**self.deployment.settings)

    def kafka(self) -> dict[str, Any]:
        """Return the clients' settings."""
        return dict(self.deployment.kafka)

    def codec(self) -> Codec:
        """Return the codec."""
        return PLAIN

    def open_store(self) -> Store:
        """Open the store."""
        return SqliteStore.open(self.deployment.store_path)

    def open_keyspace(self, keyspace: str) -> Store:
        """Say that there is none."""
        raise AssertionError(keyspace)

    def show(self, rows, columns, form) -> None:
        """Keep the rows."""
        self.shown = [json.loads(json.dumps(dict(row), default=str)) for row in rows]


@dataclass
class Ran:
    """What a command did."""

    code: int
    rows: list[Mapping[str, Any]]
    told: str
    """Standard error, and the error that ended it."""
    output: str


def run(deployment: Deployment, *arguments: str) -> Ran:
    """Run one of the server's commands."""
    app = typer.Typer()
    app.callback()(lambda: None)
    replay.register(app)
    dead_letters.register(app)
    verify.register(app)
    factory = Factory(deployment)
    result = CliRunner().invoke(app, list(arguments), obj=factory)
    error = result.exception
    if error is None or isinstance(error, SystemExit):
        return Ran(result.exit_code, factory.shown, result.stderr, result.stdout)
    if not hasattr(error, "message"):
        raise error
    return Ran(exit_code(error), factory.shown, f"{result.stderr}{error.message} {error.hint}", result.stdout)
