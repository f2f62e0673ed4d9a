"""The hot configuration over both stores: versions rise by one, a change that rests on an old one is refused."""

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from consumers.hot.changing import LOCK, execute, plan
from consumers.hot.contract import ConfigVersion
from consumers.hot.keys import HotValueError
from consumers.locks.contract import LockTakenError
from consumers.locks.locking import TableLocks, holding
from consumers.stores.contract import Store

KEY = "worker.batch_records_max"
OTHER = "worker.log_level"


def change(store: Store, key: str, value: str | None, who: str = "ann"):
    shared = store.shared()
    return execute(TableLocks(shared.locks, who), shared.config, key, value, who=who, now_ms=lambda: 5)


def test_each_change_is_a_version_with_all_values(store: Store) -> None:
    table = store.shared().config
    change(store, KEY, None)
    change(store, OTHER, None)
    start = table.read().version
    first = change(store, KEY, "500")
    second = change(store, OTHER, "debug", "ben")
    assert (first.before, first.after, first.version, second.version) == (None, "500", start + 1, start + 2)
    newest = table.read()
    assert dict(newest.values) == {KEY: "500", OTHER: "debug"}
    assert (newest.key, newest.changed_at, newest.changed_by, newest.version) == (OTHER, 5, "ben", table.newest())
    before = table.history(2)[1]
    assert (dict(before.values), before.version) == ({KEY: "500"}, start + 1)
    assert newest.token > before.token


def test_unsetting_goes_back_to_the_workers_own(store: Store) -> None:
    change(store, KEY, "500")
    assert change(store, KEY, None).after is None
    assert KEY not in store.shared().config.read().values


def test_a_change_that_changes_nothing_makes_no_version(store: Store) -> None:
    change(store, KEY, "500")
    version = store.shared().config.read().version
    assert change(store, KEY, "500").does_nothing
    assert store.shared().config.read().version == version


def test_planning_changes_nothing(store: Store) -> None:
    before = store.shared().config.read()
    assert plan(store.shared().config, KEY, "321").version == before.version + 1
    assert store.shared().config.read() == before


def test_what_is_not_hot_or_out_of_bounds_is_refused(store: Store) -> None:
    before = store.shared().config.read()
    for key, value in ((KEY, "0"), (KEY, "many"), ("worker.group", "x"), (OTHER, "loud")):
        with pytest.raises(HotValueError):
            change(store, key, value)
    assert store.shared().config.read() == before


def test_a_version_that_is_not_the_next_or_has_an_old_token_is_refused(store: Store) -> None:
    table = store.shared().config
    change(store, KEY, "77" if table.read().values.get(KEY) != "77" else "78")
    newest = table.read()
    again = ConfigVersion(newest.version, {}, KEY, 1, "eve", newest.token + 1)
    assert not table.append(again)
    # A holder that stood still past its lock's end comes with the token that it had.
    assert not table.append(again._replace(version=newest.version + 1, token=newest.token - 1))
    assert table.read() == newest


def test_nobody_changes_it_while_another_holds_the_lock(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("consumers.hot.changing.LOCK_WAIT_S", 0.1)
    with holding(TableLocks(store.shared().locks, "ben"), LOCK, ttl_s=60), pytest.raises(LockTakenError):
        change(store, KEY, "123")


def test_changes_at_the_same_time_are_all_there(open_another) -> None:
    stores = [open_another() for _ in range(4)]
    start = stores[0].shared().config.read().version
    chance = Random()
    values = [str(chance.randrange(1, 100_000)) for _ in range(8)]

    def work(number: int) -> None:
        for value in values[2 * number : 2 * number + 2]:
            change(stores[number], KEY, value, f"node-{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    made = [each for each in stores[0].shared().config.history(50) if each.version > start]
    assert sorted(each.values[KEY] for each in made) == sorted(values)
    assert [each.version for each in made] == list(range(start + 8, start, -1))
