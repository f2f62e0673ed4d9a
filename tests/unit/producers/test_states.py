"""What answers and ticks make of a message: by rank only."""

from itertools import permutations

import pytest

from producers.states import again_in_ms, rises, verdict
from schemas.identity import uuid7
from schemas.lifecycle import RANK, Kind, Outcome, Reason, State
from schemas.records import NO_ID, Acknowledgement


def ack(kind=Kind.SEND, outcome=Outcome.APPLIED, reason="", state=State.SENT):
    return Acknowledgement("a", NO_ID, NO_ID, kind, "a", "c", NO_ID, outcome, reason, state, 1, 1, 0, 0, 0)


def test_an_id_ahead_of_the_log_is_no_verdict():
    assert not verdict(ack(outcome=Outcome.REFUSED, reason=Reason.ID_AHEAD, state=State.PENDING)).settles


@pytest.mark.parametrize("outcome", [Outcome.CONFLICT, Outcome.REFUSED])
def test_any_other_no_to_a_send_is_final(outcome):
    told = verdict(ack(outcome=outcome, reason=Reason.CONTENT_DIFFERS, state=State.READ))
    assert (told.settles, told.state, told.reason) == (True, State.REJECTED, Reason.CONTENT_DIFFERS)


def test_a_no_to_a_receipt_or_cancel_settles_it_and_says_nothing_of_the_message():
    for kind in (Kind.DELIVERED, Kind.READ, Kind.CANCEL):
        assert verdict(ack(kind, Outcome.REFUSED, Reason.NOT_THE_SENDER)).state == ""


@pytest.mark.parametrize(
    ("outcome", "why", "state", "reason"),
    [
        (Outcome.STALE, Reason.ALREADY_SENT, State.SENT, ""),
        (Outcome.STALE, Reason.ALREADY_FINAL, State.EXPIRED, Reason.EXPIRED),
        (Outcome.APPLIED, "", State.CANCELLED, Reason.CANCELLED),
    ],
)
def test_why_a_cancel_came_too_late_is_not_why_its_message_failed(outcome, why, state, reason):
    told = verdict(ack(Kind.CANCEL, outcome, why, state))
    assert (told.state, told.reason) == (state, reason)


def test_a_reused_number_is_taken_but_the_install_ends():
    told = verdict(ack(reason=Reason.SEQUENCE_REUSED))
    assert (told.settles, told.state, told.restart_install, told.reason) == (True, State.SENT, True, "")


@pytest.mark.parametrize("order", list(permutations([State.SENT, State.UNDELIVERED, State.DELIVERED, State.READ])))
def test_in_whatever_order_ticks_come_the_highest_stays(order):  # case M2
    state = State.PENDING
    for told in order:
        state = told if rises(state, told) else state
    assert state == State.READ


def test_nothing_leaves_a_final_state():
    for final in (State.EXPIRED, State.BLOCKED, State.REJECTED, State.CANCELLED):
        assert not any(rises(final, told) for told in RANK)


def test_an_early_id_waits_until_its_time():
    early = ack(outcome=Outcome.REFUSED, reason=Reason.ID_AHEAD)._replace(message_id=uuid7(10_000, 0))
    assert again_in_ms(early._replace(appended_at=4_000)) == 6_000
    assert again_in_ms(early._replace(appended_at=9_999)) == 1_000


def test_a_parked_conversation_is_asked_again_in_a_while():
    parked = ack(outcome=Outcome.REFUSED, reason=Reason.PARKED, state=State.PENDING)
    assert not verdict(parked).settles
    assert again_in_ms(parked) == 15_000
