"""The simulation bites: with each defence switched off it finds a promise broken, within a bounded number of seeds."""

from dataclasses import replace

import pytest

from compose.checking.checker import check
from producers.checks import Limits, Outgoing
from producers.checks import check as check_message
from tests.simulation import seams
from tests.simulation.defences import NAMES, Defences, replacements
from tests.simulation.evidence import gather
from tests.simulation.faults import NO_FAULTS, Plan, of_seed
from tests.simulation.run import run
from tests.simulation.world import World

SEEDS_MAX = 150

BREAKS = {
    "fence": {"stuck"},
    "refusal": {"regressed"},
    "conditions": {"diverged", "untrue", "regressed"},
    "judging": {"diverged", "untrue"},
    "gate": {"reordered"},
    "overflow": {"reordered"},
    "block_copies": {"duplicated"},
    "own_buckets": {"stuck"},
    "stamp": {"diverged", "untrue", "regressed"},
    "version": {"regressed"},
    "applied": {"stuck", "diverged", "untrue"},
    "low_water": {"diverged", "untrue", "stuck", "lost"},
    "durable_first": {"untrue"},
    "cold_reads": {"diverged"},
    "flush": {"lost"},
    "handed_mark": {"untrue"},
    "dedupe": {"duplicated"},
    "recovery": {"stuck"},
    "redelivery": {"stuck"},
    "tail": {"stuck"},
    "by_rank": {"regressed"},
}
"""What each is there to prevent; one of these kinds must be among those found."""


def test_each_defence_is_listed():
    assert set(BREAKS) == set(NAMES)


STORE = {"refusal": "sqlite", "conditions": "strict", "judging": "strict", "stamp": "stamps"}
"""Whose defence it is, where not all stores have it."""

FIRST_SEED = {"overflow": 60, "conditions": 85, "stamp": 75, "recovery": 25, "tail": 20}
"""Where to look first, where chance finds it seldom: a change of the code moves it, and then looking takes longer."""

BY_HAND = ("fence", "own_buckets")
"""What chance alone finds too seldom."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_HAND])
def test_without_it_a_promise_is_broken(name):
    defences = Defences().without(name)
    assert any(run(*runs, defences=defences).kinds & BREAKS[name] for runs in _runs(name))


def _runs(name):
    """Yield seeds with their plans and faults, made such that the defence is needed often."""
    first = FIRST_SEED.get(name, 0)
    for seed in range(first, first + SEEDS_MAX):
        plan, faults = of_seed(seed)
        if name in {"gate", "overflow"}:
            plan, faults = replace(plan, messages=40 if name == "overflow" else 20), replace(faults, parks=0.03)
        tablets = 2 if name == "block_copies" else 0
        yield seed, replace(plan, store=STORE.get(name, plan.store), tablets=tablets), faults


class OneZombie:
    """A history by hand: an owner whose clock is ahead stands still between reading a bucket and forgetting it.

    Meanwhile another takes the partition and puts a delivery into that very bucket; then the first one goes on.
    """

    def __init__(self, defences):
        plan = Plan(messages=1, steps=0, clients=2, workers=2, partitions=1)
        self.world = world = World(1, plan, NO_FAULTS, defences)
        world.chaos = False
        self.alice, self.bob = world.clients
        self.zombie, self.heir = world.workers
        self.zombie.wall_off_ms = 45_000
        self.bob.alive = self.heir.alive = False
        self.zombie.worst_moment = self.stand_still
        self.alice._message = lambda body: check_message(Outgoing(to="bob", body=body), "alice", Limits())

    def turn(self, *processes, until):
        """Have processes take turns until something is so."""
        world = self.world
        for _ in range(2_000):
            if until():
                return
            for process in processes:
                process.turn()
            world._settle_network()
            world.now += 100
        raise AssertionError("it never came to that")

    def stand_still(self, _what):
        """Let the others go on until the heir has kept a delivery."""
        del self.zombie.worst_moment
        world = self.world
        assert not any(world.shelf.spilled.values())
        self.zombie.consumer.expel(0.0)
        self.heir.start()
        self.alice.run(lambda: (self.alice._open(), self.alice._send()))
        self.turn(self.alice, self.heir, until=lambda: self.heir.worker and self.heir.worker.counters.spilled)

    def run(self):
        """Let the zombie go on, lose what was delivered so far, heal; return what the checker finds."""
        world = self.world
        self.turn(self.alice, self.zombie, until=lambda: self.heir.alive)
        self.turn(self.zombie, until=lambda: self.zombie.consumer.held == set())
        for inbox in world.inbox:
            inbox.low = inbox.end
        self.bob.start()
        world.heal()
        return check(gather(world))


@pytest.mark.parametrize("off", [None, *BY_HAND])
def test_an_owner_that_is_fenced_forgets_nothing_that_another_has_kept(off):
    defences = Defences().without(off) if off else Defences()
    history = OneZombie(defences)
    with seams.running(history.world), seams.replaced(replacements(defences)):
        findings = history.run()
    assert findings.acknowledged == 1
    assert {fault.kind for fault in findings.faults} == (BREAKS[off] if off else set())
