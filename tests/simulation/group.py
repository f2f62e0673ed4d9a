"""The simulated consumer group, and a member's consumer as the worker sees it."""

# ruff: noqa: D102 - what stands in for a library is named after it

from typing import TYPE_CHECKING, Any

from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from schemas.topics import EVENTS

if TYPE_CHECKING:
    from tests.simulation.broker import Record
    from tests.simulation.process import Process
    from tests.simulation.world import World

_UNKNOWN_MEMBER = KafkaError.UNKNOWN_MEMBER_ID


class Group:
    """Who has which partition, by the coordinator; and the committed offsets."""

    def __init__(self, world: "World", partitions: int) -> None:
        self._world = world
        self.members: list[GroupConsumer] = []
        self.wanted: dict[int, GroupConsumer | None] = dict.fromkeys(range(partitions))
        self.holds: dict[int, GroupConsumer | None] = dict.fromkeys(range(partitions))
        self.committed: dict[int, int] = {}

    def join(self, member: "GroupConsumer") -> None:
        self.members.append(member)
        self._share()

    def leave(self, member: "GroupConsumer") -> None:
        """Take a member out; its partitions are free at once."""
        if member in self.members:
            self.members.remove(member)
        for partition, holder in self.holds.items():
            if holder is member:
                self.holds[partition] = None
        for partition, wanted in self.wanted.items():
            if wanted is member:
                self.wanted[partition] = None
        self._share()

    def _share(self) -> None:
        """Give free partitions to members, and some to a member that has none."""
        if not self.members:
            return
        for partition, wanted in self.wanted.items():
            if wanted is None:
                self.wanted[partition] = self._world.chance.pick("share", self.members)

    def move(self) -> None:
        """Move one partition to some member."""
        if self.members:
            partition = self._world.chance.pick("move", sorted(self.wanted))
            self.wanted[partition] = self._world.chance.pick("move", self.members)

    def is_member(self, member: "GroupConsumer") -> bool:
        return member in self.members

    def commit(self, offsets: list[tuple[int, int]]) -> None:
        self.committed.update(offsets)


class GroupConsumer:
    """One member. Callbacks run inside its own poll, as the library runs them."""

    def __init__(self, world: "World", process: "Process", config: dict[str, Any]) -> None:
        self._world = world
        self._process = process
        self._on_commit = config["on_commit"]
        self._on_assign: Any = None
        self._on_revoke: Any = None
        self._on_lost: Any = None
        self.held: set[int] = set()
        """What it was told that it has."""
        self._positions: dict[int, int] = {}
        self._paused: set[int] = set()
        self.commits: list[list[tuple[int, int]]] = []
        self._told: list[tuple[KafkaError | None, list[TopicPartition]]] = []
        self.deaf_until = 0.0
        self.closed = False

    def subscribe(self, topics: list[str], on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        self._on_assign, self._on_revoke, self._on_lost = on_assign, on_revoke, on_lost
        self._world.group.join(self)

    # what the group tells

    def _serve(self) -> None:
        """Run the callbacks that are due, as a poll does."""
        world = self._world
        while self._told:
            error, partitions = self._told.pop(0)
            self._on_commit(error, partitions)
        if not world.group.is_member(self):
            if world.now >= self.deaf_until:
                self._lose_all()
            return
        if world.chaos and world.chance.happens("revoke unheld", world.faults.revoke_unheld):
            self._on_revoke(self, [TopicPartition(EVENTS, 7)])
        self._revoke([partition for partition in sorted(self.held) if world.group.wanted[partition] is not self])
        holds = world.group.holds
        self._assign([p for p, wanted in world.group.wanted.items() if wanted is self and holds[p] is None])

    def _lose_all(self) -> None:
        """Learn that one was expelled, and join again."""
        lost = sorted(self.held)
        self._world.note(self._process.name, "lost", lost)
        if lost:
            self._on_lost(self, [TopicPartition(EVENTS, partition) for partition in lost])
        self.held.clear()
        self.commits.clear()
        self._world.group.join(self)

    def _revoke(self, going: list[int]) -> None:
        if not going:
            return
        self._world.note(self._process.name, "revoke", going)
        self._on_revoke(self, [TopicPartition(EVENTS, partition) for partition in going])
        self.held.difference_update(going)
        holds = self._world.group.holds
        holds.update({partition: None for partition in going if holds[partition] is self})

    def _assign(self, coming: list[int]) -> None:
        if not coming:
            return
        self._world.note(self._process.name, "assign", coming)
        self._world.group.holds.update(dict.fromkeys(coming, self))
        self.held.update(coming)
        self._on_assign(self, [TopicPartition(EVENTS, partition) for partition in coming])

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            assert each.partition not in self._positions, "assigned twice"
            self._positions[each.partition] = each.offset

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            if each.partition not in self._positions:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "not assigned"))
            # As librdkafka has it: who comes back paused stays paused.
            del self._positions[each.partition]

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._paused.update(each.partition for each in partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        self._paused.difference_update(each.partition for each in partitions)

    # records

    def poll(self, timeout: float = 0.0) -> "Record | None":
        found = self.consume(1, timeout)
        return found[0] if found else None

    def consume(self, most: int, timeout: float = 0.0) -> list["Record"]:
        self._process.touch("consume")
        self._serve()
        if self._world.kafka_is_down():
            return []
        found: list[Record] = []
        chance = self._world.chance
        for partition, position in list(self._positions.items()):
            log = self._world.events[partition]
            left = min(most - len(found), log.end - position)
            is_paused = partition in self._paused
            if left <= 0 or (is_paused and not self._reads_paused()):
                continue
            count = 1 if is_paused else chance.whole("fetch", 1, left)
            self._positions[partition] = position + count
            found += log.records[position : position + count]
        return found

    def _reads_paused(self) -> bool:
        world = self._world
        return world.chaos and world.chance.happens("read while paused", world.faults.read_while_paused)

    # positions

    def committed(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._question()
        partition = asked[0].partition
        return [TopicPartition(EVENTS, partition, self._world.group.committed.get(partition, OFFSET_INVALID))]

    def get_watermark_offsets(
        self, asked: TopicPartition, timeout: float = 0.0, *, cached: bool = False
    ) -> tuple[int, int]:
        if not cached:
            self._question()
        log = self._world.events[asked.partition]
        return (log.low, log.end)

    def _question(self) -> None:
        self._process.touch("question")
        world = self._world
        fails = world.chaos and world.chance.happens("question fails", world.faults.question_fails)
        if fails or world.kafka_is_down():
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no broker answered"))

    def commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> None:
        self._process.touch("commit")
        self.commits.append([(each.partition, each.offset) for each in offsets])
        if asynchronous:
            return
        error = None
        while self.commits:
            error = self.land_commit(is_told=len(self.commits) > 1)
        if error is not None:
            raise KafkaException(error)

    def land_commit(self, *, is_told: bool = True) -> KafkaError | None:
        """Let the oldest commit reach the coordinator; return how that ended, and have the callback told."""
        world, offsets = self._world, self.commits.pop(0)
        error = None
        if not world.group.is_member(self):
            error = KafkaError(_UNKNOWN_MEMBER, "the member was expelled")
        elif world.chaos and world.chance.happens("commit fails", world.faults.commit_fails):
            error = KafkaError(KafkaError._TIMED_OUT, "no answer")
            if world.chance.happens("commit lands", 0.5):
                world.group.commit(offsets)
        else:
            world.group.commit(offsets)
        world.note(self._process.name, "commit", offsets, error.name() if error else "")
        if is_told:
            self._told.append((error, [TopicPartition(EVENTS, *each) for each in offsets]))
        return error

    def expel(self, deaf_ms: float) -> None:
        """Throw the member out; it learns that when it is deaf no more."""
        self.deaf_until = self._world.now + deaf_ms
        self._world.group.leave(self)

    def close(self) -> None:
        self._process.touch("close")
        group = self._world.group
        if group.is_member(self) and self.held:
            going, self.held = sorted(self.held), set()
            self._on_revoke(self, [TopicPartition(EVENTS, partition) for partition in going])
        self.gone()

    def gone(self) -> None:
        """Be no member any more."""
        self.closed = True
        self._world.group.leave(self)
