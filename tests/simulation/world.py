"""The simulated world: one thread, one clock, one seed. Each step lets one thing happen, good or bad.

Chaos first: processes take turns, the network moves, faults strike. Then everything is healed and the world runs until
it is quiet, or for as long as that may take. What it leaves behind is judged by the checker.
"""

# ruff: noqa: D102 - what stands in for a library is named after it

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from compose.checking.history import Answer, LateWrite
from consumers.parking import is_parked
from consumers.rows import MessageRow, Owner
from schemas.records import NO_ID, Acknowledgement
from schemas.topics import EVENTS, INBOX
from tests.simulation.broker import Handed, Partition, Record, SimProducer, partition_for
from tests.simulation.chance import Chance, Strikes
from tests.simulation.client import CODEC, Client
from tests.simulation.defences import Defences, shown
from tests.simulation.faults import Faults, Plan
from tests.simulation.group import Group, GroupConsumer
from tests.simulation.operating import Operator
from tests.simulation.process import Process, in_calls
from tests.simulation.shelf import Shelf
from tests.simulation.sqlite_shelf import SqliteShelf
from tests.simulation.strict_shelf import StrictShelf
from tests.simulation.strikes import DEEDS
from tests.simulation.worker import SETTINGS, WorkerProcess

if TYPE_CHECKING:
    from collections import deque

START_MS = 1_800_000_000_000
USERS = ("alice", "bob", "carol", "dave", "erin")
_PASSES_MS = (0, 0, 0, 1, 2, 5, 20, 100, 400, 1_500)
SETTLED_WITHIN_S = 1_800.0
"""Of simulated time after healing: what has not ended by then is stuck. More than any message may take: what a worker
whose clock was ahead by the most kept until then (1,200 s), its delivery time (90 s), and the work of a long log."""
_PAUSES_MS = (500, 3_000, 6_000, 12_000, 40_000)


class World:
    """Everything there is."""

    def __init__(self, seed: int, plan: Plan, faults: Faults, defences: Defences) -> None:
        self.seed = seed
        self.plan = plan
        self.faults = faults
        self.defences = defences
        self.chance = Chance(seed)
        self.now = float(START_MS)
        self.chaos = True
        self.depth = 0
        self.journal: list[tuple[object, ...]] = []
        self.users = USERS[: plan.clients]
        self.messages_left = plan.messages
        self._bodies = 0
        self.events = [Partition(EVENTS, number) for number in range(plan.partitions)]
        self.inbox = [Partition(INBOX, number) for number in range(2)]
        self.producers: list[SimProducer] = []
        self.letters: list[bytes] = []
        self._orphans: list[deque[Handed]] = []
        self._ghosts: list[tuple[float, GroupConsumer]] = []
        self.group = Group(self, plan.partitions)
        self.shelf = self._make_shelf()
        self.late_writes: list[LateWrite] | None = [] if plan.store == "sqlite" else None
        self._shown = shown(defences)
        # Where commits are not flushed (a defence switched off), files are now and then all the same.
        odds = {name: getattr(faults, name, 0.0 if defences.flush else 0.05) for name in DEEDS}
        self._strikes = Strikes(self.chance, odds)
        self.in_calls = in_calls(self)
        self.store_down_until = self.kafka_down_until = 0.0
        self.answers: list[Answer] = []
        self.clients = [Client(self, name) for name in self.users]
        self.clients += [Client(self, f"{name}'s tablet", name) for name in self.users[: plan.tablets]]
        self.workers = [WorkerProcess(self, f"w{number}") for number in range(plan.workers)]
        self.processes: list[Process] = [*self.clients, *self.workers]
        self.operator = Operator(self)
        self.current: Process = self.processes[0]
        for process in self.processes:
            process.start()

    def _make_shelf(self) -> "Shelf | SqliteShelf":
        defences = self.defences
        if self.plan.store == "sqlite":
            return SqliteShelf(self)
        if self.plan.store == "strict":
            return StrictShelf(self, by_epoch=defences.own_buckets)
        return Shelf(
            self, keeps_larger_stamp=defences.stamp, raises_epoch=defences.fence, by_epoch=defences.own_buckets
        )

    # what production's doubles ask of the world

    def note(self, *what: object) -> None:
        """Put something into the journal, by which two runs are compared and a failure is told."""
        self.journal.append((int(self.now) - START_MS, *what))

    def shown(self, row: MessageRow) -> MessageRow:
        """Return what a worker is shown of a row that it reads."""
        return self._shown(row)

    def make_group_consumer(self, config: dict[str, Any]) -> GroupConsumer:
        assert isinstance(self.current, WorkerProcess)
        return self.current.make_consumer(config)

    def make_worker_producer(self, config: dict[str, Any]) -> SimProducer:
        assert isinstance(self.current, WorkerProcess | Operator)
        return self.current.make_producer(config)

    def conversations(self) -> list[str]:
        """Return the conversations that there are, as anybody can read in the log."""
        return sorted({record.key().decode() for partition in self.events for record in partition.records[-20:]})

    def next_body(self) -> bytes:
        self._bodies += 1
        return f"message {self._bodies}".encode()

    def store_is_down(self) -> bool:
        return self.now < self.store_down_until

    def kafka_is_down(self) -> bool:
        return self.now < self.kafka_down_until

    def node_ms(self) -> float:
        """Return the time by the store's nodes; nothing here ends by it."""
        return self.now

    def saw_write(self, partition: int | None, owner: Owner, epoch: int) -> None:
        """Take note of a write that a store which can tell has taken, while the lease was at `epoch`."""
        if self.late_writes is not None and epoch > owner.epoch:
            self.late_writes.append(LateWrite(partition or 0, owner.epoch, epoch))

    def wait(self, timeout_s: float) -> None:
        """Let a moment pass for whoever waits."""
        self.now += timeout_s * 1000
        self._network()

    def meanwhile(self, timeout_s: float) -> None:
        """Let the others go on while somebody waits."""
        self.depth += 1
        before = self.current
        try:
            if self.chaos:
                for _ in range(4):
                    self.step()
            else:
                self._round()
                timeout_s = max(timeout_s, 1.0)
        finally:
            self.now += timeout_s * 1000
            self.depth -= 1
            self.current = before

    def append(self, handed: Handed) -> Record:
        """Append a record to the log."""
        log = {EVENTS: self.events, INBOX: self.inbox}.get(handed.topic)
        if log is None:
            self.letters.append(handed.value)
            return Record(handed.topic, 0, 0, int(self.now), handed.key, handed.value)
        partition = log[partition_for(handed.key, len(log))]
        record = partition.append(handed, self.now)
        if handed.topic == INBOX:
            self._hear_answer(handed.value)
        else:
            self.note("log", partition.number, record.offset(), blake2b(handed.value, digest_size=4).hexdigest())
        return record

    def _hear_answer(self, value: bytes) -> None:
        answer = CODEC.decode(value)
        if isinstance(answer, Acknowledgement) and answer.version and answer.message_id != NO_ID:
            durable = self.shelf.version((answer.conversation_id, answer.message_id))
            self.answers.append(Answer(answer.message_id, answer.version, durable))

    def leave_to_network(self, queue: "deque[Handed]") -> None:
        """Leave a producer's records to the network: a part of them may still land, in order."""
        if queue and self.chance.happens("orphan", 0.6):
            self._orphans.append(queue)

    def leave_after_session(self, member: GroupConsumer) -> None:
        """Have the group find out that a member is dead."""
        self._ghosts.append((self.now + SETTINGS.session_timeout_s * 1000, member))

    # chaos

    def run(self) -> None:
        """Run the chaos, then heal."""
        for _ in range(self.plan.steps):
            self.step()
        self.heal()

    def step(self) -> None:
        """Let one thing happen."""
        rng = self.chance.stream("step")
        self.now += _PASSES_MS[int(rng.random() * len(_PASSES_MS))]
        self._bury()
        doing = rng.random()
        if doing < 0.5:
            self._turn()
        elif doing < 0.88:
            self._network()
        else:
            able = [client for client in self.clients if client.alive and not client.busy and not client.frozen]
            if able:
                self.chance.pick("person", able).act()
        self._strike()

    def _bury(self) -> None:
        due = [member for at, member in self._ghosts if at <= self.now]
        if due:
            self._ghosts = [(at, member) for at, member in self._ghosts if at > self.now]
            for member in due:
                member.gone()

    def _turn(self) -> None:
        able = [each for each in self.processes if not each.busy and not each.frozen]
        if not able:
            return
        process = self.chance.pick("turn", able)
        if process.alive:
            process.turn()
        elif self.chance.happens("restart", 0.3):
            self.note(process.name, "started")
            process.start()

    def _network(self) -> None:
        """Let one thing that is under way get on."""
        ways: list[Any] = []
        if not self.kafka_is_down():
            ways += [producer.land for producer in self.producers if producer.queue and not producer.fatal]
            consumers = [worker.consumer for worker in self.workers if worker.consumer is not None]
            ways += [consumer.land_commit for consumer in consumers if consumer.commits]
            if self._orphans:
                ways.append(self._land_orphan)
        ways += [worker.store.advance for worker in self.workers if worker.store.under_way]
        if self.shelf.has_late and self.chance.happens("late lands", 0.3):
            ways.append(self.shelf.land_late)
        if ways:
            self.chance.pick("network", ways)()

    def _land_orphan(self) -> None:
        queue = self.chance.pick("orphan", self._orphans)
        if queue and self.chance.happens("orphan lands", 0.5):
            self.append(queue.popleft())
        else:
            self._orphans.remove(queue)

    def stand_still(self, process: Process, what: str, ms: int = 0) -> None:
        """Have a process stand still in a call while the others go on; for how long is left to chance by default."""
        ms = ms or self.chance.pick("pause", _PAUSES_MS)
        self.note(process.name, "stands still in", what, ms)
        is_expelled = ms > SETTINGS.session_timeout_s * 1000
        with process.standing_still(ms):
            if is_expelled and isinstance(process, WorkerProcess) and process.consumer is not None:
                process.consumer.expel(self.deafness())
            for _ in range(self.chance.whole("meanwhile", 5, 60)):
                self.step()

    def deafness(self) -> float:
        deaf = self.chance.happens("deaf", self.faults.expelled_without_knowing)
        return self.chance.pick("deafness", (300, 2_000, 9_000)) if deaf else 0.0

    def _strike(self) -> None:
        for name in self._strikes.count():
            DEEDS[name](self)

    def crash(self, process: Process) -> None:
        if process.alive and not process.busy:
            self.note(process.name, "crashes")
            process.frozen = False
            process.die()

    # healing

    def heal(self) -> None:
        """End all faults and run until nothing is left to be done, or for as long as that may take."""
        self.chaos = False
        until = self.now + SETTLED_WITHIN_S * 1000
        self.now += 1
        self.store_down_until = self.kafka_down_until = 0.0
        for process in self.processes:
            process.wall_off_ms = 0.0
        still = number = 0
        while self.now < until:
            still = 0 if self._round() else still + 1
            # Where all wait for a time to come, let it come sooner.
            self.now += 250 if not still else min(10_000, 500 << still)
            number += 1
            if number % 8 == 0:
                self.operator.settle()
            if number % 2 == 0 and self.is_quiet():
                return

    def replay(self) -> None:
        """Have the workers begin anew, with no position committed, so that the whole log is folded again."""
        for worker in self.workers:
            worker.stop()
        self.group.committed.clear()
        self.note("all", "folded again")
        self.heal()

    def _round(self) -> bool:
        """Let every process take a turn and all that is under way arrive; say whether something moved."""
        for process in self.processes:
            if not process.alive:
                process.start()
            elif process.busy:
                continue
            elif isinstance(process, Client):
                process.both()
            else:
                process.turn()
        self._bury()
        return self._settle_network()

    def _settle_network(self) -> bool:
        """Let all that is under way arrive; say whether something did."""
        moved = False
        for _ in range(200):
            before = len(self.journal)
            self._network()
            if self.shelf.has_late and not moved:
                self.shelf.land_late()
            if len(self.journal) == before and not self._is_under_way():
                break
            moved = True
        return moved

    def _is_under_way(self) -> bool:
        return (
            any(producer.queue and not producer.fatal for producer in self.producers)
            or any(worker.store.under_way for worker in self.workers)
            or bool(self._orphans)
            or self.shelf.has_late
        )

    def is_quiet(self) -> bool:
        """Say whether every message has ended and nothing is under way."""
        return (
            not self._is_under_way()
            and all(client.alive and client.is_quiet() for client in self.clients)
            and all(worker.alive and worker.is_quiet() for worker in self.workers)
            and len(set().union(*(worker.owned() for worker in self.workers))) == len(self.events)
            and not self.shelf.keeps_something()
            and (not self.operator.parked or not any(map(is_parked, self.shelf.conversation_rows())))
        )

    def digest(self) -> str:
        """Return what tells this run from another."""
        return blake2b(repr(self.journal).encode(), digest_size=16).hexdigest()
