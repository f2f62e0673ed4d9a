"""One demo from start to end: workers, clients, and what is done to them while messages are on their way."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compose import outboxes
from compose.demo.acts import Act, Director
from compose.demo.crew import Workers
from compose.demo.evidence import gather
from compose.demo.findings import DemoFindings, judge
from compose.demo.network import Network
from compose.demo.plan import Plan, users
from compose.demo.processes import Process
from compose.demo.screen import Screen, Snapshot, Tone
from compose.demo.watch import Watcher
from consumers.stores.contract import Store
from schemas.lifecycle import State

LOOK_EVERY_S: Final = 0.2
STALLED_S: Final = 60.0
"""Nothing moves for this long: what is not settled by then is stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a visitor can choose."""

    plan: Plan
    folder: Path
    config: Path
    rate: float
    """Messages a second, of all clients together."""


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """What came of it."""

    findings: DemoFindings
    seconds: float
    """From the first process's start to the last message's final state."""
    workers_killed: int
    clients_cut_off: int
    takeovers: int
    """How often a partition was given to an owner with a new epoch while messages were on their way."""


class Demo:
    """The run itself; servers, store and screen are given, and the network of the client that is cut off."""

    def __init__(self, options: Options, *, workers: Workers, store: Store, screen: Screen, network: Network) -> None:
        self._options = options
        self._workers = workers
        self._store = store
        self._screen = screen
        self._network = network
        self._began = time.monotonic()
        self._began_at = time.time()
        self._outbox_of = {user: options.folder / f"{user}.sqlite" for user in users(options.plan)}
        self._cuttable = next(iter(self._outbox_of))
        self._clients = {user: self._client(user) for user in self._outbox_of}
        self._cuts = 0
        self._is_cut = False
        self._killed: list[str] = []
        self._epochs: dict[int, int] = {}
        self._takeovers = 0

    def run(self, dead_letters: Callable[[], int]) -> DemoOutcome:
        """Play the whole demo.

        1. Start workers and clients; clients send at their own pace and read whatever comes.
        2. Look, show, and act as the script says, until every message is settled or nothing moves any more.
        3. End clients, then workers, so that all files are closed.
        4. Judge what they left behind.
        """
        refused_before = dead_letters()
        try:
            self._workers.start()
            for client in self._clients.values():
                client.start()
            seconds = self._play()
            refused = dead_letters() - refused_before
        finally:
            self._network.mend()
            self._end()
        findings = judge(gather(self._options.plan, self._outbox_of, self._store, refused))
        return DemoOutcome(findings, seconds, len(self._killed), self._cuts, self._takeovers)

    def _client(self, user: str) -> Process:
        options = self._options
        command = [
            sys.executable, "-m", "compose.demo.client",
            "--config", str(options.config), "--user", user, "--outbox", str(self._outbox_of[user]),
            "--messages", str(options.plan.messages), "--seed", str(options.plan.seed),
            f"--suffix={options.plan.suffix}", "--rate", str(options.rate), "--began", str(self._began_at),
        ]  # fmt: skip
        if user == self._cuttable:
            command += ["--brokers", self._network.addresses]
        return Process(f"client {user}", command, options.folder / f"{user}.log")

    def _play(self) -> float:
        watcher = Watcher(self._options.plan, self._outbox_of, self._store, self._doing)
        director = Director()
        moved = (-1, -1, -1, -1)
        moved_at = now = 0.0
        while True:
            now = time.monotonic() - self._began
            snapshot = watcher.snapshot(now)
            self._screen.update(snapshot)
            self._notice(snapshot)
            act = director.due(snapshot.sent / snapshot.messages, now) if self._workers.at_work() else None
            if act is not None:
                self._perform(act, snapshot, now)
            if snapshot.settled == snapshot.messages and director.finished:
                return now
            counts = (snapshot.written, snapshot.sent, snapshot.delivered, snapshot.settled)
            if counts != moved:
                moved, moved_at = counts, now
            elif now - moved_at > STALLED_S:
                self._screen.event(f"nothing moved for {STALLED_S:.0f} s: the rest is stuck", seconds=now)
                return now
            self._check()
            time.sleep(LOOK_EVERY_S)

    def _notice(self, snapshot: Snapshot) -> None:
        """Tell which partitions changed hands since the last look."""
        taken: dict[str, list[int]] = {}
        for holding in snapshot.holdings:
            if self._epochs.get(holding.partition, holding.epoch) != holding.epoch:
                self._takeovers += 1
                taken.setdefault(holding.node, []).append(holding.partition)
            self._epochs[holding.partition] = holding.epoch
        for node, partitions in taken.items():
            listed = ", ".join(map(str, partitions))
            self._screen.event(f"{node} took over partition {listed} with a new epoch", seconds=snapshot.seconds)

    def _perform(self, act: Act, snapshot: Snapshot, now: float) -> None:
        match act:
            case Act.KILL_WORKER:
                busiest = _busiest(snapshot)
                name = self._workers.kill(busiest)
                self._killed.append(name)
                self._screen.event(f"{name} killed (SIGKILL) in the middle of its work", seconds=now, tone=Tone.BAD)
            case Act.CUT_OFF_CLIENT:
                self._network.cut()
                self._is_cut = True
                self._cuts += 1
                text = f"client {self._cuttable} cut off from the network; {self._cuttable} writes on"
                self._screen.event(text, seconds=now, tone=Tone.BAD)
            case Act.RECONNECT_CLIENT:
                waiting = outboxes.states(self._outbox_of[self._cuttable])[State.PENDING]
                self._network.mend()
                self._is_cut = False
                text = f"client {self._cuttable} has its network again; {waiting} messages wait in its outbox"
                self._screen.event(text, seconds=now, tone=Tone.GOOD)

    def _doing(self) -> Mapping[str, str]:
        clients = {client.name: "running" for client in self._clients.values()}
        if self._is_cut:
            clients[self._clients[self._cuttable].name] = "cut off"
        return {**self._workers.doing(), **clients}

    def _check(self) -> None:
        """Raise where a process ended that nobody touched: the demo is about faults that it knows."""
        self._workers.check()
        for client in self._clients.values():
            client.check()

    def _end(self) -> None:
        for client in self._clients.values():
            client.ask_to_stop()
        for client in self._clients.values():
            client.stopped()
        self._workers.stop()


def _busiest(snapshot: Snapshot) -> str | None:
    """Return the node that owns most partitions, None before any does."""
    nodes = [holding.node for holding in snapshot.holdings]
    return max(sorted(set(nodes)), key=nodes.count) if nodes else None
