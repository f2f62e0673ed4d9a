"""A topic is recorded once, and never in a store beside which its group has already worked somewhere else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consumers import topic_check
from consumers.errors import ExitCode, TopicChangedError, TopicUnrecordedError, exit_code_of
from consumers.stores.contract import TopicRecord
from consumers.stores.sqlite import SqliteStore
from consumers.topic_check import accept, partitions_begun
from schemas.topics import EVENTS

RECORD = TopicRecord(EVENTS, "id", 4, 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    yield opened
    opened.close()


def accepted(store: SqliteStore, begun: Callable[[], int], identity: str = "id") -> TopicRecord:
    return accept(store, identity, 4, group="g", begun=begun, allow_new_topic=False)


def never() -> int:
    raise AssertionError("nobody needs to know")


def test_a_new_group_records_the_topic_and_asks_no_more(store: SqliteStore) -> None:
    assert accepted(store, lambda: 0) == RECORD
    assert accepted(store, never) == RECORD
    with pytest.raises(TopicChangedError):
        accepted(store, never, "another")


def test_a_store_that_is_not_the_groups_is_refused_and_left_as_it_is(store: SqliteStore) -> None:
    with pytest.raises(TopicUnrecordedError) as caught:
        accepted(store, lambda: 3)
    assert "the group g has committed offsets in 3 of 4 partitions" in caught.value.message
    assert "set worker.group to a new name" in caught.value.hint
    assert exit_code_of(caught.value) == ExitCode.TOPIC_CHANGED
    assert store.topic_record(EVENTS) is None


def test_another_worker_that_records_and_commits_meanwhile_is_no_other_store(store: SqliteStore) -> None:
    def begun() -> int:
        assert store.record_topic(RECORD, None)
        return 4

    assert accepted(store, begun) == RECORD


def test_offsets_of_nothing_finished_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_check, "committed", lambda *_: {0: 0, 1: 7, 3: 1})
    assert partitions_begun({}, "g", 4) == 2
