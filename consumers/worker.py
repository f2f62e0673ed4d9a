"""One worker: the loop that moves records from Kafka through the owners into the store, and answers back.

Each turn of the loop: take what the store and Kafka have reported; try again what failed; take partitions that were
given; read records, unless too much is unfinished or a server is down; remind, commit and report when it is time. The
loop never stops polling for longer than a pause takes to set in, so the group keeps its member (case K1).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from time import monotonic, time_ns
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from consumers.assignment import Assignment
from consumers.counters import Counters
from consumers.errors import StoreUnavailableError, StuckError, WorkerError
from consumers.gateway import Gateway, Nobody
from consumers.health import Progress
from consumers.held import HeldPartition, Stage
from consumers.intake import Entry, Intake
from consumers.kafka_clients import LOG as KAFKA_LOG
from consumers.kafka_clients import consumer_config, producer_config
from consumers.kafka_errors import POSITION_GONE, is_fatal, verdict
from consumers.logs import set_level
from consumers.outage import Outage
from consumers.owner import PartitionOwner
from consumers.pipeline import Pipeline
from consumers.publisher import Publisher
from consumers.reminders import Reminders
from consumers.settings import WorkerSettings
from consumers.statistics.observed import Observation, Observed
from consumers.stores.contract import MessageKey, Rows, Store, TopicRecord
from consumers.upkeep import Upkeep
from consumers.window import Window
from consumers.work import Needs
from schemas.codec import Codec
from schemas.topics import EVENTS, VALUE_BYTES_MAX, Setting

LOG = logging.getLogger(__name__)

PAUSE_AFTER_S: Final = 0.5
"""A worker that may not read for longer pauses its partitions and polls on."""
REMIND_INTERVAL_S: Final = 0.25
HOTTEST_MAX: Final = 5
"""Conversations told of each partition."""
_BUSY_WAIT_S: Final = 0.005
_IDLE_WAIT_S: Final = 0.1
_NOTHING: Final = Rows({}, {})


class Batch:
    """Records of one partition, decoded, on their way to its owner."""

    __slots__ = ("entries", "held", "messages", "owner")

    def __init__(self, held: HeldPartition, owner: PartitionOwner) -> None:
        self.held = held
        self.owner = owner
        self.entries: list[Entry] = []
        self.messages: list[Any] = []


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
        self._topic = topic
        self._node = node
        self._member = node if settings.static_members else ""
        self._report = report
        self._upkeep = upkeep
        self._config_version = 0
        if upkeep is not None:
            upkeep.bind(self.counters)
        self._intake = Intake(codec.decode, VALUE_BYTES_MAX, settings.operators)
        self._outage = Outage(settings.retry_first_s, settings.retry_s_max)
        self._publisher = Publisher(self._make_producer, self.counters)
        self._pipeline = Pipeline(store, self._publisher, codec.encode, self._outage, self.counters, gateway=gateway)
        self._reminders = Reminders(
            store, self._publisher, self._pipeline, codec.encode, self.counters, gateway=gateway
        )
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
        self._consumer: Any = None
        self._stopping = Event()
        self._failure: WorkerError | None = None
        self._stash: list[Batch] = []
        self._strays: list[tuple[HeldPartition | None, Any]] = []
        """Records that came out while nothing was to be read, with the holding they were read under."""
        self._shut_since: float | None = None
        self._paused = False
        self._deadline: float | None = None
        now = monotonic()
        self._turn_at = now
        self._window = Window(settings.records_in_flight_max, now)
        self._progress = Progress(settings.watchdog_s, now)
        self._commit_at = self._lease_at = self._remind_at = self._report_at = now

    def _make_producer(self, error: Callable[[Any], None]) -> Producer:
        return Producer({**producer_config(self._kafka), "error_cb": error, "logger": KAFKA_LOG})

    def _forget(self, partition: int) -> None:
        self._reminders.forget(partition)
        self._gateway.drop(partition)

    def stop(self) -> None:
        """Have `run` finish what has been read, and return."""
        self._stopping.set()

    def run(self) -> bool:
        """Work until `stop`; return whether everything that was read was finished in time.

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
            self._close()

    def _join(self) -> None:
        """Become a member of the group."""
        callbacks = {
            "on_commit": self._assignment.on_commit,
            "error_cb": self._consumer_error_event,
            "logger": KAFKA_LOG,
        }
        self._consumer = Consumer({**consumer_config(self._kafka, self._settings, self._member), **callbacks})
        self._assignment.bind(self._consumer)
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
            self._take_in(self._read())
        else:
            self._keep_polling(now)
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
        if now >= self._outage.until and (self._stash or self._outage.active):
            self._look_whether_store_is_back()
        if self._stash or self._outage.active or self._pipeline.folds_again:
            return False
        if self._pipeline.unfinished >= self._unfinished_max(now):
            return False
        if self._paused:
            self._resume()
        self._shut_since = None
        return True

    def _unfinished_max(self, now: float) -> int:
        settings = self._settings
        return self._window.look(
            self._pipeline.finished,
            now,
            least=2 * settings.batch_records_max,
            most=settings.records_in_flight_max,
            within_s=settings.in_flight_s_max,
        )

    def _keep_polling(self, now: float) -> None:
        """Wait for what is in flight; when that takes long, pause the partitions and poll without reading."""
        self._pipeline.serve(_BUSY_WAIT_S)
        if self._shut_since is None:
            self._shut_since = now
        if now - self._shut_since < PAUSE_AFTER_S:
            return
        if not self._paused:
            self._paused = self._assignment.paused = True
            self._each_assigned(self._consumer.pause)
        stray = self._consumer.poll(0)
        if stray is not None:
            self._strays.append((self._assignment.held.get(stray.partition()), stray))

    def _resume(self) -> None:
        self._paused = self._assignment.paused = False
        self._each_assigned(self._consumer.resume)

    def _each_assigned(self, do: Callable[[list[TopicPartition]], None]) -> None:
        owned = [TopicPartition(EVENTS, held.partition) for held, _ in self._assignment.owned()]
        if owned:
            do(owned)

    def _read(self) -> Sequence[Any]:
        """Return the next records; wait a little where there are none: for the store's answers first."""
        if self._strays:
            strays, self._strays = self._strays, []
            # A partition may have gone and come back since: its new owner starts further back than its stray.
            held = self._assignment.held
            return [stray for of, stray in strays if stray.error() or held.get(stray.partition()) is of]
        consumer, most = self._consumer, self._settings.batch_records_max
        messages: list[Message] = consumer.consume(most, 0)
        if messages:
            return messages
        if self._pipeline.unwritten:
            self._pipeline.serve(_BUSY_WAIT_S)
            return ()
        first = consumer.poll(_BUSY_WAIT_S if self._pipeline.unfinished else _IDLE_WAIT_S)
        if first is None:
            return ()
        return [first, *consumer.consume(most - 1, 0)] if most > 1 else [first]

    def _take_in(self, messages: Sequence[Any]) -> None:
        """Decode records and give them to their owners."""
        self.counters.polls += 1
        if not messages:
            return
        batches: dict[int, Batch | None] = {}
        admit = self._intake.admit
        for message in messages:
            if message.error() is not None:
                self._consumer_error(message)
                continue
            partition = message.partition()
            try:
                batch = batches[partition]
            except KeyError:
                batch = batches[partition] = self._batch(partition)
            # Records of a partition that has gone, or that were read before a seek, are nobody's.
            if batch is None or message.offset() < batch.owner.position:
                continue
            batch.messages.append(message)
            batch.entries.append(admit(message.offset(), message.timestamp()[1], message.key(), message.value()))
        self._fold([batch for batch in batches.values() if batch is not None and batch.entries])

    def _batch(self, partition: int) -> Batch | None:
        held = self._assignment.held.get(partition)
        if held is None or held.owner is None or held.stage is not Stage.OWNED:
            return None
        return Batch(held, held.owner)

    def _fold(self, batches: list[Batch]) -> None:
        """Read what the batches rest on, in one round, then fold them; set them aside where the store is down."""
        needs = [batch.owner.needs(batch.entries) for batch in batches]
        messages = [key for need in needs for key in need.messages]
        conversations = [name for need in needs for name in need.conversations]
        found = _NOTHING
        if messages or conversations:
            self.counters.cold_reads += len(messages) + len(conversations)
            try:
                found = self._store.read(messages, conversations)
            except StoreUnavailableError as error:
                self._pipeline.store_failed(error)
                self._stash = batches
                return
        now_ms = time_ns() // 1_000_000
        for batch, need in zip(batches, needs, strict=True):
            work = batch.owner.fold(batch.entries, _of(found, need), now_ms)
            self.counters.events += len(batch.entries)
            if not batch.owner.warming_up:
                batch.held.traffic.saw(batch.entries)
            batch.held.since_ms = batch.entries[-1].appended_at
            self._pipeline.start(batch.held, batch.owner, work, batch.entries, batch.messages, now_ms)

    def _look_whether_store_is_back(self) -> None:
        """Try again what could not be read; ask the store itself where nothing else is going to tell."""
        if not self._stash and self._pipeline.tries_again:
            return
        try:
            self._store.ping()
        except StoreUnavailableError as error:
            self._pipeline.store_failed(error)
            return
        self._outage.over()
        batches, self._stash = self._stash, []
        self._fold([batch for batch in batches if batch.held.stage is Stage.OWNED])

    def _consumer_error_event(self, error: Any) -> None:  # noqa: ANN401 - the client's own types say less
        """Take an error of the consumer as a whole; those that it gets over are counted (case K2)."""
        self.counters.kafka_errors += 1
        self._failure = self._failure or verdict(error, self._member)
        LOG.warning("consumer error", extra={"error": error.str(), "fatal": is_fatal(error)})

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
        if now >= self._report_at:
            self._report_at = now + settings.status_interval_s
            self._report(self.status())
            if self._upkeep is not None:
                self._upkeep.observe(self._observation())
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
            upkeep.observe(self._observation())

    def _observation(self) -> Observation:
        """Return what goes into the statistics."""
        now, now_ms = monotonic(), time_ns() // 1_000_000
        return Observation(
            now_ms,
            self._state(),
            {held.partition: self._observed(held, owner, now, now_ms) for held, owner in self._assignment.owned()},
        )

    def _observed(self, held: HeldPartition, owner: PartitionOwner, now: float, now_ms: int) -> Observed:
        events_per_s, hottest = held.traffic.rates(now, HOTTEST_MAX)
        return Observed(
            held.partition,
            owner.owner,
            dict(held.counted.counts),
            owner.low_water,
            *self._lag(held, owner, now_ms),
            len(owner.pending.entries),
            events_per_s,
            hottest,
        )

    def _lag(self, held: HeldPartition, owner: PartitionOwner, now_ms: int) -> tuple[int, float]:
        """Return how many records are not finished, and for how many s at most the oldest of them waits."""
        lag = max(0, self._end_of(held.partition) - max(owner.low_water, 0))
        return lag, round((now_ms - held.since_ms) / 1000, 3) if lag and held.since_ms else 0.0

    def _remind(self) -> None:
        now_ms = time_ns() // 1_000_000
        for held, owner in self._assignment.owned():
            if not owner.warming_up:
                try:
                    self._reminders.remind(held, owner, now_ms)
                except StoreUnavailableError as error:
                    self._pipeline.store_failed(error)
                    return

    def _look_for_progress(self, now: float) -> None:
        """End the worker where records wait and nothing moves, so that another takes over (case K20)."""
        if self._outage.active or self._publisher.down:
            self._progress.excuse(now)
        owned = self._assignment.owned()
        seen = [(held.partition, owner.position, owner.low_water) for held, owner in owned]
        lag = sum(max(0, self._end_of(held.partition) - owner.low_water) for held, owner in owned)
        standing_s = self._progress.stuck_s(seen, lag, now)
        if standing_s:
            LOG.critical("records wait and nothing moves", extra={"lag": lag, "seconds": round(standing_s, 1)})
            raise StuckError(
                f"{lag} records waited for {standing_s:.0f} s and none was finished",
                "Look at the log before this line; another worker takes the partitions over.",
            )

    def _end_of(self, partition: int) -> int:
        """Return the log's end as last heard, without asking."""
        high: int = self._consumer.get_watermark_offsets(TopicPartition(EVENTS, partition), cached=True)[1]
        return high

    def status(self) -> dict[str, object]:
        """Return what there is to know about this worker, as JSON takes it."""
        now_ms = time_ns() // 1_000_000
        partitions = []
        for held, owner in self._assignment.owned():
            lag_records, lag_s = self._lag(held, owner, now_ms)
            partitions.append(
                {
                    "partition": held.partition,
                    "epoch": owner.owner.epoch,
                    "position": owner.position,
                    "low_water": owner.low_water,
                    "committed": held.committed,
                    "lag_records": lag_records,
                    "lag_s": lag_s,
                    "warming_up": owner.warming_up,
                    "cached": owner.cached,
                    "pending": len(owner.pending.entries),
                }
            )
        return {
            "node": self._node,
            "at_ms": now_ms,
            "turns": self.turns,
            "state": self._state(),
            "cause": self._outage.cause or ("no broker answers" if self._publisher.down else ""),
            "generation": self._topic.generation,
            "config_version": self._config_version,
            "waiting": sorted(h.partition for h in self._assignment.held.values() if h.stage is Stage.TAKING),
            "partitions": [held.partition for held, _ in self._assignment.owned()],
            "details": partitions,
            "counters": self.counters.as_dict(),
        }

    def _state(self) -> str:
        if self._stopping.is_set():
            return "draining"
        if self._outage.active:
            return "store-down"
        if self._publisher.down:
            return "kafka-down"
        return "running" if self._assignment.owned() else "waiting"

    def _drain(self, going: Sequence[HeldPartition]) -> None:
        """Finish the batches in flight of partitions that go, within the one deadline of this revoke or stop."""
        deadline = self._deadline or monotonic() + self._settings.drain_timeout_s
        while any(held.flights for held in going) and monotonic() < deadline:
            self.turns += 1
            self._pipeline.serve(_BUSY_WAIT_S)
            self._publisher.pump(_BUSY_WAIT_S)
        if self._upkeep is not None:
            # What goes is seen a last time, with all that it has counted.
            self._upkeep.observe(self._observation())

    def _shut_down(self) -> bool:
        """Finish what has been read, commit, leave the group; say whether all was finished (cases K12, K19)."""
        LOG.info("stopping: what has been read is finished")
        self._deadline = monotonic() + self._settings.drain_timeout_s
        self._report(self.status())
        held = list(self._assignment.held.values())
        self._drain(held)
        if self._upkeep is not None:
            self._upkeep.observe(self._observation())
        clean = not self._stash and not any(each.flights for each in held)
        self._assignment.commit(held, wait=True)
        unreported = self._publisher.close(max(0.0, self._deadline - monotonic()))
        return clean and unreported == 0

    def _close(self) -> None:
        """Leave the group. What is still in flight is not committed, so the next owner does it again."""
        if self._deadline is None:
            self._deadline = monotonic()
        try:
            self._consumer.close()
        except (KafkaException, RuntimeError) as error:
            LOG.warning("leaving the group failed", extra={"error": str(error)})
        self._report({**self.status_at_end(), "state": "stopped"})

    def status_at_end(self) -> dict[str, object]:
        """Return the last status: no partitions any more."""
        return {
            "node": self._node,
            "at_ms": time_ns() // 1_000_000,
            "turns": self.turns,
            "partitions": [],
            "details": [],
            "counters": self.counters.as_dict(),
        }


def _of(found: Rows, need: Needs) -> Rows:
    """Return the part of what was read that one owner had asked for."""
    if found is _NOTHING:
        return found
    messages: dict[MessageKey, Any] = {key: found.messages[key] for key in need.messages if key in found.messages}
    names = need.conversations
    return Rows(messages, {name: found.conversations[name] for name in names if name in found.conversations})
