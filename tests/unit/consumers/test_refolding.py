"""Rows that someone else has written: they are read, and the batch is folded again on them, with an end."""

from types import SimpleNamespace
from typing import Any

import pytest

from consumers.assignment import Assignment
from consumers.errors import OwnerFencedError, StoreUnavailableError, VersionConflictError
from consumers.held import HeldPartition, Stage
from consumers.pipeline import CONFLICTS_MAX
from consumers.rows import Block, ConversationRow
from consumers.settings import WorkerSettings
from consumers.stores.contract import TopicRecord
from schemas.codec import PLAIN
from schemas.records import Acknowledgement, DeadLetter
from schemas.topics import EVENTS
from tests.unit.consumers.test_pipeline import Bench
from tests.unit.consumers.world import NOTHING, START_MS, entries, event, owner_of, send


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def _sent(bench: Bench, *numbers: int) -> list[Any]:
    """Send messages, finish their batch, and return their rows."""
    bench.batch(*[send(number) for number in numbers])
    bench.store.answer(len(bench.store.writes) - 1)
    bench.turn()
    bench.producer.report()
    bench.turn()
    return [write.row for write in bench.store.writes[-1][0]]


def _conflict(*rows: Any) -> VersionConflictError:
    return VersionConflictError([(row.conversation_id, row.message_id) for row in rows], [])


def _by_someone_else(bench: Bench, row: Any, **changes: Any) -> None:
    bench.store.rows[row.conversation_id, row.message_id] = row._replace(**changes)


def _answers(bench: Bench) -> list[tuple[str, str, str, int]]:
    records = [PLAIN.decode(value) for _, _, value, _ in bench.producer.queued]
    return [
        (each.kind, each.outcome, each.state, each.version) for each in records if isinstance(each, Acknowledgement)
    ]


def test_only_what_was_changed_is_folded_and_written_again(bench: Bench) -> None:
    (first,) = _sent(bench, 1)
    bench.batch(event("DELIVERED", 1, "bob"), send(2))
    _by_someone_else(bench, first, state="READ", receipts=("READ",), version=2)
    bench.store.answer(1, _conflict(first))
    bench.turn()
    assert bench.store.reads == [({(first.conversation_id, first.message_id)}, set())]
    assert [(write.row.message_id, write.row.version) for write in bench.store.writes[2][0]] == [
        (bench.store.writes[1][0][1].row.message_id, 1)
    ]
    bench.store.answer(2)
    bench.turn()
    assert _answers(bench) == [
        ("DELIVERED", "STALE", "READ", 2),
        ("SEND", "DUPLICATE", "SENT", 1),
    ]
    bench.producer.report()
    bench.turn()
    assert bench.owner.commit_position() == 3
    assert (bench.counters.version_conflicts, bench.counters.applied) == (1, 1)
    assert bench.counters.conflicts_by_kind["version"] == 1


def test_the_batch_behind_it_is_folded_on_what_was_read(bench: Bench) -> None:
    (first,) = _sent(bench, 1)
    bench.batch(event("DELIVERED", 1, "bob"))
    _by_someone_else(bench, first, version=5)
    bench.store.answer(1, _conflict(first))
    bench.turn()
    assert bench.held.writing is not None
    bench.store.answer(2)
    bench.turn()
    bench.batch(event("READ", 1, "bob"))
    written = [write for messages, _ in bench.store.writes[2:] for write in messages]
    assert [(write.row.version, write.row.state) for write in written] == [(6, "DELIVERED"), (7, "READ")]
    assert [[each.version for each in write.transitions] for write in written] == [[6], [7]]
    bench.store.answer(3)
    bench.turn()
    answers = [answer for answer in _answers(bench) if answer[1] == "APPLIED"]
    assert answers == [("DELIVERED", "APPLIED", "DELIVERED", 6)] * 2 + [("READ", "APPLIED", "READ", 7)] * 2


def test_a_store_that_is_down_is_asked_again(bench: Bench) -> None:
    # case C8
    (first,) = _sent(bench, 1)
    bench.batch(event("DELIVERED", 1, "bob"))
    bench.store.read_error = StoreUnavailableError("down")
    bench.store.answer(1, _conflict(first))
    bench.turn()
    assert (bench.outage.active, bench.pipeline.tries_again, len(bench.store.reads)) == (True, True, 1)
    bench.turn()
    assert len(bench.store.reads) == 1
    _by_someone_else(bench, first, version=5)
    bench.store.read_error = None
    bench.now = 10.0
    bench.turn()
    assert (bench.outage.active, bench.store.writes[2][0][0].row.version) == (False, 6)


def test_a_row_that_the_batch_rests_on_stays_in_memory_until_it_is_durable(bench: Bench) -> None:
    _, second = _sent(bench, 1, 2)
    bench.batch(event("DELIVERED", 1, "bob"))
    bench.store.answer(1)
    bench.turn()
    bench.producer.report()
    bench.turn()
    bench.owner.limit_memory(2, 100, 100)
    bench.batch(event("DELIVERED", 1, "bob"), event("DELIVERED", 2, "bob"), send(3), send(4))
    _by_someone_else(bench, second, version=5)
    bench.store.answer(2, _conflict(second))
    bench.turn()
    bench.store.answer(3)
    bench.turn()
    assert _answers(bench)[0] == ("DELIVERED", "DUPLICATE", "DELIVERED", 2)
    assert (bench.owner.cached, bench.owner.evicted) == (2, 2)


def test_while_the_store_is_down_one_conflict_reads_and_the_others_wait(bench: Bench) -> None:
    # case K1: each read waits for its time-out
    rows = _sent(bench, 1)
    other = HeldPartition(0)
    other.stage, other.owner = Stage.OWNED, owner_of()
    bench.batch(event("DELIVERED", 1, "bob"))
    batch = entries([send(9)])
    bench.pipeline.unfinished += 1
    work = other.owner.fold(batch, NOTHING, START_MS)
    bench.pipeline.start(other, other.owner, work, batch, [], START_MS)
    bench.store.read_error = StoreUnavailableError("down")
    bench.store.answer(1, _conflict(*rows))
    bench.store.answer(2, _conflict(bench.store.writes[2][0][0].row))
    bench.turn()
    assert len(bench.store.reads) == 1
    bench.now = 10.0
    bench.turn()
    assert len(bench.store.reads) == 2


def test_a_row_that_is_gone_is_as_if_it_had_never_been(bench: Bench) -> None:
    (first,) = _sent(bench, 1)
    bench.batch(event("READ", 1, "bob"))
    bench.store.answer(1, _conflict(first))
    bench.turn()
    assert len(bench.store.writes) == 2
    assert _answers(bench) == [("READ", "REFUSED", "PENDING", 0)]
    letters = [PLAIN.decode(value) for _, _, value, _ in bench.producer.queued]
    assert [each.reason for each in letters if isinstance(each, DeadLetter)] == ["UNKNOWN_MESSAGE"]


def test_a_conversation_that_was_changed_has_its_new_messages_folded_again(bench: Bench) -> None:
    (first,) = _sent(bench, 1)
    bench.batch(send(2), send(3, to=("carl",)))
    conversation_id = first.conversation_id
    block = Block("bob", "alice", (1, 0), active=True)
    bench.store.rows[conversation_id] = ConversationRow(
        conversation_id, ("alice", "bob"), (), (block,), version=4, applied=(1, 0), stamp=first.stamp
    )
    bench.store.answer(1, VersionConflictError([], [conversation_id]))
    bench.turn()
    (messages, conversations) = bench.store.reads[0]
    assert (len(messages), conversations) == (2, {conversation_id})
    assert [write.row.state for write in bench.store.writes[2][0]] == ["BLOCKED", "SENT"]
    (write,) = bench.store.conversations[2]
    assert (write.row.version, write.base, write.row.blocks) == (6, 4, (block,))
    assert write.row.participants == ("alice", "bob", "carl")


def test_conflicts_without_end_end_the_worker(bench: Bench) -> None:
    (first,) = _sent(bench, 1)
    bench.batch(event("DELIVERED", 1, "bob"))
    for round_ in range(CONFLICTS_MAX):
        _by_someone_else(bench, first, version=10 + round_)
        bench.store.answer(len(bench.store.writes) - 1, _conflict(first))
        bench.turn()
        assert bench.store.writes[-1][0][0].row.version == 11 + round_
    bench.store.answer(len(bench.store.writes) - 1, _conflict(first))
    with pytest.raises(VersionConflictError):
        bench.turn()


def test_what_is_given_up_is_not_folded_again(bench: Bench) -> None:
    # case K8
    (first,) = _sent(bench, 1)
    bench.batch(event("DELIVERED", 1, "bob"))
    bench.store.answer(1, _conflict(first))
    bench.store.read_error = StoreUnavailableError("down")
    bench.turn()
    bench.pipeline.give_up(bench.held)
    bench.store.read_error = None
    bench.now = 10.0
    bench.turn()
    assert (len(bench.store.writes), len(bench.store.reads), bench.pipeline.tries_again) == (2, 1, False)


def test_a_fenced_owner_drops_its_partition_and_answers_nothing_more(bench: Bench) -> None:
    # case K4
    _sent(bench, 1)
    said = len(bench.producer.reported)
    unassigned: list[Any] = []
    assignment = Assignment(
        store=bench.store,  # type: ignore[arg-type]
        pipeline=bench.pipeline,
        settings=WorkerSettings(),
        topic=TopicRecord(EVENTS, "id", 1, 1),
        node="n",
        counters=bench.counters,
        drain=lambda _: None,
        forget=lambda _: None,
    )
    assignment.bind(SimpleNamespace(incremental_unassign=unassigned.append))
    assignment.held[0] = bench.held
    bench.batch(event("DELIVERED", 1, "bob"), send(2))
    bench.store.answer(1, OwnerFencedError(1, "n"))
    bench.turn()
    assignment.take()
    bench.turn()
    assert bench.held.stage is Stage.GIVEN_UP
    assert assignment.held[0].stage is Stage.TAKING
    assert [each.partition for each in unassigned[0]] == [0]
    assert (bench.counters.lease_losses, bench.counters.fenced_writes) == (1, 1)
    assert bench.producer.queued == []
    assert len(bench.producer.reported) == said
