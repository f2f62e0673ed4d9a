"""Seeded histories of production's clients and workers under faults: nothing is lost, doubled, reordered or stuck.

A failing seed prints the command that repeats it. Cases shown here among the others: K3, K4, K6 to K9, K11, K14, K16,
C1 to C3, C8, O4, M2, M4 to M6.
"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.simulation.defences import Defences
from tests.simulation.faults import MILD, NAMES, Plan, of_seed, without
from tests.simulation.run import run
from tests.simulation.shrink import command, shrink

ROOT = Path(__file__).parents[2]
SEEDS_A_TEST = 25


@pytest.mark.parametrize("first", range(0, 150, SEEDS_A_TEST))
def test_no_seed_breaks_a_promise(first):
    for seed in range(first, first + SEEDS_A_TEST):
        result = run(seed)
        assert not result.fails, (command(result, (), ()), result.findings.faults)
        assert result.findings.acknowledged > 0


def test_without_faults_everything_is_delivered():
    result = run(1, Plan(messages=20, steps=800), without(MILD, NAMES))
    assert not result.fails
    assert result.findings.acknowledged == result.findings.settled == 20


def test_all_kinds_of_trouble_happen():
    told = {str(what) for seed in range(15) for _, _, what, *_ in run(seed).journal}
    assert {
        "crashes",
        "killed in",
        "stands still in",
        "stops",
        "expelled",
        "lost",
        "revoke",
        "assign",
        "claim",
        "started",
        "folded again",
        "commits",
        "cannot commit",
        "PARK",
        "RELEASE",
        "released",
    } <= told


def test_a_seed_repeats_itself_exactly_in_any_process():
    seeds = (3, 7, 12)
    here = [run(seed).digest for seed in seeds]
    assert here == [run(seed).digest for seed in seeds]
    assert len(set(here)) == len(seeds)
    program = f"from tests.simulation.run import run\nprint(*[run(seed).digest for seed in {seeds}])"
    for hash_seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": "Asia/Kathmandu"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.split() == here


def test_a_failure_is_shrunk_and_its_command_repeats_it():
    defences = Defences().without("dedupe")
    seed = next(seed for seed in range(10) if run(seed, defences=defences).fails)
    whole = run(seed, defences=defences)
    small, silenced = shrink(whole, defences, runs_max=40)
    assert small.kinds & whole.kinds
    assert len(small.journal) < len(whole.journal)
    plan, faults = of_seed(seed)
    plan = replace(plan, steps=small.plan.steps, messages=small.plan.messages)
    again = run(seed, plan, without(faults, silenced), defences)
    assert again.digest == small.digest
    assert f"--seed {seed} " in command(small, silenced, ("dedupe",))
