"""One run of one seed, judged; and which worlds there are."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from compose.checking.checker import check
from compose.checking.history import Fault, Findings
from compose.checking.replay import changes
from tests.simulation import defences, faults, seams
from tests.simulation.evidence import gather
from tests.simulation.gateway import defences as gateway_defences
from tests.simulation.gateway import faults as gateway_faults
from tests.simulation.gateway.world import GatewayWorld
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Kind:
    """A world that can be run."""

    name: str
    make: Callable[[int, Any, Any, Any], Any]
    """From a seed, a plan, faults and defences."""
    of_seed: Callable[[int], tuple[Any, Any]]
    all_defences: Callable[[], Any]
    defence_names: tuple[str, ...]
    replacements: Callable[[Any], tuple[tuple[object, str, object], ...]]
    judge: Callable[[Any], Findings]
    """Runs it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a seed."""

    kind: Kind
    seed: int
    plan: Any
    faults: Any
    findings: Findings
    digest: str
    journal: list[tuple[object, ...]]

    @property
    def fails(self) -> bool:
        """Say whether something is wrong."""
        return not self.findings.faultless

    @property
    def kinds(self) -> set[str]:
        """Return what kinds of fault were found."""
        return {fault.kind for fault in self.findings.faults}


def _judge(world: World) -> Findings:
    """Run the big world; return what the checker finds, also after a replay of the whole log where the plan says so."""
    world.run()
    history = gather(world)
    findings = check(history)
    if not world.plan.replays or not findings.faultless:
        return findings
    world.replay()
    again = gather(world)
    findings = check(again)
    return replace(findings, faults=(*findings.faults, *changes(history, again)))


MAIN: Final = Kind("main", World, faults.of_seed, defences.Defences, defences.NAMES, defences.replacements, _judge)
"""Clients, log, workers and store."""
GATEWAY: Final = Kind(
    "gateway",
    GatewayWorld,
    gateway_faults.of_seed,
    gateway_defences.GatewayDefences,
    gateway_defences.NAMES,
    gateway_defences.replacements,
    GatewayWorld.run,
)
"""Locks, claims and calls to an outside gateway."""
KINDS: Final = {kind.name: kind for kind in (MAIN, GATEWAY)}


def run(seed: int, plan: Any = None, faults: Any = None, defences: Any = None, kind: Kind = MAIN) -> Result:
    """Run a seed; what is not given is as the seed has it.

    An error that no part of production expects is a fault too: everything that it would have done is stuck.
    """
    own_plan, own_faults = kind.of_seed(seed)
    plan, faults, defences = plan or own_plan, faults or own_faults, defences or kind.all_defences()
    world = kind.make(seed, plan, faults, defences)
    with seams.running(world), seams.replaced(kind.replacements(defences)):
        try:
            findings = kind.judge(world)
        except Exception:  # noqa: BLE001 - whatever production raises is what is looked for
            findings = Findings(0, 0, (Fault("stuck", b"", traceback.format_exc()),))
    return Result(kind, seed, plan, faults, findings, world.digest(), world.journal)
