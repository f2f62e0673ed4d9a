"""Seeded histories of locks, claims and calls to a gateway, on both stores: one call at a time, one key, one verdict.

With each defence switched off a promise is broken, within a bounded number of seeds. Cases shown here among the
others: K4, C1, C2.
"""

from dataclasses import replace

import pytest

from consumers.claims.claiming import Holding
from consumers.claims.contract import Claim, ClaimKey, ClaimState
from consumers.rows import Owner
from tests.simulation import seams
from tests.simulation.gateway.defences import NAMES, GatewayDefences
from tests.simulation.gateway.faults import NO_FAULTS, GatewayPlan, of_seed
from tests.simulation.gateway.world import GatewayWorld
from tests.simulation.run import GATEWAY, run
from tests.simulation.shrink import command, shrink

SEEDS = 150
SEEDS_MAX = 400

BREAKS = {
    "lock": {"duplicated"},
    "token_rises": {"regressed"},
    "holder": {"duplicated"},
    "token": {"regressed"},
    "version": {"regressed"},
    "look": {"invented"},
    "mark": {"duplicated"},
    "one_key": {"duplicated"},
}
"""What each is there to prevent; one of these kinds must be among those found."""
STORE = {"token_rises": "sqlite", "holder": "cassandra", "token": "cassandra"}
"""Where it is switched off, where that is done in one store only."""
MORE = {
    "holder": {"pause_at_the_worst": 0.2, "move": 0.15},
    "token": {"pause_at_the_worst": 0.3},
}
"""Faults with which it is needed more often."""


def test_no_seed_breaks_a_promise():
    for seed in range(SEEDS):
        result = run(seed, kind=GATEWAY)
        assert not result.fails, (command(result, (), ()), result.findings.faults)
        assert result.findings.settled == result.findings.acknowledged > 0


def test_without_faults_each_delivery_is_one_call():
    for store in ("cassandra", "sqlite"):
        plan = GatewayPlan(messages=6, store=store, partitions=2)
        world = GatewayWorld(1, plan, NO_FAULTS, GatewayDefences())
        with seams.running(world):
            findings = world.run()
        assert findings.faultless
        assert [len(calls) for calls in world.watch.calls.values()] == [1] * findings.acknowledged


def test_all_kinds_of_trouble_happen():
    told: set[str] = set()
    counted = dict.fromkeys(("claims_lost", "gateway_delivered", "gateway_given_up"), 0)
    for seed in range(60):
        world = GatewayWorld(seed, *of_seed(seed), GatewayDefences())
        with seams.running(world):
            world.run()
        told |= {str(what) for _, *rest in world.journal for what in rest[:2]}
        for name in counted:
            counted[name] += sum(getattr(worker.counters, name) for worker in world.workers)
    assert {"has", "lost", "releases", "calls", "crashes", "killed in", "stands still in", "lock broken"} <= told
    assert "the machine starts anew" in told
    assert all(counted.values()), counted


def test_each_defence_is_listed():
    assert set(BREAKS) == set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "version"])
def test_without_it_a_promise_is_broken(name):
    defences = GatewayDefences().without(name)
    assert any(run(*runs, defences, GATEWAY).kinds & BREAKS[name] for runs in _runs(name))


def _runs(name):
    for seed in range(SEEDS_MAX):
        plan, faults = of_seed(seed)
        yield seed, replace(plan, store=STORE.get(name, plan.store)), replace(faults, **MORE.get(name, {}))


def test_a_seed_repeats_itself_exactly_and_its_failure_is_shrunk():
    assert run(5, kind=GATEWAY).digest == run(5, kind=GATEWAY).digest != run(6, kind=GATEWAY).digest
    defences = GatewayDefences().without("one_key")
    seed = next(seed for seed in range(20) if run(seed, defences=defences, kind=GATEWAY).fails)
    small, silenced = shrink(run(seed, defences=defences, kind=GATEWAY), defences, runs_max=30)
    assert small.fails
    assert "--world gateway" in command(small, silenced, ("one_key",))


class TwoSenders:
    """A history by hand: two workers with one delivery, the second of which takes it over from the first."""

    def __init__(self, defences):
        self.world = world = GatewayWorld(1, GatewayPlan(messages=1), NO_FAULTS, defences)
        world.chaos = False
        self.first, self.second = world.workers
        world.owners[0] = (self.first, 1)
        ((_, self.delivery),) = world._deliveries
        self.key = ClaimKey.of(self.delivery)

    def take_over(self, ms):
        """Have the second worker go on for a time, now that the partition is its own."""
        world = self.world
        world.owners[0] = (self.second, 2)
        for _ in range(20):
            world.now += ms / 20
            self.second.turn()
            world.watch.look(world._claims())


@pytest.mark.parametrize("paused_ms", [1_000, 20_000])
def test_a_worker_that_stands_still_in_a_call_tells_no_outcome_once_another_has_taken_over(paused_ms):
    history = TwoSenders(GatewayDefences())
    world, first = history.world, history.first
    call = type(first).__call__

    def slow(delivery, key, attempt):
        answer = call(first, delivery, key, attempt)
        history.take_over(paused_ms)
        return answer

    with seams.running(world):
        first._claiming._handler = slow
        first.turn()
    took_over = paused_ms > 5_000
    assert first.counters.claims_lost == (1 if took_over else 0)
    assert len(world.watch.calls[history.key]) == (2 if took_over else 1)
    assert not list(world.watch.verdicts())


@pytest.mark.parametrize("off", [None, "version"])
def test_an_outcome_that_is_told_late_but_in_time_is_not_overwritten(off):
    """The first worker settles between the second one's look at the claim and its mark. Too seldom for chance."""
    defences = GatewayDefences().without(off) if off else GatewayDefences()
    history = TwoSenders(defences)
    world, first, second = history.world, history.first, history.second

    def first_goes_on(what, _ms):
        if what == "a claim that it has read" and not settled:
            settled.append(first._claiming._settle(history.delivery, holding, marked, answer))
            world.watch.look(world._claims())

    with seams.running(world):
        settled = []
        holding = Holding(Owner(1, first.name), first.courier._locks.token(0))
        marked = Claim(history.key, 1, holding.token, ClaimState.CLAIMED, 1, holding.owner)
        assert first._claiming._table.put(marked, None, 60)
        answer = first(history.delivery, history.key.idempotency_key(), 1)
        second.worst_moment = first_goes_on
        history.take_over(20_000)
    assert [step.event.kind for step in settled] == ["DELIVERED"]
    assert {fault.kind for fault in world.watch.verdicts()} == (BREAKS[off] if off else set())
