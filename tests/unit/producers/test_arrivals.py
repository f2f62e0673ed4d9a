"""What the listener writes: exactly once, whatever comes twice or in another order."""

from producers.meta import get_install
from schemas.lifecycle import Kind, Outcome, Reason, State
from schemas.records import Event
from tests.unit.producers.world import PLACE


def receipts(world):
    rows = (
        world.database.connection()
        .execute("SELECT payload FROM events WHERE kind <> 'SEND' ORDER BY position")
        .fetchall()
    )
    return [world.codec.decode_as(Event, payload) for (payload,) in rows]


def sent(world, count=1):
    written = world.send(count)
    world.run(world.pump())
    return written, [world.event(one) for one in written]


def test_position_and_effect_are_one(world):
    (written,), (event,) = sent(world)
    assert world.arrivals.position(PLACE) is None
    world.apply(world.answer(event), next_offset=17)
    assert world.arrivals.position(PLACE) == 17
    world.reopen()
    assert world.arrivals.position(PLACE) == 17
    assert world.state(written) == State.SENT


def test_the_same_answer_twice_is_one_tick(world):  # case K3
    (written,), (event,) = sent(world)
    for _ in range(3):
        world.apply(world.answer(event), world.answer(event, outcome=Outcome.DUPLICATE))
    assert [tick.state for tick in world.views.ticks_after(0)] == ["sent"]
    assert world.views.at(written.position).version == 1


def test_ticks_in_the_wrong_order(world):  # case M2
    (written,), (event,) = sent(world)
    read = world.answer(event, State.READ, event_id=b"r" * 16, kind=Kind.READ, actor="bob", version=3)
    delivered = read._replace(state=State.DELIVERED, event_id=b"d" * 16, kind=Kind.DELIVERED, version=2)
    world.apply(read, delivered, world.answer(event))
    assert world.state(written) == State.READ
    assert world.views.at(written.position).version == 3
    # The tick alone says that it was sent, so nothing is sent again.
    assert world.queued() == []


def test_undelivered_gives_way_to_a_late_proof(world):
    (written,), (event,) = sent(world)
    world.apply(world.answer(event), world.answer(event, State.UNDELIVERED, kind=Kind.EXPIRE, actor="", version=2))
    assert world.state(written) == State.UNDELIVERED
    world.apply(world.answer(event, State.DELIVERED, kind=Kind.DELIVERED, actor="bob", version=3))
    assert world.state(written) == State.DELIVERED
    assert [tick.state for tick in world.views.ticks_after(0)] == ["sent", "failed(undelivered)", "delivered"]


def test_every_failure_shows(world):
    written, events = sent(world, 4)
    for event, state in zip(events, (State.EXPIRED, State.BLOCKED, State.REJECTED, State.CANCELLED), strict=True):
        world.apply(world.answer(event, state, reason=state))
    assert [world.views.at(one.position).state for one in written] == [
        "failed(expired)",
        "failed(blocked)",
        "failed(rejected)",
        "failed(cancelled)",
    ]
    assert world.queued() == []


def test_a_conflict_fails_the_message_and_keeps_the_reason(world):
    (written,), (event,) = sent(world)
    world.apply(world.answer(event, State.READ, Outcome.CONFLICT, reason=Reason.CONTENT_DIFFERS, version=9))
    found = world.views.at(written.position)
    assert (found.raw_state, found.reason) == (State.REJECTED, Reason.CONTENT_DIFFERS)


def test_a_foreign_conflict_changes_nothing(world):
    (written,), (event,) = sent(world)
    world.apply(world.answer(event, State.READ, Outcome.CONFLICT, event_id=b"x" * 16))
    assert world.state(written) == State.PENDING


def test_a_delivery_is_kept_once_and_told_once(world):
    applied = [world.apply(world.delivery(), world.delivery()) for _ in range(2)]
    assert [(one.deliveries, one.duplicates) for one in applied] == [(1, 1), (0, 2)]
    assert [(event.kind, event.actor) for event in receipts(world)] == [(Kind.DELIVERED, "alice")]
    assert len(list(world.views.arrivals_after(0, 10))) == 1


def test_a_redelivery_after_the_answer_is_told_again_once(world):
    world.apply(world.delivery())
    (receipt,) = receipts(world)
    # Unanswered: the receipt is on its way already.
    world.apply(world.delivery(attempt=2))
    assert receipts(world) == [receipt]
    world.apply(world.answer(receipt, State.PENDING, Outcome.REFUSED, reason=Reason.UNKNOWN_MESSAGE))
    assert receipts(world) == []
    world.apply(world.delivery(attempt=2), world.delivery(attempt=1))
    assert receipts(world) == []
    world.apply(world.delivery(attempt=3), world.delivery(attempt=3))
    assert [event.kind for event in receipts(world)] == [Kind.DELIVERED]


def test_reading_is_told_once(world):
    world.apply(world.delivery())
    message_id = world.delivery().message_id
    assert world.outbox.mark_read(message_id) is True
    assert world.outbox.mark_read(message_id) is False
    assert [event.kind for event in receipts(world)] == [Kind.DELIVERED, Kind.READ]
    for event in receipts(world):
        world.apply(world.answer(event, State.READ))
    assert receipts(world) == []
    # Whoever is asked again after that says all that he knows.
    world.apply(world.delivery(attempt=2))
    assert [event.kind for event in receipts(world)] == [Kind.READ]


def test_answers_to_own_receipts_are_no_ticks(world):
    world.apply(world.delivery())
    (receipt,) = receipts(world)
    world.apply(world.answer(receipt, State.DELIVERED))
    assert world.views.ticks_after(0) == []
    assert world.queued() == []


def test_a_lost_inbox_makes_open_messages_due(world):
    written, events = sent(world, 4)
    world.apply(world.answer(events[0]))
    world.apply(world.answer(events[1], State.READ))
    world.apply(world.answer(events[2], State.DELIVERED))
    assert world.arrivals.forgotten(0) == 2
    world.run(world.pump())
    assert sorted(event.seq for event in world.broker.sends()) == [1, 1, 2, 3, 3, 4, 4]
    world.apply(world.answer(events[0], State.READ, Outcome.DUPLICATE, version=3))
    assert world.state(written[0]) == State.READ


def test_an_answer_from_before_a_gap_does_not_end_the_asking(world):
    """The READ was lost; what is still there of an earlier owner's answers says SENT, and is no answer to the copy."""
    (written,), (event,) = sent(world)
    world.apply(world.answer(event))
    assert world.arrivals.forgotten(7) == 1
    world.arrivals.apply([world.answer(event)], PLACE, 6)
    assert (world.queued(), world.arrivals.gap_end()) == ([], 7)
    world.arrivals.apply([], PLACE, 7)
    assert (world.queued(), world.arrivals.gap_end()) == ([("SEND", 1, 1, 0)], 0)
    world.arrivals.apply([world.answer(event, State.READ, Outcome.DUPLICATE, version=3)], PLACE, 8)
    assert (world.queued(), world.state(written)) == ([], State.READ)


def test_a_reused_number_starts_a_new_install(world):
    before = get_install(world.database.connection())
    (written,), (event,) = sent(world)
    world.apply(world.answer(event, reason=Reason.SEQUENCE_REUSED))
    assert world.state(written) == State.SENT
    assert get_install(world.database.connection()) != before
    after = get_install(world.database.connection())
    # The same answer once more is about an install that ended.
    world.apply(world.answer(event, reason=Reason.SEQUENCE_REUSED))
    assert get_install(world.database.connection()) == after


def test_an_answer_to_a_number_never_given_starts_a_new_install(world):
    _, (event,) = sent(world)
    before = get_install(world.database.connection())
    known = world.answer(event, message_id=b"k" * 16, event_id=b"k" * 16)
    world.apply(known)
    assert get_install(world.database.connection()) == before
    world.apply(known._replace(seq=2))
    assert get_install(world.database.connection()) != before


def test_a_cancel_that_came_first(world):
    (written,), (event,) = sent(world)
    world.outbox.cancel(written.message_id)
    (cancel,) = receipts(world)
    world.apply(world.answer(cancel, State.CANCELLED, reason=Reason.CANCELLED))
    assert world.state(written) == State.CANCELLED
    world.apply(world.answer(event, State.CANCELLED, Outcome.DUPLICATE, reason=Reason.CANCELLED))
    assert world.queued() == []


def test_a_cancel_that_came_late(world):
    (written,), _ = sent(world)
    world.outbox.cancel(written.message_id)
    (cancel,) = receipts(world)
    world.apply(world.answer(cancel, State.SENT, Outcome.STALE, reason=Reason.ALREADY_SENT))
    assert world.state(written) == State.SENT
    assert world.queued() == []


def test_a_block_is_settled_by_its_answer(world):
    world.outbox.write_block("bob", "c", Kind.BLOCK)
    (block,) = receipts(world)
    world.apply(world.answer(block, State.PENDING))
    assert world.queued() == []
    assert receipts(world) == []
