"""A claimed delivery: every step can be the last of whoever takes it, and the effect is one all the same."""

# ruff: noqa: D102 - the world's methods are those of what they stand for

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from consumers.claims.claiming import Claiming, ClaimStep, Holding, wait_before
from consumers.claims.contract import Answer, CallOutcome, Claim, ClaimKey, ClaimState
from consumers.claims.settings import WebhookSettings
from consumers.rows import MessageRow, Owner
from consumers.stores.contract import MessageKey, Rows
from consumers.stores.sqlite import SqliteStore
from schemas.identity import uuid7
from schemas.lifecycle import Kind
from schemas.records import Delivery, Event

NOW = 1_800_000_000_000
MESSAGE = uuid7(NOW, 7)
ROW = MessageRow(
    "c", MESSAGE, "SENT", "ann", ("bot", "ben"), ("SENT", "SENT"), b"", b"", 1, 0, NOW, NOW + 60_000, 1, (1, 1), 1
)
DELIVERY = Delivery("bot", "c", MESSAGE, "ann", ("bot", "ben"), b"hi", "", NOW, NOW + 60_000)
KEY = ClaimKey.of(DELIVERY)
FIRST, SECOND = Holding(Owner(1, "a"), 1), Holding(Owner(2, "b"), 2)
SETTINGS = WebhookSettings(url="http://x", attempts_max=3)


class Crash(BaseException):
    """The process ends here."""


class World:
    """A gateway that keeps to the key, a claims table on SQLite, and a process that dies where it is told."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.row: MessageRow | None = ROW
        self.now_ms = NOW
        self.calls: list[tuple[UUID, int]] = []
        self.effects: list[UUID] = []
        self.answers: list[Answer] = []
        self.dies_at = ""
        self.during_call = lambda: None

    def reach(self, where: str) -> None:
        if self.dies_at == where:
            self.dies_at = ""
            raise Crash(where)

    def find(self, key: ClaimKey) -> Claim | None:
        found: Claim | None = self.table.find(key)
        self.reach("found")
        return found

    def put(self, claim: Claim, before: Claim | None, keep_s: int) -> bool:
        name = "mark" if claim.state is ClaimState.CLAIMED else "settle"
        self.reach(f"before {name}")
        done: bool = self.table.put(claim, before, keep_s)
        self.reach(f"after {name}")
        return done

    def read(self, messages: list[MessageKey], _conversations: list[str]) -> Rows:
        return Rows({key: self.row for key in messages if self.row is not None}, {})

    def __call__(self, _delivery: Delivery, key: UUID, attempt: int) -> Answer:
        self.calls.append((key, attempt))
        self.reach("before the effect")
        answer = self.answers.pop(0) if self.answers else Answer(CallOutcome.DONE, "status 200")
        if answer.outcome is CallOutcome.DONE and key not in self.effects:
            self.effects.append(key)
        self.reach("after the effect")
        self.during_call()
        return answer

    def step(self, holding: Holding = FIRST) -> ClaimStep:
        claiming = Claiming(
            table=self, reader=self, handler=self, settings=SETTINGS, now_ms=lambda: self.now_ms, chance=lambda: 1.0
        )
        return claiming.step(DELIVERY, holding)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    store = SqliteStore.open(tmp_path / "store.sqlite")
    yield World(store.shared().claims)
    store.close()


def test_a_delivery_is_marked_called_settled_and_told(world: World) -> None:
    step = world.step()
    assert world.calls == [(KEY.idempotency_key(), 1)]
    assert step.event is not None
    assert step.event[:6] == (Kind.DELIVERED, step.event.event_id, "c", MESSAGE, "bot", bytes(16))
    assert world.table.find(KEY) == Claim(KEY, 2, 1, ClaimState.DELIVERED, 1, Owner(1, "a"), detail="status 200")


STEPS = ["found", "before mark", "after mark", "before the effect", "after the effect", "before settle", "after settle"]


@pytest.mark.parametrize("where", STEPS)
def test_whoever_dies_between_two_steps_leaves_one_effect_and_one_receipt(world: World, where: str) -> None:
    world.dies_at = where
    with pytest.raises(Crash):
        world.step(FIRST)
    step = world.step(SECOND)
    assert step.event is not None
    assert step.event.kind == Kind.DELIVERED
    assert world.effects == [KEY.idempotency_key()]
    assert {key for key, _ in world.calls} == {KEY.idempotency_key()}
    assert len(world.calls) == (2 if where in STEPS[3:6] else 1)
    again = world.step(SECOND)
    assert again.event == step.event
    assert len(world.calls) <= 2


def test_a_claimer_that_was_paused_in_its_call_tells_nothing(world: World) -> None:
    """Another took over with a larger token; the first comes back with an answer of its own."""
    taken: list[ClaimStep] = []

    def take_over() -> None:
        world.during_call = lambda: None
        world.answers = [Answer(CallOutcome.NEVER, "status 400")]
        taken.append(world.step(SECOND))

    world.during_call = take_over
    first = world.step(FIRST)
    assert (first.lost, first.event, first.called) == (True, None, True)
    assert taken[0].event is not None
    assert taken[0].event.kind == Kind.EXPIRE
    assert world.table.find(KEY).state is ClaimState.UNDELIVERABLE


def test_a_smaller_token_is_refused_before_and_after_the_other_has_settled(world: World) -> None:
    world.answers = [Answer(CallOutcome.AGAIN, "status 503")]
    world.step(SECOND)
    world.now_ms += 10_000
    assert world.step(FIRST).lost
    assert len(world.calls) == 1
    settled = world.table.find(KEY)
    assert not world.table.put(settled._replace(version=9, token=1), settled, 60)


def test_failures_wait_longer_each_time_and_end_in_the_recipients_name(world: World) -> None:
    world.answers = [Answer(CallOutcome.AGAIN, "status 503")] * 3
    waits = []
    for _ in range(2):
        step = world.step()
        waits.append(step.again_at - world.now_ms)
        early = world.step()
        assert (early.again_at, early.called) == (step.again_at, False)
        world.now_ms = step.again_at
    assert waits == [1_000, 2_000]
    last = world.step()
    assert last.event is not None
    assert (last.event.kind, last.event.actor) == (Kind.EXPIRE, "bot")
    assert world.table.find(KEY).attempts == 3
    assert [attempt for _, attempt in world.calls] == [1, 2, 3]
    assert world.effects == []


def test_a_gateway_that_asks_for_time_gets_it(world: World) -> None:
    world.answers = [Answer(CallOutcome.AGAIN, "status 429", 30.0), Answer(CallOutcome.AGAIN, "status 429", 10**9)]
    assert world.step().again_at == NOW + 30_000
    world.now_ms += 30_000
    assert world.step().again_at == NOW + 30_000 + 3_600_000


def test_a_refusal_ends_it_at_once(world: World) -> None:
    world.answers = [Answer(CallOutcome.NEVER, "status 422")]
    step = world.step()
    assert step.event is not None
    assert step.event.kind == Kind.EXPIRE


def test_those_who_die_in_every_call_end_it_too(world: World) -> None:
    for number in range(3):
        world.dies_at = "before the effect"
        with pytest.raises(Crash):
            world.step(Holding(Owner(number, "a"), number + 1))
    last = world.step(Holding(Owner(9, "a"), 9))
    assert (last.event is not None and last.event.kind, len(world.calls)) == (Kind.EXPIRE, 3)
    assert world.table.find(KEY).detail == "the last call was cut off"


@pytest.mark.parametrize("row", [None, ROW._replace(receipts=("DELIVERED", "SENT")), ROW._replace(deliver_by=NOW - 1)])
def test_what_is_no_longer_owed_is_not_called(world: World, row: MessageRow | None) -> None:
    world.row = row
    assert world.step() == ClaimStep()
    assert world.calls == []
    assert world.table.find(KEY) is None


def test_events_of_one_delivery_are_the_same_each_time_and_differ_by_kind(world: World) -> None:
    done = world.step().event
    assert isinstance(done, Event)
    assert world.step().event == done
    table, world.table = world.table, _Settled(ClaimState.UNDELIVERABLE)
    other = world.step().event
    assert isinstance(other, Event)
    assert (other.kind, other.event_id == done.event_id) == (Kind.EXPIRE, False)
    assert table.find(KEY).state is ClaimState.DELIVERED


class _Settled:
    def __init__(self, state: ClaimState) -> None:
        self._state = state

    def find(self, key: ClaimKey) -> Claim:
        return Claim(key, 2, 1, self._state, 1, Owner(1, "a"))


def test_waits_are_those_that_the_docstring_tells() -> None:
    defaults = WebhookSettings()
    assert [wait_before(attempt, defaults, 1.0) for attempt in range(2, 9)] == [1, 2, 4, 8, 16, 32, 60]
    assert wait_before(2, defaults, 0.0) == 0.5
    assert wait_before(10**6, defaults, 1.0) == 60
