"""Run seeds: `python -m tests.simulation --seeds 20000`; repeat one: `python -m tests.simulation --seed 455`."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import Pool
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from tests.reports import commit, write
from tests.simulation.faults import without
from tests.simulation.run import KINDS, MAIN, Kind, Result, run
from tests.simulation.shrink import command, shrink

_TOLD_EACH_S = 10.0
_FAILURES_SHOWN = 2
_JOURNAL_LINES = 60
_ALWAYS_TOLD = ("acknowledged", "settled", "lost", "duplicated", "regressed", "stuck", "reordered")


class Found(NamedTuple):
    """What many seeds of one world came to."""

    world: str
    first_seed: int
    seeds: int
    seconds: int
    failed: list[int]
    """Their seeds."""
    counts: dict[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; return 1 where a seed failed."""
    asked = _parsed(arguments)
    off = tuple(filter(None, asked.defences_off.split(",")))
    kinds = [kind for kind in KINDS.values() if asked.world in {"", kind.name} and set(off) <= set(kind.defence_names)]
    if not kinds:
        print(f"no world has the defences {', '.join(off)}", file=sys.stderr)  # noqa: T201
        return 2
    if asked.seed is not None:
        return _one(asked, MAIN if MAIN in kinds else kinds[0], off)
    seeds = range(asked.first, asked.first + asked.seeds)
    found = [_many(kind, seeds, asked.jobs, off) for kind in kinds]
    if asked.report:
        write(asked.report, {"commit": commit(), "defences_off": off, "worlds": [each._asdict() for each in found]})
    for kind, each in zip(kinds, found, strict=True):
        _tell_failures(kind, each.failed, off)
    return 1 if any(each.failed for each in found) else 0


def _tell_failures(kind: Kind, failed: Sequence[int], off: tuple[str, ...]) -> None:
    """Make some of the seeds that failed small, and tell how to repeat them."""
    defences = _defences(kind, off)
    for seed in failed[:_FAILURES_SHOWN]:
        whole = run(seed, defences=defences, kind=kind)
        smallest, silenced = shrink(whole, defences)
        print(f"\nrepeat it whole: {command(whole, (), off)}")  # noqa: T201
        print(f"repeat it small: {command(smallest, silenced, off)}")  # noqa: T201
        _tell(smallest)


def _defences(kind: Kind, off: tuple[str, ...]) -> Any:
    defences = kind.all_defences()
    for name in off:
        defences = defences.without(name)
    return defences


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = "; ".join(f"{kind.name}: {', '.join(kind.defence_names)}" for kind in KINDS.values())
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument(
        "--world", choices=["", *KINDS], default="", help="which one; otherwise all, or main for a seed"
    )
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--report", type=Path, help="a file to keep what was found in, as JSON")
    parser.add_argument("--seed", type=int, help="run this one and tell its whole story")
    parser.add_argument("--steps", type=int, help="scheduler steps of that one")
    parser.add_argument("--messages", type=int, help="messages of that one")
    parser.add_argument("--silence", default="", help="faults to leave out, by comma")
    parser.add_argument("--defences-off", default="", help=f"defences to switch off, by comma: {names}")
    return parser.parse_args(arguments)


def _one(asked: argparse.Namespace, kind: Kind, off: tuple[str, ...]) -> int:
    plan, faults = kind.of_seed(asked.seed)
    if asked.steps is not None:
        plan = replace(plan, steps=asked.steps)
    if asked.messages is not None:
        plan = replace(plan, messages=asked.messages)
    silenced = without(faults, tuple(filter(None, asked.silence.split(","))))
    result = run(asked.seed, plan, silenced, _defences(kind, off), kind)
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


def _brief(seed: int, kind: str, off: tuple[str, ...]) -> tuple[int, bool, Counter[str]]:
    result = run(seed, defences=_defences(KINDS[kind], off), kind=KINDS[kind])
    return seed, result.fails, Counter(result.findings.counts())


def _many(kind: Kind, seeds: range, jobs: int, off: tuple[str, ...]) -> Found:
    """Run seeds of one world; say how it goes."""
    start = told = monotonic()
    counts: Counter[str] = Counter()
    failed: list[int] = []
    with Pool(jobs) as pool:
        for done, (seed, fails, found) in enumerate(
            pool.imap_unordered(partial(_brief, kind=kind.name, off=off), seeds, chunksize=20), start=1
        ):
            counts += found
            if fails:
                failed.append(seed)
                print(f"seed {seed} of {kind.name} failed", file=sys.stderr)  # noqa: T201
            if monotonic() - told >= _TOLD_EACH_S:
                told = monotonic()
                told_s = told - start
                print(f"{kind.name}: {done} of {len(seeds)} seeds, {done / told_s:.1f} a second", file=sys.stderr)  # noqa: T201
    took_s = monotonic() - start
    others = sorted(set(counts) - set(_ALWAYS_TOLD))
    rate = len(seeds) / took_s
    print(f"{kind.name}: {len(seeds)} seeds in {took_s:.0f} s, {rate:.1f} a second; {len(failed)} failed")  # noqa: T201
    all_counts = {name: counts[name] for name in (*_ALWAYS_TOLD, *others)}
    print(", ".join(f"{name}: {count}" for name, count in all_counts.items()))  # noqa: T201
    return Found(kind.name, seeds.start, len(seeds), round(took_s), sorted(failed), all_counts)


if __name__ == "__main__":
    sys.exit(main())
