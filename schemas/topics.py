"""The three topics: their names, what they must be set to, and the client settings that nobody may override."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from schemas.errors import PinnedSettingError

EVENTS: Final = "twotick.events"
INBOX: Final = "twotick.inbox"
DEAD_LETTERS: Final = "twotick.dead-letters"

PARTITIONS_LOCAL: Final = 8
REPLICATION_FACTOR_PRODUCTION: Final = 3

VALUE_BYTES_MAX: Final = 1_000_000
"""The largest value of an event or of an inbox record; below the broker's default for a whole batch, 1,048,588."""

_DAY_MS: Final = 24 * 3600 * 1000
_UNLIMITED: Final = "-1"
_BATCH_BYTES_MAX: Final = 1_048_588
_DEAD_LETTER_BYTES_MAX: Final = 2 * 1024 * 1024
"""A dead letter holds a whole record, as large as the events topic takes it, and the account of it."""


class Requirement(NamedTuple):
    """What one topic setting must be."""

    setting: str
    value: str
    """What a new topic is created with."""
    at_least: int | None = None
    """The least that will do on a topic made by others (-1 stands for unlimited); None: `value` and nothing else."""

    def met_by(self, found: str | None) -> bool:
        """Say whether a topic with `found` (None: not told) may be used."""
        if found == self.value or found is None or self.at_least is None:
            return found == self.value
        return found == _UNLIMITED or (found.isdecimal() and int(found) >= self.at_least)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of the contract."""

    name: str
    key: str
    """What its records are keyed by."""
    requirements: tuple[Requirement, ...]


class Difference(NamedTuple):
    """One setting of an existing topic that is not as required."""

    topic: str
    setting: str
    required: str
    found: str | None
    """None where the broker does not tell it."""


_APPEND_TIME: Final = Requirement("message.timestamp.type", "LogAppendTime")
_DELETE: Final = Requirement("cleanup.policy", "delete")
_CLEAN_LEADERS: Final = Requirement("unclean.leader.election.enable", "false")
_ANY_SIZE: Final = Requirement("retention.bytes", _UNLIMITED)

TOPICS: Final[Mapping[str, Topic]] = {
    topic.name: topic
    for topic in (
        Topic(
            EVENTS,
            "conversation id",
            (
                _APPEND_TIME,
                _DELETE,
                _CLEAN_LEADERS,
                Requirement("retention.ms", _UNLIMITED, 30 * _DAY_MS),
                _ANY_SIZE,
                Requirement("max.message.bytes", str(_BATCH_BYTES_MAX), _BATCH_BYTES_MAX),
            ),
        ),
        Topic(
            INBOX,
            "user id",
            (
                _APPEND_TIME,
                _DELETE,
                _CLEAN_LEADERS,
                Requirement("retention.ms", str(7 * _DAY_MS), 3600 * 1000),
                Requirement("max.message.bytes", str(_BATCH_BYTES_MAX), _BATCH_BYTES_MAX),
            ),
        ),
        Topic(
            DEAD_LETTERS,
            "as the original",
            (
                _DELETE,
                _CLEAN_LEADERS,
                Requirement("retention.ms", _UNLIMITED, 30 * _DAY_MS),
                _ANY_SIZE,
                Requirement("max.message.bytes", str(_DEAD_LETTER_BYTES_MAX), _DEAD_LETTER_BYTES_MAX),
            ),
        ),
    )
}
"""By name, in the order in which they are created."""


def requirements(topic: str, replication_factor: int) -> tuple[Requirement, ...]:
    """Return what `topic` must be set to, with the acknowledgements that its replication factor allows for."""
    replicas = 2 if replication_factor >= REPLICATION_FACTOR_PRODUCTION else 1
    return (*TOPICS[topic].requirements, Requirement("min.insync.replicas", str(replicas), replicas))


def creation_config(topic: str, replication_factor: int) -> dict[str, str]:
    """Return the settings to create `topic` with."""
    return {needed.setting: needed.value for needed in requirements(topic, replication_factor)}


def differences(topic: str, described: Mapping[str, str], replication_factor: int) -> Sequence[Difference]:
    """Return where an existing topic's settings, as the broker describes them, are not as required."""
    return [
        Difference(topic, needed.setting, needed.value, described.get(needed.setting))
        for needed in requirements(topic, replication_factor)
        if not needed.met_by(described.get(needed.setting))
    ]


Setting = str | int | float | bool
"""A value of a Kafka client's setting."""

PRODUCER: Final[Mapping[str, Setting]] = {
    "partitioner": "murmur2",
    "enable.idempotence": True,
    "acks": "all",
    # Never given up by the library: a record that timed out here may still be in the log, and its successors would
    # pass it. The library retries in order, the outbox decides what is too old.
    "message.timeout.ms": 0,
    # What is in the log is known by its report alone.
    "delivery.report.only.error": False,
}
"""Pinned for every producer."""

OWNER_PRODUCER: Final[Mapping[str, Setting]] = {**PRODUCER, "message.max.bytes": _DEAD_LETTER_BYTES_MAX}
"""Pinned for the producer of a partition's owner, which also writes dead letters."""

CONSUMER: Final[Mapping[str, Setting]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # A position that the log no longer holds is for the reader to report, never a silent jump.
    "auto.offset.reset": "error",
}
"""Pinned for every consumer; whether the group protocol is classic or KIP-848 is a deployment's choice."""

_ALIASES: Final[Mapping[str, str]] = {
    "request.required.acks": "acks",
    "delivery.timeout.ms": "message.timeout.ms",
    "auto.commit.enable": "enable.auto.commit",
}
"""librdkafka's other names for pinned settings."""


def client_config(passthrough: Mapping[str, Setting], pinned: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return a client's settings: what a deployment passes through, and what the contract pins.

    Raises PinnedSettingError where the first would change the second; saying the same is allowed.
    """
    for name, value in passthrough.items():
        setting = _ALIASES.get(name, name)
        if setting == "default.topic.config":
            raise PinnedSettingError(
                "the Kafka setting default.topic.config is not allowed", "Set what it holds at the top level."
            )
        if setting in pinned and _said(value) != _said(pinned[setting]):
            raise PinnedSettingError(
                f"the Kafka setting {name} is {_said(value)}, but it must be {_said(pinned[setting])}",
                f"Remove {name} from the Kafka settings that you pass through; delivery depends on it.",
            )
    return {name: value for name, value in passthrough.items() if name not in _ALIASES} | dict(pinned)


def _said(value: Setting) -> str:
    return str(value).lower()
