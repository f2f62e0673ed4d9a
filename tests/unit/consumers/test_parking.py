"""A parked conversation: what comes later waits in order and bounded, others go on, and crashes change nothing."""

import random
from collections.abc import Callable

import pytest

from compose.checking.history import Logged
from compose.checking.replay import replay
from consumers.fold import Policy
from consumers.intake import Entry
from consumers.overflow import HELD_MAX, HOLD_MS
from consumers.owner import PartitionOwner
from consumers.parking import is_parked
from consumers.partition_rows import OwnerSettings
from consumers.rows import NOWHERE, At
from consumers.stores.contract import Rows
from consumers.stores.parkings import from_text, to_text
from schemas.lifecycle import Kind, Outcome, Reason
from schemas.records import NO_ID, Acknowledgement, Event
from tests.unit.consumers.world import NOTHING, SMALL, START_MS, World, entries, event, owner_of, send


def command(kind: str, number: int = 0, *, conversation: str = "c", seq: int = 0) -> Event:
    return event(kind, number, "operator", conversation=conversation, seq=seq)._replace(message_id=NO_ID)


def folded(events, **settings):
    """Return what one owner makes of a log from its first record: its work, and the conversation at the end."""
    owner = owner_of(**settings)
    log = entries(events)
    owner.needs(log)
    work = owner.fold(log, NOTHING, START_MS)
    return work, work.conversations["c"].row


def states(work) -> dict[bytes, str]:
    return {key[1]: write.row.state for key, write in work.messages.items()}


def told(work) -> list[tuple[str, str, str]]:
    return [(each.kind, each.outcome, each.reason) for each in work.acknowledgements if each.reason != "tick"]


def test_later_records_of_a_parked_conversation_wait_and_others_go_on():  # case M7
    other = send(5, conversation="d")
    work, row = folded([send(0), command("PARK"), send(1), other, send(2)])
    assert set(states(work)) == {send(0).message_id, other.message_id}
    assert [(each.offset, each.reason) for each in work.refusals] == [(2, Reason.PARKED), (4, Reason.PARKED)]
    assert row.parkings[-1].waiting == (send(1).message_id, send(2).message_id)
    assert (Kind.SEND, Outcome.REFUSED, Reason.PARKED) in told(work)
    assert is_parked(row)


def test_receipts_and_copies_of_what_is_there_go_on():
    receipt = event("DELIVERED", 0, "bob")
    work, _ = folded([send(0), command("PARK"), receipt, send(0)])
    assert states(work) == {send(0).message_id: "DELIVERED"}
    assert not work.refusals


def test_a_copy_of_what_is_there_goes_on_also_where_its_row_is_ahead():
    """A new owner reads the row as it became later, and the log up to there again (found by the simulation)."""
    log = [send(0), command("PARK"), send(0), event("CANCEL", 0, "alice"), event("DELIVERED", 0, "bob")]
    before, _ = folded(log)
    row = before.messages["c", send(0).message_id].row
    parked = folded(log[:2])[1]
    assert row.applied == (1, 4)
    owner = owner_of(position=2, committed=2, from_the_start=False, epoch=2)
    rest = entries(log)[2:]
    owner.needs(rest)
    work = owner.fold(rest, Rows({("c", row.message_id): row}, {"c": parked}), START_MS)
    assert not work.refusals
    assert not work.conversations


def test_what_waited_before_it_was_let_through_waits_again_where_its_row_is_ahead():
    """The row has landed, its conversation's has not: folding again must make the same of the conversation."""
    log = [command("PARK"), send(0), command("RELEASE", 1), send(0)]
    work, open_again = folded(log)
    row = work.messages["c", send(0).message_id].row
    owner = owner_of(position=1, committed=1, from_the_start=False, epoch=2)
    rest = entries(log)[1:]
    owner.needs(rest)
    again = owner.fold(rest, Rows({("c", row.message_id): row}, {"c": folded(log[:1])[1]}), START_MS)
    assert again.conversations["c"].row == open_again
    assert [each.reason for each in again.refusals] == [Reason.PARKED]


def test_a_copy_of_what_waits_is_kept_once():
    work, row = folded([command("PARK"), send(1), send(1), send(1)])
    assert [each.offset for each in work.refusals] == [1]
    assert len(row.parkings[-1].waiting) == 1


def test_what_waits_is_bounded():
    work, row = folded([command("PARK"), *(send(n) for n in range(5))], policy=Policy(parked_max=3))
    assert [each.offset for each in work.refusals] == [1, 2, 3]
    assert len(row.parkings[-1].waiting) == 3
    refused = [each for each in work.acknowledgements if each.reason == Reason.PARKED]
    assert len(refused) == 5


def test_a_release_lets_through_one_after_another_whoever_sends_it():
    events = [command("PARK"), send(1), send(2), command("RELEASE", 1), send(2), send(3), send(1), send(2)]
    work, row = folded(events)
    assert set(states(work)) == {send(1).message_id, send(2).message_id}
    assert [each.offset for each in work.refusals] == [1, 2, 5]  # 4 is a copy, out of turn
    work, row = folded([*events, send(3), send(4)])
    assert not is_parked(row)
    assert row.parkings[-1].until == (1, 8)
    made = sorted((write.row.applied, write.row.seq) for write in work.messages.values())
    assert [seq for _, seq in made] == [2, 3, 4, 5]


def test_a_release_of_nothing_and_one_that_gives_up_open_at_once():
    _, row = folded([command("PARK"), command("RELEASE", 1)])
    assert not is_parked(row)
    work, row = folded([command("PARK"), send(1), command("RELEASE", 1, seq=1), send(2), send(1)])
    assert not is_parked(row)
    assert set(states(work)) == {send(1).message_id, send(2).message_id}


def test_a_block_waits_its_turn():
    block = event("BLOCK", 9, "bob", subject="alice")
    work, row = folded([command("PARK"), send(1), block, command("RELEASE", 1), block, send(1), block, send(2)])
    assert states(work) == {send(1).message_id: "SENT", send(2).message_id: "BLOCKED"}
    assert row.blocks[-1].position == (1, 6)
    assert not is_parked(row)


def test_parking_again_stops_a_release():
    events = [command("PARK"), send(1), command("RELEASE", 1), command("PARK", 2), send(1)]
    work, row = folded(events)
    assert not states(work)
    assert row.parkings[-1] == row.parkings[-1]._replace(releasing=False, until=NOWHERE)


def test_the_operator_is_answered_by_nobody():
    work, _ = folded([command("PARK"), command("RELEASE", 1)])
    assert not work.acknowledgements


FULL = [command("PARK"), send(0), send(1), send(2), command("RELEASE", 1), send(0)]
"""A parking with room for one: what comes second and third is turned away, and then the conversation is open again."""
ONE = Policy(parked_max=1)


def made(work) -> list[tuple[int, int]]:
    """Return the messages that were made: where, and their running numbers."""
    return sorted((write.row.applied[1], write.row.seq) for write in work.messages.values())


def test_what_found_no_room_comes_in_order_when_the_conversation_is_open():
    """A client sends again when it likes, so a later message may come first (found by the simulation, seed 4520)."""
    work, row = folded([*FULL, send(3), send(2), send(1), send(3), send(2), send(3)], policy=ONE)
    assert made(work) == [(5, 1), (8, 2), (10, 3), (11, 4)]
    assert [each.offset for each in work.refusals] == [1]
    assert not row.parkings[-1].holds[0].seqs


def test_nobody_else_is_held_for_what_found_no_room():
    another = send(3)._replace(install=b"j" * 16)
    work, _ = folded([*FULL, another, event("BLOCK", 9, "bob", subject="dave")], policy=ONE)
    assert made(work) == [(5, 1), (6, 4)]
    assert not [each for each in work.acknowledgements if each.kind == "BLOCK" and each.reason == Reason.PARKED]


def test_a_cancel_does_not_take_the_place_of_what_is_to_come():
    """Its SEND would never come once it is cancelled, and what is behind would wait for it."""
    cancel = event("CANCEL", 1, "alice")
    work, _ = folded([*FULL, cancel, send(1), send(2), cancel], policy=ONE)
    assert made(work) == [(5, 1), (7, 2), (8, 3)]
    assert states(work)[send(1).message_id] == "SENT"


def test_what_never_comes_is_waited_for_ten_minutes():
    owner = owner_of(policy=ONE)
    ended_at = START_MS + (len(FULL) - 1) * 1000
    late = [Entry(len(FULL) + n, ended_at + HOLD_MS + n, send(2)) for n in (0, 1)]
    log = [*entries(FULL), *late]
    owner.needs(log)
    work = owner.fold(log, NOTHING, START_MS)
    assert made(work) == [(5, 1), (7, 3)]
    assert work.conversations["c"].row.parkings[-1].holds[0].until == (1, 7)


def test_what_is_noted_of_those_without_room_is_bounded():
    sends = [send(number) for number in range(1, HELD_MAX + 3)]
    _, row = folded([*FULL[:2], *sends, *FULL[4:], *sends], policy=ONE)
    (hold,) = row.parkings[-1].holds
    assert len(hold.passed) == HELD_MAX
    assert not hold.seqs


def test_who_is_turned_away_by_two_parkings_comes_in_order():
    again = [command("PARK", 2), send(8), send(2), send(1), command("RELEASE", 3)]
    work, row = folded([*FULL, *again, send(8), send(1), send(2), send(8), send(1), send(2), send(8)], policy=ONE)
    assert [seq for _, seq in made(work)] == [1, 2, 3, 9]
    assert not is_parked(row)


def test_what_comes_too_early_is_refused_again_where_its_conversation_is_ahead():
    log = [*FULL, send(2), send(1), send(2)]
    work, after = folded(log, policy=ONE)
    owner = owner_of(position=6, committed=6, from_the_start=False, epoch=2, policy=ONE)
    rest = entries(log)[6:]
    owner.needs(rest)
    again = owner.fold(rest, Rows({}, {"c": after}), START_MS)
    assert made(again) == made(work)[1:]


def test_parkings_in_the_store_are_as_they_were_also_those_of_before():
    _, row = folded([*FULL, send(1)], policy=ONE)
    assert row.parkings[-1].holds[0].passed
    assert from_text(to_text(row.parkings)) == row.parkings
    (before,) = from_text('[[[1,0],[1,3],true,["00ff"],[[1,2]]]]')
    assert before == before._replace(waiting=(b"\x00\xff",), passed=((1, 2),), holds=())
    assert to_text((before,)) == '[[[1,0],[1,3],true,["00ff"],[[1,2]]]]'


def history(seed: int) -> list[Entry]:
    """A log of two conversations that are parked and released, with copies of everything."""
    rng = random.Random(seed)
    events: list[Event] = []
    for number in range(rng.randint(6, 14)):
        conversation = rng.choice(["c", "d"])
        about = {"conversation": conversation}
        kind = rng.choice(["SEND"] * 6 + ["PARK", "PARK", "RELEASE", "RELEASE", "BLOCK", "UNBLOCK", "CANCEL"])
        if kind == "SEND":
            events.append(send(number, **about))
            events += [event("DELIVERED", number, "bob", **about)] * rng.choice([0, 1])
        elif kind in {"PARK", "RELEASE"}:
            events.append(command(kind, number, conversation=conversation))
        elif kind == "CANCEL":
            events.append(event(kind, rng.randint(0, number), "alice", **about))
        else:
            events.append(event(kind, number, "bob", subject="alice", **about))
    resends = [rng.choice(events) for _ in range(rng.randint(0, 14))]
    for each in resends:
        events.insert(rng.randint(events.index(each), len(events)), each)
    step_ms = rng.choice([700, 700, 90_000])
    return [Entry(n, START_MS + n * step_ms, each) for n, each in enumerate(events)]


def crowded(seed: int) -> list[Entry]:
    """A log of a parking that turns away, and of what comes again and again when it is over."""
    rng = random.Random(seed)
    sends = [send(number)._replace(install=bytes([number % 2]) * 16) for number in range(1, 7)]
    others = [event("CANCEL", 2, "alice"), command("PARK", 8), command("RELEASE", 9), event("DELIVERED", 1, "bob")]
    events = [*FULL[:2], *sends[:3], *FULL[4:]]
    events += [rng.choice(sends + others if rng.random() < 0.4 else sends) for _ in range(rng.randint(4, 16))]
    return [Entry(n, START_MS + n * 700, each) for n, each in enumerate(events)]


@pytest.mark.parametrize("make", [history, crowded])
@pytest.mark.parametrize("block", range(10))
def test_whatever_dies_the_store_ends_as_one_owner_leaves_it(block: int, make: Callable[[int], list[Entry]]) -> None:
    # cases K7, K9, M7: the gate is asked as of an offset, so what was folded twice waits or passes as the first time
    for seed in range(block * 40, block * 40 + 40):
        log = make(seed)
        settings = OwnerSettings(
            partitions=1,
            messages_max=2 if seed % 2 else 1_000,
            conversations_max=1,
            policy=Policy(parked_max=1 + seed % 4),
            **SMALL,
        )
        truth = owner_of(partitions=1, policy=settings.policy)
        truth.needs(log)
        work = truth.fold(log, NOTHING, START_MS)
        world = World(seed, log, settings)
        world.run(150)
        world.settle()
        stored = {key: row for key, (_, row) in world.store.messages.items()}
        assert stored == {key: write.row for key, write in work.messages.items()}, f"history {seed}"
        conversations = {name: row._replace(sequences=()) for name, (_, row) in world.store.conversations.items()}
        assert conversations == {
            name: write.row._replace(sequences=()) for name, write in work.conversations.items()
        }, f"history {seed}"
        kept = {refusal.offset for refusal in work.refusals if refusal.reason == Reason.PARKED}
        assert kept <= set(world.refused), f"history {seed}"
        answered = {each.event_id for each in world.inbox if isinstance(each, Acknowledgement)}
        assert all(
            each.event.event_id in answered for each in log if each.event and each.event.kind not in {"PARK", "RELEASE"}
        ), f"history {seed}"


@pytest.mark.parametrize("make", [history, crowded])
@pytest.mark.parametrize("block", range(4))
def test_the_checkers_fold_of_a_log_is_the_owners(block: int, make: Callable[[int], list[Entry]]) -> None:
    for seed in range(block * 50, block * 50 + 50):
        log, policy = make(seed), Policy(parked_max=1 + seed % 4)
        owner = owner_of(partitions=1, policy=policy)
        owner.needs(log)
        work = owner.fold(log, NOTHING, START_MS)
        replayed = replay(
            [Logged(At(1, 0, each.offset, each.appended_at), each.event) for each in log if each.event], policy
        )
        assert replayed.messages == {key: write.row for key, write in work.messages.items()}, f"history {seed}"
        assert replayed.conversations == {
            name: write.row._replace(sequences=()) for name, write in work.conversations.items()
        }, f"history {seed}"


def restarted(log: list[Entry], before: list[Entry]) -> PartitionOwner:
    """Return the next owner once it has folded what another one finished, who had it as `before`."""
    former = owner_of()
    former.needs(before)
    stored = former.fold(before, NOTHING, START_MS).conversations["c"].row
    owner = owner_of(committed=len(before), epoch=2)
    assert owner.needs(log[: len(before)]).conversations == ["c"]
    work = owner.fold(log[: len(before)], Rows({}, {"c": stored}), START_MS)
    assert not work.conversations
    assert not work.refusals
    owner.durable()
    return owner


REFUSED_PARK = Entry(1, START_MS + 1_000, None, Reason.NOT_AN_OPERATOR, "")


def test_who_is_an_operator_no_more_has_parked_all_the_same():
    """Also where a deployment is so young that all of its log is read again."""
    taken = entries([send(0), command("PARK"), send(1), send(2)])
    owner = restarted([taken[0], REFUSED_PARK, *taken[2:]], taken[:3])
    work = owner.fold(taken[3:], NOTHING, START_MS)
    assert [each.reason for each in work.refusals] == [Reason.PARKED]
    assert work.conversations["c"].row.parkings[-1].waiting == (send(1).message_id, send(2).message_id)


def test_who_was_no_operator_then_has_not_parked():
    taken = entries([send(0), command("PARK"), send(1), send(2)])
    owner = restarted(taken, [taken[0], REFUSED_PARK, taken[2]])
    work = owner.fold(taken[3:], NOTHING, START_MS)
    assert not work.refusals
    assert set(states(work)) == {send(2).message_id}


def test_a_command_read_again_that_was_not_committed_does_not_open_what_the_store_has_parked():
    before = entries([send(0), command("PARK"), send(1)])
    former = owner_of()
    former.needs(before)
    stored = former.fold(before, NOTHING, START_MS).conversations["c"].row
    log = [before[0], REFUSED_PARK, *entries([send(1), send(2)], 2)]
    owner = owner_of(committed=1, epoch=2)
    owner.needs(log)
    work = owner.fold(log, Rows({}, {"c": stored}), START_MS)
    assert not states(work)
    assert [(each.offset, each.reason) for each in work.refusals] == [
        (1, Reason.NOT_AN_OPERATOR),
        (2, Reason.PARKED),
        (3, Reason.PARKED),
    ]
    assert is_parked(work.conversations["c"].row)
