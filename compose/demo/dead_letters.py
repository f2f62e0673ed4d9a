"""Counts the dead letters of a cluster by their offsets, without reading them."""

from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

from schemas.topics import DEAD_LETTERS

_TIMEOUT_S = 10.0


def count_dead_letters(kafka: Mapping[str, str | int | float | bool]) -> int:
    """Return how many records the dead-letter topic ever got. Raises KafkaException where nobody answers."""
    consumer = Consumer({**kafka, "group.id": "twotick-demo", "enable.auto.commit": False})
    try:
        topic = consumer.list_topics(DEAD_LETTERS, timeout=_TIMEOUT_S).topics[DEAD_LETTERS]
        ends = (
            consumer.get_watermark_offsets(TopicPartition(DEAD_LETTERS, partition), timeout=_TIMEOUT_S)[1]
            for partition in topic.partitions
        )
        return sum(max(0, end) for end in ends)
    finally:
        consumer.close()
