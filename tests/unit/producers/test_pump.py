"""The pump against a Kafka that does what it is told, on a clock that the tests turn."""

import random
from itertools import pairwise

import pytest
from confluent_kafka import KafkaError

from producers.errors import DeniedError, OutboxFullError
from producers.pages import ranges
from producers.retry import RetryPolicy
from producers.settings import ClientSettings
from schemas.identity import time_of
from schemas.lifecycle import Kind, Outcome, Reason, State
from tests.unit.producers.world import START_MS, World

HOUR_MS = 3_600_000


def order_holds(sends):
    """Say whether the first copies of each conversation came in the order of their numbers."""
    seen = {}
    for event in sends:
        numbers = seen.setdefault(event.conversation_id, [])
        if event.seq not in numbers:
            numbers.append(event.seq)
    return all(numbers == sorted(numbers) for numbers in seen.values())


def test_a_hello_comes_before_all_else(world):
    world.send(3)
    world.run(world.pump())
    assert [event.kind for _, event in world.broker.log] == [Kind.HELLO, *[Kind.SEND] * 3]
    assert [key for key, _ in world.broker.log[1:]] == ["direct:alice+bob"] * 3


def test_a_clock_that_is_known_needs_no_second_hello(world):
    world.run(world.pump())
    world.send()
    world.reopen()
    world.run(world.pump())
    assert [event.kind for _, event in world.broker.log] == [Kind.HELLO, Kind.SEND]


def test_a_row_waits_for_its_report_and_is_never_out_twice(world):  # case K10
    pump = world.pump()
    world.run(pump)
    world.broker.away = True
    (written,) = world.send()
    world.run(pump, turns=3)
    world.clock.pass_ms(HOUR_MS)
    world.run(pump, turns=50)
    assert world.state(written) == State.PENDING
    assert len(world.broker.producers[0].queued) == 1
    world.broker.away = False
    world.run(pump)
    assert len(world.broker.sends()) == 1


def test_unanswered_rows_go_again_with_growing_waits(world):
    pump = world.pump()
    world.send()
    world.run(pump)
    times = []
    for _ in range(4000):
        before = len(world.broker.sends())
        world.run(pump, turns=1, ms=100)
        if len(world.broker.sends()) > before:
            times.append(world.clock.wall_ms() - START_MS)
    gaps = [round((b - a) / 1000) for a, b in pairwise(times)]
    assert gaps[:5] == [4, 8, 16, 32, 64]
    assert set(gaps[5:]) <= {120}
    assert len({event.message_id for event in world.broker.sends()}) == 1
    assert len({event.event_id for event in world.broker.sends()}) == 1


def test_an_answer_ends_it(world):
    pump = world.pump()
    (written,) = world.send()
    world.run(pump)
    world.apply(world.answer(world.event(written)))
    world.run(pump, turns=100, ms=1000)
    assert len(world.broker.sends()) == 1
    assert world.queued() == []


def test_what_a_dead_pump_had_in_flight_goes_at_once(world):  # cases K11 K12
    pump = world.pump()
    world.run(pump)
    world.broker.away = True
    world.send(3)
    world.run(pump, turns=3)
    assert [row[3] for row in world.queued()] == [1, 1, 1]
    # Killed here; what its producer held is gone.
    world.reopen()
    world.broker.away = False
    world.run(world.pump())
    assert [event.seq for event in world.broker.sends()] == [1, 2, 3]
    assert [row[1:] for row in world.queued()] == [(2, world.queued()[0][2], 0)] * 3


def test_a_stopped_pump_gives_its_rows_back(world):  # case K12
    pump = world.pump()
    world.run(pump)
    world.broker.away = True
    world.send(100)
    world.run(pump, turns=3)
    pump.stop()
    assert [row[2:] for row in world.queued()] == [(-1, 0)] * 100
    world.broker.away = False
    world.run(world.pump())
    assert [event.seq for event in world.broker.sends()] == list(range(1, 101))


def test_a_fatal_producer_is_made_anew_and_order_holds(world):  # case K14
    pump = world.pump()
    world.run(pump)
    world.broker.away = True
    world.send(5)
    world.run(pump, turns=3)
    world.send(5)
    world.broker.producers[0].turn_fatal()
    world.broker.away = False
    world.run(pump, turns=40)
    assert len(world.broker.producers) == 2
    assert [event.seq for event in world.broker.sends()] == list(range(1, 11))
    assert world.health.read().rebuilds == 1
    assert all(row[2] > 0 and row[3] == 0 for row in world.queued())


def test_reports_of_a_dead_producer_reach_nobody(world):
    pump = world.pump()
    world.run(pump)
    world.broker.away = True
    world.send(2)
    world.run(pump, turns=3)
    dead = world.broker.producers[0]
    held = list(dead.queued)
    dead.turn_fatal()
    world.broker.away = False
    world.run(pump, turns=40)
    rows = world.queued()
    for _, _, on_delivery in held:
        on_delivery(KafkaError(KafkaError._PURGE_INFLIGHT), None)
    world.run(pump, turns=5)
    assert world.queued() == rows


def test_a_full_disk_in_the_pump_loses_and_doubles_nothing(world):  # case K13
    pump = world.pump()
    world.send(50)
    whole = pump._backlog.turn
    failures = iter([True, True, False, True])

    def failing(reports, room):
        if next(failures, False):
            raise OutboxFullError("full")
        return whole(reports, room)

    pump._backlog.turn = failing
    raised = 0
    for _ in range(20):
        try:
            pump.turn()
        except OutboxFullError:
            raised += 1
        world.clock.pass_ms(15)
    assert raised == 3
    assert [event.seq for event in world.broker.sends()] == list(range(1, 51))
    assert all(row[1] == 1 and row[2] > 0 and row[3] == 0 for row in world.queued())


def test_a_poisoned_record_fails_alone(world):  # case M3
    pump = world.pump()
    world.run(pump)
    world.broker.refuse = lambda event: KafkaError.MSG_SIZE_TOO_LARGE if event.seq == 3 else None
    written = world.send(10)
    world.run(pump, turns=60)
    assert sorted(event.seq for event in world.broker.sends()) == [1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert order_holds(world.broker.sends())
    assert world.state(written[2]) == State.REJECTED
    assert [world.state(one) for one in written[3:]] == [State.PENDING] * 7


def test_a_refused_copy_does_not_fail_what_may_be_in_the_log(world):
    pump = world.pump()
    (written,) = world.send()
    world.run(pump)
    world.broker.refuse = lambda event: KafkaError.MSG_SIZE_TOO_LARGE if event.kind == Kind.SEND else None
    world.clock.pass_ms(3_000)
    world.run(pump, turns=20)
    assert world.state(written) == State.PENDING
    world.apply(world.answer(world.event(written), State.SENT, Outcome.DUPLICATE))
    assert world.state(written) == State.SENT


def test_a_refused_receipt_is_dropped(world):
    world.apply(world.delivery())
    world.broker.refuse = lambda event: KafkaError.INVALID_RECORD if event.kind == Kind.DELIVERED else None
    world.run(world.pump(), turns=20)
    assert world.queued() == []


def test_without_permission_it_says_so_and_goes_on_trying(world):  # case K2
    pump = world.pump()
    world.run(pump)
    world.broker.refuse = lambda _: KafkaError.TOPIC_AUTHORIZATION_FAILED
    world.send()
    world.run(pump, turns=20)
    assert isinstance(world.health.read().error, DeniedError)
    world.broker.refuse = lambda _: None
    world.run(pump, turns=100)
    assert len(world.broker.sends()) == 1
    assert world.health.read().error is None


def test_no_more_is_unanswered_than_allowed(tmp_path):
    world = World(
        tmp_path / "a", settings=ClientSettings(unanswered_rows_max=10, retry=RetryPolicy(first_s=2, jitter=0))
    )
    pump = world.pump()
    written = world.send(25)
    world.run(pump, turns=30)
    assert len(world.broker.sends()) == 10
    for one in written[:4]:
        world.apply(world.answer(world.event(one)))
    world.run(pump, turns=30)
    assert len({event.seq for event in world.broker.sends()}) == 14
    # What is unanswered still goes again although nothing fresh may.
    world.clock.pass_ms(5_000)
    world.run(pump, turns=5)
    assert len(world.broker.sends()) == 24
    world.database.close()


def test_no_more_bytes_are_unanswered_than_allowed(tmp_path):
    world = World(tmp_path / "a", settings=ClientSettings(unanswered_bytes_max=100_000))
    world.outbox.write_sends([world.checked("x" * 40_000) for _ in range(6)])
    world.run(world.pump(), turns=30)
    # The one that reaches the limit is the last.
    assert len(world.broker.sends()) == 3
    world.database.close()


def test_a_page_holds_a_bounded_number_of_bytes(world):
    pump = world.pump()
    world.run(pump)
    world.broker.away = True
    world.outbox.write_sends([world.checked("x" * 200_000) for _ in range(100)])
    world.run(pump, turns=60)
    assert sum(len(value) for _, value, _ in world.broker.producers[0].queued) < 9 * 1024 * 1024
    world.broker.away = False
    world.run(pump, turns=60)
    assert len(world.broker.sends()) < 100  # 16 MiB may be unanswered
    assert order_holds(world.broker.sends())


def test_what_expired_here_fails_here(world):
    world.broker.away = True
    pump = world.pump()
    (written,) = world.send(expires_in_s=60)
    world.run(pump, turns=5)
    world.clock.pass_ms(61_000)
    world.run(pump, turns=5)
    assert world.state(written) == State.EXPIRED
    world.broker.away = False
    world.run(pump, turns=10)
    assert world.broker.sends() == []


def test_what_kafka_may_have_waits_for_the_verdict(world):
    pump = world.pump()
    (written,) = world.send(expires_in_s=60)
    world.run(pump)
    world.clock.pass_ms(61_000)
    world.run(pump, turns=5)
    found = world.views.at(written.position)
    assert found.raw_state == State.PENDING
    assert found.not_confirmed(world.clock.wall_ms())
    sent = len(world.broker.sends())
    world.clock.pass_ms(119_000)
    world.run(pump, turns=5)
    assert len(world.broker.sends()) == sent
    world.clock.pass_ms(2_000)
    world.run(pump, turns=5)
    assert len(world.broker.sends()) == sent + 1
    world.apply(world.answer(world.event(written), State.EXPIRED, reason=Reason.EXPIRED))
    assert world.state(written) == State.EXPIRED


@pytest.mark.parametrize("shift_ms", [-HOUR_MS, HOUR_MS])
def test_a_wrong_clock_harms_nobody(world, shift_ms):  # case C3
    world.broker.log_shift_ms = shift_ms
    (written,) = world.send(expires_in_s=60)
    pump = world.pump()
    world.run(pump)
    world.outbox.write_sends([world.checked("later", expires_in_s=60)])
    world.run(pump)
    first, later = world.broker.sends()
    log_ms = START_MS + shift_ms
    assert abs(first.expires_at - log_ms - 60_000) < 500
    assert abs(later.expires_at - log_ms - 60_000) < 500
    assert time_of(first.message_id) <= log_ms + 1_000
    assert abs(time_of(later.message_id) - log_ms) < 500
    # The first id, which send() gave out, still finds the message.
    found = world.views.named(written.message_id)
    assert found.position == written.position
    assert (first.message_id == written.message_id) is (shift_ms > 0)
    world.apply(world.answer(first))
    assert world.state(written) == State.SENT


def test_ids_made_anew_are_in_the_order_of_sending(world):
    world.broker.log_shift_ms = -HOUR_MS
    world.send(200)
    world.run(world.pump())
    ids = [event.message_id for event in world.broker.sends()]
    assert len(ids) == 200
    assert ids == sorted(ids)


def test_an_id_is_never_made_anew_once_kafka_may_have_it(world):
    pump = world.pump()
    (written,) = world.send()
    world.run(pump)
    world.clock.wall -= HOUR_MS
    world.broker.log_shift_ms = -HOUR_MS
    world.run(pump, turns=5)
    world.clock.pass_ms(10_000)
    world.run(pump, turns=5)
    assert {event.message_id for event in world.broker.sends()} == {written.message_id}


def test_an_id_ahead_is_sent_again_when_its_time_has_come(world):
    pump = world.pump()
    (written,) = world.send()
    world.run(pump)
    refused = world.answer(
        world.event(written),
        State.PENDING,
        Outcome.REFUSED,
        reason=Reason.ID_AHEAD,
        appended_at=time_of(written.message_id) - 50_000,
    )
    world.apply(refused)
    assert world.state(written) == State.PENDING
    world.clock.pass_ms(49_000)
    world.run(pump, turns=5)
    assert len(world.broker.sends()) == 1
    world.clock.pass_ms(2_000)
    world.run(pump, turns=5)
    assert len(world.broker.sends()) == 2


def test_a_clock_set_back_does_not_put_off_attempts(world):
    pump = world.pump()
    world.send()
    world.run(pump)
    world.clock.wall -= 24 * HOUR_MS
    world.run(pump, turns=2)
    world.clock.pass_ms(125_000)
    world.run(pump, turns=5)
    assert len(world.broker.sends()) == 2


@pytest.mark.parametrize("seed", range(10))
def test_whatever_goes_wrong_nothing_is_lost_renamed_or_reordered(tmp_path, seed):
    """Random faults: the broker goes away, producers turn fatal, pumps are killed, answers get lost."""
    chance = random.Random(seed)
    world = World(tmp_path / "a", settings=ClientSettings(unanswered_rows_max=40))
    pump = world.pump()
    written = []
    for _ in range(150):
        match chance.randrange(12):
            case 0:
                world.broker.away = not world.broker.away
            case 1:
                world.broker.producers[-1:] and world.broker.producers[-1].turn_fatal()
            case 2:
                world.reopen()
                pump = world.pump()
            case 3 | 4 | 5:
                written += world.send(chance.randrange(1, 8), to=chance.choice(["bob", "carol"]))
            case 6:
                for event in chance.sample(world.broker.sends(), min(5, len(world.broker.sends()))):
                    world.apply(world.answer(event))
            case _:
                world.run(pump, turns=chance.randrange(1, 5), ms=chance.choice([5, 50, 3_000]))
    world.broker.away = False
    for _ in range(60):
        world.run(pump, turns=5, ms=200)
        world.apply(*(world.answer(event) for event in world.broker.sends()))
    assert {event.message_id for event in world.broker.sends()} == {one.message_id for one in written}
    assert {world.state(one) for one in written} == {State.SENT}, f"pytest -k '{seed}' repeats it"
    assert order_holds(world.broker.sends())
    assert world.queued() == []
    world.database.close()


def test_runs_of_positions():
    assert ranges([]) == []
    assert ranges([4]) == [(4, 4)]
    assert ranges([1, 2, 3]) == [(1, 3)]
    assert ranges([1, 3, 4, 9]) == [(1, 1), (3, 4), (9, 9)]


def test_why_kafka_is_not_reached_is_told_until_it_is(world):
    world.broker.away = True
    world.send()
    pump = world.pump()
    world.run(pump, 1)
    hear = world.broker.producers[-1].on_error
    hear(KafkaError(KafkaError._RESOLVE, "Failed to resolve 'kafak:9092'"))
    hear(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    error = world.health.read().error
    assert error.retriable
    assert "kafak:9092" in error.message
    world.broker.away = False
    world.run(pump)
    assert world.health.read().error is None
