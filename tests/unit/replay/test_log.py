"""Where the log cannot be asked about something, a replay says so and does not take it for empty."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, TopicPartition

from consumers.errors import KafkaRefusedError, KafkaUnavailableError, WorkerError
from consumers.replay import log as replay_log
from consumers.replay.log import Log, committed
from consumers.replay.spans import Extent, Span, Wish

KAFKA = {"bootstrap.servers": "nobody:1"}
SILENT, REFUSED = KafkaError.LEADER_NOT_AVAILABLE, KafkaError.TOPIC_AUTHORIZATION_FAILED


class _Message:
    """A record of partition 0, or its end where the next record would be."""

    def __init__(self, offset: int, *, is_end: bool = False) -> None:
        self._offset = offset
        self._error = KafkaError(KafkaError._PARTITION_EOF) if is_end else None

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error


class _Client:
    """A consumer of `events`, whose answers are set by a test: two partitions with ten records each."""

    def __init__(self, _config: object = None) -> None:
        self.topic_error: KafkaError | None = None
        self.partition_error: KafkaError | None = None
        """Of the second partition, where it is asked for offsets."""
        self.messages: list[_Message] = []
        """What comes, one at a time."""

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        found = SimpleNamespace(partitions={} if self.topic_error else {0: None, 1: None}, error=self.topic_error)
        return SimpleNamespace(topics={topic: found})

    def get_watermark_offsets(self, _asked: TopicPartition, timeout: float) -> tuple[int, int]:
        return (0, 10)

    def offsets_for_times(self, asked: Sequence[TopicPartition], timeout: float) -> list[SimpleNamespace]:
        return self._answers(asked)

    def committed(self, asked: Sequence[TopicPartition], timeout: float) -> list[SimpleNamespace]:
        return self._answers(asked)

    def _answers(self, asked: Sequence[TopicPartition]) -> list[SimpleNamespace]:
        errors = {1: self.partition_error} if self.partition_error else {}
        return [
            SimpleNamespace(
                partition=each.partition, offset=-1 if each.partition else 4, error=errors.get(each.partition)
            )
            for each in asked
        ]

    def assign(self, _assigned: object) -> None:
        pass

    def unassign(self) -> None:
        pass

    def resume(self, _assigned: object) -> None:
        pass

    def pause(self, _assigned: object) -> None:
        pass

    def consume(self, _count: int, _timeout: float) -> list["_Message"]:
        return [self.messages.pop(0)] if self.messages else []

    def close(self) -> None:
        pass


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> _Client:
    made = _Client()
    monkeypatch.setattr(replay_log, "Consumer", lambda _config: made)
    return made


def test_a_partition_without_an_offset_is_left_out(client: _Client) -> None:
    assert Log(KAFKA, "events").extents(Wish(from_ms=5)) == [Extent(0, 0, 10, 4), Extent(1, 0, 10)]
    assert committed(KAFKA, "events", "group", [0, 1]) == {0: 4}


@pytest.mark.parametrize(("code", "raised"), [(SILENT, KafkaUnavailableError), (REFUSED, KafkaRefusedError)])
def test_a_partition_that_could_not_be_asked_about_is_no_partition_without_an_offset(
    client: _Client, code: int, raised: type[WorkerError]
) -> None:
    client.partition_error = KafkaError(code)
    for wish in (Wish(from_ms=5), Wish(to_ms=5)):
        with pytest.raises(raised, match="asking for events"):
            Log(KAFKA, "events").extents(wish)
    with pytest.raises(raised, match="asking for the offsets of group"):
        committed(KAFKA, "events", "group", [0, 1])


@pytest.mark.parametrize(("code", "raised"), [(SILENT, KafkaUnavailableError), (REFUSED, KafkaRefusedError)])
def test_a_topic_that_is_not_told_of_is_no_topic_without_partitions(
    client: _Client, code: int, raised: type[WorkerError]
) -> None:
    client.topic_error = KafkaError(code)
    with pytest.raises(raised, match="asking for events"):
        Log(KAFKA, "events").extents(Wish())


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC])
def test_a_topic_that_is_not_there_has_no_partitions(client: _Client, code: int) -> None:
    client.topic_error = KafkaError(code)
    assert Log(KAFKA, "events").extents(Wish()) == []


def _read(log: Log, end: int) -> list[int]:
    """Return the offsets that are read of a span from 0 on."""
    spans = [Span(0, 0, end, is_whole=True)]
    return [each.offset() for batch in log.batches(spans, 10) for messages in batch.values() for each in messages]


def test_an_end_before_the_end_of_the_span_is_not_its_end(client: _Client) -> None:
    client.messages = [_Message(0), _Message(1, is_end=True), _Message(1), _Message(2)]
    assert _read(Log(KAFKA, "events"), 3) == [0, 1, 2]


@pytest.mark.parametrize("end", [3, 4])
def test_a_span_whose_last_records_are_gone_ends_with_the_partition(client: _Client, end: int) -> None:
    client.messages = [_Message(0), _Message(4, is_end=True), _Message(9)]
    assert _read(Log(KAFKA, "events"), end) == [0]


def test_where_nothing_comes_after_an_early_end_the_replay_fails(
    client: _Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_log, "SILENCE_S_MAX", 0.01)
    client.messages = [_Message(0), _Message(1, is_end=True)]
    with pytest.raises(KafkaUnavailableError, match="nothing came"):
        _read(Log(KAFKA, "events"), 3)
