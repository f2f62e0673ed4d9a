"""Topics are created as required, by whoever comes first, and never altered; a record counts their generations."""

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException
from filelock import FileLock

from consumers import migrate_topics, topic_check
from consumers.errors import StoreUnavailableError
from consumers.migrate import ObstacleError, apply, plan
from consumers.migrate_settings import MigrationSettings
from consumers.migrate_sqlite import SqliteTables
from consumers.migrate_steps import StepKind
from consumers.migrate_topics import TopicRecording, Topics
from consumers.settings import WorkerSettings
from consumers.stores.contract import TopicRecord
from consumers.stores.sqlite import SqliteStore
from schemas.topics import EVENTS, INBOX, TOPICS, creation_config

SETTINGS = MigrationSettings(partitions=4)


class Answer:
    """A future that is answered."""

    def __init__(self, value: object) -> None:
        self._value = value

    def result(self, _timeout: float | None = None):
        """Return the answer, or raise it."""
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


class Entry:
    """A setting as a broker tells it."""

    def __init__(self, value: str) -> None:
        self.value = value


class Partition:
    """A partition with one copy."""

    replicas = (1,)


class Described:
    """A topic as a broker tells it."""

    def __init__(self, topic_id: str, partitions: int, config: dict[str, str]) -> None:
        self.topic_id = topic_id
        self.partitions = {number: Partition() for number in range(partitions)}
        self.config = config
        self.error = None


class Broker:
    """The part of the admin client that is used, on topics in memory."""

    def __init__(self) -> None:
        self.topics: dict[str, Described] = {}
        self.created: list[str] = []
        self.somebody_is_first = False

    def list_topics(self, timeout: float):
        """Return all topics."""
        listed = type("Listed", (), {})()
        listed.topics = dict(self.topics)
        return listed

    def create_topics(self, new, request_timeout: float):
        """Create, or say that somebody was first."""
        [topic] = new
        self.topics[topic.topic] = Described(uuid4().hex, topic.num_partitions, dict(topic.config))
        if self.somebody_is_first:
            return {topic.topic: Answer(KafkaException(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS)))}
        self.created.append(topic.topic)
        return {topic.topic: Answer(None)}

    def describe_configs(self, resources, request_timeout: float):
        """Return a topic's settings."""
        [resource] = resources
        config = self.topics[resource.name].config
        return {resource: Answer({name: Entry(value) for name, value in config.items()})}

    def describe_topics(self, _names, request_timeout: float):
        """Return the topics' ids."""
        return {name: Answer(topic) for name, topic in self.topics.items()}


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(migrate_topics, "AdminClient", lambda _config: made)
    monkeypatch.setattr(topic_check, "committed", lambda *_: {})
    return made


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def targets(store_path: Path, settings: MigrationSettings = SETTINGS) -> list:
    tables = SqliteTables(store_path)
    recording = TopicRecording({}, tables, lambda: SqliteStore.open(store_path), WorkerSettings())
    return [tables, Topics({}, settings), recording]


def record(store_path: Path) -> TopicRecord | None:
    store = SqliteStore.open(store_path)
    try:
        return store.topic_record(EVENTS)
    finally:
        store.close()


def test_a_plan_shows_what_apply_then_does_and_the_next_plan_is_empty(broker: Broker, store_path: Path) -> None:
    planned = plan(targets(store_path))
    assert not store_path.exists()
    assert broker.created == []
    assert list(apply(targets(store_path))) == planned
    assert broker.created == list(TOPICS)
    assert broker.topics[EVENTS].config == creation_config(EVENTS, 1)
    assert plan(targets(store_path)) == []
    assert list(apply(targets(store_path))) == []
    assert record(store_path) == TopicRecord(EVENTS, broker.topics[EVENTS].topic_id, 4, 1)


def test_a_topic_that_somebody_else_creates_meanwhile_is_as_good(broker: Broker, store_path: Path) -> None:
    broker.somebody_is_first = True
    migrations = plan([SqliteTables(store_path)])
    assert len(list(apply(targets(store_path)))) == len(migrations) + len(TOPICS) + 1
    assert plan(targets(store_path)) == []


def test_settings_that_differ_are_told_and_left(broker: Broker, store_path: Path) -> None:
    list(apply(targets(store_path)))
    broker.topics[EVENTS].config["message.timestamp.type"] = "CreateTime"
    [step] = plan(targets(store_path))
    assert (step.kind, step.subject) == (StepKind.DIFFERENCE, f"topic {EVENTS}")
    assert "message.timestamp.type is CreateTime, it must be LogAppendTime" in step.what
    assert list(apply(targets(store_path))) == [step]
    assert broker.topics[EVENTS].config["message.timestamp.type"] == "CreateTime"


def test_another_partition_count_of_the_events_is_in_the_way(broker: Broker, store_path: Path) -> None:
    list(apply(targets(store_path)))
    others = MigrationSettings(partitions=8)
    assert [step.kind for step in plan(targets(store_path, others))].count(StepKind.OBSTACLE) == 1
    with pytest.raises(ObstacleError) as caught:
        list(apply(targets(store_path, others)))
    assert "Set partitions to 4" in caught.value.hint


def test_another_partition_count_of_the_inbox_is_only_told(broker: Broker, store_path: Path) -> None:
    list(apply(targets(store_path)))
    broker.topics[INBOX].partitions = {0: Partition()}
    assert [(step.kind, step.subject) for step in plan(targets(store_path))] == [
        (StepKind.DIFFERENCE, f"topic {INBOX}")
    ]


def test_a_topic_made_anew_or_repartitioned_is_the_next_generation(
    broker: Broker, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate_topics, "committed", lambda *_: {0: 7, 3: 9})
    monkeypatch.setattr(migrate_topics, "ends", lambda *_: {})
    list(apply(targets(store_path)))
    broker.topics[EVENTS].topic_id = "another"
    [step] = plan(targets(store_path))
    assert "generation 2" in step.what
    assert list(apply(targets(store_path))) == [step]
    assert record(store_path) == TopicRecord(EVENTS, "another", 4, 2)
    broker.topics[EVENTS].partitions = {number: Partition() for number in range(6)}
    list(apply(targets(store_path, MigrationSettings(partitions=6))))
    assert record(store_path) == TopicRecord(EVENTS, "another", 6, 3, ((7, 0, 0, 9),))
    broker.topics[EVENTS].topic_id = "a third"
    list(apply(targets(store_path, MigrationSettings(partitions=6))))
    assert record(store_path) == TopicRecord(EVENTS, "a third", 6, 4)


def test_records_that_nobody_has_finished_are_told_when_a_generation_ends(
    broker: Broker, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(apply(targets(store_path)))
    for topic in broker.topics.values():
        topic.partitions = {number: Partition() for number in range(6)}
    monkeypatch.setattr(migrate_topics, "committed", lambda *_: {0: 7, 2: 3, 3: 9})
    wider = MigrationSettings(partitions=6)
    # The fourth has no record that is not finished, the third lost what was not, the second was never read.
    monkeypatch.setattr(
        migrate_topics, "ends", lambda *_: {0: (0, 1_007), 1: (2, 4), 2: (5, 5), 3: (0, 9), 4: (0, 8), 5: (0, 0)}
    )
    [step] = plan(targets(store_path, wider))
    assert step.kind is StepKind.CHANGE
    assert "Unfinished: 1,002 records of partitions 0, 1." in step.hint
    monkeypatch.setattr(migrate_topics, "ends", lambda *_: dict.fromkeys(range(6), (0, 7)))
    monkeypatch.setattr(migrate_topics, "committed", lambda *_: dict.fromkeys(range(4), 7))
    [step] = plan(targets(store_path, wider))
    assert step.hint == ""
    assert list(apply(targets(store_path, wider))) == [step]


def test_a_store_beside_which_the_group_has_worked_elsewhere_is_not_recorded(
    broker: Broker, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(apply(targets(store_path)))
    elsewhere = store_path.with_name("elsewhere.sqlite")
    monkeypatch.setattr(topic_check, "committed", lambda *_: {0: 7, 1: 0, 3: 9})
    tables = plan(targets(elsewhere))
    assert {step.subject for step in tables} == {f"file {elsewhere}"}, "what is not there yet is not looked at"
    *done, left = apply(targets(elsewhere))
    assert done == tables
    assert (left.kind, left.subject) == (StepKind.DIFFERENCE, f"topic {EVENTS}")
    assert "committed offsets in 2 of 4 partitions" in left.what
    assert "set worker.group to a new name" in left.hint
    assert record(elsewhere) is None
    assert plan(targets(elsewhere)) == [left]
    assert plan(targets(store_path)) == []


def test_a_record_that_others_make_meanwhile_is_as_good(
    broker: Broker, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(apply(targets(store_path)[:2]))

    def committed(*_: object) -> dict[int, int]:
        store = SqliteStore.open(store_path)
        store.record_topic(TopicRecord(EVENTS, broker.topics[EVENTS].topic_id, 4, 1), None)
        store.close()
        return {0: 7}

    monkeypatch.setattr(topic_check, "committed", committed)
    assert list(apply(targets(store_path))) == []


def test_a_store_that_is_locked_for_long_is_unavailable(broker: Broker, store_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("consumers.migrate_sqlite.LOCK_WAIT_S", 0.01)
    store_path.parent.mkdir(exist_ok=True)
    with FileLock(f"{store_path}.lock"), pytest.raises(StoreUnavailableError):
        list(apply(targets(store_path)))


@pytest.mark.local_stack
def test_real_topics_are_created_once_and_then_as_required(local_stack) -> None:
    kafka = {"bootstrap.servers": local_stack.addresses().kafka_bootstrap_servers}
    found = migrate_topics.found_topics(migrate_topics.AdminClient(kafka))
    settings = MigrationSettings(partitions=found[EVENTS].partitions if EVENTS in found else 8)
    first = list(Topics(kafka, settings).apply())
    assert {step.subject for step in first} >= {f"topic {name}" for name in TOPICS if name not in found}
    assert [step for step in Topics(kafka, settings).plan() if step.kind is not StepKind.DIFFERENCE] == []
    assert list(Topics(kafka, settings).apply()) == list(Topics(kafka, settings).plan())
