"""A replay that ended in any way goes on without a loss or a double, or says why it cannot."""

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pytest
import typer
from typer.testing import CliRunner

from consumers.cli import replay
from consumers.cli.errors import NotFoundError
from consumers.cli.times import ago_ms, instant_ms
from consumers.errors import WorkerError
from consumers.replay import commands as judging
from consumers.replay import comparing
from consumers.replay import log as reading
from consumers.replay import run as running
from consumers.replay.commands import Account
from consumers.replay.pace import Pace
from consumers.replay.progress_file import alone_with
from consumers.replay.spans import Extent, Wish
from consumers.rows import ConversationRow, ConversationWrite, Parking
from consumers.settings import WorkerSettings
from consumers.stores.contract import TopicRecord
from consumers.stores.sqlite import SqliteStore
from schemas.codec import PLAIN, Codec
from schemas.records import NO_ID
from schemas.topics import EVENTS
from tests.contract.made import write
from tests.unit.consumers.world import event, send
from tests.unit.replay.test_generations import MadeLog, in_conversation

RECORDS = 30


class KilledError(Exception):
    """What stands for a process that is gone."""


@dataclass
class Deployment:
    """`context.obj`, and the log that a command finds."""

    folder: Path
    topic: str = "id"
    operators: tuple[str, ...] = ()
    log: MadeLog = field(default_factory=lambda: MadeLog(2))
    kills_after: int | None = None
    """How many batches are read before the process is gone."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def extents(self, _wish: Wish) -> list[Extent]:
        """Return what there is."""
        return [Extent(number, 0, end) for number, end in enumerate(self.log.ends(2))]

    def batches(self, spans: Any, size: int) -> Iterator[dict[int, list[Any]]]:
        """Yield records by partition, until the process is gone."""
        for number, batch in enumerate(self.log.batches(spans, size)):
            if number == self.kills_after:
                raise KilledError
            yield batch

    def worker_settings(self) -> WorkerSettings:
        """Return the workers' settings."""
        return WorkerSettings(topic_identity=self.topic, operators=self.operators)

    def kafka(self) -> dict[str, Any]:
        """Return the clients' settings."""
        return {}

    def codec(self) -> Codec:
        """Return the codec."""
        return PLAIN

    def open_store(self) -> SqliteStore:
        """Open the live store."""
        return SqliteStore.open(self.folder / "live.sqlite")

    def show(self, *_: object) -> None:
        """Show nothing."""

    def run(self, *arguments: str) -> tuple[int, str]:
        """Return how a replay ended, and what it said."""
        app = typer.Typer()
        app.callback()(lambda: None)
        replay.register(app)
        result = CliRunner().invoke(app, ["replay", *arguments], obj=self)
        error = result.exception
        if isinstance(error, NotFoundError):
            return 3, error.message
        if isinstance(error, WorkerError):
            return 2, f"{error.message} {error.hint}"
        if error is not None and not isinstance(error, SystemExit | KilledError):
            raise error
        return result.exit_code, result.stderr


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    made = Deployment(tmp_path)
    for number in range(RECORDS):
        made.log.append(in_conversation(send(number), f"c{number % 5}"))
    monkeypatch.setattr(reading, "Log", lambda *_: made)
    monkeypatch.setattr(reading, "committed", lambda *_: {})
    monkeypatch.setattr(running, "BATCH_RECORDS", 4)
    monkeypatch.setattr(running, "SAVE_INTERVAL_S", 0.0)
    return made


def json_lines(deployment: Deployment) -> list[str]:
    return ["--to-jsonl", str(deployment.folder / "lines"), "--state", str(deployment.folder / "state")]


def rebuilt(deployment: Deployment) -> list[str]:
    return [
        *("--into-sqlite", str(deployment.folder / "rebuilt"), "--no-compare"),
        *("--state", str(deployment.folder / "state")),
    ]


TARGETS = pytest.mark.parametrize("target", [json_lines, rebuilt])


@pytest.mark.parametrize("kills_after", [0, 1, 3, 6])
def test_killed_at_any_time_no_line_is_doubled_or_lost(deployment: Deployment, kills_after: int):
    arguments = json_lines(deployment)
    path = deployment.folder / "lines"
    deployment.kills_after = kills_after
    deployment.run(*arguments)
    with path.open("a") as lines:
        lines.write('{"offset": 3}\n{"off')  # what reached the file after the last save
    deployment.kills_after = None
    assert deployment.run(*arguments)[0] == 0
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({(each["partition"], each["offset"]) for each in found}) == len(found) == RECORDS


@TARGETS
def test_the_log_of_another_cluster_is_refused(deployment: Deployment, target: Callable[[Deployment], list[str]]):
    deployment.kills_after = 2
    deployment.run(*target(deployment))
    deployment.topic, deployment.kills_after = "another id", None
    code, told = deployment.run(*target(deployment))
    assert (code, "its topic is id, not another id" in told) == (2, True)


def test_another_kind_of_target_is_refused(deployment: Deployment):
    deployment.kills_after = 2
    deployment.run(*rebuilt(deployment))
    before = (deployment.folder / "rebuilt").read_bytes()
    path, state = deployment.folder / "rebuilt", deployment.folder / "state"
    code, told = deployment.run("--to-jsonl", str(path), "--state", str(state))
    assert (code, "its target is the SQLite file" in told) == (2, True)
    assert path.read_bytes() == before
    assert deployment.run("--state", str(state))[0] == 2
    assert not state.with_name("state.rows.sqlite").exists()


@TARGETS
def test_a_target_that_is_gone_is_not_gone_on_with(deployment: Deployment, target: Callable[[Deployment], list[str]]):
    deployment.kills_after = 3
    deployment.run(*target(deployment))
    Path(target(deployment)[1]).unlink()
    deployment.kills_after = None
    code, told = deployment.run(*target(deployment))
    assert (code, "are gone" in told) == (2, True)


def test_killed_before_anything_was_saved_it_goes_on(deployment: Deployment, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(running, "SAVE_INTERVAL_S", 1_000.0)
    deployment.kills_after = 3
    deployment.run(*rebuilt(deployment))
    deployment.kills_after = None
    assert deployment.run(*rebuilt(deployment))[0] == 0
    store = SqliteStore.open(deployment.folder / "rebuilt")
    assert len(list(store.all_messages())) == RECORDS
    store.close()
    (deployment.folder / "state").unlink()
    code, told = deployment.run(*rebuilt(deployment))
    assert (code, f"{deployment.folder / 'rebuilt'} is there already" in told) == (2, True)


def test_a_file_that_is_there_is_left_alone(deployment: Deployment):
    theirs = deployment.folder / "theirs"
    theirs.write_text("precious")
    for target in ("--into-sqlite", "--to-jsonl"):
        code, told = deployment.run(target, str(theirs))
        assert (code, str(theirs) in told, theirs.read_text()) == (2, True, "precious"), told


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--to-jsonl", "{folder}/nowhere/lines"), "nowhere/lines: No such file"),
        (("--state", "{folder}/nowhere/state"), "there is no folder"),
        (("--rate", "inf"), "is no number of events"),
        (("--to-jsonl", "{folder}/lines", "--execute"), "nothing is compared"),
        (("--from-offset", "9", "--to-offset", "9"), "the end is not behind the start"),
    ],
)
def test_what_cannot_be_done_is_told_with_its_cause(deployment: Deployment, arguments: tuple[str, ...], says: str):
    code, told = deployment.run(*(each.format(folder=deployment.folder) for each in arguments))
    assert (code, says in " ".join(told.split())) == (2, True), told


@pytest.mark.parametrize("target", ["--to-jsonl", "--into-sqlite"])
def test_the_state_is_not_kept_in_the_file_that_is_written(deployment: Deployment, target: str):
    path = deployment.folder / "lines"
    code, told = deployment.run(target, str(path), "--state", f"{deployment.folder}/./lines")
    assert (code, "name one of its own" in " ".join(told.replace("│", " ").split()), path.exists()) == (
        2,
        True,
        False,
    ), told


def test_a_damaged_state_file_is_told_apart(deployment: Deployment):
    state = deployment.folder / "state"
    state.write_text(json.dumps({"version": 4}))
    code, told = deployment.run("--state", str(state))
    assert (code, "is damaged" in told) == (2, True)


def test_a_start_before_1970_is_the_beginning():
    assert ago_ms("99999999999999999999d", "--since") == 0
    assert instant_ms("1969-12-31T23:59:59.999Z", "--from-datetime") == 0


def test_nothing_to_read_is_said(deployment: Deployment):
    code, told = deployment.run("--from-offset", "999", "--no-compare", "--into-sqlite", f"{deployment.folder}/rebuilt")
    assert (code, "the log holds nothing of what was asked for" in told) == (0, True)


def test_a_comparison_can_be_stopped(deployment: Deployment, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "committed", lambda *_: signal.raise_signal(signal.SIGINT) or {})
    code, told = deployment.run()
    assert (code, "not all rows were compared" in told) == (130, True), told


def test_the_comparison_has_a_bar_and_a_pace_of_its_own(deployment: Deployment, monkeypatch: pytest.MonkeyPatch):
    told: dict[str, list[tuple[int, int | None]]] = {}
    paces: list[float] = []

    @contextmanager
    def bar(what: str) -> Iterator[Callable[[int, int | None], None]]:
        told[what] = []
        yield lambda done, total: told[what].append((done, total))

    monkeypatch.setattr("consumers.cli.bar.progress_bar", bar)
    monkeypatch.setattr(comparing, "Pace", lambda rate, stopping: paces.append(rate) or Pace(0, stopping))
    code, _ = deployment.run("--rate", "1000000")
    assert (code, paces) == (1, [1_000_000.0])
    assert [(what, each[-1]) for what, each in told.items() if each] == [
        ("folding", (RECORDS, RECORDS)),
        ("comparing messages", (RECORDS, RECORDS)),
        ("comparing conversations", (5, 5)),
    ], "the live store of this deployment holds nothing"


def test_what_was_passed_over_is_not_read_again(deployment: Deployment):
    deployment.kills_after = 3
    deployment.run(*rebuilt(deployment), "--conversation", "nobody's")
    assert sum(json.loads((deployment.folder / "state").read_text())["positions"].values()) == 12
    deployment.kills_after = None
    summary = deployment.folder / "summary"
    deployment.run(*rebuilt(deployment), "--conversation", "nobody's", "--summary", str(summary))
    found = json.loads(summary.read_text())
    assert (found["folded"], found["records"]) == (0, RECORDS - 12)


@TARGETS
def test_a_replay_that_was_complete_says_so(deployment: Deployment, target: Callable[[Deployment], list[str]]):
    code, told = deployment.run(*target(deployment))
    assert (code, "was complete" in told) == (0, False)
    deployment.log.append(send(90))
    code, told = deployment.run(*target(deployment))
    assert (code, "was complete" in told, "name a new --state" in told) == (0, True, True)


def test_since_is_compared_as_it_was_typed(deployment: Deployment):
    deployment.kills_after = 2
    deployment.run(*json_lines(deployment), "--since", "2h")
    deployment.kills_after = None
    assert deployment.run(*json_lines(deployment), "--since", "3h")[0] == 2
    assert deployment.run(*json_lines(deployment), "--since", "2h")[0] == 0


def test_standard_output_cannot_be_gone_on_with(deployment: Deployment):
    code, told = deployment.run("--to-jsonl", "-", "--state", str(deployment.folder / "state"))
    assert (code, "name a file" in told) == (2, True)
    assert deployment.run("--to-jsonl", "-")[0] == 0


def test_a_wish_is_the_same_text_in_any_process_and_at_any_time():
    many = [f"c{number}" for number in range(50)]
    assert str(Wish(conversations=frozenset(many))) == f"conversations {sorted(many)}"
    wish = Wish(from_ms=1_000, since="2h", partitions=frozenset({3, 1}))
    assert str(wish) == str(replace(wish, from_ms=2_000)) == "since 2h, partitions [1, 3]"
    assert str(Wish(from_ms=1_000, to_offset=0)) == "from ms 1000, to offset 0"


def test_a_refused_command_is_not_forgotten_when_a_replay_goes_on(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    """Whoever has looked first, and mends with the same --state, is kept from it as in one go."""
    deployment.log.append(in_conversation(event("PARK", 99, "ops")._replace(message_id=NO_ID), "c0"))
    number, record = next((n, found[-1]) for n, found in deployment.log.records.items() if found[-1].key() == b"c0")
    place = (number, record.offset(), record.timestamp()[1])
    monkeypatch.setattr(judging, "account_of", lambda *_: Account(frozenset({place}), {0: 99, 1: 99}, 0))
    store = deployment.open_store()
    write(store, [], [ConversationWrite(ConversationRow("c0", parkings=(Parking((1, record.offset())),)))])
    arguments = ("--state", str(deployment.folder / "state"))
    for execute in ((), ("--execute",)):
        code, told = deployment.run(*arguments, *execute)
        assert (code, "may have taken a PARK by 'ops'" in told) == (2, True), told
        assert not list(store.all_messages())
    store.close()


def test_a_forged_command_keeps_nobody_from_mending_a_part_of_the_log(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
):
    """Its conversation was parked before, by who may: a part of the log is folded on that, as the live store has it."""
    deployment.operators = ("ops",)
    for kind, actor in (("PARK", "ops"), ("RELEASE", "ops"), ("PARK", "mallory")):
        deployment.log.append(in_conversation(event(kind, 99, actor)._replace(message_id=NO_ID), "c0"))
    last = in_conversation(send(90), "c0")
    deployment.log.append(last)
    number, forged = next((n, found[-2]) for n, found in deployment.log.records.items() if found[-1].key() == b"c0")
    place = (number, forged.offset(), forged.timestamp()[1])
    monkeypatch.setattr(judging, "account_of", lambda *_: Account(frozenset({place}), {0: 99, 1: 99}, 0))
    deployment.run("--into-sqlite", str(deployment.folder / "workers"), "--no-compare")
    (deployment.folder / "workers").replace(deployment.folder / "live.sqlite")
    store = deployment.open_store()
    assert [len(row.parkings) for row in store.all_conversations() if row.conversation_id == "c0"] == [1]
    with store._transaction() as connection:
        connection.execute("DELETE FROM messages WHERE message_id = ?", (last.message_id,))
    code, told = deployment.run("--from-offset", "1", "--execute")
    assert (code, "1 differ; 1 changed" in told) == (0, True), told
    assert store.message(("c0", last.message_id)) is not None
    store.close()


@TARGETS
def test_two_at_a_time_do_not_share_a_state_file(deployment: Deployment, target: Callable[[Deployment], list[str]]):
    state = deployment.folder / "state"
    with alone_with(state):
        code, told = deployment.run(*target(deployment))
        assert (code, f"another replay is running with {state}" in told) == (2, True), told
        assert not Path(target(deployment)[1]).exists()
    assert deployment.run(*target(deployment))[0] == 0


def summary_of(deployment: Deployment, *arguments: str) -> dict[str, Any]:
    path = deployment.folder / "summary"
    deployment.run(*arguments, "--summary", str(path))
    return json.loads(path.read_text())


def test_programs_are_told_what_it_came_to(deployment: Deployment):
    found = summary_of(deployment)
    assert (found["complete"], found["records"], found["folded"]) == (True, RECORDS, RECORDS)
    assert (found["checked"], found["differing"], found["changed"]) == (RECORDS + 5, RECORDS + 5, 0)
    found = summary_of(deployment, "--execute")
    assert (found["differing"], found["changed"]) == (RECORDS + 5, RECORDS + 5)
    found = summary_of(deployment)
    assert (found["checked"], found["differing"], found["changed"]) == (RECORDS + 5, 0, 0)
    found = summary_of(deployment, "--to-jsonl", str(deployment.folder / "lines"))
    assert (found["complete"], found["lines"], found["checked"]) == (True, RECORDS, None)


def test_a_summary_of_before_is_not_taken_for_that_of_a_replay_that_failed(deployment: Deployment):
    assert summary_of(deployment)["complete"]
    deployment.kills_after = 1
    found = summary_of(deployment)
    assert (found["complete"], found["records"]) == (False, None)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--summary", "-"), "standard output is for rows"),
        (("--summary", "{folder}/one", "--state", "{folder}/one"), "name one of its own"),
        (("--summary", "{folder}/s.rows.sqlite", "--state", "{folder}/s"), "name one of its own"),
        (("--summary", "{folder}/s.lock", "--state", "{folder}/s"), "name one of its own"),
        (("--into-keyspace", "bad name"), "up to 48 of A-Z, a-z, 0-9 and _"),
        (("--into-keyspace", "k" * 49), "cannot be a keyspace"),
    ],
)
def test_names_that_cannot_be_are_refused(deployment: Deployment, arguments: tuple[str, ...], says: str):
    code, told = deployment.run(*(each.format(folder=deployment.folder) for each in arguments))
    assert (code, says in " ".join(told.replace("│", " ").split())) == (2, True), told


@pytest.mark.parametrize("target", [json_lines, rebuilt, lambda _: ["--execute"]])
def test_a_conversation_that_is_nowhere_is_not_found(deployment: Deployment, target: Callable[[Deployment], list[str]]):
    code, told = deployment.run(*target(deployment), "--conversation", "nosuch")
    assert (code, "nothing of a conversation nosuch" in told) == (3, True), told
    code, told = deployment.run("--conversation", "c1", "--conversation", "nosuch", "--execute")
    assert (code, "nothing of a conversation nosuch" in told) == (3, True), told


def recorded(path: Path) -> TopicRecord | None:
    store = SqliteStore.open(path)
    try:
        return store.topic_record(EVENTS)
    finally:
        store.close()


def test_a_rebuilt_store_is_recorded_as_the_live_one_unless_it_is_a_part(deployment: Deployment):
    whole, part, unknown = (deployment.folder / name for name in ("whole", "part", "unknown"))
    assert deployment.run("--into-sqlite", str(unknown), "--no-compare")[0] == 0
    assert recorded(unknown) is None
    live, record = SqliteStore.open(deployment.folder / "live.sqlite"), TopicRecord(EVENTS, "id", 2, 3)
    assert live.record_topic(record, None)
    live.close()
    code, told = deployment.run("--into-sqlite", str(whole), "--no-compare")
    assert (code, "if they have not worked since" in told) == (0, True)
    assert recorded(whole) == record
    assert deployment.run("--into-sqlite", str(part), "--no-compare", "--conversation", "c1")[0] == 0
    assert recorded(part) is None
