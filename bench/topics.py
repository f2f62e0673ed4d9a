"""Looks at topics without a group: where they end, what was added since, whether workers have got to the end."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from confluent_kafka import Consumer, TopicPartition

from schemas.codec import PLAIN
from schemas.errors import UndecodableError
from schemas.records import Record
from schemas.topics import EVENTS

Ends = Mapping[int, int]
"""By partition, the offset of the record that comes next."""


class Topics:
    """A client for looking; a context that closes it."""

    def __init__(self, bootstrap_servers: str, group: str = "bench-look") -> None:
        config: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "group.id": group}
        self._consumer: Any = Consumer({**config, "enable.auto.commit": False, "auto.offset.reset": "error"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def ends(self, topic: str) -> dict[int, int]:
        """Return where a topic ends."""
        numbers = self._consumer.list_topics(topic, timeout=15).topics[topic].partitions
        ask = self._consumer.get_watermark_offsets
        return {number: ask(TopicPartition(topic, number), timeout=15)[1] for number in sorted(numbers)}

    def is_worked_off(self) -> bool:
        """Say whether the group of this client has committed all of the events topic."""
        ends = self.ends(EVENTS)
        asked = [TopicPartition(EVENTS, number) for number, end in ends.items() if end]
        committed = self._consumer.committed(asked, timeout=15)
        return all(each.offset == ends[each.partition] for each in committed)

    def read(self, topic: str, start: Ends, end: Ends) -> Iterator[Record]:
        """Yield the records between two places of a topic, decoded."""
        left = {number for number in end if end[number] > start[number]}
        self._consumer.assign([TopicPartition(topic, number, start[number]) for number in left])
        while left:
            message = self._consumer.poll(30)
            if message is None or message.error() is not None:
                raise SystemExit(f"{topic} cannot be read: {message and message.error()}")
            if message.offset() >= end[message.partition()] - 1:
                left.discard(message.partition())
            if message.offset() < end[message.partition()]:
                try:
                    yield PLAIN.decode(message.value())
                except UndecodableError as error:
                    raise SystemExit(f"{topic} has a record that is none of ours: {error.message}") from error
        self._consumer.unassign()
