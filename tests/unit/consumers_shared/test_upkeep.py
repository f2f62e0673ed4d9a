"""What a worker does beside its loop, turn by turn on a SQLite store: configuration, shares, snapshots, alerts."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from consumers.alerts import post
from consumers.conflicts import ConflictKind
from consumers.counters import Counters
from consumers.errors import StoreUnavailableError
from consumers.hot.changing import execute
from consumers.locks.locking import TableLocks, holding
from consumers.rows import Owner
from consumers.settings import WorkerSettings
from consumers.statistics.contract import COUNTS, Hot
from consumers.statistics.observed import Observation, Observed
from consumers.statistics.summing import LOCK, snapshot
from consumers.stores.shared import Shared
from consumers.stores.sqlite import SqliteStore
from consumers.upkeep import Upkeep

NOW_MS = 1_800_000_000_000


class World:
    """One store, two workers' upkeep, and a clock."""

    def __init__(self, path: Path) -> None:
        self.store = SqliteStore.open(path)
        self.shared = self.store.shared()
        self.now = 0.0
        self.told: list[dict] = []

    def upkeep(self, node: str, shared: Shared | None = None, **settings) -> Upkeep:
        """Return a worker's upkeep, not started."""
        made = Upkeep(
            shared or self.shared,
            WorkerSettings(alert_webhook="http://alerts.test/", **settings),
            node=node,
            partitions=8,
            tell=lambda url, body: self.told.append({"url": url, **body}),
            now_ms=lambda: NOW_MS + int(self.now * 1000),
            monotonic=lambda: self.now,
        )
        made.bind(Counters())
        return made

    def set(self, key: str, value: str) -> None:
        """Change the hot configuration."""
        execute(TableLocks(self.shared.locks, "ann"), self.shared.config, key, value, who="ann")


def seen(at: int, *partitions: int, epoch: int = 1, node: str = "a", rate: float = 1.0, events: int = 5) -> Observation:
    counts = dict.fromkeys(COUNTS, events)
    hot = (Hot("c", rate, 0.0),)
    observed = {n: Observed(n, Owner(epoch, node), counts, 9, 2, 0.5, 1, rate, hot) for n in partitions}
    return Observation(at, "running", observed)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "store.sqlite")
    yield made
    made.store.close()


def test_a_change_is_taken_up_by_every_worker_in_its_next_turn(world: World) -> None:
    workers = [world.upkeep("a"), world.upkeep("b")]
    for each in workers:
        each.turn()
    world.set("worker.batch_records_max", "17")
    assert [each.config.version for each in workers] == [0, 0]
    for each in workers:
        world.now += 20
        each.turn()
        assert (each.config.version, each.settings.batch_records_max) == (1, 17)
    assert {report.node: report.config_version for report in world.shared.statistics.nodes()} == {"a": 1, "b": 1}


def test_shares_go_on_where_the_owner_before_left_off(world: World) -> None:
    first, second = world.upkeep("a"), world.upkeep("b")
    first.observe(seen(1, 3, 4, events=5))
    first.turn()
    second.observe(seen(2, 3, epoch=2, node="b", events=7))
    second.turn()
    shares = {share.partition: share for share in world.shared.statistics.shares(serially=True)}
    assert (shares[3].counts["applied"], shares[3].node, shares[3].epoch) == (12, "b", 2)
    assert shares[4].counts["applied"] == 5


def test_a_fenced_owners_share_changes_nothing_and_counts_once(world: World) -> None:
    old, new = world.upkeep("a"), world.upkeep("b")
    for each, epoch in ((old, 1), (new, 2)):
        each.observe(seen(epoch, 3, epoch=epoch, node="ab"[epoch - 1]))
        each.turn()
    standing = world.shared.statistics.share(3)
    for _ in range(3):
        world.now += 20
        old.observe(seen(3, 3, events=99))
        old.turn()
    assert world.shared.statistics.share(3) == standing
    assert old.counters.conflicts_by_kind["lease"] == 1


def test_what_was_seen_last_of_a_partition_that_left_is_written(world: World) -> None:
    worker = world.upkeep("a")
    worker.observe(seen(1, 3, events=5))
    worker.turn()
    worker.observe(seen(2, 3, events=8))
    worker.observe(seen(3))
    world.now += 20
    worker.turn()
    share = world.shared.statistics.share(3)
    assert share is not None
    assert share.counts["events"] == 8


def test_a_snapshot_is_of_after_it_was_asked_for(world: World) -> None:
    workers = {"a": world.upkeep("a"), "b": world.upkeep("b")}
    for node, partition in (("a", 1), ("b", 2)):
        workers[node].observe(seen(1, partition, node=node, events=5))
        workers[node].turn()

    def go_on(_seconds: float) -> None:
        """Let the workers do a turn each: they see that somebody asks, look at themselves, and write."""
        world.now += 0.2
        for node, partition in (("a", 1), ("b", 2)):
            workers[node].turn()
            if workers[node].wants_observation:
                workers[node].observe(seen(2, partition, node=node, events=50))

    locks = TableLocks(world.shared.locks, "cli")
    found = snapshot(locks, world.shared.statistics, [1, 2], wait_s=5, sleep=go_on, monotonic=lambda: world.now)
    assert (found.total("events"), list(found.missing)) == (100, [])
    assert all(share.snapshot == found.token for share in found.shares)
    assert found.of_node("b").total("events") == 50
    assert not locks.is_locked(LOCK)


def test_who_does_not_answer_is_missing_and_told(world: World) -> None:
    worker = world.upkeep("a")
    worker.observe(seen(1, 1))
    worker.turn()

    def wait(seconds: float) -> None:
        world.now += seconds

    locks = TableLocks(world.shared.locks, "cli")
    found = snapshot(locks, world.shared.statistics, [1, 2], wait_s=1, sleep=wait, monotonic=lambda: world.now)
    assert list(found.missing) == [1, 2]
    assert found.total("events") == 5


def test_many_conflicts_are_told_once(world: World) -> None:
    worker = world.upkeep("a", conflicts_per_minute_max=3)
    worker.turn()
    worker.counters.conflict(ConflictKind.LOCK, 4)
    for _ in range(3):
        world.now += 1
        worker.turn()
    assert [(each["url"], each["by_kind"], each["node"]) for each in world.told] == [
        ("http://alerts.test/", {"lock": 4}, "a")
    ]


def test_the_limit_is_hot(world: World) -> None:
    world.set("worker.conflicts_per_minute_max", "1")
    worker = world.upkeep("a")
    worker.turn()
    worker.counters.conflict(ConflictKind.LOCK, 2)
    world.now += 1
    worker.turn()
    assert len(world.told) == 1


def test_a_partition_with_most_of_the_load_is_warned_about_once(world: World, caplog) -> None:
    busy, idle = world.upkeep("a"), world.upkeep("b")
    for _ in range(3):
        world.now += 20
        at = NOW_MS + int(world.now * 1000)
        idle.observe(seen(at, 1, node="b", rate=5))
        idle.turn()
        busy.observe(seen(at, 2, rate=95))
        busy.turn()
    warnings = [record for record in caplog.records if "much of the load" in record.message]
    assert [(record.partition, record.hottest) for record in warnings] == [(2, ["c"])]
    assert (busy.counters.skew_warnings, idle.counters.skew_warnings) == (1, 0)


def test_a_store_that_does_not_answer_only_makes_it_late(world: World) -> None:
    class Down:
        """A configuration table that is away."""

        away = True

        def newest(self) -> int:
            """Answer, or not."""
            if self.away:
                raise StoreUnavailableError("away", "Wait.")
            return 0

    down = Down()
    worker = world.upkeep("a", world.shared._replace(config=down))
    worker.observe(seen(1, 3))
    worker.turn()
    assert world.shared.statistics.share(3) is None
    down.away = False
    worker.turn()
    assert world.shared.statistics.share(3) is not None


def test_what_nothing_foresees_does_not_end_it(world: World, caplog) -> None:
    """Such as a share that another version wrote: hot configuration is taken up all the same, once it can be."""

    class Odd:
        """A configuration table with what this version cannot read."""

        odd = True

        def newest(self) -> int:
            """Raise what is none of the store's errors."""
            if self.odd:
                raise TypeError("3 fields, not 4")
            return 0

    odd = Odd()
    worker = world.upkeep("a", world.shared._replace(config=odd))
    worker.observe(seen(1, 3))
    worker.turn()
    worker.turn()
    assert caplog.text.count("nothing here foresees") == 1
    odd.odd = False
    worker.turn()
    assert world.shared.statistics.share(3) is not None


def test_the_thread_writes_what_was_observed_last_when_it_is_stopped(world: World) -> None:
    worker = world.upkeep("a")
    worker.start()
    worker.observe(seen(1, 3, events=41))
    worker.stop()
    worker.stop()
    share = world.shared.statistics.share(3)
    assert share is not None
    assert share.counts["events"] == 41
    assert [report.state for report in world.shared.statistics.nodes()] == ["stopped"]


def test_nobody_is_asked_while_the_lock_is_only_free(world: World) -> None:
    worker = world.upkeep("a")
    with holding(TableLocks(world.shared.locks, "cli"), LOCK, ttl_s=60):
        pass
    worker.turn()
    assert not worker.wants_observation


class _Webhook(BaseHTTPRequestHandler):
    status = 200
    bodies: list[dict] = []  # noqa: RUF012 - the test's own server

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.status)
        if 300 <= self.status < 400:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.bodies.append({"got": self.path})
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(("status", "line"), [(200, "was told"), (500, "refuses"), (302, "refuses"), (307, "refuses")])
def test_a_webhook_gets_one_post_and_its_refusal_is_logged(status: int, line: str, caplog) -> None:
    """A redirect is one: followed, it would be a GET of wherever the answer says, and be told as a success."""
    _Webhook.status, _Webhook.bodies = status, []
    with HTTPServer(("127.0.0.1", 0), _Webhook) as server, caplog.at_level("INFO"):
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        post(f"http://127.0.0.1:{server.server_port}/", {"alert": "conflicts"}, 5)
        server.shutdown()
        thread.join()
    assert _Webhook.bodies == [{"alert": "conflicts"}]
    assert line in caplog.text


def test_a_webhook_that_is_not_there_or_stalls_harms_nothing(caplog) -> None:
    with HTTPServer(("127.0.0.1", 0), _Webhook) as stalled:
        # It listens, and nobody answers.
        post(f"http://127.0.0.1:{stalled.server_port}/", {}, 0.05)
        port = stalled.server_port
    post(f"http://127.0.0.1:{port}/", {}, 1)
    post("http://no..name/", {}, 1)
    assert caplog.text.count("cannot be told") == 3
