"""`locks`, `config get|set|unset|history`, `owners`, `stats` as people run them: shown first, done with --execute."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from consumers.cli import hot, locks, owners, stats
from consumers.cli.errors import NotFoundError
from consumers.conflicts import ConflictKind
from consumers.hot.keys import KEYS, HotValueError
from consumers.locks.contract import LockLostError
from consumers.locks.locking import TableLocks
from consumers.settings import WorkerSettings
from consumers.statistics.contract import COUNTS, Hot, NodeReport, Share
from consumers.stores.sqlite import SqliteStore

KEY = "worker.batch_records_max"


class Factory:
    """A deployment of one SQLite file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store.sqlite"
        self.store = self.open_store()
        self.shown: list[Mapping[str, object]] = []

    def open_store(self) -> SqliteStore:
        """Open the file."""
        return SqliteStore.open(self._path)

    def worker_settings(self) -> WorkerSettings:
        """Return this machine's."""
        return WorkerSettings(batch_records_max=77)

    def show(self, rows, columns, form) -> None:
        """Keep what would be printed."""
        self.shown = list(rows)

    def run(self, *arguments: str):
        """Run a command."""
        self.shown = []
        app = typer.Typer()
        app.callback()(lambda: None)
        config = typer.Typer()
        hot.add_to(config)
        app.add_typer(config, name="config")
        for room in (locks, owners, stats):
            room.register(app)
        return CliRunner().invoke(app, list(arguments), obj=self)


@pytest.fixture
def factory(tmp_path: Path) -> Iterator[Factory]:
    made = Factory(tmp_path)
    yield made
    made.store.close()


def test_locks_that_are_held_are_listed(factory: Factory) -> None:
    table = TableLocks(factory.store.shared().locks, "ann")
    table.acquire("held", ttl_s=60)
    table.release(table.acquire("free", ttl_s=60))
    assert factory.run("locks", "list").exit_code == 0
    assert [(row["key"], row["owner"], row["token"], row["state"]) for row in factory.shown] == [
        ("held", "ann", 1, "held")
    ]
    factory.run("locks", "list", "--all")
    assert [row["state"] for row in factory.shown] == ["free", "held"]


def test_breaking_a_lock_is_shown_then_done(factory: Factory) -> None:
    table = TableLocks(factory.store.shared().locks, "ann")
    handle = table.acquire("k", ttl_s=600)
    shown = factory.run("locks", "break", "k")
    assert (shown.exit_code, factory.shown[0]["owner"]) == (0, "ann")
    assert "--execute" in shown.stderr
    assert table.is_locked("k")
    other = factory.run("locks", "break", "k", "--token", "9", "--execute").exception
    assert isinstance(other, NotFoundError)
    assert "held with token 1, not 9" in other.message
    assert factory.run("locks", "break", "k", "--execute").exit_code == 0
    assert not table.is_locked("k")
    with pytest.raises(LockLostError):
        table.renew(handle)
    assert isinstance(factory.run("locks", "break", "k", "--execute").exception, NotFoundError)


def test_a_hot_setting_is_shown_set_and_unset(factory: Factory) -> None:
    assert factory.run("config", "set", KEY, "500").exit_code == 0
    assert factory.store.shared().config.read().version == 0
    done = factory.run("config", "set", KEY, "500", "--execute")
    assert "version 1" in done.stderr
    assert (factory.shown[0]["before"], factory.shown[0]["after"]) == ("(as each worker's own settings say)", "500")
    factory.run("config", "get", KEY)
    assert (factory.shown[0]["value"], factory.shown[0]["set_by"]) == (500, "hot configuration")
    assert "nothing to do" in factory.run("config", "set", KEY, "500", "--execute").stderr
    assert factory.run("config", "unset", KEY, "--execute").exit_code == 0
    factory.run("config", "get")
    assert {row["setting"]: row["value"] for row in factory.shown}[KEY] == 77
    assert [row["setting"] for row in factory.shown] == list(KEYS)
    factory.run("config", "history")
    assert [(row["version"], row["value"]) for row in factory.shown] == [
        (2, "(as each worker's own settings say)"),
        (1, "500"),
    ]


@pytest.mark.parametrize(
    "arguments", [("get", "worker.group"), ("set", "worker.group", "x"), ("set", KEY, "0"), ("unset", "worker.group")]
)
def test_what_is_not_hot_is_a_usage_error(factory: Factory, arguments: tuple[str, ...]) -> None:
    result = factory.run("config", *arguments)
    assert isinstance(result.exception, HotValueError)
    assert result.exception.exit_code == 2


def put_share(factory: Factory, partition: int, rate: float, *, epoch: int = 1, node: str = "n-0") -> None:
    counts = dict.fromkeys(COUNTS, 10)
    now_ms = time.time_ns() // 1_000_000
    share = Share(partition, epoch, 1, 0, node, now_ms, counts, 5, 3, 1.5, rate, 2, (Hot("c1", rate, 0.0),))
    factory.store.shared().statistics.put(share, None)


def test_owners_shows_lease_lag_load_and_the_hottest(factory: Factory) -> None:
    for partition in range(3):
        factory.store.claim_lease(partition, "n-0")
    put_share(factory, 0, 90)
    put_share(factory, 1, 10)
    # Written by an owner before the present one: it says nothing about now.
    factory.store.claim_lease(1, "n-1")
    result = factory.run("owners")
    assert result.exit_code == 0
    first, second, third = factory.shown
    assert (first["partition"], first["node"], first["epoch"], first["load"]) == (0, "n-0", 1, "90%")
    assert (first["lag_records"], first["lag_s"], first["hottest"]) == (3, 1.5, ["c1 90.0/s"])
    assert (second["node"], second["epoch"], "lag" in second) == ("n-1", 2, False)
    assert "lag" not in third
    assert "partition 0 takes 90% of the load" in result.stderr


def test_stats_sums_what_is_there_and_says_who_did_not_answer(factory: Factory) -> None:
    now_ms = time.time_ns() // 1_000_000
    factory.store.claim_lease(0, "n-0")
    put_share(factory, 0, 4)
    put_share(factory, 1, 6, node="n-1")
    table = factory.store.shared().statistics
    every = {kind.value: 1 for kind in ConflictKind}
    table.put_node(NodeReport("n-2", now_ms, "running", 1, 4, every))
    table.put_node(NodeReport("n-0", now_ms, "running", 1, 3, {"lease": 2, "lock": 0}))
    table.put_node(NodeReport("n-1", now_ms, "running", 1, 4, {"lease": 1}))
    result = factory.run("stats", "--wait-s", "0")
    assert result.exit_code == 4
    assert "partitions 0" in result.stderr
    rows = {row["node"]: row for row in factory.shown}
    assert list(rows) == ["all", "n-0", "n-1", "n-2"]
    assert rows["n-2"]["conflicts"] == sorted(f"{kind} 1" for kind in ConflictKind)
    assert (rows["all"]["events"], rows["all"]["events_per_s"], rows["all"]["conflicts"][1]) == (20, 10.0, "lease 4")
    assert (rows["n-0"]["events"], rows["n-0"]["conflicts"], rows["n-0"]["config_version"]) == (10, ["lease 2"], 3)
    assert rows["all"]["config_version"] == [3, 4]
    assert rows["all"]["snapshot"] == 1
    assert not TableLocks(factory.store.shared().locks, "x").is_locked("statistics")


def test_stats_tells_who_is_gone_without_a_word_or_stopped(factory: Factory) -> None:
    """A killed worker was running, by its last report, for seven days."""
    now_ms = time.time_ns() // 1_000_000
    table = factory.store.shared().statistics
    for node, state, age_ms in [("n-0", "running", 0), ("n-1", "running", 90_000), ("n-2", "stopped", 90_000)]:
        version = 4 if node == "n-0" else 3
        table.put_node(NodeReport(node, now_ms - age_ms, state, 1, version, {"lock": 1}, 5.0))
    assert factory.run("stats", "--wait-s", "0").exit_code == 0
    rows = {row["node"]: row for row in factory.shown}
    assert [rows[node]["state"] for node in ("n-0", "n-1", "n-2")] == ["running", "silent", "stopped"]
    assert rows["n-1"]["seen_s_ago"] >= 90
    assert (rows["all"]["config_version"], rows["all"]["conflicts_per_minute"]) == (4, 5.0)
    assert (rows["n-1"]["config_version"], rows["all"]["conflicts"]) == (3, ["lock 3"])


def test_owners_warns_of_one_that_writes_nothing(factory: Factory) -> None:
    factory.store.claim_lease(0, "n-0")
    factory.store.claim_lease(1, "n-1")
    now_ms = time.time_ns() // 1_000_000
    share = Share(0, 1, 1, 0, "n-0", now_ms - 90_000, dict.fromkeys(COUNTS, 10))
    factory.store.shared().statistics.put(share, None)
    assert "n-0 has written nothing for long; it owns 0\n" in factory.run("owners").stderr
    assert "n-1" not in factory.run("owners").stderr


@pytest.mark.parametrize(
    "arguments",
    [("stats", "--wait-s", "inf"), ("stats", "--wait-s", "1e30"), ("config", "history", "--limit", "9" * 20)],
)
def test_numbers_beyond_all_use_are_usage_errors(factory: Factory, arguments: tuple[str, ...]) -> None:
    assert factory.run(*arguments).exit_code == 2
