"""`twotick verify`: what it prints and what it ends with, whatever becomes of the log."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from compose import output
from compose.commands import verify
from compose.errors import NotFoundError
from consumers.cli.replay_job import ReplayJob
from consumers.errors import StoreUnavailableError
from consumers.replay.compare import Verdict
from consumers.replay.comparing import Difference
from consumers.rows import ConversationWrite
from consumers.stores.sqlite import SqliteStore
from tests.contract.made import conversation, made, write
from tests.unit.producers.world import World


class Deployment:
    """A store of its own, and a log that is as a test says."""

    show = staticmethod(output.show)

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.sqlite"
        self.outbox = folder / "alice.sqlite"

    def open_store(self) -> SqliteStore:
        """Open the live store."""
        return SqliteStore.open(self.path)

    def verify(self, *arguments: str) -> Result:
        """Run the command."""
        app = typer.Typer()
        verify.register(app)
        return CliRunner().invoke(app, arguments, obj=self)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """Give a deployment whose outbox was told what its store does not hold."""
    deployed = Deployment(tmp_path)
    world = World(deployed.outbox)
    world.send()
    with world.database.transaction() as connection:
        connection.execute("UPDATE messages SET state = 'READ'")
    world.database.close()
    return deployed


def log_is(monkeypatch: pytest.MonkeyPatch, found: Sequence[Difference] | Exception = ()) -> None:
    def rebuild(*_places: object, **_options: object) -> Sequence[Difference]:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(ReplayJob, "rebuild", rebuild)


def test_what_the_outboxes_show_is_printed_though_the_log_cannot_be_read(deployment, monkeypatch):
    log_is(monkeypatch, StoreUnavailableError("nobody answers"))
    done = deployment.verify("--outbox", str(deployment.outbox), "--output", "json")
    assert isinstance(done.exception, StoreUnavailableError), "the command line makes an exit code of it"
    assert {row["kind"] for row in json.loads(done.stdout)} == {"lost", "stuck"}


def test_an_outbox_that_is_named_twice_is_read_once(deployment):
    named = ["--outbox", str(deployment.outbox)]
    once, twice = deployment.verify("--no-log", *named), deployment.verify("--no-log", *named, *named)
    assert once.exit_code == twice.exit_code == 1
    assert once.stdout == twice.stdout


def test_a_conversation_that_is_nowhere_is_not_found_instead_of_fine(deployment, monkeypatch):
    log_is(monkeypatch)
    store = deployment.open_store()
    write(store, [made("c", 1)], [ConversationWrite(conversation("c"))])
    store.close()
    fine = deployment.verify("--conversation", "c")
    assert (fine.exit_code, fine.stderr) == (0, "nothing is missing, nothing is odd\n")
    mistyped = deployment.verify("--conversation", "c", "--conversation", "nosuch")
    assert isinstance(mistyped.exception, NotFoundError)
    assert "nosuch" in str(mistyped.exception)
    assert "nothing" not in mistyped.stderr
    log_is(monkeypatch, [Difference(Verdict.MISSING, "lost", b"", "the log makes it")])
    assert deployment.verify("--conversation", "lost").exit_code == 1, "the log has it, so it is found missing"
