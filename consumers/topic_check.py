"""Whether the events topic is the one that the rows were folded from, and set as the contract requires."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from consumers.errors import TopicChangedError, TopicUnrecordedError
from consumers.kafka_clients import admin_config
from consumers.kafka_errors import translated
from consumers.replay.log import committed
from consumers.settings import WorkerSettings
from consumers.stores.contract import Store, TopicRecord
from schemas.topics import DEAD_LETTERS, EVENTS, INBOX, Setting, differences

LOG = logging.getLogger(__name__)

TIMEOUT_S: Final = 15.0
_APPEND_TIME: Final = "message.timestamp.type"
_MIGRATE: Final = "Run `twotick migrate` to see what differs, and `twotick migrate --execute` to accept it."


def check_topic(kafka: Mapping[str, Setting], store: Store, settings: WorkerSettings) -> TopicRecord:
    """Return what is recorded about the events topic, recording it where nothing is.

    Raises TopicChangedError, TopicUnrecordedError, KafkaUnavailableError, KafkaRefusedError and the store's errors.
    """
    # The errors that we raise say what is wrong; librdkafka would say it 20 times a second on standard error.
    admin = AdminClient({**admin_config(kafka), "log_level": 0})
    try:
        partitions = {name: _partitions(admin, name) for name in (EVENTS, INBOX, DEAD_LETTERS)}
        identity = settings.topic_identity or _topic_id(admin, EVENTS)
        if settings.log_append_time_required:
            _check_config(admin, EVENTS)
    except KafkaException as error:
        raise translated(error, "asking for the topics") from error
    count, group = partitions[EVENTS], settings.group
    return accept(
        store,
        identity,
        count,
        group=group,
        begun=lambda: partitions_begun(kafka, group, count),
        allow_new_topic=settings.allow_new_topic,
    )


def identity_of(kafka: Mapping[str, Setting], settings: WorkerSettings) -> str:
    """Return what tells the events topic from another of its name. Raises KafkaUnavailableError, KafkaRefusedError."""
    if settings.topic_identity:
        return settings.topic_identity
    try:
        return _topic_id(AdminClient({**admin_config(kafka), "log_level": 0}), EVENTS)
    except KafkaException as error:
        raise translated(error, "asking for the topics") from error


def partitions_begun(kafka: Mapping[str, Setting], group: str, partitions: int) -> int:
    """Return in how many partitions of the events topic a group has finished records. Raises WorkerError."""
    return sum(offset > 0 for offset in committed(kafka, EVENTS, group, range(partitions)).values())


def accept(  # noqa: PLR0913 - what is found, and what is allowed
    store: Store, identity: str, partitions: int, *, group: str, begun: Callable[[], int], allow_new_topic: bool
) -> TopicRecord:
    """Return the record of a topic that is found like this.

    `begun` is asked where nothing is recorded: in how many partitions the group has finished records. Raises
    TopicChangedError where another topic is recorded, TopicUnrecordedError where none is and the group has begun.
    """
    for _ in range(10):
        known = store.topic_record(EVENTS)
        if known is not None and (known.topic_id, known.partitions) == (identity, partitions):
            return known
        if known is not None:
            _refuse_change(known, identity, partitions, allow_new_topic=allow_new_topic)
        else:
            refuse_unrecorded(store, group, begun(), partitions)
        record = TopicRecord(EVENTS, identity, partitions, known.generation + 1 if known else 1)
        if store.record_topic(record, known):
            LOG.info("events topic recorded", extra={"generation": record.generation, "partitions": partitions})
            return record
    raise TopicChangedError("the record of the events topic changes again and again", _MIGRATE)


def refuse_unrecorded(store: Store, group: str, begun: int, partitions: int) -> None:
    """Raise TopicUnrecordedError where a store had no record and a group has begun `begun` partitions all the same.

    Workers record the topic before they commit anything. So where there is still no record once offsets are seen,
    these were committed beside another store; else it was a worker of this one that was quicker.
    """
    if begun and store.topic_record(EVENTS) is None:
        raise TopicUnrecordedError(EVENTS, group, begun, partitions)


def _refuse_change(known: TopicRecord, identity: str, partitions: int, *, allow_new_topic: bool) -> None:
    if known.partitions != partitions:
        raise TopicChangedError(
            f"{EVENTS} has {partitions} partitions, {known.partitions} are recorded: keys would move", _MIGRATE
        )
    if not allow_new_topic:
        raise TopicChangedError(
            f"{EVENTS} is another topic ({identity}) than was recorded ({known.topic_id})", _MIGRATE
        )


def _partitions(admin: Any, name: str) -> int:  # noqa: ANN401 - the client's own types say less than it does
    found = admin.list_topics(name, timeout=TIMEOUT_S).topics.get(name)
    if found is None or found.error is not None or not found.partitions:
        raise TopicChangedError(f"the topic {name} is not there", "Run `twotick migrate --execute` to create it.")
    return len(found.partitions)


def _topic_id(admin: Any, name: str) -> str:  # noqa: ANN401
    described: Callable[[float], Any] = admin.describe_topics(TopicCollection([name]), request_timeout=TIMEOUT_S)[
        name
    ].result
    return str(described(TIMEOUT_S).topic_id)


def _check_config(admin: Any, name: str) -> None:  # noqa: ANN401
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    entries = admin.describe_configs([resource], request_timeout=TIMEOUT_S)[resource].result(TIMEOUT_S)
    described = {key: str(entry.value) for key, entry in entries.items()}
    for found in differences(name, described, replication_factor=1):
        if found.setting == _APPEND_TIME:
            raise TopicChangedError(f"{name}: {_APPEND_TIME} is {found.found}, it must be {found.required}", _MIGRATE)
        extra = {"topic": name, "setting": found.setting, "found": found.found, "required": found.required}
        LOG.warning("a topic setting is not as required", extra=extra)
