"""`twotick history` and `twotick migrate` as people run them: rows, exit codes, nothing done without `--execute`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from consumers.cli import history, migrate
from consumers.cli.errors import NotFoundError
from consumers.migrate import ObstacleError
from consumers.migrate_steps import Step, StepKind
from consumers.rows import ConversationWrite
from consumers.stores.sqlite import SqliteStore
from schemas.identity import direct_conversation
from tests.contract.made import T, conversation, id_of, made, moved, write

CHANGE = Step(StepKind.CHANGE, "topic t", "create it")
DIFFERENCE = Step(StepKind.DIFFERENCE, "topic t", "it differs", "change it")
OBSTACLE = Step(StepKind.OBSTACLE, "topic t", "it is in the way", "move it")


class Target:
    """A target with steps of the test's choice."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.applied = False

    def plan(self) -> Sequence[Step]:
        """Return them."""
        return self.steps

    def apply(self) -> Iterator[Step]:
        """Note that it was asked to."""
        self.applied = True
        yield from self.steps


class Factory:
    """A deployment of one SQLite file and the targets given."""

    def __init__(self, folder: Path, *targets: Target) -> None:
        self._path = folder / "store.sqlite"
        self._targets = targets
        self.shown: list[Mapping[str, object]] = []

    def migration_targets(self) -> Sequence[Target]:
        """Return the targets."""
        return self._targets

    def open_store(self) -> SqliteStore:
        """Open the file."""
        return SqliteStore.open(self._path)

    def store_name(self) -> str:
        """Name it."""
        return "the test's store"

    def show(self, rows, columns, form) -> None:
        """Keep what would be printed."""
        self.shown += list(rows)
        assert all(column in row for row in self.shown for column in columns)


def run(factory: Factory, *arguments: str):
    app = typer.Typer()
    app.callback()(lambda: None)
    history.register(app)
    migrate.register(app)
    return CliRunner().invoke(app, list(arguments), obj=factory)


def test_history_shows_a_conversation_newest_first(tmp_path: Path) -> None:
    factory = Factory(tmp_path)
    store = factory.open_store()
    write(store, [made("c", number) for number in range(3)], [ConversationWrite(conversation("c"))])
    write(store, [moved("c", 1, 2, "READ")])
    store.close()
    assert run(factory, "history", "c", "--limit", "2").exit_code == 0
    assert [row["message_id"].replace("-", "") for row in factory.shown] == [id_of(2).hex(), id_of(1).hex()]
    row = factory.shown[1]
    assert (row["state"], row["version"], row["body"]) == ("read", 2, "hello")
    assert row["receipts"] == {"ben": "read", "cleo": "sent"}
    assert row["sent_at"] == "2027-01-15T08:00:00.000+00:00"
    assert T == 1_800_000_000_000


def test_history_of_an_unknown_conversation_is_not_found(tmp_path: Path) -> None:
    result = run(Factory(tmp_path), "history", "nobody")
    assert isinstance(result.exception, NotFoundError)
    assert result.exception.exit_code == 3
    assert str(result.exception) == "the test's store has no message of conversation nobody"
    assert f": {direct_conversation('ann@example.org', 'zoe')}." in result.exception.hint


def test_without_execute_steps_are_shown_and_nothing_is_done(tmp_path: Path) -> None:
    target = Target(CHANGE, DIFFERENCE)
    factory = Factory(tmp_path, target)
    result = run(factory, "migrate")
    assert (result.exit_code, target.applied) == (0, False)
    assert [row["kind"] for row in factory.shown] == ["change", "difference"]
    assert "--execute" in result.stderr


def test_with_execute_steps_are_done_and_what_is_left_is_told(tmp_path: Path) -> None:
    target = Target(CHANGE)
    assert run(Factory(tmp_path, target), "migrate", "--execute").exit_code == 0
    assert target.applied
    assert run(Factory(tmp_path, Target(CHANGE, DIFFERENCE)), "migrate", "--execute").exit_code == 4
    assert run(Factory(tmp_path), "migrate", "--execute").stderr == "nothing to do\n"


@pytest.mark.parametrize("arguments", [("migrate",), ("migrate", "--execute")])
def test_an_obstacle_stops_everything(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    first, second = Target(CHANGE), Target(OBSTACLE)
    result = run(Factory(tmp_path, first, second), *arguments)
    assert isinstance(result.exception, ObstacleError)
    assert result.exception.hint == "move it"
    assert not first.applied
