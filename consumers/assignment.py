"""Which partitions a worker has: what the group says, and what it takes to act on it.

The group's callbacks only note what came and went; the taking itself (lease, position) happens in the worker's loop,
so that a slow server holds up neither the group nor the partitions that stay. Every assignment is incremental:
cooperative-sticky and KIP-848 both ask for that.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from random import random
from time import monotonic
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition

from consumers import clock
from consumers.backoff import backoff_s
from consumers.conflicts import ConflictKind
from consumers.counters import Counters
from consumers.errors import OwnerFencedError, StoreUnavailableError, WorkerError
from consumers.held import HeldPartition, Stage
from consumers.owner import PartitionOwner
from consumers.partition_rows import Takeover
from consumers.pipeline import Pipeline
from consumers.positions import Positions
from consumers.rows import Owner
from consumers.settings import WorkerSettings
from consumers.statistics.observed import Counted
from consumers.statistics.traffic import Traffic
from consumers.stores.contract import Store, TopicRecord
from consumers.takeover import Start

LOG = logging.getLogger(__name__)

PARTITION_LEAST: Final = 1_000
"""Rows and deliveries that each partition may keep in memory, however many share the worker's."""
TAKE_S: Final = 0.1
"""After so long what else is to be taken waits for the next turn: partitions that are owned already go on meanwhile."""


class Assignment:
    """A worker's partitions by number. For one thread."""

    def __init__(  # noqa: PLR0913 - the parts of a worker that meet here
        self,
        *,
        store: Store,
        pipeline: Pipeline,
        settings: WorkerSettings,
        topic: TopicRecord,
        node: str,
        counters: Counters,
        drain: Callable[[Sequence[HeldPartition]], None],
        forget: Callable[[int], None],
    ) -> None:
        self.held: dict[int, HeldPartition] = {}
        self.paused = False
        """Whether partitions are to be paused as they are assigned."""
        self._consumer: Any = None
        self._store = store
        self._pipeline = pipeline
        self._settings = settings
        self._owner_settings = settings.owner_settings(topic.partitions)
        self._positions = Positions(topic.topic, settings, counters)
        self._topic = topic
        self._node = node
        self._counters = counters
        self._drain = drain
        self._forget = forget

    def bind(self, consumer: Any) -> None:  # noqa: ANN401 - the client's own types say less than it does
        """Take the consumer whose callbacks these are."""
        self._consumer = consumer
        self._positions.bind(consumer)

    def adopt(self, settings: WorkerSettings) -> None:
        """Go on with other settings: partitions that are owned, and those that will be."""
        self._settings = settings
        self._positions.adopt(settings)
        self._owner_settings = settings.owner_settings(self._topic.partitions)
        for _, owner in self.owned():
            owner.adopt(self._owner_settings.schedule)

    def owned(self) -> list[tuple[HeldPartition, PartitionOwner]]:
        """Return the partitions that are being read."""
        by_number = sorted(self.held.items())
        return [(held, held.owner) for _, held in by_number if held.stage is Stage.OWNED and held.owner]

    # what the group says

    def on_assign(self, consumer: Any, partitions: Iterable[TopicPartition]) -> None:  # noqa: ANN401
        """Note partitions that the group gives; they are read once they are taken."""
        for each in partitions:
            if each.partition not in self.held:
                self.held[each.partition] = HeldPartition(each.partition)
        consumer.incremental_assign([])
        LOG.info("partitions assigned", extra={"partitions": sorted(each.partition for each in partitions)})

    def on_revoke(self, consumer: Any, partitions: Iterable[TopicPartition]) -> None:  # noqa: ANN401
        """Finish what has begun of partitions that go elsewhere, within one deadline; commit; let go.

        Partitions that were never held are ignored.
        """
        going = [self.held[each.partition] for each in partitions if each.partition in self.held]
        self._drain([held for held in going if held.stage is Stage.OWNED])
        self.commit(going, wait=True)
        self._let_go(consumer, going)
        LOG.info("partitions revoked", extra={"partitions": sorted(held.partition for held in going)})

    def on_lost(self, consumer: Any, partitions: Iterable[TopicPartition]) -> None:  # noqa: ANN401
        """Drop partitions that another worker may already own: nothing is finished, nothing committed."""
        going = [self.held[each.partition] for each in partitions if each.partition in self.held]
        self._let_go(consumer, going)
        LOG.warning("partitions lost", extra={"partitions": sorted(held.partition for held in going)})

    def _let_go(self, consumer: Any, going: Sequence[HeldPartition]) -> None:  # noqa: ANN401
        read = [TopicPartition(self._topic.topic, held.partition) for held in going if held.stage is Stage.OWNED]
        for held in going:
            self._drop(held)
        consumer.incremental_unassign(read)
        self._share_memory()

    def _drop(self, held: HeldPartition) -> None:
        if held.owner is not None:
            self._counters.evictions += held.owner.evicted
        self._pipeline.give_up(held)
        self._forget(held.partition)
        self.held.pop(held.partition, None)

    # what the worker does about it

    def take(self) -> None:
        """Take partitions that were given and not taken yet; what cannot be taken now is tried again later.

        After a failure the others wait for the next turn: where a server does not answer, each attempt costs a
        time-out, and the loop must not stop polling for all of them together.
        """
        self._drop_fenced()
        until = monotonic() + TAKE_S
        for held in [held for held in self.held.values() if held.stage is Stage.TAKING]:
            if held.retry_at <= monotonic():
                try:
                    self._take(held)
                except OwnerFencedError as error:
                    # Another has claimed it meanwhile: the group will say so, or else it is claimed again.
                    self._counters.conflict(ConflictKind.LEASE)
                    self._put_off(held, error)
                except WorkerError as error:
                    if not error.retriable:
                        raise
                    self._put_off(held, error)
                    return
                if monotonic() > until:
                    return

    def _put_off(self, held: HeldPartition, error: WorkerError) -> None:
        settings = self._settings
        chance = random()  # noqa: S311 - spreads retries
        wait_s = backoff_s(settings.retry_first_s, settings.retry_s_max, held.attempts, chance)
        held.attempts += 1
        held.retry_at = monotonic() + wait_s
        if isinstance(error, StoreUnavailableError):
            self._pipeline.store_failed(error)
        extra = {"partition": held.partition, "error": error.message, "wait_s": round(wait_s, 2)}
        LOG.warning("a partition cannot be taken yet", extra=extra)

    def _take(self, held: HeldPartition) -> None:
        """Claim the lease, then ask for the position: who owned it before commits nothing after our claim counts."""
        lease = self._store.claim_lease(held.partition, self._node)
        owner = Owner(lease.epoch, lease.node)
        spilled_to = self._spilled_to(held.partition, owner)
        start, end = self._positions.start(held.partition)
        self._begin(held, owner, start, end, spilled_to)

    def _begin(self, held: HeldPartition, owner: Owner, start: Start, end: int, spilled_to: int) -> None:
        generation = self._topic.generation
        # A log that was cut off begins at 0 again, but what was folded from its lost part is in the store.
        from_the_start = generation == 1 and start.position == 0 and start.lost is None
        takeover = Takeover(
            held.partition,
            generation,
            owner,
            start.position,
            start.committed,
            from_the_start,
            spilled_to,
            covers_from=0 if generation == 1 else end,
        )
        held.owner = PartitionOwner(self._owner_settings, takeover)
        held.counted, held.traffic = Counted(), Traffic(monotonic())
        held.stage = Stage.OWNED
        held.committed = -1 if start.replays else start.committed
        held.read_to, held.end = start.position, end
        held.attempts = 0
        self._assign_at(held.partition, start.position)
        self._share_memory()
        self._counters.takeovers += 1
        extra = {"partition": held.partition, "epoch": owner.epoch, "from": start.position, "to": start.committed}
        LOG.info("partition taken", extra=extra)

    def _assign_at(self, partition: int, offset: int) -> None:
        self._consumer.incremental_assign([TopicPartition(self._topic.topic, partition, offset)])
        # librdkafka keeps a pause for a partition that goes and comes back: nobody else would take it off again.
        again = self._consumer.pause if self.paused else self._consumer.resume
        again([TopicPartition(self._topic.topic, partition)])

    def _spilled_to(self, partition: int, owner: Owner) -> int:
        """Return the newest bucket of spilled deliveries that is worked off; where none ever was, a bucket before now.

        It is noted as this owner's position, so that no owner before it, however late, moves it any more.
        """
        position = self._store.spill_position(partition)
        if position is None:
            position = self._settings.schedule.bucket_at(clock.now_ms()) - 1
        self._store.drop_spilled(owner, partition, position)
        return position

    def position_gone(self, partition: int) -> None:
        """Go on behind records that the log dropped before they were read. Raises LostRangeError if that is the choice.

        The rows in memory stay: they are the fold of what was read.
        """
        held = self.held.get(partition)
        if held is None or held.owner is None or held.stage is not Stage.OWNED:
            return
        low, high = self._positions.extent(partition)
        held.end, position = high, held.read_to
        if not low <= position <= high:
            self._positions.lost(partition, (position, low) if position < low else (high, position))
            if position > high:
                self._pipeline.drop_waiting(held)  # other records have these offsets now
            held.read_to = low
        self._consumer.incremental_unassign([TopicPartition(self._topic.topic, partition)])
        self._assign_at(partition, held.read_to)
        held.owner.position = min(held.read_to, held.owner.position)

    def _share_memory(self) -> None:
        """Give each partition its part of what may be in memory."""
        owned, settings = self.owned(), self._settings
        for _, owner in owned:
            owner.limit_memory(
                max(PARTITION_LEAST, settings.cached_messages_max // len(owned)),
                max(PARTITION_LEAST, settings.cached_conversations_max // len(owned)),
                max(PARTITION_LEAST, settings.pending_max // len(owned)),
            )

    def check_leases(self) -> None:
        """Drop partitions whose lease is no longer ours. Raises StoreUnavailableError, StoreRefusedError.

        Another owner has begun: the group will say so too, or else this worker claims it again after a while.
        """
        owned = self.owned()
        if not owned:
            return
        leases = {lease.partition: lease for lease in self._store.leases()}
        for held, owner in owned:
            lease = leases.get(held.partition)
            if lease is not None and (lease.epoch, lease.node) == owner.owner:
                continue
            self._lose(held, owner, lease.epoch if lease else None)

    def _drop_fenced(self) -> None:
        """Drop partitions of which the store has told a write that a later owner has them."""
        fenced, self._pipeline.fenced = self._pipeline.fenced, []
        for held in fenced:
            if held.stage is Stage.OWNED and held.owner is not None:
                self._lose(held, held.owner, None)

    def _lose(self, held: HeldPartition, owner: PartitionOwner, epoch: int | None) -> None:
        """Drop a partition that another worker owns; `epoch` is that one's, where it is known."""
        self._counters.lease_losses += 1
        self._counters.conflict(ConflictKind.LEASE)
        extra = {"partition": held.partition, "epoch": owner.owner.epoch, "now": epoch}
        LOG.error("lease lost: another worker owns the partition; dropped", extra=extra)
        self._consumer.incremental_unassign([TopicPartition(self._topic.topic, held.partition)])
        self._drop(held)
        again = self.held[held.partition] = HeldPartition(held.partition)
        again.retry_at = monotonic() + self._settings.session_timeout_s

    def commit(self, partitions: Iterable[HeldPartition], *, wait: bool) -> None:
        """Commit low-water marks that have moved; an error is counted and the commit made again."""
        offsets = []
        for held in partitions:
            if held.stage is not Stage.OWNED or held.owner is None:
                continue
            position = held.owner.commit_position()
            if position > held.committed:
                offsets.append(TopicPartition(self._topic.topic, held.partition, position))
                held.committed = position
        if not offsets:
            return
        self._counters.commits += 1
        try:
            self._consumer.commit(offsets=offsets, asynchronous=not wait)
        except KafkaException as error:
            self.on_commit(error.args[0], offsets)

    def on_commit(self, error: Any, partitions: Iterable[TopicPartition]) -> None:  # noqa: ANN401
        """Take the outcome of a commit."""
        failed = [each for each in partitions if error is not None or each.error is not None]
        if not failed:
            return
        self._counters.commit_errors += 1
        for each in failed:
            held = self.held.get(each.partition)
            if held is not None and held.committed == each.offset:
                held.committed = -1
        cause = error if error is not None else failed[0].error
        LOG.warning("commit failed", extra={"error": str(cause), "partitions": [each.partition for each in failed]})
