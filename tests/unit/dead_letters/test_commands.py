"""What the commands on dead letters show and refuse, without a broker."""

# ruff: noqa: D102 - what stands in for the deployment is named after it

from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

import consumers.dead_letters_redrive as redrive
from consumers.cli import dead_letters
from consumers.cli.errors import NotFoundError
from consumers.dead_letters_park import OperatorError
from consumers.settings import WorkerSettings
from consumers.stores.sqlite import SqliteStore
from schemas.codec import PLAIN
from schemas.records import DeadLetter
from schemas.topics import EVENTS

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


class Deployment:
    """`context.obj` for letters that are in no topic."""

    def __init__(self, path: "Path", monkeypatch: pytest.MonkeyPatch, letters: list[DeadLetter]) -> None:
        self._path = path
        self.rows: list[Any] = []
        monkeypatch.setattr(redrive.Letters, "new", lambda _: iter(letters))
        monkeypatch.setattr(redrive.Letters, "partitions", lambda _: frozenset({0, 1, 2}))

    def worker_settings(self) -> WorkerSettings:
        return WorkerSettings(operators=["me"])

    def kafka(self) -> dict[str, Any]:
        return {}

    def codec(self) -> Any:
        return PLAIN

    def open_store(self) -> SqliteStore:
        return SqliteStore.open(self._path / "store.sqlite")

    def show(self, rows: Any, *_: object) -> None:
        self.rows = list(rows)

    def run(self, *arguments: str) -> "Result":
        app = typer.Typer()
        app.callback()(lambda: None)
        dead_letters.register(app)
        return CliRunner().invoke(app, ["dead-letters", *arguments], obj=self)


def letter(partition: int, offset: int, failed_at: int, headers: Any = ()) -> DeadLetter:
    return DeadLetter(EVENTS, partition, offset, 1_000, b"c", b"bad", headers, "UNDECODABLE", "", 1, failed_at, "n", 1)


def test_a_list_is_oldest_first_whatever_the_partition(tmp_path, monkeypatch):
    deployment = Deployment(tmp_path, monkeypatch, [letter(0, 9, 7_000), letter(1, 3, 5_000), letter(2, 1, 6_000)])
    assert deployment.run("list", "--limit", "2").exit_code == 0
    assert [each["letter"] for each in deployment.rows] == ["1:3", "2:1"]


@pytest.mark.parametrize("command", ["park", "release"])
@pytest.mark.parametrize("conversation", ["", "x" * 2_000, "a\x1b[2J"])
def test_an_unusable_id_never_comes_into_the_log(tmp_path, monkeypatch, command, conversation):
    ran = Deployment(tmp_path, monkeypatch, []).run(command, conversation, "--operator", "me", "--execute")
    assert (ran.exit_code, "CONVERSATION" in ran.stderr) == (2, True)


@pytest.mark.parametrize("command", ["park", "release"])
def test_who_is_no_operator_by_the_settings_is_told_so_as_of_other_wrong_settings(tmp_path, monkeypatch, command):
    ran = Deployment(tmp_path, monkeypatch, []).run(command, "c", "--operator", "you")
    assert isinstance(ran.exception, OperatorError)
    assert ran.exception.exit_code == 2


@pytest.mark.parametrize("command", ["list", "redrive", "discard"])
def test_reasons_and_partitions_that_are_not_there_are_refused(tmp_path, monkeypatch, command):
    deployment = Deployment(tmp_path, monkeypatch, [letter(1, 3, 5_000)])
    ran = deployment.run(command, "--reason", "typo")
    assert (ran.exit_code, "UNDECODABLE" in ran.stderr) == (2, True)
    assert deployment.run(command, "--reason", "undecodable", "--partition", "2").exit_code == 0
    ran = deployment.run(command, "--partition", "77")
    assert isinstance(ran.exception, NotFoundError)
    assert str(ran.exception) == "the events topic has no partition 77"


@pytest.mark.parametrize("command", ["list", "redrive", "discard"])
def test_a_start_that_is_given_twice_is_refused(tmp_path, monkeypatch, command):
    deployment = Deployment(tmp_path, monkeypatch, [letter(1, 3, 5_000)])
    since, from_datetime = ("--since", "1h"), ("--from-datetime", "1970-01-01T00:00:00Z")
    ran = deployment.run(command, *since, *from_datetime)
    assert (ran.exit_code, "--since" in ran.stderr, "given twice" in ran.stderr) == (2, True, True)
    assert deployment.rows == []
    assert deployment.run(command, *since).exit_code == 0
    assert deployment.run(command, *from_datetime).exit_code == 0
    assert [each["letter"] for each in deployment.rows] == ["1:3"]
