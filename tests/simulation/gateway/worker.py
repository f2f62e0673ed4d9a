"""A worker as far as it delivers to a gateway: production's courier, claiming and locks, turn by turn."""

# ruff: noqa: D102 - what stands in for a library is named after it

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop
from typing import TYPE_CHECKING, Any
from uuid import UUID

from consumers.claims.cassandra import CassandraClaimTable
from consumers.claims.claiming import Claiming, ClaimStep, Holding
from consumers.claims.contract import Answer, CallOutcome, Claim, ClaimKey, ClaimTable
from consumers.claims.courier import Courier
from consumers.claims.partition_locks import PartitionLocks
from consumers.claims.settings import WebhookSettings
from consumers.claims.sqlite import SqliteClaimTable
from consumers.counters import Counters
from consumers.errors import StoreUnavailableError
from consumers.locks.cassandra import CassandraLockTable
from consumers.locks.contract import LockHandle, LockLostError, LockTable
from consumers.locks.locking import TableLocks
from consumers.locks.sqlite import SqliteLockTable
from consumers.rows import Owner
from consumers.stores.contract import MessageKey, Rows
from consumers.stores.sqlite_schema import immediate
from schemas.records import Delivery, Event
from tests.simulation.cassandra import Session
from tests.simulation.gateway.rules import Call
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.gateway.world import GatewayWorld

SETTINGS = WebhookSettings(
    url="http://gateway", timeout_s=2, attempts_max=4, first_wait_s=1, wait_s_max=4, claim_ttl_s=5,
    calls_in_flight_max=1, waiting_max=5,
)  # fmt: skip


class Shared:
    """Production's connection to a SQLite store's shared tables, on the world's file."""

    def __init__(self, world: "GatewayWorld", process: Process) -> None:
        self._world = world
        self._process = process

    def _call(self, what: str) -> None:
        self._process.touch(what)
        world = self._world
        if world.store_is_down() or (world.chaos and world.chance.happens("busy", world.faults.read_fails)):
            raise StoreUnavailableError("SQLite cannot lock the file")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        self._call("begin")
        with immediate(self._world.file) as connection:
            yield connection
        self._process.touch("committed")

    def fetch(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        self._call("fetch")
        return self._world.file.execute(sql, values).fetchall()


class WatchedLocks(TableLocks):
    """Production's locks; the world takes note of who has what."""

    def __init__(self, world: "GatewayWorld", process: "CourierProcess", table: LockTable) -> None:
        super().__init__(
            table,
            process.name,
            monotonic=lambda: process.steady_ms() / 1000,
            sleep=lambda _: None,
            chance=world.chance.stream("holders"),
        )
        self._world = world
        self._process = process

    def acquire(self, key: str, *, ttl_s: int, wait_s: float = 0.0) -> LockHandle:
        asked = self._world.now
        handle = super().acquire(key, ttl_s=ttl_s, wait_s=wait_s)
        self._world.watch.had(self._process, asked, handle)
        self._world.note(self._process.name, "has", key, handle.token)
        return handle

    def renew(self, handle: LockHandle) -> LockHandle:
        try:
            renewed = super().renew(handle)
        except LockLostError:
            self._world.watch.gone(self._process, handle.key)
            self._world.note(self._process.name, "lost", handle.key, handle.token)
            raise
        self._world.watch.holds(self._process, renewed)
        return renewed

    def release(self, handle: LockHandle) -> bool:
        self._world.watch.gone(self._process, handle.key)
        self._world.note(self._process.name, "releases", handle.key, handle.token)
        return super().release(handle)


class WatchedClaims:
    """Production's claims, in which a defence can be switched off."""

    def __init__(self, world: "GatewayWorld", process: Process, table: ClaimTable) -> None:
        self._process = process
        self._defences = world.defences
        self._table = table

    def find(self, key: ClaimKey) -> Claim | None:
        found = self._table.find(key)
        return found if found is None or self._defences.token else found._replace(token=0)

    def put(self, claim: Claim, before: Claim | None, keep_s: int) -> bool:
        self._process.worst_moment("a claim that it has read", SETTINGS.claim_ttl_s * 1500)
        if not self._defences.version:
            before = self._table.find(claim.key)
        return self._table.put(claim, before, keep_s)


class CourierProcess(Process):
    """One worker; restarted it is another with the same name."""

    is_worker = True

    def __init__(self, world: "GatewayWorld", name: str) -> None:
        super().__init__(world, name)
        self._home = world
        self.owned: dict[int, Owner] = {}
        """What it believes to own."""
        self.looked = 0.0
        """When the step that goes on was begun."""
        self._inner = 0

    def steady_ms(self) -> float:
        return self._home.machine_ms() if self._home.plan.store == "sqlite" else super().steady_ms()

    def start(self) -> None:
        world = self._home
        self.alive = True
        self.lives += 1
        self._booted_at = world.now
        locks: LockTable
        claims: ClaimTable
        if world.plan.store == "sqlite":
            shared: Any = Shared(world, self)
            locks = SqliteLockTable(shared, now_ms=self.wall_ms, tick_ms=world.machine_tick_ms)
            claims = SqliteClaimTable(shared, now_ms=self.wall_ms)
        else:
            session: Any = Session(world, self, world.server)
            locks = CassandraLockTable(session, "k", now_ms=self.wall_ms)
            claims = CassandraClaimTable(session, "k")
        claiming = Claiming(
            table=WatchedClaims(world, self, claims),
            reader=self,
            handler=self,
            settings=SETTINGS,
            now_ms=self.wall_ms,
            chance=world.chance.stream("waits").random,
        )
        self._claiming = claiming
        self.counters = Counters()
        self.courier = Courier(
            step=self._step,
            locks=PartitionLocks(WatchedLocks(world, self, locks), SETTINGS.claim_ttl_s),
            write=self._write,
            settings=SETTINGS,
            counters=self.counters,
            now_ms=self.wall_ms,
        )
        self.owned = {}

    def die(self) -> None:
        self.alive = False
        self.owned = {}

    def turn(self) -> None:
        self.run(self._turn)

    def _turn(self) -> None:
        world = self._home
        self._learn()
        for partition, owner in sorted(self.owned.items()):
            for delivery in world.due(partition):
                if self.wall_ms() > delivery.deliver_by:
                    world.expire(delivery, self.wall_ms())
                elif world.chance.happens("repeats", 0.5):
                    self.courier.submit(partition, owner, delivery)
        self.work()

    def _learn(self) -> None:
        """Take up what the group says, sooner or later."""
        world = self._home
        if world.chaos and world.chance.happens("does not learn", 0.4):
            return
        for partition in [each for each in self.owned if world.owners[each][0] is not self]:
            del self.owned[partition]
            self.courier.drop(partition)
        for partition, (process, epoch) in world.owners.items():
            if process is self:
                self.owned[partition] = Owner(epoch, self.name)

    def work(self) -> None:
        """Do what one thread of the courier would: one step of the first task that is due."""
        courier = self.courier
        courier.release_gone()
        while courier._due and courier._is_old(*courier._due[0]):
            heappop(courier._due)
        if courier._due and courier._due[0][0] <= self.wall_ms():
            taken = courier._take()
            assert taken is not None
            courier._serve(*taken)

    def _step(self, delivery: Delivery, holding: Holding) -> ClaimStep:
        self.worst_moment("has the lock", SETTINGS.claim_ttl_s * 1500)
        self.looked = self._home.now
        return self._claiming.step(delivery, holding)

    # what claiming asks of others

    def read(self, messages: list[MessageKey], conversations: list[str]) -> Rows:
        world = self._home
        self.touch("read")
        if world.store_is_down() or (world.chaos and world.chance.happens("row read", world.faults.read_fails)):
            raise StoreUnavailableError("no answer")
        return Rows({key: world.rows[key] for key in messages if key in world.rows}, {})

    def _write(self, event: Event) -> bool:
        self.touch("write")
        return self._home.write(event)

    def __call__(self, delivery: Delivery, key: UUID, attempt: int) -> Answer:
        """Call the gateway."""
        world, chance, faults = self._home, self._home.chance, self._home.faults
        lock = world.lock_of(delivery)
        token = world.watch.sure_token(self, lock) if world.defences.lock else 0
        call = Call(ClaimKey.of(delivery), key, self, self.lives, lock, token, self.looked)
        world.watch.begins(call)
        world.note(self.name, "calls", delivery.message_id.hex()[-4:], attempt)
        self._other_thread()
        self.touch("call")
        if world.chaos and chance.happens("stalls", faults.call_stalls):
            world.stand_still(self, "the call", int(SETTINGS.timeout_s * 1000))
        call.ended = world.now
        if world.chaos and chance.happens("refused", faults.call_refused):
            return Answer(CallOutcome.NEVER, "status 400")
        if world.chaos and chance.happens("call fails", faults.call_fails):
            return Answer(CallOutcome.AGAIN, "status 503", chance.pick("retry after", (None, None, 3.0)))
        call.took_effect = True
        self.touch("answer")
        if world.chaos and chance.happens("answer lost", faults.answer_lost):
            return Answer(CallOutcome.AGAIN, "no answer")
        return Answer(CallOutcome.DONE, "status 200")

    def _other_thread(self) -> None:
        """Have the worker's loop, and another of the courier's threads, go on while a call is made."""
        world = self._home
        if not world.chaos or self._inner or not world.chance.happens("interleave", world.faults.threads_interleave):
            return
        self._inner, looked = 1, self.looked
        try:
            for _ in range(world.chance.whole("inner turns", 1, 3)):
                if world.depth < 2:
                    world.stand_still(self, "one thread", 100)
                self._turn()
        finally:
            self._inner, self.looked = 0, looked
