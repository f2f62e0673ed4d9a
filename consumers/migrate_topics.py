"""The topics, and what the store records about the events topic, as migration targets.

A topic that is there is never altered: its partition count is part of the contract, because keys would move, and its
settings are the operators'. What is not as required is told.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]

from consumers.errors import KafkaUnavailableError, TopicUnrecordedError
from consumers.kafka_clients import admin_config
from consumers.kafka_errors import translated
from consumers.migrate_settings import MigrationSettings
from consumers.migrate_steps import Step, StepKind, Target
from consumers.replay.log import committed, ends
from consumers.settings import WorkerSettings
from consumers.stores.contract import Store, TopicRecord
from consumers.topic_check import partitions_begun, refuse_unrecorded
from schemas.topics import EVENTS, TOPICS, Setting, creation_config, differences

TIMEOUT_S: Final = 15.0
APPEAR_WAIT_S: Final = 15.0
"""How long a new topic may take to be seen by the broker that is asked."""
POLL_S: Final = 0.1
_NOTHING: Final = "nothing is recorded yet"


def _admin_client(kafka: Mapping[str, Setting]) -> Any:  # noqa: ANN401 - the client's own types say less than it does
    """Return a client that leaves it to the errors that we raise to say what is wrong."""
    return AdminClient({**admin_config(kafka), "log_level": 0})


class FoundTopic(NamedTuple):
    """A topic as the brokers tell it."""

    partitions: int
    replicas: int


class Topics:
    """All topics of the contract."""

    def __init__(
        self,
        kafka: Mapping[str, Setting],
        settings: MigrationSettings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admin = _admin_client(kafka)
        self._settings = settings
        self._sleep = sleep
        self._monotonic = monotonic

    def plan(self) -> Sequence[Step]:
        """Return what is not there, and what is there but not as required. Raises KafkaUnavailableError."""
        found = found_topics(self._admin)
        steps: list[Step] = []
        for name in TOPICS:
            if name not in found:
                steps.append(self._creation(name))
            else:
                steps += self._look_at(name, found[name])
        return steps

    def apply(self) -> Iterator[Step]:
        """Create what is not there; whoever comes first creates it."""
        missing = [name for name in TOPICS if name not in found_topics(self._admin)]
        copies = self._settings.topic_replication
        for name in missing:
            topic = NewTopic(name, self._settings.partitions, copies, config=creation_config(name, copies))
            self._create(topic)
        self._wait_for(missing)
        for name in TOPICS:
            if name in missing:
                yield self._creation(name)
            else:
                yield from self._look_at(name, found_topics(self._admin)[name])

    def _create(self, topic: NewTopic) -> None:
        try:
            self._admin.create_topics([topic], request_timeout=TIMEOUT_S)[topic.topic].result(2 * TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise translated(error, f"creating the topic {topic.topic}") from error

    def _wait_for(self, names: Sequence[str]) -> None:
        deadline = self._monotonic() + APPEAR_WAIT_S
        while not set(names) <= found_topics(self._admin).keys():
            if self._monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"new topics do not appear: {', '.join(names)}", "Look at the brokers' logs."
                )
            self._sleep(POLL_S)

    def _look_at(self, name: str, found: FoundTopic) -> Iterator[Step]:
        wanted = self._settings.partitions
        if found.partitions != wanted:
            yield Step(
                StepKind.OBSTACLE if name == EVENTS else StepKind.DIFFERENCE,
                f"topic {name}",
                f"it has {found.partitions} partitions, the settings say {wanted}",
                f"Set partitions to {found.partitions}; a topic in use keeps its count, or keys would move.",
            )
        for one in differences(name, self._described(name), found.replicas):
            yield Step(
                StepKind.DIFFERENCE,
                f"topic {name}",
                f"{one.setting} is {one.found}, it must be {one.required}",
                f"kafka-configs.sh --alter --topic {name} --add-config {one.setting}={one.required}",
            )

    def _described(self, name: str) -> Mapping[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        try:
            entries = self._admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S)
        except KafkaException as error:
            raise translated(error, f"asking for the settings of {name}") from error
        except TimeoutError as error:
            raise KafkaUnavailableError(
                f"no broker tells the settings of {name}", "The embedded broker cannot; it needs no migration."
            ) from error
        return {key: str(entry.value) for key, entry in entries.items()}

    def _creation(self, name: str) -> Step:
        copies = self._settings.topic_replication
        what = f"create it with {self._settings.partitions} partitions, {copies} copies"
        return Step(StepKind.CHANGE, f"topic {name}", what)


def found_topics(admin: Any) -> Mapping[str, FoundTopic]:  # noqa: ANN401
    """Return the topics that are there. Raises KafkaUnavailableError, KafkaRefusedError."""
    try:
        listed = admin.list_topics(timeout=TIMEOUT_S).topics
    except KafkaException as error:
        raise translated(error, "asking for the topics") from error
    return {
        name: FoundTopic(len(topic.partitions), min(len(each.replicas) for each in topic.partitions.values()))
        for name, topic in listed.items()
        if topic.error is None and topic.partitions
    }


class TopicRecording:
    """What the store records about the events topic: the generation rises when it is another one than before.

    Not where it records none and the workers' group has finished records: those are in another store.
    """

    def __init__(
        self, kafka: Mapping[str, Setting], tables: Target, open_store: Callable[[], Store], workers: WorkerSettings
    ) -> None:
        self._admin = _admin_client(kafka)
        self._kafka = kafka
        self._group = workers.group
        self._tables = tables
        self._open_store = open_store
        self._identity = workers.topic_identity

    def plan(self) -> Sequence[Step]:
        """Return whether a record is to be made or replaced."""
        topic = found_topics(self._admin).get(EVENTS)
        if topic is None or any(step.kind is StepKind.CHANGE for step in self._tables.plan()):
            # The record cannot be seen yet. A group that has begun has made it: these are tables of a new version.
            return [] if topic and self._begun(topic.partitions) else [_recording(1, _NOTHING)]
        store = self._open_store()
        try:
            known = store.topic_record(EVENTS)
            if known is None and (refused := self._refused(store)) is not None:
                return [refused]
        finally:
            store.close()
        wanted = self._wanted(known)
        return [] if wanted == known else [self._recording(wanted, known)]

    def apply(self) -> Iterator[Step]:
        """Record the topic as it is; another node that does the same at the same time is as good."""
        store = self._open_store()
        try:
            while True:
                known = store.topic_record(EVENTS)
                if known is None and (refused := self._refused(store)) is not None:
                    yield refused
                    return
                wanted = self._wanted(known)
                if wanted == known:
                    return
                step = self._recording(wanted, known)
                if store.record_topic(wanted, known):
                    yield step
                    return
        finally:
            store.close()

    def _begun(self, partitions: int) -> int:
        return partitions_begun(self._kafka, self._group, partitions)

    def _refused(self, store: Store) -> Step | None:
        """Return what is told instead of recording the topic in a store that is not the group's."""
        partitions = found_topics(self._admin)[EVENTS].partitions
        try:
            refuse_unrecorded(store, self._group, self._begun(partitions), partitions)
        except TopicUnrecordedError as error:
            return Step(StepKind.DIFFERENCE, f"topic {EVENTS}", error.message, error.hint)
        return None

    def _wanted(self, known: TopicRecord | None) -> TopicRecord:
        """Return the record of the topic as it is now."""
        partitions = found_topics(self._admin)[EVENTS].partitions
        topic_id = self._identity or self._topic_id()
        if known is not None and (known.topic_id, known.partitions) == (topic_id, partitions):
            return known
        if known is None:
            return TopicRecord(EVENTS, topic_id, partitions, 1)
        is_same = known.topic_id == topic_id
        earlier = (*known.earlier, self._worked_off(known.partitions)) if is_same else ()
        return TopicRecord(EVENTS, topic_id, partitions, known.generation + 1, earlier)

    def _worked_off(self, partitions: int) -> tuple[int, ...]:
        """Return where the generation that is known ends: what workers have not finished is folded in the next."""
        done = committed(self._kafka, EVENTS, self._group, range(partitions))
        return tuple(done.get(number, 0) for number in range(partitions))

    def _recording(self, wanted: TopicRecord, known: TopicRecord | None) -> Step:
        """Return the step, with a warning where workers have not finished a generation that ends."""
        if not wanted.earlier:
            return _recording(wanted.generation, _why(wanted, known))
        now = ends(self._kafka, EVENTS)
        finished = enumerate(wanted.earlier[-1])
        left = {number: now[number][1] - max(now[number][0], end) for number, end in finished if number in now}
        return _recording(wanted.generation, _why(wanted, known), _warning(left))

    def _topic_id(self) -> str:
        try:
            described = self._admin.describe_topics(TopicCollection([EVENTS]), request_timeout=TIMEOUT_S)
            return str(described[EVENTS].result(TIMEOUT_S).topic_id)
        except KafkaException as error:
            raise translated(error, f"asking for the topic {EVENTS}") from error


def _recording(generation: int, why: str, hint: str = "") -> Step:
    return Step(StepKind.CHANGE, f"topic {EVENTS}", f"record it as generation {generation}: {why}", hint)


def _warning(left: Mapping[int, int]) -> str:
    """Return what to mind where records of partitions are not finished; empty where all are."""
    unfinished = {number: count for number, count in left.items() if count > 0}
    if not unfinished:
        return ""
    where = ", ".join(map(str, unfinished))
    return (
        f"Unfinished: {sum(unfinished.values()):,} records of partitions {where}. Conversations that move to another "
        "partition may have these overtaken by later ones: let workers that still run catch up before --execute."
    )


def _why(wanted: TopicRecord, known: TopicRecord | None) -> str:
    if known is None:
        return _NOTHING
    if known.partitions != wanted.partitions:
        return f"it has {wanted.partitions} partitions, {known.partitions} are recorded"
    return f"it is another topic ({wanted.topic_id}) than was recorded ({known.topic_id})"
