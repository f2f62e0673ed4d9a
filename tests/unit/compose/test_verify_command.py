"""`twotick verify`: what it prints and what it ends with, whatever becomes of the log."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from compose import output
from compose.commands import verify
from compose.errors import NotFoundError
from consumers.cli.replay_job import ReplayJob
from consumers.errors import StoreUnavailableError
from consumers.replay.compare import ComparisonResult
from consumers.replay.comparing import Difference
from consumers.rows import ConversationWrite
from consumers.settings import WorkerSettings
from consumers.stores.sqlite import SqliteStore
from schemas.codec import PLAIN, Codec
from schemas.identity import uuid7
from schemas.records import Event
from tests.contract.made import conversation, made, write
from tests.unit.producers.world import START_MS, World


class Deployment:
    """A store of its own, and a log that is as a test says."""

    show = staticmethod(output.show)

    def __init__(self, folder: Path) -> None:
        self.path = folder / "store.sqlite"
        self.outbox = folder / "alice.sqlite"

        self.opened = 0

    def open_store(self) -> SqliteStore:
        """Open the live store."""
        self.opened += 1
        return SqliteStore.open(self.path)

    def worker_settings(self) -> WorkerSettings:
        """Return the workers' settings."""
        return WorkerSettings()

    def codec(self) -> Codec:
        """Return the codec."""
        return PLAIN

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


def log_is(
    monkeypatch: pytest.MonkeyPatch, found: Sequence[Difference] | Exception = (), events: Sequence[Event] = ()
) -> None:
    def rebuild(job: ReplayJob, *_places: object, **_options: object) -> Sequence[Difference]:
        intake = job._intake()
        for number, event in enumerate(events):
            assert intake.admit(number, START_MS, event.conversation_id.encode(), PLAIN.encode(event)).event == event
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(ReplayJob, "rebuild", rebuild)


def test_what_the_outboxes_show_is_printed_though_the_log_cannot_be_read(deployment, monkeypatch):
    log_is(monkeypatch, StoreUnavailableError("nobody answers"))
    done = deployment.verify("--outbox", str(deployment.outbox), "--output", "json")
    assert isinstance(done.exception, StoreUnavailableError), "the command line makes an exit code of it"
    assert {row["kind"] for row in json.loads(done.stdout)} == {"lost", "stuck"}


@pytest.mark.parametrize("option", ["--rate", "--grace"])
def test_what_has_no_end_is_wrong_usage(deployment, option):
    done = deployment.verify("--outbox", str(deployment.outbox), option, "inf")
    assert (done.exit_code, "inf is no number" in done.stderr) == (2, True), done.exception


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
    log_is(monkeypatch, [Difference(ComparisonResult.MISSING, "lost", b"", "the log makes it")])
    assert deployment.verify("--conversation", "lost").exit_code == 1, "the log has it, so it is found missing"


def test_the_store_is_opened_once(deployment, monkeypatch):
    asked: list[object] = []

    def rebuild(_job: ReplayJob, *_places: object, store: object, **_options: object) -> Sequence[Difference]:
        asked.append(store)
        return ()

    monkeypatch.setattr(ReplayJob, "rebuild", rebuild)
    store = SqliteStore.open(deployment.path)
    write(store, [made("c", 1)], [ConversationWrite(conversation("c"))])
    store.close()
    assert deployment.verify("--conversation", "c").exit_code == 0
    assert (deployment.opened, len(asked)) == (1, 1)
    assert isinstance(asked[0], SqliteStore)
    deployment.verify("--conversation", "c", "--outbox", str(deployment.outbox))
    assert deployment.opened == 2


@pytest.fixture
def received(tmp_path: Path) -> Iterator[tuple[Deployment, World, World]]:
    """Give a deployment of which alice's phone has got bob's message, and her laptop was off."""
    deployed = Deployment(tmp_path)
    phone, laptop = World(tmp_path / "phone.sqlite"), World(tmp_path / "laptop.sqlite")
    bob = World(tmp_path / "bob.sqlite", user="bob")
    delivery = phone.delivery(1)._replace(message_id=bob.send(to="alice")[0].message_id)
    phone.apply(delivery)
    with bob.database.transaction() as connection:
        connection.execute("UPDATE messages SET state = 'DELIVERED'")
    bob.database.close()
    store = deployed.open_store()
    stored = made(delivery.conversation_id, 1, body=delivery.body)
    row = stored.row._replace(
        message_id=delivery.message_id, sender="bob", recipients=("alice",), receipts=("DELIVERED",), state="DELIVERED"
    )
    write(store, [stored._replace(row=row, transitions=(stored.transitions[0]._replace(state="DELIVERED", at=1_000),))])
    store.close()
    yield deployed, phone, laptop
    for each in (phone, laptop):
        each.database.close()


def receipts_of(world: World) -> list[Event]:
    """Return the receipts that an outbox has handed over, and let them be answered."""
    with world.database.transaction() as connection:
        found = connection.execute("SELECT payload FROM events").fetchall()
        connection.execute("DELETE FROM queue")
        connection.execute("DELETE FROM events")
    return [PLAIN.decode_as(Event, payload) for (payload,) in found]


def test_a_device_that_was_off_has_lost_nothing(received, monkeypatch):
    deployed, phone, laptop = received
    sender = str(laptop.path.with_name("bob.sqlite"))
    log_is(monkeypatch, events=receipts_of(phone))
    for arguments in (["--grace", "0"], ["--no-log"]):
        done = deployed.verify("--outbox", str(laptop.path), "--outbox", sender, *arguments)
        assert (done.exit_code, done.stdout) == (0, "")
        assert "1 messages have arrived and are in none of the outboxes named" in done.stderr
    both = deployed.verify("--outbox", str(laptop.path), "--outbox", str(phone.path), "--outbox", sender)
    assert (both.exit_code, "have arrived" in both.stderr) == (0, False)


def test_what_a_device_had_and_has_no_more_is_lost(received, monkeypatch):
    deployed, phone, laptop = received
    named = ["--outbox", str(laptop.path), "--outbox", str(phone.path), "--grace", "0", "--output", "json"]
    with phone.database.transaction() as connection:
        connection.execute("DELETE FROM deliveries")
        connection.execute("UPDATE sqlite_sequence SET seq = 0 WHERE name = 'deliveries'")
    done = deployed.verify(*named, "--no-log")
    assert [row["kind"] for row in json.loads(done.stdout)] == ["lost"], "the receipt is still in the outbox"
    events = receipts_of(phone)
    assert deployed.verify(*named, "--no-log").exit_code == 0, "and only the log has it now"
    log_is(monkeypatch, events=[event._replace(event_id=uuid7(1_000, 1)) for event in events])
    done = deployed.verify(*named)
    (lost,) = json.loads(done.stdout)
    assert (done.exit_code, lost["kind"], lost["conversation_id"]) == (1, "lost", events[0].conversation_id)
    assert "have arrived" not in done.stderr
