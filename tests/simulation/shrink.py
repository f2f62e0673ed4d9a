"""A failing run made small: as few faults, messages and steps as still show the same kind of failure."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from tests.simulation.faults import without
from tests.simulation.run import MAIN, Result, run

_RUNS_MAX = 120


@dataclass(slots=True)
class _Search:
    """The smallest failing run so far."""

    best: Result
    kinds: set[str]
    defences: Any
    silenced: tuple[str, ...] = ()
    runs_left: int = _RUNS_MAX

    def still_fails(self, plan: Any, faults: Any) -> bool:
        """Try a smaller run; keep it if it fails in the same way."""
        if not self.runs_left:
            return False
        self.runs_left -= 1
        result = run(self.best.seed, plan, faults, self.defences, self.best.kind)
        if not result.kinds & self.kinds:
            return False
        self.best = result
        return True


def shrink(failing: Result, defences: Any, runs_max: int = _RUNS_MAX) -> tuple[Result, tuple[str, ...]]:
    """Return the smallest failing run that was found in so many runs, and the faults that it does without."""
    search = _Search(failing, failing.kinds, defences, runs_left=runs_max)
    for name in (each.name for each in fields(failing.faults)):
        if getattr(search.best.faults, name) and search.still_fails(
            search.best.plan, without(search.best.faults, (name,))
        ):
            search.silenced = (*search.silenced, name)
    for field in ("steps", "messages"):
        for smaller in _smaller(getattr(search.best.plan, field)):
            search.still_fails(replace(search.best.plan, **{field: smaller}), search.best.faults)
    return search.best, search.silenced


def _smaller(value: int) -> Iterator[int]:
    """Yield smaller values, ever nearer to `value`: the first that fails is kept, then only smaller ones count."""
    step = value // 2
    while step:
        yield value - step
        step //= 2


def command(result: Result, silenced: tuple[str, ...], defences_off: tuple[str, ...]) -> str:
    """Return the one command that repeats a run."""
    parts = [f"python -m tests.simulation --seed {result.seed}"]
    if result.kind is not MAIN:
        parts.append(f"--world {result.kind.name}")
    parts += [f"--steps {result.plan.steps} --messages {result.plan.messages}"]
    if silenced:
        parts.append(f"--silence {','.join(silenced)}")
    if defences_off:
        parts.append(f"--defences-off {','.join(defences_off)}")
    return " ".join(parts)
