"""Where the log cannot be asked about something, a replay says so and does not take it for empty."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, TopicPartition

from consumers.errors import KafkaRefusedError, KafkaUnavailableError, WorkerError
from consumers.replay import log as replay_log
from consumers.replay.log import Log, committed
from consumers.replay.spans import Extent, Wish

KAFKA = {"bootstrap.servers": "nobody:1"}
SILENT, REFUSED = KafkaError.LEADER_NOT_AVAILABLE, KafkaError.TOPIC_AUTHORIZATION_FAILED


class _Client:
    """A consumer of `events`, whose answers are set by a test: two partitions with ten records each."""

    def __init__(self, _config: object = None) -> None:
        self.topic_error: KafkaError | None = None
        self.partition_error: KafkaError | None = None
        """Of the second partition, where it is asked for offsets."""

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
