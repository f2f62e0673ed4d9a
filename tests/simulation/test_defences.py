"""The simulation bites: with each defence switched off it finds a promise broken, within a bounded number of seeds."""

import pytest

from tests.simulation.defences import NAMES, Defences
from tests.simulation.run import run

SEEDS_MAX = 150

BREAKS = {
    "fence": {"stuck"},
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


@pytest.mark.parametrize("name", [name for name in NAMES if name != "fence"])
def test_without_it_a_promise_is_broken(name):
    defences = Defences().without(name)
    assert any(run(seed, defences=defences).kinds & BREAKS[name] for seed in range(SEEDS_MAX))
