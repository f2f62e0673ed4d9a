"""The fold is a function of the log's prefix: refolding, duplicates, replays and faults change no row.

Arbitrary logs come from seeds (`tests.unit.fold_world`); a failing one is repeated by its number.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.fold import Policy, blockers_as_of, fold, fold_block, fold_membership
from consumers.rows import At, ConversationRow
from schemas.identity import bucket_of, uuid7
from schemas.lifecycle import FINAL, RANK, RECEIPTS, TABLE, Kind, Outcome, Reason, State
from tests.unit.fold_world import (
    CONVERSATION,
    POLICY,
    START_MS,
    Defences,
    Rows,
    difference,
    event,
    make_log,
    pure,
    step,
)

LOGS = st.integers(0, 2**32).map(make_log)
MESSAGE = uuid7(START_MS, 1)
SEND = event(Kind.SEND, MESSAGE, seq=1, recipients=("bob",), body=b"hi")
NOBODY_BLOCKS = ConversationRow(CONVERSATION)


def at(offset, appended_at=START_MS, generation=1):
    return At(generation, 0, offset, appended_at)


def folded(*events, policy=POLICY, start=0):
    """Fold events a second apart; return the last one's outcome."""
    row, conversation = None, NOBODY_BLOCKS
    for offset, each in enumerate(events, start):
        where = at(offset, START_MS + offset * 1000)
        if each.kind in {Kind.BLOCK, Kind.UNBLOCK}:
            conversation = fold_block(each, conversation, where, policy).row
            continue
        last = fold(each, row, conversation, where, policy)
        row = last.row
    return last


# Arbitrary logs


@given(log=LOGS, data=st.data())
def test_folding_on_from_any_prefix_is_folding_the_whole(log, data):
    rows, _ = pure(log)
    end = data.draw(st.integers(0, len(log)))
    again, _ = pure(log[:end])
    for entry in log[end:]:
        step(again, entry)
    assert again == rows


@given(log=LOGS, data=st.data())
def test_a_replay_over_rows_that_are_ahead_changes_nothing(log, data):  # cases K3, K16, M4
    rows, _ = pure(log)
    before = rows.copy()
    for entry in log[data.draw(st.integers(0, len(log))) :]:
        told = step(rows, entry)
        assert told is None or told.transition is None
    assert rows == before


@settings(max_examples=200)
@given(log=LOGS, data=st.data())
def test_rows_that_are_ahead_by_different_lengths_end_where_the_log_does(log, data):  # case K7
    """Rows are written one by one, so a new owner may find each of them at another place in the log."""
    rows, _ = pure(log)
    position = data.draw(st.integers(0, len(log)))
    found = Rows()
    for message_id in rows.messages:
        ahead = pure(log[: data.draw(st.integers(position, len(log)))])[0]
        if message_id in ahead.messages:
            found.messages[message_id] = ahead.messages[message_id]
    found.conversation = pure(log[: data.draw(st.integers(position, len(log)))])[0].conversation
    for entry in log[position:]:
        step(found, entry)
    assert found == rows


@given(log=LOGS)
def test_the_same_record_again_changes_no_row(log):  # case M6
    rows = Rows()
    for offset, (each, where) in enumerate(log):
        step(rows, (each, where._replace(offset=2 * offset)))
        before = rows.copy()
        told = step(rows, (each, where._replace(offset=2 * offset + 1)))
        assert rows == before
        assert told is None or told.outcome != Outcome.APPLIED


@given(log=LOGS)
def test_stamps_and_versions_rise_ranks_never_fall_and_nothing_leaves_a_final_state(log):  # cases C3, M2
    rows = Rows()
    for entry in log:
        before = rows.messages.get(entry[0].message_id)
        told = step(rows, entry)
        if told is None or told.transition is None:
            continue
        row, where = told.row, entry[1]
        assert told.outcome == Outcome.APPLIED
        assert row.version == told.transition.version == (before.version + 1 if before else 1)
        assert row.applied == (where.generation, where.offset)
        assert row.stamp >= where.appended_at * 1000
        if before is not None:
            assert row.stamp > before.stamp
            assert RANK[row.state] >= RANK[before.state]
            assert before.state not in FINAL
            changed = [pair for pair in zip(before.receipts, row.receipts, strict=True) if pair[0] != pair[1]]
            assert changed
            assert all(RANK[new] > RANK[old] and old not in FINAL for old, new in changed)


@given(log=LOGS)
def test_only_a_recipients_own_receipt_moves_its_state_and_no_receipt_anothers(log):
    rows = Rows()
    for entry in log:
        before = rows.messages.get(entry[0].message_id)
        told = step(rows, entry)
        if told is None or before is None or entry[0].kind not in RECEIPTS:
            continue
        moved = {
            user
            for user, old, new in zip(before.recipients, before.receipts, told.row.receipts, strict=True)
            if old != new
        }
        assert moved <= {entry[0].actor}
        if entry[0].actor not in before.recipients:
            assert (told.outcome, told.reason) == (Outcome.REFUSED, Reason.NOT_A_RECIPIENT)


@given(log=LOGS)
def test_outcomes_of_single_messages_are_the_tables(log):
    rows = Rows()
    for entry in log:
        each = entry[0]
        before = rows.messages.get(each.message_id)
        told = step(rows, entry)
        if told is None or told.reason in {Reason.NOT_DUE, Reason.ID_AHEAD} or told.outcome == Outcome.CONFLICT:
            continue
        if each.kind in RECEIPTS and before is not None:
            if each.actor not in before.recipients:
                continue
            state = before.receipts[before.recipients.index(each.actor)]
        else:
            state = before.state if before else State.PENDING
        if told.reason not in {Reason.NOT_THE_SENDER, Reason.EXPIRED, Reason.BLOCKED, Reason.REJECTED}:
            assert (told.outcome, told.reason) == TABLE[state][each.kind][::2]


# Faults: crashes, paused owners that go on, writes that land late, twice or never

HISTORIES = range(3_000)


def broken(defences):
    return (seed for seed in HISTORIES if difference(seed, defences))


def test_after_any_faults_the_store_equals_the_pure_fold():  # cases K3, K4, K7, C3
    """One seed again: `python -c "from tests.unit.fold_world import difference; print(difference(SEED))"`."""
    assert list(broken(Defences())) == []


@pytest.mark.parametrize("left_out", ["stamps", "applied", "as_of", "carried"])
def test_no_defence_is_there_for_nothing(left_out):
    assert next(broken(Defences(**{left_out: False})), None) is not None


# One by one


def test_a_first_send_is_sent_and_a_copy_gets_the_same_answer():  # case M6
    first = folded(SEND)
    assert (first.outcome, first.row.state, first.row.version) == (Outcome.APPLIED, State.SENT, 1)
    again = folded(SEND, SEND)
    assert (again.outcome, again.row) == (Outcome.DUPLICATE, first.row)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"body": b"ho"}, Reason.CONTENT_DIFFERS),
        ({"content_type": "text/html"}, Reason.CONTENT_DIFFERS),
        ({"recipients": ("bob", "carol")}, Reason.CONTENT_DIFFERS),
        ({"actor": "mallory"}, Reason.NOT_THE_SENDER),
    ],
)
def test_other_content_under_the_same_id_is_a_conflict_and_the_first_stays(other, reason):
    last = folded(SEND, SEND._replace(**other))
    assert (last.outcome, last.reason, last.row) == (Outcome.CONFLICT, reason, folded(SEND).row)


def test_a_copy_may_carry_another_expiry_and_event_id():  # case K11
    assert folded(SEND, SEND._replace(expires_at=1, event_id=bytes(15) + b"x")).outcome == Outcome.DUPLICATE


def test_a_copy_appended_after_its_expiry_fails_but_not_where_an_earlier_one_made_it():
    expiring = SEND._replace(expires_at=START_MS)
    assert folded(expiring).row.state == State.SENT  # at the expiry itself
    late = folded(expiring, start=1)
    assert (late.outcome, late.reason, late.row.state) == (Outcome.APPLIED, Reason.EXPIRED, State.EXPIRED)
    assert folded(expiring, expiring).row.state == State.SENT


@pytest.mark.parametrize("broken_limit", [{"recipients": ()}, {"recipients": tuple("abcd")}, {"body": bytes(11)}])
def test_a_send_over_a_limit_is_rejected_for_good(broken_limit):
    told = folded(SEND._replace(**broken_limit))
    assert (told.outcome, told.reason, told.row.state) == (Outcome.APPLIED, Reason.REJECTED, State.REJECTED)


def test_cancel_counts_before_the_send_only():
    cancel = event(Kind.CANCEL, MESSAGE)
    assert folded(cancel).row.state == State.CANCELLED
    assert folded(cancel, SEND).row.state == State.CANCELLED
    assert folded(cancel, SEND).outcome == folded(cancel, cancel).outcome == Outcome.DUPLICATE
    after = folded(SEND, cancel)
    assert (after.outcome, after.reason, after.row.state) == (Outcome.STALE, Reason.ALREADY_SENT, State.SENT)
    foreign = folded(SEND, cancel._replace(actor="mallory"))
    assert (foreign.outcome, foreign.reason) == (Outcome.REFUSED, Reason.NOT_THE_SENDER)


def test_expire_before_it_is_due_is_refused_and_a_proof_of_delivery_undoes_it():
    send = SEND._replace(delivery_timeout_s=2)
    expire = event(Kind.EXPIRE, MESSAGE, actor="")
    early = folded(send, expire)
    assert (early.outcome, early.reason, early.transition) == (Outcome.REFUSED, Reason.NOT_DUE, None)
    due = folded(send, expire, expire)
    assert (due.row.state, due.row.version) == (State.UNDELIVERED, 2)
    assert folded(send, expire, expire, expire).outcome == Outcome.DUPLICATE
    proven = folded(send, expire, expire, event(Kind.DELIVERED, MESSAGE, "bob"))
    assert (proven.row.state, proven.row.version) == (State.DELIVERED, 3)


def test_expire_leaves_alone_who_has_the_message():
    send = SEND._replace(delivery_timeout_s=1, recipients=("bob", "carol"))
    told = folded(send, event(Kind.DELIVERED, MESSAGE, "bob"), event(Kind.EXPIRE, MESSAGE, actor=""))
    assert told.row.receipts == (State.DELIVERED, State.UNDELIVERED)
    assert told.row.state == State.UNDELIVERED


def test_a_recipients_own_expire_is_its_word_alone_and_at_any_time():
    send = SEND._replace(recipients=("bob", "carol"))
    given_up = event(Kind.EXPIRE, MESSAGE, actor="bob")
    told = folded(send, given_up)
    assert (told.row.receipts, told.row.state, told.row.version) == ((State.UNDELIVERED, State.SENT), State.SENT, 2)
    assert (told.transition.state, told.transition.actor) == (State.UNDELIVERED, "bob")
    assert folded(send, given_up, given_up).outcome == Outcome.DUPLICATE
    assert folded(send, given_up, event(Kind.DELIVERED, MESSAGE, "bob")).row.receipts[0] == State.DELIVERED
    late = folded(send, event(Kind.DELIVERED, MESSAGE, "bob"), given_up)
    assert (late.outcome, late.row.receipts[0]) == (Outcome.STALE, State.DELIVERED)
    foreign = folded(send, event(Kind.EXPIRE, MESSAGE, actor="mallory"))
    assert (foreign.outcome, foreign.reason) == (Outcome.REFUSED, Reason.NOT_A_RECIPIENT)
    early = folded(given_up)
    assert (early.outcome, early.reason) == (Outcome.REFUSED, Reason.UNKNOWN_MESSAGE)


def test_a_group_is_read_when_its_last_reader_has_read():
    send = SEND._replace(recipients=("bob", "carol"))
    reads = [event(Kind.READ, MESSAGE, user) for user in ("bob", "carol")]
    assert folded(send, reads[0]).row.state == State.SENT
    assert folded(send, *reads).row.state == State.READ


@pytest.mark.parametrize("kind", sorted(RECEIPTS))
def test_a_receipt_before_its_send_is_refused_also_on_a_replay(kind):
    receipt = event(kind, MESSAGE, "bob")
    early = fold(receipt, None, NOBODY_BLOCKS, at(0), POLICY)
    assert (early.outcome, early.reason, early.row) == (Outcome.REFUSED, Reason.UNKNOWN_MESSAGE, None)
    row = fold(SEND, None, NOBODY_BLOCKS, at(1), POLICY).row
    again = fold(receipt, row, NOBODY_BLOCKS, at(0), POLICY)
    assert (again.outcome, again.reason, again.row) == (Outcome.REFUSED, Reason.UNKNOWN_MESSAGE, row)
    assert fold(receipt, row, NOBODY_BLOCKS, at(2), POLICY).outcome == Outcome.APPLIED


def test_a_new_generation_of_the_topic_comes_after_every_offset_of_the_old_one():
    row = fold(SEND, None, NOBODY_BLOCKS, at(1_000), POLICY).row
    told = fold(event(Kind.READ, MESSAGE, "bob"), row, NOBODY_BLOCKS, at(0, generation=2), POLICY)
    assert told.row.applied == (2, 0)


def test_an_id_from_the_future_is_refused_until_the_log_has_caught_up_also_on_a_replay():
    ahead = SEND._replace(message_id=uuid7(START_MS + 5_001, 1))
    early = fold(ahead, None, NOBODY_BLOCKS, at(0), POLICY)
    assert (early.outcome, early.reason, early.row) == (Outcome.REFUSED, Reason.ID_AHEAD, None)
    row = fold(ahead, None, NOBODY_BLOCKS, at(1, START_MS + 1), POLICY).row
    assert row.state == State.SENT
    again = fold(ahead, row, NOBODY_BLOCKS, at(0), POLICY)
    assert (again.outcome, again.reason, again.row) == (Outcome.REFUSED, Reason.ID_AHEAD, row)
    copy = fold(ahead, row, NOBODY_BLOCKS, at(2, START_MS), POLICY)  # append times may go back
    assert copy.outcome == Outcome.DUPLICATE


def test_brokers_clocks_that_go_back_keep_stamps_rising():  # case C3
    row = fold(SEND, None, NOBODY_BLOCKS, at(0), POLICY).row
    told = fold(event(Kind.READ, MESSAGE, "bob"), row, NOBODY_BLOCKS, at(1, START_MS - 3_600_000), POLICY)
    assert told.row.stamp == row.stamp + 1


# Blocks, asked as of a position

BLOCK = event(Kind.BLOCK, actor="bob", subject="alice")
UNBLOCK = event(Kind.UNBLOCK, actor="bob", number=1, subject="alice")


def test_who_blocks_the_sender_gets_nothing_and_the_others_do():
    assert folded(BLOCK, SEND).row.state == State.BLOCKED
    assert folded(BLOCK, UNBLOCK, SEND).row.state == State.SENT
    assert folded(SEND, BLOCK, event(Kind.READ, MESSAGE, "bob")).row.state == State.READ
    group = folded(BLOCK, SEND._replace(recipients=("bob", "carol")))
    assert (group.row.state, group.row.receipts) == (State.SENT, (State.BLOCKED, State.SENT))
    assert folded(BLOCK._replace(subject="mallory"), SEND).row.state == State.SENT


def conversation_after(*kinds, policy=POLICY):
    row = NOBODY_BLOCKS
    for offset, kind in enumerate(kinds):
        row = fold_block(event(kind, actor="bob", number=offset, subject="alice"), row, at(offset), policy).row
    return row


def test_a_conversation_that_is_ahead_still_knows_who_blocked_whom_back_then():
    turns = [Kind.BLOCK, Kind.UNBLOCK] * 10
    row = conversation_after(*turns)
    assert [blockers_as_of(row.blocks, "alice", (1, offset)) for offset in range(21)] == [
        {"bob"} if offset % 2 else set() for offset in range(21)
    ]


def test_within_its_window_a_conversation_answers_exactly_and_before_it_forgets():
    policy = Policy(block_window_offsets=4)
    for length in range(1, 20):
        turns = ([Kind.BLOCK, Kind.UNBLOCK] * 10)[:length]
        row = conversation_after(*turns, policy=policy)
        for offset in range(max(0, length - 5), length + 1):
            assert blockers_as_of(row.blocks, "alice", (1, offset)) == ({"bob"} if offset % 2 else set())
        assert len(row.blocks) <= 6


def test_a_block_again_is_a_duplicate_and_blocks_are_bounded_but_never_hold_on():
    told = fold_block(BLOCK._replace(event_id=UNBLOCK.event_id), conversation_after(Kind.BLOCK), at(1), POLICY)
    assert (told.outcome, told.changed) == (Outcome.DUPLICATE, False)
    row, policy = NOBODY_BLOCKS, Policy(blocks_max=2)
    for offset, user in enumerate(("bob", "carol")):
        row = fold_block(BLOCK._replace(actor=user), row, at(offset), policy).row
    refused = fold_block(BLOCK._replace(actor="dave"), row, at(2), policy)
    assert (refused.outcome, refused.reason, refused.row) == (Outcome.REFUSED, Reason.TOO_MANY_BLOCKS, row)
    assert fold_block(UNBLOCK, row, at(3), policy).outcome == Outcome.APPLIED


@pytest.mark.parametrize(("first", "second"), [(BLOCK, UNBLOCK), (UNBLOCK, BLOCK)])
def test_a_copy_does_not_undo_what_another_install_said_meanwhile(first, second):
    row = NOBODY_BLOCKS if first is BLOCK else conversation_after(Kind.BLOCK)
    first, second = first._replace(event_id=b"f" * 16), second._replace(event_id=b"s" * 16, install=b"i" * 16)
    for offset, each in enumerate((first, second), 1):
        told = fold_block(each, row, at(offset), POLICY)
        assert told.outcome == Outcome.APPLIED
        row = told.row
    for copy in (first, second, first):
        told = fold_block(copy, row, at(3), POLICY)
        assert (told.outcome, told.reason, told.row, told.changed) == (Outcome.DUPLICATE, Reason.NONE, row, False)
    assert row.blocks[-1].active == (second.kind == Kind.BLOCK)
    again = fold_block(first._replace(event_id=b"n" * 16), row, at(3), POLICY)
    assert (again.outcome, again.changed) == (Outcome.APPLIED, True)  # somebody says it anew


@pytest.mark.parametrize("other", [{"actor": "carol"}, {"subject": "dave"}, {"kind": Kind.UNBLOCK}])
def test_another_event_under_the_same_id_is_no_copy(other):
    row = conversation_after(Kind.BLOCK)
    if "kind" not in other:
        row = fold_block(UNBLOCK, row, at(1), POLICY).row
    assert fold_block(BLOCK._replace(**other), row, at(2), POLICY).outcome == Outcome.APPLIED


def test_a_copy_is_known_for_as_long_as_its_change_is_kept():
    policy = Policy(block_window_offsets=4)
    row = conversation_after(Kind.BLOCK, Kind.UNBLOCK, policy=policy)
    assert fold_block(BLOCK, row, at(1_000), policy).outcome == Outcome.DUPLICATE  # nothing has pushed it out
    for offset, known in (
        (5, True),
        (6, False),
    ):  # carol's change keeps what it finds in the window, and what held at its start
        carols = event(Kind.BLOCK, actor="carol", number=9, subject="alice")
        after = fold_block(carols, row, at(offset), policy).row
        told = fold_block(BLOCK, after, at(offset + 1), policy)
        assert told.changed != known, "older than the window, it is as if it were said anew"


def test_a_row_of_before_event_ids_were_kept_takes_what_comes():
    row = conversation_after(Kind.BLOCK, Kind.UNBLOCK)
    row = row._replace(blocks=tuple(change._replace(event_id=b"") for change in row.blocks))
    told = fold_block(BLOCK, row, at(2), POLICY)
    assert told.outcome == Outcome.APPLIED
    assert [change.event_id for change in told.row.blocks] == [b"", b"", BLOCK.event_id]
    unblocked = fold_block(UNBLOCK, told.row, at(3), POLICY).row
    assert fold_block(BLOCK, unblocked, at(4), POLICY).outcome == Outcome.DUPLICATE


def test_members_and_buckets_are_noted_once_with_their_position():
    row = fold_membership(SEND, NOBODY_BLOCKS, at(3))
    assert row.participants == ("alice", "bob")
    assert row.buckets == (bucket_of(MESSAGE),)
    assert (row.version, row.applied, row.stamp) == (1, (1, 3), START_MS * 1000)
    assert fold_membership(SEND, row, at(4)) is row
    joined = fold_membership(SEND._replace(recipients=("carol",)), row, at(5))
    assert joined.participants == ("alice", "bob", "carol")
    assert joined.stamp > row.stamp
    assert fold_membership(SEND._replace(recipients=("dave",)), joined, at(5)) is joined  # it is ahead
