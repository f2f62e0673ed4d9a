"""The settings of a worker's Kafka clients: what a deployment passes through, and what a worker depends on."""

import logging
from collections.abc import Mapping

from consumers.settings import WorkerSettings
from schemas.repeats import Repeats
from schemas.topics import CONSUMER, OWNER_PRODUCER, Setting, client_config

LOG = logging.getLogger("librdkafka")
"""What Kafka's client library says itself, and the errors that it hands to us: of the same one only one is told."""
LOG.addFilter(Repeats())
_CONSUMERS = ("fetch.", "queued.", "group.", "session.", "heartbeat.", "max.poll.", "isolation.", "check.crcs")
"""Beginnings of the names of settings that a producer has no use for, and warns about."""
_CLASSIC_ONLY = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")


def consumer_config(kafka: Mapping[str, Setting], settings: WorkerSettings, member: str) -> dict[str, Setting]:
    """Return the consumer's settings; `member` is the static member id, empty for a dynamic member.

    Raises PinnedSettingError.
    """
    config = client_config(kafka, CONSUMER)
    config["group.id"] = settings.group
    config["max.poll.interval.ms"] = int(settings.poll_interval_s_max * 1000)
    config.setdefault("queued.max.messages.kbytes", 16_384)
    # All partitions share one queue in the client, so a partition with a backlog puts in front of the others what is
    # fetched ahead of it: by default up to 100,000 records or all of those 16 MiB. With little of it, and no wait
    # before more is fetched, it is thousands; the worker is fed all the same.
    config.setdefault("queued.min.messages", 1_000)
    config.setdefault("fetch.queue.backoff.ms", 5)
    config.setdefault("max.partition.fetch.bytes", 262_144)
    config.setdefault("fetch.wait.max.ms", 100)
    if member:
        config["group.instance.id"] = member
    if settings.protocol == "consumer":
        for name in _CLASSIC_ONLY:
            config.pop(name, None)
        config["group.protocol"] = "consumer"
    else:
        config["partition.assignment.strategy"] = "cooperative-sticky"
        config["session.timeout.ms"] = int(settings.session_timeout_s * 1000)
        config.setdefault("heartbeat.interval.ms", max(100, int(settings.session_timeout_s * 1000 / 15)))
    return config


def member_of(node: str, generation: int) -> str:
    """Return a worker's static member id: another one in each generation of the topic.

    A static member that comes back gets what it had without a rebalance (KIP-345, KIP-814), so a group that came back
    whole would never hear of partitions that were added meanwhile. The ids of before leave with their session.
    """
    return node if generation == 1 else f"{node}-generation-{generation}"


def producer_config(kafka: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of the producer of answers and dead letters. Raises PinnedSettingError."""
    own = {name: value for name, value in kafka.items() if not name.startswith(_CONSUMERS)}
    config = client_config(own, OWNER_PRODUCER)
    config.setdefault("linger.ms", 2)
    config.setdefault("queue.buffering.max.messages", 100_000)
    config.setdefault("queue.buffering.max.kbytes", 65_536)
    config.setdefault("compression.type", "lz4")
    return config


def admin_config(kafka: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the settings of a client that only asks."""
    return {name: value for name, value in kafka.items() if not name.startswith(_CONSUMERS)}
