"""Run seeds: `python -m tests.simulation --seeds 20000`; repeat one: `python -m tests.simulation --seed 455`."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import Pool
from time import monotonic

from tests.simulation.defences import NAMES as DEFENCES
from tests.simulation.defences import Defences
from tests.simulation.faults import NAMES as FAULTS
from tests.simulation.faults import of_seed, without
from tests.simulation.run import Result, run
from tests.simulation.shrink import command, shrink

_TOLD_EACH_S = 10.0
_FAILURES_SHOWN = 2
_JOURNAL_LINES = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; return 1 where a seed failed."""
    asked = _parsed(arguments)
    off = tuple(filter(None, asked.defences_off.split(",")))
    defences = Defences()
    for name in off:
        defences = defences.without(name)
    if asked.seed is not None:
        return _one(asked, defences)
    seeds = range(asked.first, asked.first + asked.seeds)
    failed = _many(seeds, asked.jobs, defences)
    for seed in failed[:_FAILURES_SHOWN]:
        smallest, silenced = shrink(run(seed, defences=defences), defences)
        print(f"\nrepeat it whole: {command(run(seed, defences=defences), (), off)}")  # noqa: T201
        print(f"repeat it small: {command(smallest, silenced, off)}")  # noqa: T201
        _tell(smallest)
    return 1 if failed else 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="run this one and tell its whole story")
    parser.add_argument("--steps", type=int, help="scheduler steps of that one")
    parser.add_argument("--messages", type=int, help="messages of that one")
    parser.add_argument("--silence", default="", help=f"faults to leave out, by comma: {', '.join(FAULTS)}")
    parser.add_argument("--defences-off", default="", help=f"defences to switch off, by comma: {', '.join(DEFENCES)}")
    return parser.parse_args(arguments)


def _one(asked: argparse.Namespace, defences: Defences) -> int:
    plan, faults = of_seed(asked.seed)
    if asked.steps is not None:
        plan = replace(plan, steps=asked.steps)
    if asked.messages is not None:
        plan = replace(plan, messages=asked.messages)
    result = run(asked.seed, plan, without(faults, tuple(filter(None, asked.silence.split(",")))), defences)
    _tell(result, lines=len(result.journal))
    return 1 if result.fails else 0


def _tell(result: Result, lines: int = _JOURNAL_LINES) -> None:
    """Print a run's story and what was found."""
    for at, *what in result.journal[-lines:]:
        print(f"{at / 1000:10.3f} s  {' '.join(map(str, what))}")  # noqa: T201
    for fault in result.findings.faults:
        print(f"{fault.kind}: {fault.message_id.hex()} {fault.detail}")  # noqa: T201
    counts = ", ".join(f"{count} {name}" for name, count in result.findings.counts().items())
    print(f"seed {result.seed}: {counts}; digest {result.digest}")  # noqa: T201


def _brief(seed: int, defences: Defences) -> tuple[int, bool, Counter[str]]:
    result = run(seed, defences=defences)
    return seed, result.fails, Counter(result.findings.counts())


def _many(seeds: range, jobs: int, defences: Defences) -> list[int]:
    """Run seeds; say how it goes; return those that failed."""
    start = told = monotonic()
    counts: Counter[str] = Counter()
    failed: list[int] = []
    with Pool(jobs) as pool:
        for done, (seed, fails, found) in enumerate(
            pool.imap_unordered(partial(_brief, defences=defences), seeds, chunksize=20), start=1
        ):
            counts += found
            if fails:
                failed.append(seed)
                print(f"seed {seed} failed", file=sys.stderr)  # noqa: T201
            if monotonic() - told >= _TOLD_EACH_S:
                told = monotonic()
                print(f"{done} of {len(seeds)} seeds, {done / (told - start):.1f} a second", file=sys.stderr)  # noqa: T201
    took_s = monotonic() - start
    names = ("acknowledged", "settled", "lost", "duplicated", "regressed", "stuck", "reordered")
    others = tuple(sorted(set(counts) - set(names)))
    print(f"{len(seeds)} seeds in {took_s:.0f} s, {len(seeds) / took_s:.1f} a second; {len(failed)} failed")  # noqa: T201
    print(", ".join(f"{name}: {counts[name]}" for name in (*names, *others)))  # noqa: T201
    return sorted(failed)


if __name__ == "__main__":
    sys.exit(main())
