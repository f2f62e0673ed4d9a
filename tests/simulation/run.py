"""One run of one seed, judged."""

import traceback
from dataclasses import dataclass, replace

from compose.checking.checker import check
from compose.checking.history import Fault, Findings
from compose.checking.replay import changes
from tests.simulation import seams
from tests.simulation.defences import Defences, replacements
from tests.simulation.evidence import gather
from tests.simulation.faults import Faults, Plan, of_seed
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a seed."""

    seed: int
    plan: Plan
    faults: Faults
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


def run(seed: int, plan: Plan | None = None, faults: Faults | None = None, defences: Defences | None = None) -> Result:
    """Run a seed; what is not given is as the seed has it.

    An error that no part of production expects is a fault too: everything that it would have done is stuck.
    """
    own_plan, own_faults = of_seed(seed)
    plan, faults, defences = plan or own_plan, faults or own_faults, defences or Defences()
    world = World(seed, plan, faults, defences)
    with seams.running(world), seams.replaced(replacements(defences)):
        try:
            world.run()
            findings = _judged(world)
        except Exception:  # noqa: BLE001 - whatever production raises is what is looked for
            findings = Findings(0, 0, (Fault("stuck", b"", traceback.format_exc()),))
    return Result(seed, plan, faults, findings, world.digest(), world.journal)


def _judged(world: World) -> Findings:
    """Return what the checker finds, also after the whole log was folded once more where the plan says so."""
    history = gather(world)
    findings = check(history)
    if not world.plan.replays or not findings.faultless:
        return findings
    world.replay()
    again = gather(world)
    findings = check(again)
    return replace(findings, faults=(*findings.faults, *changes(history, again)))
