"""A simulated worker process: production's `Worker`, turn by turn."""

# ruff: noqa: D102 - what stands in for a library is named after it

from typing import TYPE_CHECKING, Any

from consumers.errors import WorkerError
from consumers.fold import Policy
from consumers.redelivery import Schedule
from consumers.settings import WorkerSettings
from consumers.stores.contract import TopicRecord
from consumers.worker import Worker
from schemas.topics import EVENTS
from tests.simulation.broker import SimProducer
from tests.simulation.client import CODEC
from tests.simulation.group import GroupConsumer
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

OPERATOR = "operator"
"""Who may park and release."""
POLICY = Policy(delivery_timeout_s=90, parked_max=6)
SETTINGS = WorkerSettings(
    static_members=False,
    batch_records_max=4,
    records_in_flight_max=10,
    lease_check_s=3,
    stall_s=5,
    session_timeout_s=8,
    drain_timeout_s=0.1,
    status_interval_s=30,
    watchdog_s=7200,
    retry_s_max=2,
    tail_records=6,
    grace_s=8,
    pending_max=4,
    cached_conversations_max=2,
    policy=POLICY,
    operators=(OPERATOR,),
    schedule=Schedule(first_wait_s=3, wait_s_max=30, bucket_s=10),
)


class WorkerProcess(Process):
    """One worker; restarted it is another with the same name."""

    is_worker = True

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self.worker: Worker | None = None
        self.consumer: GroupConsumer | None = None
        self.producer: SimProducer | None = None
        self.store = world.shelf.session(self)
        self._joined = False

    def start(self) -> None:
        self.alive = True
        self.lives += 1
        self._joined = False

    def make_consumer(self, config: dict[str, Any]) -> GroupConsumer:
        self.consumer = GroupConsumer(self.world, self, config)
        return self.consumer

    def make_producer(self, config: dict[str, Any]) -> SimProducer:
        self.producer = SimProducer(self.world, self, config["error_cb"])
        return self.producer

    def turn(self) -> None:
        self.run(self._turn)

    def _turn(self) -> None:
        try:
            if not self._joined:
                self._join()
            assert self.worker is not None
            self.worker._turn()
        except WorkerError as error:
            # It ends, with an exit code that says why; its supervisor starts another.
            self.world.note(self.name, "ended", str(error))
            self.die()

    def _join(self) -> None:
        record = TopicRecord(EVENTS, "simulated", self.world.plan.partitions, 1)
        self.worker = Worker(kafka={}, store=self.store, settings=SETTINGS, topic=record, node=self.name, codec=CODEC)
        self.worker._join()
        self._joined = True

    def stop(self) -> None:
        """Drain and leave."""
        self.run(self._stop)

    def _stop(self) -> None:
        if not self._joined or self.worker is None:
            return
        try:
            self.worker.stop()
            self.worker._shut_down()
            self.worker._close()
        except WorkerError as error:
            self.world.note(self.name, "ended", str(error))
        if self.consumer is not None:
            self.consumer.gone()
        self.die()

    def die(self) -> None:
        self.alive = False
        self.store.die()
        if self.producer is not None:
            self.producer.let_go()
        if self.consumer is not None and not self.consumer.closed:
            # Nobody tells the group; it finds out after the session time-out.
            self.world.leave_after_session(self.consumer)
        self.worker = self.consumer = self.producer = None

    def owned(self) -> set[int]:
        """Return the partitions that it owns."""
        return set() if self.worker is None else {held.partition for held, _ in self.worker._assignment.owned()}

    def is_quiet(self) -> bool:
        """Say whether nothing is left to be done in its partitions."""
        if self.worker is None:
            return False
        for held, owner in self.worker._assignment.owned():
            end = self.world.events[held.partition].end
            if owner.position < end or owner.low_water < end or owner.pending.entries:
                return False
        return not self.store.under_way
