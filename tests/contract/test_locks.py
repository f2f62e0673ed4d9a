"""Locks over both stores: one holder at a time, an end by itself, a token that only rises, only one's own released."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from random import Random
from threading import Barrier

import pytest

from consumers.errors import StoreRefusedError, StoreUnavailableError
from consumers.locks.contract import LockLostError, LockTakenError
from consumers.locks.locking import TableLocks, holding
from consumers.locks.sqlite import SqliteLockTable
from consumers.stores.contract import Store
from consumers.stores.sqlite import SqliteStore
from consumers.stores.sqlite_shared import SharedConnection

THREADS = 8
ROUNDS = 3
WAIT_S = 60.0


def locks_of(store: Store, owner: str = "ann", **more) -> TableLocks:
    return TableLocks(store.shared().locks, owner, **more)


def test_a_free_lock_is_taken_and_says_by_whom(store: Store, name: str) -> None:
    locks = locks_of(store)
    assert locks.meta(name) is None
    assert not locks.is_locked(name)
    handle = locks.acquire(name, ttl_s=60)
    assert locks.is_locked(name)
    meta = locks.meta(name)
    assert meta is not None
    assert (meta.key, meta.token, meta.owner, meta.until - meta.since) == (name, handle.token, "ann", 60_000)
    assert locks.release(handle)
    assert not locks.is_locked(name)
    free = locks.meta(name)
    assert free is not None
    assert (free.is_held, free.token) == (False, handle.token)


def test_a_taken_lock_is_refused_with_its_owners_name_and_counted(store: Store, name: str) -> None:
    counted: list[str] = []
    locks_of(store).acquire(name, ttl_s=60)
    with pytest.raises(LockTakenError) as refused:
        locks_of(store, "ben", on_conflict=counted.append).acquire(name, ttl_s=60)
    assert (refused.value.owner, refused.value.retriable, counted) == ("ann", True, ["taken"])


def test_locks_of_other_keys_are_free(store: Store, name: str) -> None:
    locks = locks_of(store)
    locks.acquire(name, ttl_s=60)
    assert locks.acquire(f"{name}-2", ttl_s=60).token == 1


def test_the_token_rises_over_release_break_and_expiry(store: Store, name: str) -> None:
    locks, table = locks_of(store), store.shared().locks
    first = locks.acquire(name, ttl_s=60)
    assert locks.release(first)
    second = locks.acquire(name, ttl_s=60)
    assert table.free(name, second.token)
    # A holder that crashed: nobody releases, its time ends it; waiting has a deadline far beyond that.
    third = locks.acquire(name, ttl_s=1)
    fourth = locks_of(store, "ben").acquire(name, ttl_s=60, wait_s=WAIT_S)
    assert first.token < second.token < third.token < fourth.token


def test_renewing_or_releasing_after_the_end_is_refused(store: Store, name: str) -> None:
    counted: list[str] = []
    locks = locks_of(store, on_conflict=counted.append)
    late = locks.acquire(name, ttl_s=1)
    other = locks_of(store, "ben").acquire(name, ttl_s=60, wait_s=WAIT_S)
    with pytest.raises(LockLostError):
        locks.renew(late)
    assert not locks.release(late)
    assert counted == ["lost", "lost"]
    meta = locks.meta(name)
    assert meta is not None
    assert (meta.owner, meta.token) == ("ben", other.token)


def test_releasing_what_ended_unnoticed_is_no_conflict(store: Store, name: str) -> None:
    locks = locks_of(store)
    handle = locks.acquire(name, ttl_s=60)
    assert store.shared().locks.give_back(name, handle.holder)
    assert locks.release(handle)


def test_a_foreign_holder_neither_renews_nor_releases(store: Store, name: str) -> None:
    locks = locks_of(store)
    handle = locks.acquire(name, ttl_s=60)
    forged = replace(handle, holder="0" * 31 + "1", owner="eve")
    with pytest.raises(LockLostError):
        locks.renew(forged)
    assert not locks.release(forged)
    assert locks.is_locked(name)
    assert locks.renew(handle).sure_until >= handle.sure_until


def test_a_renewed_lock_outlives_its_first_end(store: Store, name: str) -> None:
    locks = locks_of(store)
    handle = locks.acquire(name, ttl_s=1)
    handle = locks.renew(replace(handle, ttl_s=60))
    with pytest.raises(LockTakenError):
        # Waits beyond the first end, and in vain.
        locks_of(store, "ben").acquire(name, ttl_s=1, wait_s=3)
    assert locks.release(handle)


def test_the_same_acquisition_made_again_finds_itself(store: Store, name: str) -> None:
    # case C2
    table = store.shared().locks
    holder = "a" * 32
    token = table.take(name, holder=holder, owner="ann", ttl_s=60)
    assert token is not None
    assert table.take(name, holder=holder, owner="ann", ttl_s=60) == token
    assert table.take(name, holder="b" * 32, owner="ben", ttl_s=60) is None


def test_a_lock_taken_by_an_attempt_that_was_not_answered_lasts_from_that_attempt(store: Store, name: str) -> None:
    """The second attempt finds what the first one did: the lock's time has run since then."""
    table = store.shared().locks
    now = [100.0]

    class Unheard:
        def take(self, key: str, **more) -> int | None:
            token = table.take(key, **more)
            now[0] += 20
            if now[0] < 130:
                raise StoreUnavailableError("no answer")
            return token

    locks = TableLocks(Unheard(), "ann", monotonic=lambda: now[0], sleep=lambda _: None)
    handle = locks.acquire(name, ttl_s=30, wait_s=60)
    assert handle.sure_until == 130


def test_breaking_needs_the_token_that_was_seen(store: Store, name: str) -> None:
    locks, table = locks_of(store), store.shared().locks
    handle = locks.acquire(name, ttl_s=60)
    assert not table.free(name, handle.token + 1)
    assert not table.free(name, handle.token - 1)
    assert locks.is_locked(name)
    assert table.free(name, handle.token)
    assert not locks.is_locked(name)
    with pytest.raises(LockLostError):
        locks.renew(handle)


def test_all_locks_are_listed(store: Store, name: str) -> None:
    locks = locks_of(store)
    handles = {key: locks.acquire(key, ttl_s=60) for key in (f"{name}-a", f"{name}-b")}
    locks.release(handles[f"{name}-b"])
    listed = {each.key: bool(each.holder) for each in store.shared().locks.standings() if each.key in handles}
    assert listed == {f"{name}-a": True, f"{name}-b": False}
    glance = store.shared().locks.glance(f"{name}-a")
    assert glance is not None
    assert glance.holder == handles[f"{name}-a"].holder


def test_eight_at_once_are_never_two_inside(open_another, name: str) -> None:
    stores = [open_another() for _ in range(THREADS)]
    start = Barrier(THREADS)
    inside: list[int] = []
    met: list[int] = []
    tokens: list[int] = []

    def work(number: int) -> None:
        locks = locks_of(stores[number], f"node-{number}", chance=Random(number))
        start.wait()
        for _ in range(ROUNDS):
            with holding(locks, name, ttl_s=60, wait_s=WAIT_S) as handle:
                inside.append(number)
                tokens.append(handle.token)
                # A round trip inside, so that another has time to come in where it can.
                assert locks.is_locked(name)
                met.append(len(inside))
                inside.remove(number)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    assert met == [1] * (THREADS * ROUNDS)
    # In the order in which they were inside, tokens rise.
    assert tokens == sorted(set(tokens))
    assert len(tokens) == THREADS * ROUNDS


def test_after_close_and_in_no_other_process(open_another, name: str) -> None:
    # case C6
    store = open_another()
    locks = locks_of(store)
    store.close()
    with pytest.raises(StoreRefusedError):
        locks.acquire(name, ttl_s=1)


def test_what_went_wrong_under_a_lock_is_told_though_its_release_is_refused(open_another, name: str) -> None:
    store = open_another()

    def work() -> None:
        with holding(locks_of(store), name, ttl_s=1):
            store.close()
            raise KeyError("the work")

    with pytest.raises(KeyError, match="the work"):
        work()


# SQLite alone: clocks, and processes


class Clocks:
    """A wall clock and the machine's, moved by hand."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000_000
        self.machine = 5_000_000


@pytest.fixture
def clocked(tmp_path: Path):
    """Give a lock table whose clocks are in the test's hand."""
    SqliteStore.open(tmp_path / "store.sqlite").close()
    shared = SharedConnection(tmp_path / "store.sqlite", 5)
    clocks = Clocks()
    table = SqliteLockTable(shared, now_ms=lambda: clocks.wall, tick_ms=lambda: clocks.machine)
    yield table, clocks
    shared.close()


def test_a_wall_clock_that_jumps_neither_ends_nor_keeps_a_lock(clocked) -> None:
    table, clocks = clocked
    assert table.take("k", holder="a" * 32, owner="ann", ttl_s=10) == 1
    clocks.wall += 3_600_000
    assert table.take("k", holder="b" * 32, owner="ben", ttl_s=10) is None
    clocks.wall -= 7_200_000
    # The clock tells whole ms: it may have been almost one more when the lock was taken, and is not ended early.
    clocks.machine += 10_000
    assert table.take("k", holder="b" * 32, owner="ben", ttl_s=10) is None
    clocks.machine += 1
    assert table.take("k", holder="b" * 32, owner="ben", ttl_s=10) == 2


def test_a_restarted_machine_frees_what_its_clock_has_not_reached(clocked) -> None:
    table, clocks = clocked
    table.take("k", holder="a" * 32, owner="ann", ttl_s=10)
    clocks.machine = 1_000
    assert table.take("k", holder="b" * 32, owner="ben", ttl_s=10) == 2


def _count(path: Path, number: int) -> None:
    """Add one to a number in a file, five times, reading and writing apart: without the lock, some are lost."""
    store = SqliteStore.open(path / "store.sqlite")
    locks = TableLocks(store.shared().locks, f"process-{number}")
    counter = path / "counter"
    for _ in range(5):
        with holding(locks, "counter", ttl_s=60, wait_s=WAIT_S):
            counter.write_text(str(int(counter.read_text()) + 1))
    store.close()


def test_eight_processes_lose_no_count(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")
    spawn = get_context("spawn")
    processes = [spawn.Process(target=_count, args=(tmp_path, number)) for number in range(THREADS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(WAIT_S)
        assert process.exitcode == 0
    assert (tmp_path / "counter").read_text() == str(THREADS * 5)
