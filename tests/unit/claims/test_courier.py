"""The courier: what it takes, in what order, under which lock; two of them at once; what it lets go of."""

# ruff: noqa: D102 - the fakes' methods are those of what they stand for

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from consumers.claims.claiming import Claiming, ClaimStep, Holding, delivered, given_up
from consumers.claims.contract import ClaimKey
from consumers.claims.courier import Courier
from consumers.claims.opening import SharedReader
from consumers.claims.partition_locks import PartitionLocks
from consumers.claims.settings import WebhookSettings
from consumers.claims.webhook import Webhook
from consumers.counters import Counters
from consumers.errors import StoreUnavailableError
from consumers.gateway import Nobody, for_inboxes
from consumers.locks.contract import LockLostError, LockTakenError
from consumers.locks.locking import TableLocks
from consumers.locks.sqlite import SqliteLockTable
from consumers.rows import MessageWrite, Owner, Transition
from consumers.stores.sqlite import SqliteStore
from consumers.stores.sqlite_shared import SharedConnection
from schemas.records import Delivery, Event
from tests.contract.made import write
from tests.gateway import Gateway, running
from tests.unit.claims.test_claiming import DELIVERY, KEY, ROW

WAIT_S = 30
OWNER = Owner(1, "a")


class Steps:
    """Steps that go as the test says, and who took them."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.taken: list[tuple[Delivery, Holding]] = []
        self.changed = threading.Condition()
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, delivery: Delivery, holding: Holding) -> ClaimStep:
        with self.changed:
            self.taken.append((delivery, holding))
            outcome = self.outcomes.pop(0) if self.outcomes else ClaimStep(delivered(ClaimKey.of(delivery)))
            self.changed.notify_all()
        assert self.gate.wait(WAIT_S)
        if isinstance(outcome, Exception):
            raise outcome
        assert isinstance(outcome, ClaimStep)
        return outcome

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.taken) >= count, WAIT_S)


class Log:
    """The events that were written."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.changed = threading.Condition()
        self.refuses = 0

    def __call__(self, event: Event) -> bool:
        with self.changed:
            if self.refuses:
                self.refuses -= 1
                return False
            self.events.append(event)
            self.changed.notify_all()
        return True

    def wait(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.events) >= count, WAIT_S), self.events


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def start(store: SqliteStore) -> Iterator[Callable[..., Courier]]:
    """Give a function that starts couriers; all are stopped at the end."""
    with ExitStack() as stack:

        def start_one(step: Any, log: Log, node: str = "a", **more: Any) -> Courier:
            settings = WebhookSettings(url="http://x", **more)
            locks = PartitionLocks(TableLocks(store.shared().locks, node), settings.claim_ttl_s)
            courier = Courier(step=step, locks=locks, write=log, settings=settings, counters=Counters())
            courier.start()
            stack.callback(courier.stop, 5)
            return courier

        yield start_one


def _until(courier: Courier, true: Callable[[], bool]) -> None:
    with courier._changed:
        assert courier._changed.wait_for(true, WAIT_S)


def until_free(store: SqliteStore, key: str) -> None:
    """Wait until a lock is free, for as long as another would wait for it."""
    TableLocks(store.shared().locks, "another").acquire(key, ttl_s=1, wait_s=WAIT_S / 2)


def _to(user: str, number: int = 0) -> Delivery:
    return DELIVERY._replace(user=user, conversation_id=f"c{number}")


def test_only_some_recipients_are_its(start) -> None:
    courier = start(Steps(), Log(), users=("bot:*", "x?"))
    assert [courier.takes(user) for user in ("bot:1", "xy", "ann", "x", "abot:1")] == [True, True, False, False, False]
    steps, log = Steps(), Log()
    courier = start(steps, log, users=("bot",))
    assert list(for_inboxes([_to("bot"), _to("ann")], courier, 3, OWNER)) == [_to("ann")]
    log.wait(1)
    assert [(delivery, holding.owner) for delivery, holding in steps.taken] == [(_to("bot"), OWNER)]
    assert list(for_inboxes([_to("bot")], Nobody(), 3, OWNER)) == [_to("bot")]


def test_what_is_in_hand_is_not_taken_twice_and_no_more_than_the_limit(start) -> None:
    steps, log = Steps(), Log()
    steps.gate.clear()
    courier = start(steps, log, waiting_max=2, calls_in_flight_max=1)
    for _ in range(3):
        courier.submit(3, OWNER, _to("bot"))
    courier.submit(3, OWNER, _to("bot", 1))
    courier.submit(3, OWNER, _to("bot", 2))
    steps.gate.set()
    log.wait(2)
    assert [delivery.conversation_id for delivery, _ in steps.taken] == ["c0", "c1"]
    assert courier._counters.gateway_put_off == 1


def test_a_step_is_taken_again_when_it_is_due_and_after_what_passes(start, monkeypatch) -> None:
    monkeypatch.setattr("consumers.claims.courier.LATER_MS", 10)
    steps = Steps(StoreUnavailableError("down"), ClaimStep(again_at=1), ClaimStep(lost=True))
    log = Log()
    courier = start(steps, log)
    courier.submit(3, OWNER, _to("bot"))
    steps.wait(3)
    # Lost is let go of; the owner repeats the delivery if it is still owed.
    _until(courier, lambda: not courier._tasks)
    log.refuses = 1
    courier.submit(3, OWNER, _to("bot"))
    log.wait(1)
    assert len(steps.taken) == 5
    counters = courier._counters
    assert (counters.claims_lost, counters.gateway_delivered) == (1, 1)
    assert counters.conflicts_by_kind["lock"] == 1


def test_an_outcome_is_counted_by_what_it_is(start) -> None:
    log = Log()
    courier = start(Steps(ClaimStep(given_up(KEY), called=True)), log)
    courier.submit(3, OWNER, DELIVERY)
    log.wait(1)
    _until(courier, lambda: not courier._tasks)
    assert (courier._counters.gateway_calls, courier._counters.gateway_given_up) == (1, 1)


def test_a_partition_that_goes_is_let_go_of_and_its_lock_too(start, store: SqliteStore) -> None:
    steps, log = Steps(ClaimStep(again_at=2**50)), Log()
    courier = start(steps, log)
    courier.submit(3, OWNER, _to("bot"))
    steps.wait(1)
    locks = store.shared().locks
    standing = locks.standing("deliver/3")
    assert standing is not None
    assert standing.owner == "a"
    _until(courier, lambda: not any(task.running for task in courier._tasks.values()))
    courier.drop(3)
    assert courier._tasks == {}
    until_free(store, "deliver/3")
    after = locks.standing("deliver/3")
    assert after is not None
    assert after.token == standing.token + 1


def test_a_delivery_under_way_is_not_taken_again_when_its_partition_goes_and_comes_back(start) -> None:
    """Found by the simulation: a second thread made the same call while the first one's was under way."""
    steps, log = Steps(), Log()
    steps.gate.clear()
    courier = start(steps, log)
    courier.submit(3, OWNER, _to("bot"))
    steps.wait(1)
    courier.drop(3)
    later = OWNER._replace(epoch=OWNER.epoch + 1)
    courier.submit(3, later, _to("bot"))
    assert [(task.owner, task.dropped) for task in courier._tasks.values()] == [(later, False)]
    steps.gate.set()
    log.wait(1)
    _until(courier, lambda: not courier._tasks)
    assert len(steps.taken) == 1


def test_what_is_under_way_when_its_partition_goes_ends_with_its_step(start, store: SqliteStore) -> None:
    steps, log = Steps(ClaimStep(again_at=2**50)), Log()
    steps.gate.clear()
    courier = start(steps, log)
    courier.submit(3, OWNER, _to("bot"))
    steps.wait(1)
    courier.drop(3)
    steps.gate.set()
    _until(courier, lambda: not courier._tasks)
    # Or else the partition's next owner would wait for the lock until it ends by itself.
    until_free(store, "deliver/3")


def test_letting_go_of_a_partition_waits_for_no_store(start, monkeypatch) -> None:
    """The worker's loop calls it in a rebalance: a store that does not answer must not hold that up."""
    steps, log = Steps(ClaimStep(again_at=2**50)), Log()
    courier = start(steps, log)
    courier.submit(3, OWNER, _to("bot"))
    steps.wait(1)
    _until(courier, lambda: not any(task.running for task in courier._tasks.values()))
    asked_by: list[threading.Thread] = []
    answers = threading.Event()

    def slow(_handle: Any) -> None:
        asked_by.append(threading.current_thread())
        assert answers.wait(WAIT_S)

    monkeypatch.setattr(courier._locks._locks, "release", slow)
    courier.drop(3)
    courier.submit(4, OWNER, _to("bot", 4))
    log.wait(1)
    answers.set()
    assert threading.current_thread() not in asked_by


def test_a_lock_that_another_has_is_one_conflict_however_many_wait(start, store: SqliteStore, monkeypatch) -> None:
    monkeypatch.setattr("consumers.claims.courier.LATER_MS", 10)
    others = TableLocks(store.shared().locks, "b")
    held = others.acquire("deliver/3", ttl_s=60)
    steps, log = Steps(), Log()
    courier = start(steps, log)
    for number in range(3):
        courier.submit(3, OWNER, _to("bot", number))
    _until(courier, lambda: courier._numbers >= 12)
    assert courier._counters.conflicts_by_kind["lock"] == 1
    assert not steps.taken
    others.release(held)
    log.wait(3)
    assert courier._counters.conflicts_by_kind["lock"] == 1


class Machine:
    """Locks on a table that answers as the test says, by a clock in the test's hand; counts what it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, table: Any, node: str = "a") -> None:
        self.now = 1_000.0
        self.table = table
        self.takes = 0
        self.down = False
        monkeypatch.setattr("consumers.clock.machine_s", lambda: self.now)
        self.conflicts: list[str] = []
        locks = TableLocks(self, node, on_conflict=self.conflicts.append, monotonic=lambda: self.now)
        self.locks = PartitionLocks(locks, 30)

    def _answer(self) -> None:
        if self.down:
            raise StoreUnavailableError("down")

    def take(self, key: str, **more: Any) -> int | None:
        self.takes += 1
        self._answer()
        token: int | None = self.table.take(key, **more)
        return token

    def extend(self, key: str, **more: Any) -> bool:
        self._answer()
        return bool(self.table.extend(key, **more))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    SqliteStore.open(tmp_path / "store.sqlite").close()
    shared = SharedConnection(tmp_path / "store.sqlite", 5)
    made = Machine(monkeypatch, SqliteLockTable(shared, tick_ms=lambda: int(made.now * 1000)))
    yield made
    shared.close()


def test_a_lock_that_ended_while_there_was_nothing_to_deliver_is_no_conflict(machine: Machine) -> None:
    """Each delivery of a quiet partition was put off by a second and counted as a lost lock."""
    first = machine.locks.token(3)
    machine.now += 20
    assert machine.locks.token(3) == first
    machine.now += 31
    assert machine.locks.token(3) == first + 1
    # One that is lost before its time is up is a conflict: somebody broke it.
    assert machine.table.free("deliver/3", first + 1)
    machine.now += 20
    with pytest.raises(LockLostError):
        machine.locks.token(3)


def test_a_renewal_without_an_answer_does_not_lock_the_holder_out(machine: Machine) -> None:
    token = machine.locks.token(3)
    machine.now += 20
    machine.down = True
    with pytest.raises(StoreUnavailableError):
        machine.locks.token(3)
    machine.down = False
    assert machine.locks.token(3) == token


def test_a_lock_that_took_too_long_to_get_is_not_delivered_under(machine: Machine) -> None:
    real = machine.table.take

    def slow(key: str, **more: Any) -> int | None:
        token: int | None = real(key, **more)
        machine.now += 16
        return token

    machine.table.take = slow
    with pytest.raises(StoreUnavailableError, match="took too long"):
        machine.locks.token(3)
    assert machine.locks.token(3) == 1


def test_a_lock_that_another_has_is_not_asked_for_by_each_delivery(machine: Machine) -> None:
    others = TableLocks(machine.table, "b", monotonic=lambda: machine.now)
    held = others.acquire("deliver/3", ttl_s=60)
    for _ in range(100):
        with pytest.raises(LockTakenError) as refused:
            machine.locks.token(3)
        assert refused.value.owner == "b"
    assert machine.takes == 1
    others.release(held)
    machine.now += 1
    assert machine.locks.token(3) == held.token + 1
    assert machine.locks.token(4) == 1


def test_an_outage_is_told_once_and_not_for_each_delivery(start, monkeypatch, caplog) -> None:
    monkeypatch.setattr("consumers.claims.courier.LATER_MS", 10)
    steps = Steps(*[StoreUnavailableError(f"down for {number}") for number in range(20)])
    log = Log()
    courier = start(steps, log)
    courier.submit(3, OWNER, _to("bot"))
    log.wait(1)
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


def test_a_gateway_that_fails_and_what_is_given_up_is_told(start, caplog: pytest.LogCaptureFixture) -> None:
    """An outage of some minutes fails messages for good: not without a word."""
    caplog.set_level("INFO")
    failed = ClaimStep(again_at=1, called=True, detail="status 503")
    steps = Steps(failed, failed, failed, ClaimStep(given_up(KEY), called=True, detail="status 503"))
    log = Log()
    courier = start(steps, log)
    courier.submit(3, OWNER, DELIVERY)
    log.wait(1)
    steps.outcomes = [ClaimStep(delivered(KEY), called=True)]
    _until(courier, lambda: not courier._tasks)
    courier.submit(3, OWNER, DELIVERY)
    log.wait(2)
    _until(courier, lambda: not courier._tasks)
    told = [(record.message.split(";")[0].split(":")[0], record.levelname) for record in caplog.records]
    assert told == [
        ("the gateway fails", "WARNING"),
        ("a delivery is given up", "WARNING"),
        ("the gateway takes deliveries again", "INFO"),
    ]
    assert (caplog.records[1].recipient, caplog.records[1].last) == ("bot", "status 503")


# Two claimers at once: the lock lets one of them work, and the other one takes over when it ends.
def test_two_workers_with_one_delivery_make_one_effect(store: SqliteStore, monkeypatch) -> None:
    monkeypatch.setattr("consumers.claims.courier.LATER_MS", 20)
    row = ROW._replace(recipients=("bot",), receipts=("SENT",), deliver_by=2**45)
    write(store, [MessageWrite(row, (Transition(1, "SENT", "ann", 1, 1),), b"hi")])
    gateway, log = Gateway("effect-503", "stall"), Log()
    with running(gateway), ExitStack() as stack:
        settings = WebhookSettings(url=gateway.url, timeout_s=0.5, claim_ttl_s=1, first_wait_s=0.05)
        couriers = []
        for node in ("a", "b"):
            claiming = Claiming(
                table=store.shared().claims,
                reader=SharedReader(store),
                handler=Webhook(settings),
                settings=settings,
                now_ms=lambda: time_ns() // 1_000_000,
                chance=lambda: 0.0,
            )
            locks = PartitionLocks(TableLocks(store.shared().locks, node), settings.claim_ttl_s)
            courier = Courier(step=claiming.step, locks=locks, write=log, settings=settings, counters=Counters())
            courier.start()
            stack.callback(courier.stop, 5)
            couriers.append(courier)
        for epoch, courier in enumerate(couriers, start=1):
            courier.submit(3, Owner(epoch, f"node-{epoch}"), DELIVERY)
        log.wait(2)
    key = f'"{KEY.idempotency_key()}"'
    assert gateway.effects == [key]
    assert [(call.key, call.attempt) for call in gateway.calls] == [(key, 1), (key, 2), (key, 3)]
    assert len({event.event_id for event in log.events}) == 1
