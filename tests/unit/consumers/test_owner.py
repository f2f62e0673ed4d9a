"""One owner, step by step: what it reads, writes, answers, refuses, keeps and commits."""

import pytest

from consumers.cache import PASSED_MAX, Conversation
from consumers.fold import Policy
from consumers.intake import Entry
from consumers.owner import OwnerSettings, PartitionOwner
from consumers.partition_rows import Takeover
from consumers.redelivery import Schedule
from consumers.rows import NOWHERE, ConversationRow, Owner
from consumers.stores.contract import Rows
from consumers.work import Work
from schemas.lifecycle import Outcome, Reason, State
from schemas.partitioner import partition_of
from tests.unit.consumers.world import (
    NOTHING,
    START_MS,
    Shelf,
    entries,
    event,
    message_id,
    owner_of,
    send,
)


def finish(owner: PartitionOwner, work: Work) -> None:
    owner.durable()
    owner.finished(work)


def test_several_events_of_a_message_are_one_write() -> None:
    owner = owner_of()
    work = owner.fold(entries([send(1), event("DELIVERED", 1, "bob"), event("READ", 1, "bob")]), NOTHING, START_MS)
    (write,) = work.message_writes()
    assert write.row.state == State.READ
    assert [move.version for move in write.transitions] == [1, 2, 3]
    assert write.body == b"hi"
    assert [(each.user, each.kind, each.state) for each in work.acknowledgements] == [
        ("alice", "SEND", State.SENT),
        ("alice", "DELIVERED", State.DELIVERED),
        ("bob", "DELIVERED", State.DELIVERED),
        ("alice", "READ", State.READ),
        ("bob", "READ", State.READ),
    ]
    assert [each.user for each in work.deliveries] == ["bob"]


def test_a_batch_is_folded_when_the_one_before_is_durable_and_writes_what_it_changes() -> None:
    owner = owner_of()
    owner.fold(entries([send(1)]), NOTHING, START_MS)
    assert owner.is_writing
    with pytest.raises(RuntimeError, match="not durable"):
        owner.fold(entries([event("DELIVERED", 1, "bob")], 1), NOTHING, START_MS)
    assert owner.position == 1
    owner.durable()
    assert not owner.is_writing
    second = owner.fold(entries([event("DELIVERED", 1, "bob"), event("READ", 1, "bob")], 1), NOTHING, START_MS)
    assert [move.version for move in second.message_writes()[0].transitions] == [2, 3]
    assert second.message_writes()[0].body is None


def test_the_commit_position_never_passes_an_unfinished_record() -> None:
    # case K9, with record 0 held while 1 and 2 are done
    owner = owner_of()
    works = []
    for number in range(3):
        works.append(owner.fold(entries([send(number)], number), NOTHING, START_MS))
        owner.durable()
    owner.finished(works[1])
    owner.finished(works[2])
    assert owner.commit_position() == 0
    owner.finished(works[0])
    assert owner.commit_position() == 3


def test_an_exact_duplicate_gets_the_first_answer_and_changes_nothing() -> None:
    # case M6
    owner = owner_of()
    work = owner.fold(entries([send(1, expires_at=START_MS - 1), send(1, expires_at=START_MS - 1)]), NOTHING, START_MS)
    answers = [(each.outcome, each.reason, each.state, each.version) for each in work.acknowledgements]
    assert answers == [
        (Outcome.APPLIED, Reason.EXPIRED, State.EXPIRED, 1),
        (Outcome.DUPLICATE, Reason.EXPIRED, State.EXPIRED, 1),
    ]
    assert work.tally.duplicates == 1


@pytest.mark.parametrize(
    ("broken", "reason", "answered"),
    [
        (event("READ", 9, "bob"), Reason.UNKNOWN_MESSAGE, True),
        (event("READ", 1, "mallory"), Reason.NOT_A_RECIPIENT, True),
        (event("CANCEL", 1, "mallory"), Reason.NOT_THE_SENDER, True),
        (send(1)._replace(body=b"other"), Reason.CONTENT_DIFFERS, True),
    ],
)
def test_what_is_refused_is_answered_and_kept_for_people(broken, reason, answered) -> None:
    # cases M3, M7: and its neighbour is applied
    owner = owner_of()
    work = owner.fold(entries([send(1), broken, event("DELIVERED", 1, "bob")]), NOTHING, START_MS)
    assert [(each.offset, each.reason) for each in work.refusals] == [(1, reason)]
    assert any(each.event_id == broken.event_id for each in work.acknowledgements) is answered
    assert work.message_writes()[0].row.state == State.DELIVERED


def test_what_passes_by_itself_is_no_dead_letter() -> None:
    owner = owner_of()
    ahead = send(1, at_ms=START_MS + 60_000)
    early = event("EXPIRE", 2, "")
    work = owner.fold(entries([ahead, send(2), early]), NOTHING, START_MS)
    assert work.refusals == []
    assert work.tally.refused == {Reason.ID_AHEAD: 1, Reason.NOT_DUE: 1}
    assert [each.reason for each in work.acknowledgements] == [Reason.ID_AHEAD, Reason.NONE]


def test_a_recipients_own_expire_ends_what_is_owed_and_ticks_the_sender() -> None:
    owner = owner_of()
    work = owner.fold(entries([send(1), event("EXPIRE", 1, "bob")]), NOTHING, START_MS)
    assert [(each.user, each.kind, each.actor, each.state) for each in work.acknowledgements] == [
        ("alice", "SEND", "alice", "SENT"),
        ("alice", "EXPIRE", "bob", "UNDELIVERED"),
    ]
    assert not owner.pending.entries


def test_a_record_in_the_wrong_partition_is_refused() -> None:
    conversation = next(name for name in "abcdefgh" if partition_of(name.encode(), 4) != 0)
    owner = owner_of(partitions=4)
    stray = [send(1, conversation=conversation), event("READ", 1, "bob", conversation=conversation)]
    stray.append(event("BLOCK", 1, "bob", conversation=conversation, subject="alice"))
    work = owner.fold(entries(stray), NOTHING, START_MS)
    assert [each.reason for each in work.refusals] == [Reason.WRONG_PARTITION] * 3
    assert work.message_writes() == []
    assert work.conversation_writes() == []


def test_a_record_in_the_wrong_partition_is_refused_though_its_row_is_in_the_store() -> None:
    conversation = next(name for name in "abcdefgh" if partition_of(name.encode(), 4) != 0)
    sent = send(1, conversation=conversation)
    there = owner_of().fold(entries([sent]), NOTHING, START_MS)
    found = Rows({key: write.row for key, write in there.messages.items()}, {})
    owner = owner_of(partitions=4, from_the_start=False)
    stray = entries([event("READ", 1, "bob", conversation=conversation), sent], first_offset=9)
    work = owner.fold(stray, found, START_MS)
    assert [each.reason for each in work.refusals] == [Reason.WRONG_PARTITION] * 2
    assert work.message_writes() == []


def test_nothing_is_read_while_the_log_is_covered() -> None:
    owner = owner_of(from_the_start=True)
    assert owner.needs(entries([send(1, at_ms=START_MS - 10**9), event("READ", 2, "bob")])) == ([], [])


def test_what_may_be_older_than_the_covered_log_is_read() -> None:
    owner = owner_of(position=50, committed=50, from_the_start=False)
    old, young = send(1, at_ms=START_MS - 10_000), send(2, at_ms=START_MS + 7_000)
    needs = owner.needs([Entry(50, START_MS, old), Entry(51, START_MS + 7_000, young)])
    assert needs.messages == [("c", message_id(1, START_MS - 10_000))]
    assert needs.conversations == ["c"]


def test_eviction_raises_what_must_be_read() -> None:
    owner = owner_of(messages_max=1)
    for number in range(3):
        made = send(number, at_ms=START_MS + number * 100_000)
        batch = [Entry(number, START_MS + number * 100_000, made)]
        assert owner.needs(batch).messages == []
        finish(owner, owner.fold(batch, NOTHING, START_MS))
    assert (owner.cached, owner.evicted) == (1, 2)
    again = event("READ", 0, "bob", at_ms=START_MS)
    assert owner.needs([Entry(3, START_MS + 200_000, again)]).messages == [("c", message_id(0))]


def test_rows_that_are_not_durable_are_not_put_out() -> None:
    owner = owner_of(messages_max=1)
    work = owner.fold(entries([send(n) for n in range(5)]), NOTHING, START_MS)
    assert owner.cached == 5
    finish(owner, work)
    assert owner.cached == 1


def test_a_conversation_that_went_out_of_memory_in_the_warm_up_is_read_again_behind_a_copy_of_the_same_ms() -> None:
    """Records of one batch of a producer have one append time, such as two copies that a release has redriven."""
    block = event("BLOCK", 1, "bob", subject="alice")
    finished = [Entry(n, START_MS, each) for n, each in enumerate([send(0), block, send(5, conversation="d"), send(0)])]
    shelf, former = Shelf(), owner_of()
    former.needs(finished)
    for write in former.fold(finished, NOTHING, START_MS).conversation_writes():
        shelf.write(former.owner, write)
    owner = owner_of(committed=len(finished), epoch=2, conversations_max=1)
    new = [Entry(4, START_MS, send(2))]
    for batch in (finished[:3], finished[3:], new):
        needs = owner.needs(batch)
        work = owner.fold(batch, shelf.read(needs.messages, needs.conversations), START_MS)
        owner.durable()
    assert [write.row.state for write in work.message_writes()] == ["BLOCKED"]
    assert all(write.row.blocks for write in work.conversation_writes())


def test_warming_up_writes_and_answers_nothing_but_knows_again() -> None:
    log = entries([send(1), send(2), event("READ", 1, "bob"), event("READ", 2, "bob"), send(3)])
    owner = owner_of(position=0, committed=3, epoch=2)
    assert owner.warming_up
    work = owner.fold(log[:3], NOTHING, START_MS)
    assert (work.message_writes(), work.acknowledgements, work.deliveries, work.refusals) == ([], [], [], [])
    assert not owner.warming_up
    finish(owner, work)
    assert set(owner.pending.entries) == {("c", message_id(2))}
    work = owner.fold(log[3:], NOTHING, START_MS)
    assert [write.row.version for write in work.message_writes()] == [2, 1]


def test_a_row_ahead_of_its_event_is_told_again() -> None:
    # the owner before us wrote the row and died before the answers were out
    first = owner_of()
    log = entries([send(1), event("DELIVERED", 1, "bob")])
    rows = {("c", message_id(1)): first.fold(log, NOTHING, START_MS).message_writes()[0].row}
    second = owner_of(from_the_start=False, epoch=2)
    assert second.needs(log).messages == list(rows)
    work = second.fold(log, Rows(rows, {}), START_MS)
    assert work.message_writes() == []
    assert [(each.user, each.kind, each.outcome) for each in work.acknowledgements] == [
        ("alice", "SEND", Outcome.DUPLICATE),
        ("alice", "DELIVERED", Outcome.APPLIED),
        ("bob", "DELIVERED", Outcome.DUPLICATE),
    ]
    assert work.conversation_writes()[0].row.participants == ("alice", "bob")


def test_a_seq_that_comes_again_is_a_restored_outbox() -> None:
    owner = owner_of()
    work = owner.fold(entries([send(1), send(2), send(3)._replace(seq=2), send(4)._replace(seq=9)]), NOTHING, START_MS)
    assert [each.reason for each in work.acknowledgements] == ["", "", Reason.SEQUENCE_REUSED, ""]
    assert [each.outcome for each in work.acknowledgements] == [Outcome.APPLIED] * 4
    assert work.tally.conflicts == {Reason.SEQUENCE_REUSED: 1}
    assert len(work.message_writes()) == 4


def test_a_seq_that_was_passed_by_a_later_one_is_no_reuse_when_it_comes() -> None:
    owner = owner_of()
    late, first = send(5)._replace(seq=3), send(6)._replace(seq=1)
    log = [send(1), send(9), late, first, send(7)._replace(seq=3), send(8)._replace(seq=1)]
    work = owner.fold(entries(log), NOTHING, START_MS)
    reused = Reason.SEQUENCE_REUSED
    assert [each.reason for each in work.acknowledgements] == ["", "", "", "", reused, reused]


def test_how_many_passed_seqs_are_remembered_is_bounded() -> None:
    conversation = Conversation(ConversationRow("c"))
    for seq in (1_000, 2**62, 2**62 + 3):
        assert not conversation.reuses(b"i", seq, (1, 0))
    assert len(conversation.passed[b"i"]) == PASSED_MAX
    assert conversation.reuses(b"i", 5, (1, 1))
    assert not conversation.reuses(b"i", 2**62 + 2, (1, 2))
    assert conversation.reuses(b"i", 2**62 + 2, (1, 3))


def test_a_seq_from_the_store_is_no_reuse_by_the_event_that_put_it_there() -> None:
    # the conversation was durable, the message was not, and the owner died
    conversation = ConversationRow("c", ("alice", "bob"), (0,), sequences=((b"i" * 16, 2),), applied=(1, 0))
    owner = owner_of(from_the_start=False)
    work = owner.fold(entries([send(1), send(1)._replace(seq=2)]), Rows({}, {"c": conversation}), START_MS)
    assert [each.reason for each in work.acknowledgements] == ["", ""]


def test_blocks_are_answered_and_hold_for_later_sends() -> None:
    owner = owner_of()
    work = owner.fold(
        entries([event("BLOCK", 1, "bob", subject="alice"), event("BLOCK", 2, "bob", subject="alice"), send(1)]),
        NOTHING,
        START_MS,
    )
    assert [(each.outcome, each.state) for each in work.acknowledgements] == [
        (Outcome.APPLIED, State.PENDING),
        (Outcome.DUPLICATE, State.PENDING),
        (Outcome.APPLIED, State.BLOCKED),
    ]
    assert work.deliveries == []


def test_hello_is_answered_by_nobody() -> None:
    work = owner_of().fold(entries([event("HELLO", 1, "alice", conversation="hello:alice")]), NOTHING, START_MS)
    assert work.acknowledgements == []
    assert work.refusals == []


def test_a_rejected_body_is_not_kept() -> None:
    owner = owner_of(policy=Policy(body_bytes_max=1))
    work = owner.fold(entries([send(1)]), NOTHING, START_MS)
    assert work.message_writes()[0].body == b""
    assert work.acknowledgements[0].state == State.REJECTED
    assert work.conversation_writes() == []


def test_what_is_owed_holds_the_commit_position_until_it_is_spilled() -> None:
    # the tail bound: a takeover's tail rebuilds what is not spilled
    owner = owner_of(tail_records=4, grace_s=10**6)
    for number in range(10):
        log = [send(0)] if number == 0 else [send(number), event("READ", number, "bob")]
        for each in log:
            finish(owner, owner.fold(entries([each], owner.position), NOTHING, START_MS))
    assert owner.low_water == 19
    assert owner.commit_position() == 4
    taken = owner.take_spill(START_MS, 10)
    assert taken is not None
    spill, buckets = taken
    assert [len(several) for several in buckets.values()] == [1]
    assert owner.commit_position() == 4
    owner.pending.spilled(spill)
    assert owner.commit_position() == 19


def test_working_off_a_backlog_reminds_nobody() -> None:
    # the first delivery goes out when the SEND is folded, an hour after the log took it
    owner = owner_of(schedule=Schedule(first_wait_s=15, jitter=0))
    now_ms = START_MS + 3_600_000
    finish(owner, owner.fold(entries([send(1)]), NOTHING, now_ms))
    assert owner.due(now_ms + 14_000, 10) == []
    assert len(owner.due(now_ms + 15_000, 10)) == 1


def test_spills_go_to_no_bucket_that_may_be_read() -> None:
    owner = owner_of(grace_s=1, schedule=Schedule(first_wait_s=1, bucket_s=10))
    finish(owner, owner.fold(entries([send(1)]), NOTHING, START_MS))
    now_ms = START_MS + 5_000
    taken = owner.take_spill(now_ms, 10)
    assert taken is not None
    (bucket,) = taken[1]
    assert bucket > now_ms // 10_000
    assert bucket in owner.buckets_due((bucket + 1) * 10_000)


def test_nothing_is_spilled_whose_row_may_not_be_in_the_store() -> None:
    owner = owner_of(grace_s=0)
    owner.fold(entries([send(1)]), NOTHING, START_MS)
    assert owner.take_spill(START_MS + 10**6, 10) is None


def test_a_lost_range_starts_a_cold_owner() -> None:
    takeover = Takeover(0, 1, Owner(1, "n"), position=10, committed=10, from_the_start=False, spilled_to=0)
    owner = PartitionOwner(OwnerSettings(partitions=1), takeover)
    assert owner.commit_position() == 10
    assert NOWHERE < (1, 10)


def test_after_a_change_of_the_partition_count_older_records_here_cover_nothing() -> None:
    # a conversation that was in another partition until then has its messages in the store
    takeover = Takeover(
        0, 2, Owner(1, "n"), position=0, committed=10, from_the_start=False, spilled_to=0, covers_from=20
    )
    owner = PartitionOwner(OwnerSettings(partitions=1), takeover)
    tail = [Entry(9, START_MS, send(1))]
    owner.fold(tail, NOTHING, START_MS)
    moved = event("DELIVERED", 2, "bob", at_ms=START_MS + 60_000)
    assert owner.needs([Entry(19, START_MS + 60_000, moved)]).messages == [("c", message_id(2, START_MS + 60_000))]
    # What is appended after the takeover tells of all that comes after it.
    later = send(3, at_ms=START_MS + 200_000)
    assert owner.needs([Entry(20, START_MS + 70_000, moved), Entry(21, START_MS + 200_000, later)]).messages == [
        ("c", message_id(2, START_MS + 60_000))
    ]
