"""One fault run: a deployment under load, a schedule of faults, healing, and the checker's word on what is left."""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from compose.checking.checker import check
from compose.checking.history import Findings
from consumers.errors import ExitCode
from tests.faults.crew import Machine, Phone, Places, until
from tests.faults.deeds import Ground
from tests.faults.evidence import Evidence, gather, unfinished
from tests.faults.schedule import Act, Cast, schedule
from tests.faults.stage import NODES_OF_CLUSTER, Disk, prepare, stack_of
from tests.faults.takeovers import figures, takeovers
from tests.reports import commit

if TYPE_CHECKING:
    from compose.demo.processes import Process

USERS: Final = ("ann", "ben", "cleo", "dan", "eve", "finn")
MACHINES: Final = ("m1", "m2", "m3")
LOOK_EVERY_S: Final = 0.5
OWNED_WITHIN_S: Final = 180.0
STILL_S: Final = 3.0
EXPECTED_CODES: Final = frozenset({
    -9,
    int(ExitCode.DONE),
    int(ExitCode.UNDRAINED),
    int(ExitCode.UNREACHABLE),
    int(ExitCode.FENCED),
    int(ExitCode.UNRELEASED),
    int(ExitCode.TOPIC_CHANGED),
})  # fmt: skip
"""How workers may end: killed, stopped, without servers at their start, doubled, refusing another partition count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be chosen."""

    seconds: float
    seed: int
    cluster: bool
    folder: Path
    rate: float
    """Messages a second, of all clients together."""
    protocol: str
    quiet_s: float
    """How long everything may take to end after healing."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it."""

    report: Mapping[str, Any]
    findings: Findings
    complaints: Sequence[str]

    @property
    def faultless(self) -> bool:
        """Say whether nothing was found."""
        return self.findings.faultless and not self.complaints


class Run:
    """A run, from the first server's start to the report."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._places = Places(folder=options.folder)
        self._stack = stack_of(options.folder / "stack", cluster=options.cluster)

    def run(self) -> Result:
        """Play it.

        1. Servers, topics and tables; workers, until they own every partition; clients.
        2. The schedule, line beside line.
        3. Heal all, send no more, wait until nothing is on its way or the time for that is over.
        4. End clients, then workers; collect what is left; check.
        """
        self._places.make(USERS)
        disk = Disk(self._places.outbox(USERS[0]).parent)
        ground: Ground | None = None
        try:
            prepare(self._stack, self._places.config, self._places.status, self._options.protocol, say)
            ground = self._people(disk)
            self._play(ground)
            quiet_after_s = self._settle(ground)
            self._end(ground)
            disk.dissolve()
            return self._judge(ground, quiet_after_s)
        finally:
            if ground is not None:
                self._end(ground)
            disk.dissolve()
            self._stack.down()

    def _people(self, disk: Disk) -> Ground:
        options = self._options
        rate = options.rate / len(USERS)
        machines = [Machine(self._places, node) for node in MACHINES]
        phones = [Phone(self._places, user, USERS, seed=options.seed, rate=rate) for user in USERS]
        ground = Ground(self._places, self._stack, machines, phones, disk, options.protocol)
        for machine in machines:
            machine.start()
        if not until(lambda: all(machine.epochs() for machine in machines), OWNED_WITHIN_S):
            self._end(ground)
            raise AssertionError(f"workers do not begin within {OWNED_WITHIN_S:.0f} s: see {self._places.folder}")
        for phone in phones:
            phone.start()
        ground.began = time.monotonic()
        return ground

    # -- the schedule

    def _play(self, ground: Ground) -> None:
        options = self._options
        cast = Cast(len(ground.machines), len(ground.phones), NODES_OF_CLUSTER if options.cluster else 1)
        plan = schedule(options.seed, options.seconds, cast)
        lines = [Thread(target=_play_line, args=(ground, line), daemon=True) for line in plan.lines]
        for line in lines:
            line.start()
        while any(line.is_alive() for line in lines):
            time.sleep(LOOK_EVERY_S)
            _look_after(ground)
        for act in plan.last:
            _perform(ground, act)
        while time.monotonic() - ground.began < options.seconds:
            time.sleep(LOOK_EVERY_S)
            _look_after(ground)

    # -- afterwards

    def _settle(self, ground: Ground) -> float:
        """Heal everything and wait; return how long it took until nothing was on its way."""
        began = time.monotonic()
        (self._places.control / "quiet").touch()
        for order in chain(self._places.control.glob("die-*"), self._places.control.glob("clock-*")):
            order.unlink(missing_ok=True)
        ground.disk.free()
        self._stack.up(say)
        still_since: float | None = None
        told: Counter[str] = Counter()
        while time.monotonic() - began < self._options.quiet_s:
            _look_after(ground)
            told = unfinished(self._places, USERS)
            if told:
                still_since = None
            elif still_since is None:
                still_since = time.monotonic()
            elif time.monotonic() - still_since > STILL_S:
                return still_since - began
            time.sleep(LOOK_EVERY_S)
        ground.complain(f"{dict(told)} are still on their way {self._options.quiet_s:.0f} s after healing")
        return self._options.quiet_s

    def _end(self, ground: Ground) -> None:
        for phone in ground.phones:
            phone.process.ask_to_stop()
        for phone in ground.phones:
            phone.process.stopped()
        for machine in ground.machines:
            machine.supervisor.ask_to_stop()
        for machine in ground.machines:
            machine.stop()

    def _judge(self, ground: Ground, quiet_after_s: float) -> Result:
        say("reading what is left ...")
        quiet_s = self._options.quiet_s
        evidence = gather(self._places, USERS, self._stack, ground.boundaries, ground.generations_at, quiet_s)
        say(f"checking {len(evidence.history.sent)} sends against {evidence.log_records} events of the log ...")
        findings = check(evidence.history)
        for machine in ground.machines:
            ends = Counter(line["code"] for line in machine.lines("worker process ended"))
            for code in ends.keys() - EXPECTED_CODES:
                ground.complain(f"the worker of {machine.node} ended with {code}, {ends[code]} times")
        report = self._report(ground, evidence, findings, quiet_after_s)
        return Result(report, findings, ground.complaints)

    def _report(
        self, ground: Ground, evidence: Evidence, findings: Findings, quiet_after_s: float
    ) -> Mapping[str, Any]:
        options = self._options
        history, told = evidence.history, evidence.first_told
        moves = list(takeovers(ground.kills, history.stored, told, ground.disturbed))
        calm = [one for one in moves if one.undisturbed]
        deeds = Counter(done.deed for done in ground.done if not done.missed)
        ends = Counter(
            str(line["code"]) for machine in ground.machines for line in machine.lines("worker process ended")
        )
        return {
            "command": _command(options),
            "commit": commit(),
            "seed": options.seed,
            "minutes": round(options.seconds / 60, 2),
            "servers": f"{NODES_OF_CLUSTER} Kafka, {NODES_OF_CLUSTER} Cassandra" if options.cluster else "one of each",
            "protocol": options.protocol,
            "counts": dict(findings.counts()),
            "kills": sum(count for deed, count in deeds.items() if "killed" in deed),
            "pauses": sum(count for deed, count in deeds.items() if "paused" in deed),
            "deeds": {str(deed): count for deed, count in sorted(deeds.items())},
            "disk": ground.disk.kind,
            "takeover": {
                "by another worker": figures([one.seconds for one in calm if one.moved]),
                "by the same worker, started again": figures([one.seconds for one in calm if not one.moved]),
                "while servers were away too": figures([one.seconds for one in moves if not one.undisturbed]),
            },
            "quiet_after_s": round(quiet_after_s, 1),
            "log_records": evidence.log_records,
            "client_deaths_right_after_send": evidence.deaths_after_send,
            "dead_letters": dict(evidence.dead_letters),
            "worker_exit_codes": dict(ends),
            "complaints": list(ground.complaints),
            "faults": [
                {"kind": one.kind, "message_id": one.message_id.hex(), "detail": one.detail[:2000]}
                for one in findings.faults[:100]
            ],
            "done": [list(done) for done in sorted(ground.done)],
        }


def _play_line(ground: Ground, line: Sequence[Act]) -> None:
    for act in line:
        wait_s = act.at_s - (time.monotonic() - ground.began)
        if wait_s > 0:
            time.sleep(wait_s)
        _perform(ground, act)


def _perform(ground: Ground, act: Act) -> None:
    say(f"{time.monotonic() - ground.began:6.1f} s: {act.deed}")
    try:
        ground.perform(act)
    except Exception as error:  # noqa: BLE001 - the line goes on; that this deed failed is part of the verdict
        ground.complain(f"{act.deed}: {error!r}")


def _look_after(ground: Ground) -> None:
    """Start again what ended by itself, and say so: nobody else was to end it."""
    everyone: list[tuple[Machine | Phone, str, Process]] = [
        *((phone, f"client {phone.user}", phone.process) for phone in ground.phones),
        *((machine, f"the supervisor of {machine.node}", machine.supervisor) for machine in ground.machines),
    ]
    for one, name, process in everyone:
        if not one.lock.acquire(blocking=False):
            continue  # somebody is about to start it
        try:
            if not process.running:
                ground.complain(f"{name} ended by itself with {process.code}")
                one.start()
        finally:
            one.lock.release()


def _command(options: Options) -> str:
    cluster = " --cluster" if options.cluster else ""
    minutes = f"{options.seconds / 60:g}"
    return (
        f"python -m tests.faults --minutes {minutes} --seed {options.seed} --rate {options.rate:g}"
        f" --protocol {options.protocol}{cluster}"
    )


def say(line: str) -> None:
    """Tell a person what goes on."""
    sys.stderr.write(f"{line}\n")
