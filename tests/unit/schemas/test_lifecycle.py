"""The life-cycle table is total and keeps its own rules; the walk is over every pair, not over examples."""

from itertools import product

import pytest

from schemas.codec import VERSIONS
from schemas.lifecycle import (
    ANSWERED_KINDS,
    CONVERSATION_KINDS,
    CONVERSATION_TABLE,
    FAILED,
    FINAL,
    GUARDS,
    MESSAGE_KINDS,
    PARKING_KINDS,
    RANK,
    REASON_OF_FAILURE,
    RECEIPTS,
    SETTLED,
    TABLE,
    Kind,
    Outcome,
    Reason,
    State,
    label,
    lowest,
)
from schemas.versions import newest

PAIRS = tuple(product(State, MESSAGE_KINDS))


def test_the_table_answers_every_pair_and_nothing_else():
    assert set(TABLE) == set(State) == set(RANK)
    assert all(set(row) == set(MESSAGE_KINDS) for row in TABLE.values())
    assert {*MESSAGE_KINDS, *CONVERSATION_KINDS, *PARKING_KINDS, Kind.HELLO} == set(Kind)
    assert all(set(row) == set(CONVERSATION_KINDS) for row in CONVERSATION_TABLE.values())
    assert set(CONVERSATION_TABLE) == {False, True}


@pytest.mark.parametrize(("state", "kind"), PAIRS)
def test_an_applied_rule_raises_the_rank_and_every_other_keeps_the_state(state, kind):
    rule = TABLE[state][kind]
    if rule.outcome == Outcome.APPLIED:
        assert RANK[rule.after] > RANK[state]
        assert state not in FINAL
    else:
        assert rule.after == state


@pytest.mark.parametrize(("state", "kind"), PAIRS)
def test_a_refused_or_stale_rule_says_why_and_the_others_have_nothing_to_explain(state, kind):
    rule = TABLE[state][kind]
    assert bool(rule.reason) is (rule.outcome in {Outcome.REFUSED, Outcome.STALE})


@pytest.mark.parametrize(("state", "kind"), PAIRS)
def test_the_same_event_again_changes_nothing(state, kind):  # case M6
    after = TABLE[state][kind].after
    assert TABLE[after][kind].after == after
    if TABLE[state][kind].outcome == Outcome.APPLIED:
        assert TABLE[after][kind].outcome == Outcome.DUPLICATE


def test_every_copy_of_a_send_is_answered_with_what_is_true():  # case M6
    assert all(TABLE[state][Kind.SEND].outcome == Outcome.DUPLICATE for state in State if state is not State.PENDING)


def test_read_implies_delivered_and_a_late_delivered_changes_nothing():  # case M2
    assert TABLE[State.SENT][Kind.READ].after == State.READ
    assert TABLE[State.READ][Kind.DELIVERED] == (Outcome.STALE, State.READ, Reason.ALREADY_FINAL)


def test_undelivered_is_the_only_failure_that_anything_leaves():
    left = {state for state, kind in PAIRS if TABLE[state][kind].outcome == Outcome.APPLIED}
    assert left & FAILED == {State.UNDELIVERED}
    assert {TABLE[State.UNDELIVERED][kind].after for kind in RECEIPTS} == {State.DELIVERED, State.READ}
    assert FAILED - {State.UNDELIVERED} | {State.READ} == FINAL
    assert {State.DELIVERED, State.UNDELIVERED} == SETTLED - FINAL


def test_every_state_but_pending_is_reached():
    reached = {rule.after for row in TABLE.values() for rule in row.values() if rule.outcome == Outcome.APPLIED}
    reached |= {rule.after for rule in GUARDS.values() if rule.outcome == Outcome.APPLIED}
    assert reached == set(State) - {State.PENDING}


def test_a_guard_fails_a_send_for_a_reason_named_like_its_state():
    for rule in GUARDS.values():
        if rule.outcome == Outcome.APPLIED:
            assert rule.after in FINAL
            assert rule.reason == REASON_OF_FAILURE[rule.after]
        else:
            assert (rule.outcome, rule.after) == (Outcome.REFUSED, State.PENDING)


@pytest.mark.parametrize("states", [pair for pair in product(State, repeat=2) if State.PENDING not in pair], ids=str)
def test_a_group_stands_where_its_lowest_recipient_does(states):
    assert RANK[lowest(states)] == min(RANK[state] for state in states)


def test_who_blocks_the_sender_holds_no_group_back_unless_all_do():
    assert lowest((State.BLOCKED, State.SENT)) == State.SENT
    assert lowest((State.BLOCKED, State.READ)) == State.READ
    assert lowest((State.UNDELIVERED, State.DELIVERED, State.BLOCKED)) == State.UNDELIVERED
    assert lowest((State.BLOCKED, State.BLOCKED)) == State.BLOCKED


def test_moving_one_recipient_never_moves_the_group_back():
    for states in product([State.SENT, State.UNDELIVERED, State.DELIVERED, State.READ, State.BLOCKED], repeat=2):
        for index, kind in product((0, 1), RECEIPTS):
            after = list(states)
            after[index] = TABLE[states[index]][kind].after
            assert RANK[lowest(tuple(after))] >= RANK[lowest(states)]


def test_people_read_failed_with_its_reason():
    assert [label(state) for state in (State.SENT, State.UNDELIVERED, State.EXPIRED)] == [
        "sent",
        "failed(undelivered)",
        "failed(expired)",
    ]


def test_the_wire_has_the_same_states_and_outcomes():
    symbols = {field.shape.name: field.shape.symbols for field in newest(VERSIONS)["acknowledgement"].shape.fields}
    assert symbols["twotick.State"] == tuple(State)
    assert symbols["twotick.Outcome"] == tuple(Outcome)
    assert symbols["twotick.Kind"] == ANSWERED_KINDS
