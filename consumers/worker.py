"""One worker: the loop that moves records from Kafka through the owners into the store, and answers back.

Each turn of the loop: take what the store and Kafka have reported; try again what failed; take partitions that were
given; read records, unless too much is unfinished or a server is down; fold what waits for partitions that write
nothing; remind, commit and report when it is time. The loop never stops polling for longer than a pause takes to set
in, so the group keeps its member.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer

from consumers import clock
from consumers.assignment import Assignment
from consumers.batching import Batching
from consumers.counters import Counters
from consumers.errors import StoreUnavailableError, StuckError, WorkerError
from consumers.gateway import Gateway, Nobody
from consumers.health import ProgressWatch
from consumers.held import HeldPartition, Stage
from consumers.intake import Intake
from consumers.kafka_clients import LOG as KAFKA_LOG
from consumers.kafka_clients import consumer_config, member_of, producer_config
from consumers.kafka_errors import ALL_BROKERS_DOWN, POSITION_GONE, ending_error, is_fatal
from consumers.logs import set_level
from consumers.outage import KafkaOutage, Outage
from consumers.pipeline import Pipeline
from consumers.publisher import Publisher
from consumers.reading import BUSY_WAIT_S, Reader
from consumers.reminders import Reminders
from consumers.settings import WorkerSettings
from consumers.status import Status
from consumers.stores.contract import Store, TopicRecord
from consumers.upkeep import Upkeep
from consumers.window import Window
from schemas.codec import Codec
from schemas.topics import EVENTS, VALUE_BYTES_MAX, Setting

LOG = logging.getLogger(__name__)

REMIND_INTERVAL_S: Final = 0.25
KAFKA_ASKED_S: Final = 0.5
"""How long the loop stands still to hear whether Kafka is back."""
LEAVE_S: Final = 5.0
"""For the last commit and for leaving the group; where no coordinator answers, the client by itself waits for 45 s."""


class Worker:
    """Made, then `run` on one thread until `stop` is called from any; then it is of no more use."""

    def __init__(  # noqa: PLR0913 - what a worker is made of
        self,
        *,
        kafka: Mapping[str, Setting],
        store: Store,
        settings: WorkerSettings,
        topic: TopicRecord,
        node: str,
        codec: Codec,
        report: Callable[[Mapping[str, object]], None] = lambda _: None,
        upkeep: Upkeep | None = None,
        gateway: Gateway | None = None,
        counters: Counters | None = None,
    ) -> None:
        """Take the parts. `node` names this worker in leases and rows, and is its static member id if it has one.

        `report` is given the worker's status every `status_interval_s`; `upkeep`, where there is one, what goes into
        the statistics, and its configuration is taken up. `gateway` is given the deliveries that are its.
        """
        self.counters = counters or Counters()
        self.turns = 0
        """How often the loop has turned; a watchdog looks at it."""
        self._kafka = kafka
        self._store = store
        self._settings = settings
        self._node = node
        self._member = member_of(node, topic.generation) if settings.static_members else ""
        self._report = report
        self._upkeep = upkeep
        self._config_version = 0
        if upkeep is not None:
            upkeep.bind(self.counters)
        self._intake = Intake(codec.decode, VALUE_BYTES_MAX, settings.operators)
        self._outage = Outage(settings.retry_first_s, settings.retry_s_max)
        self._kafka_outage = KafkaOutage()
        self._publisher = Publisher(self._make_producer, self.counters, self._kafka_outage)
        self._pipeline = Pipeline(store, self._publisher, codec.encode, self._outage, self.counters, gateway=gateway)
        self._reminders = Reminders(store, self._pipeline, self.counters)
        self._gateway = gateway or Nobody()
        self._assignment = Assignment(
            store=store,
            pipeline=self._pipeline,
            settings=settings,
            topic=topic,
            node=node,
            counters=self.counters,
            drain=self._drain,
            forget=self._forget,
        )
        self._batching = Batching(store, self._assignment, self._pipeline, self.counters)
        self._status = Status(
            node=node,
            generation=topic.generation,
            assignment=self._assignment,
            outage=self._outage,
            kafka_outage=self._kafka_outage,
            counters=self.counters,
        )
        self._consumer: Any = None
        self._stopping = Event()
        self._failure: WorkerError | None = None
        self._deadline: float | None = None
        now = monotonic()
        self._turn_at = now
        self._window = Window(2 * settings.batch_records_max, now)
        self._progress = ProgressWatch(settings.watchdog_s, now)
        self._commit_at = self._lease_at = self._remind_at = self._report_at = now

    def _make_producer(self, error: Callable[[Any], None]) -> Producer:
        return Producer({**producer_config(self._kafka), "error_cb": error, "logger": KAFKA_LOG})

    def _forget(self, partition: int) -> None:
        self._reminders.forget(partition)
        self._gateway.drop(partition)

    def stop(self) -> None:
        """Have `run` finish what has begun, and return; the time for that begins now."""
        if self._deadline is None:
            self._deadline = monotonic() + self._settings.drain_timeout_s
        self._stopping.set()

    def run(self) -> bool:
        """Work until `stop`; return whether everything that had begun was finished in time.

        Raises the error that ended it otherwise: FencedError, LostRangeError, StuckError, KafkaRefusedError,
        StoreRefusedError.
        """
        self._join()
        try:
            while not self._stopping.is_set():
                self._turn()
                if self._failure is not None:
                    raise self._failure
            return self._shut_down()
        finally:
            self._leave()

    def _join(self) -> None:
        """Become a member of the group."""
        callbacks = {
            "on_commit": self._assignment.on_commit,
            "error_cb": self._consumer_error_event,
            "logger": KAFKA_LOG,
        }
        self._consumer = Consumer({**consumer_config(self._kafka, self._settings, self._member), **callbacks})
        self._assignment.bind(self._consumer)
        self._status.bind(self._consumer)
        self._reader = Reader(self._consumer, self._assignment, self._pipeline)
        assignment = self._assignment
        self._consumer.subscribe(
            [EVENTS], on_assign=assignment.on_assign, on_revoke=assignment.on_revoke, on_lost=assignment.on_lost
        )

    def _turn(self) -> None:
        """Do one round of the loop."""
        self.turns += 1
        now = monotonic()
        if now - self._turn_at > self._settings.stall_s:
            LOG.warning("the worker stood still", extra={"seconds": round(now - self._turn_at, 1)})
            self._lease_at = now
            self._progress.excuse(now)
        self._turn_at = now
        leases_hold = now < self._lease_at or self._leases_hold(now)
        self._pipeline.serve()
        self._publisher.pump()
        self._assignment.take()
        if leases_hold and self._may_read(now):
            self._take_in(self._reader.read(self._settings.batch_records_max))
        else:
            self._reader.keep_polling(now)
        if leases_hold and not self._outage.active and now >= self._outage.until:
            self._batching.begin(self._settings.batch_records_max)
        self._periodic(monotonic())

    def _leases_hold(self, now: float) -> bool:
        """Check the leases; False while the store does not answer: then nothing more is begun."""
        if self._outage.active and now < self._outage.until:
            return False
        try:
            self._assignment.check_leases()
        except StoreUnavailableError as error:
            self._pipeline.store_failed(error)
            return False
        self._outage.over()
        self._lease_at = now + self._settings.lease_check_s
        return True

    def _may_read(self, now: float) -> bool:
        """Say whether more may be read: nothing is down, and not too much is unfinished."""
        if self._outage.active and now >= self._outage.until:
            self._look_whether_store_is_back()
        return not self._outage.active and self._pipeline.unfinished < self._unfinished_max(now)

    def _unfinished_max(self, now: float) -> int:
        settings = self._settings
        return self._window.look(
            self._pipeline.finished,
            now,
            least=2 * settings.batch_records_max,
            most=settings.records_in_flight_max,
            within_s=settings.in_flight_s_max,
        )

    def _take_in(self, messages: Sequence[Any]) -> None:
        """Decode records; they wait for their partition's next batch."""
        self.counters.polls += 1
        admit, partitions = self._intake.admit, self._assignment.held
        for message in messages:
            if message.error() is not None:
                self._consumer_error(message)
                continue
            held, offset = partitions.get(message.partition()), message.offset()
            # Records of a partition that has gone, or that were read before a seek, are nobody's.
            if held is None or held.stage is not Stage.OWNED or offset < held.read_to:
                continue
            self._pipeline.take_in(held, admit(offset, message.timestamp()[1], message.key(), message.value()), message)

    def _look_whether_store_is_back(self) -> None:
        """Ask the store itself where nothing else is going to tell."""
        if self._pipeline.tries_again:
            return
        try:
            self._store.ping()
        except StoreUnavailableError as error:
            self._pipeline.store_failed(error)
            return
        self._outage.over()

    def _look_whether_kafka_is_back(self) -> None:
        """Ask Kafka itself: nothing else tells where nothing is written."""
        try:
            self._consumer.list_topics(EVENTS, timeout=KAFKA_ASKED_S)
        except KafkaException:
            self._kafka_outage.said(monotonic())
        else:
            self._kafka_outage.over()

    def _consumer_error_event(self, error: Any) -> None:  # noqa: ANN401 - the client's own types say less
        """Take an error of the consumer as a whole; those that it gets over are counted."""
        self.counters.kafka_errors += 1
        self._failure = self._failure or ending_error(error, self._member)
        if error.code() == ALL_BROKERS_DOWN:
            self._kafka_outage.said(monotonic())
        KAFKA_LOG.warning("[consumer]: %s", error.str(), extra={"fatal": is_fatal(error)})

    def _consumer_error(self, message: Any) -> None:  # noqa: ANN401
        """Take an error that came in place of a record."""
        error = message.error()
        if error.code() == POSITION_GONE:
            self._assignment.position_gone(message.partition())
            return
        self._consumer_error_event(error)

    def _periodic(self, now: float) -> None:
        """Do what is due by the clock."""
        if self._upkeep is not None:
            self._serve_upkeep(self._upkeep)
        settings = self._settings
        if now >= self._commit_at:
            self._commit_at = now + settings.commit_interval_s
            self._assignment.commit(self._assignment.held.values(), wait=False)
        if now >= self._remind_at and not self._outage.active and self._publisher.unsent == 0:
            self._remind_at = now + REMIND_INTERVAL_S
            self._remind()
        if self._kafka_outage.is_to_be_asked(now):
            self._look_whether_kafka_is_back()
        if now >= self._report_at:
            self._report_at = now + settings.status_interval_s
            self._report(self.status())
            self._observe()
            self._look_for_progress(now)

    def _serve_upkeep(self, upkeep: Upkeep) -> None:
        """Take up another version of the hot configuration; answer who asks for statistics now."""
        config = upkeep.config
        if config.version != self._config_version:
            self._config_version = config.version
            self._settings = upkeep.settings
            self._assignment.adopt(upkeep.settings)
            set_level(upkeep.settings.log_level)
            LOG.info("hot configuration taken up", extra={"version": config.version, "values": dict(config.values)})
        if upkeep.wants_observation:
            self._observe()

    def _observe(self) -> None:
        """Hand over what goes into the statistics."""
        if self._upkeep is not None:
            self._upkeep.observe(self._status.observation(stopping=self._stopping.is_set()))

    def _remind(self) -> None:
        now_ms = clock.now_ms()
        for held, owner in self._assignment.owned():
            if not owner.warming_up:
                try:
                    self._reminders.remind(held, owner, now_ms)
                except StoreUnavailableError as error:
                    self._pipeline.store_failed(error)
                    return

    def _look_for_progress(self, now: float) -> None:
        """End the worker where records wait and nothing moves, so that another takes over."""
        if self._outage.active or self._kafka_outage.active:
            self._progress.excuse(now)
        seen = [(held.partition, owner.position, owner.low_water) for held, owner in self._assignment.owned()]
        lag = self._status.lag_records()
        standing_s = self._progress.stuck_s(seen, lag, now)
        if standing_s:
            LOG.critical("records wait and nothing moves", extra={"lag": lag, "seconds": round(standing_s, 1)})
            raise StuckError(
                f"{lag} records waited for {standing_s:.0f} s and none was finished",
                "Look at the log before this line; another worker takes the partitions over.",
            )

    def status(self) -> dict[str, object]:
        """Return what there is to know about this worker, as JSON takes it."""
        return self._status.running(
            turns=self.turns, config_version=self._config_version, stopping=self._stopping.is_set()
        )

    def _drain(self, going: Sequence[HeldPartition]) -> None:
        """Finish the batches in flight of partitions that go, within the one deadline of this revoke or stop.

        What waits to be folded is left to whoever is next: nothing of it is written or committed.
        """
        revoked_by = monotonic() + self._settings.drain_timeout_s
        # A stop may come in the midst of a revoke: its time counts from then.
        while self._can_finish(going) and monotonic() < min(revoked_by, self._deadline or revoked_by):
            self.turns += 1
            self._pipeline.serve(BUSY_WAIT_S)
            self._publisher.pump(BUSY_WAIT_S)
        self._observe()  # what goes is seen a last time, with all that it has counted

    def _can_finish(self, going: Sequence[HeldPartition]) -> bool:
        """Say whether something has begun of which more will come: nothing of what a later owner has."""
        return any(held.in_flight and held not in self._pipeline.fenced for held in going)

    def _shut_down(self) -> bool:
        """Finish what has begun; say whether that was all of it."""
        LOG.info("stopping: what has begun is finished")
        deadline = self._deadline or monotonic()
        self._report(self.status())
        held = list(self._assignment.held.values())
        self._drain(held)
        clean = not self._can_finish(held)
        unreported = self._publisher.close(max(0.0, deadline - monotonic()))
        return clean and unreported == 0

    def _leave(self) -> None:
        """Leave the group, but wait no longer than `LEAVE_S`: beside this thread, which ends the process then."""
        leaving = Thread(target=self._close, name="leaving", daemon=True)
        leaving.start()
        leaving.join(LEAVE_S)
        if leaving.is_alive():
            LOG.warning("the group was not left in good order: its coordinator does not answer")

    def _close(self) -> None:
        """Leave the group, which revokes all partitions: what is finished of them is committed by that.

        What is still in flight is not committed, so the next owner does it again.
        """
        if self._deadline is None:
            self._deadline = monotonic()
        try:
            self._consumer.close()
        except (KafkaException, RuntimeError) as error:
            LOG.warning("leaving the group failed", extra={"error": str(error)})
        self._report(self._status.stopped(turns=self.turns))
