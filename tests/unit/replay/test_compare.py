"""The comparator finds every field that differs, and takes none for different that is only ahead or behind."""

import pytest

from consumers.fold import Policy, fold
from consumers.replay.compare import ComparisonResult, Reach, compare_conversation, compare_message, invented
from consumers.replay.seed import as_of
from consumers.rows import At, Block, ConversationRow, MessageRow, Owner, Parking
from consumers.stores.contract import Content, StoredMessage
from schemas.records import Event
from tests.unit.consumers.world import START_MS, event, send

SENT = send(0, to=("bob", "carol"))
STEPS: list[Event] = [SENT, event("DELIVERED", 0, "bob"), event("READ", 0, "carol"), event("READ", 0, "bob")]
EVERYTHING = Reach(1, 100, 100)


def stored(count: int, events: list[Event] = STEPS) -> StoredMessage:
    """Return the row after the first events of a log, as a store tells it."""
    row, transitions = None, []
    for offset, each in enumerate(events[:count]):
        folded = fold(each, row, ConversationRow("c"), At(1, 0, offset * 10, START_MS + offset), Policy())
        row = folded.row
        if folded.transition is not None:
            transitions.append((folded.transition, Owner(3, "n")))
    assert row is not None
    return StoredMessage(row, Content(SENT.body, ""), SENT.expires_at, Owner(3, "n"), transitions)


def test_the_same_row_is_the_same_whoever_wrote_it():
    other = stored(3)._replace(owner=Owner(9, "m"))
    assert compare_message(stored(3), other, EVERYTHING).result == ComparisonResult.SAME


@pytest.mark.parametrize("name", MessageRow._fields)
def test_every_field_of_the_row_counts(name):
    ours = stored(3)
    value = getattr(ours.row, name)
    other = value[1:] if isinstance(value, tuple) else value + 1 if isinstance(value, int) else value[:-1]
    theirs = ours._replace(row=ours.row._replace(**{name: other}))
    compared = compare_message(ours, theirs, EVERYTHING)
    assert compared.result == ComparisonResult.DIFFERS
    assert name in compared.detail


@pytest.mark.parametrize("field", ["state", "actor", "at", "offset"])
def test_every_field_of_a_transition_counts(field):
    ours = stored(3)
    step, owner = ours.transitions[1]
    value = getattr(step, field)
    other = step._replace(**{field: value + 1 if isinstance(value, int) else value + "x"})
    theirs = ours._replace(transitions=[ours.transitions[0], (other, owner), ours.transitions[2]])
    assert compare_message(ours, theirs, EVERYTHING).result == ComparisonResult.DIFFERS


def test_content_and_expiry_count():
    ours = stored(1)
    other = ours._replace(content=Content(b"ho", ""))
    assert compare_message(ours, other, EVERYTHING).result == ComparisonResult.DIFFERS
    assert compare_message(ours, ours._replace(expires_at=9), EVERYTHING).result == ComparisonResult.DIFFERS


def test_a_store_that_went_on_is_ahead_and_one_that_has_not_got_there_is_behind():
    assert compare_message(stored(2), stored(4), Reach(1, 20, 20)).result == ComparisonResult.AHEAD
    assert compare_message(stored(4), stored(2), Reach(1, 40, 20)).result == ComparisonResult.BEHIND
    assert compare_message(stored(1), None, Reach(1, 40, 0)).result == ComparisonResult.BEHIND


def test_what_should_be_there_and_is_not_differs():
    assert compare_message(stored(2), stored(4), Reach(1, 21, 40)).result == ComparisonResult.DIFFERS
    assert compare_message(stored(4), stored(2), Reach(1, 40, 40)).result == ComparisonResult.DIFFERS
    assert compare_message(stored(1), None, Reach(1, 40, 1)).result == ComparisonResult.MISSING
    assert invented(stored(1), Reach(1, 1, 1)).result == ComparisonResult.INVENTED
    assert invented(stored(1), Reach(1, 0, 0)).result == ComparisonResult.AHEAD


def test_conversations_are_compared_but_for_their_sequences():
    ours = ConversationRow("c", ("a", "b"), (1,), (), ((b"i" * 16, 3),), 1, (1, 5), 9)
    assert compare_conversation(ours, ours._replace(sequences=()), EVERYTHING).result == ComparisonResult.SAME
    later = ours._replace(version=2, applied=(1, 30), blocks=(Block("a", "b", (1, 30), True),))
    assert compare_conversation(ours, later, Reach(1, 20, 20)).result == ComparisonResult.AHEAD
    assert compare_conversation(later, ours, Reach(1, 40, 20)).result == ComparisonResult.BEHIND
    assert compare_conversation(ours, later, EVERYTHING).result == ComparisonResult.DIFFERS
    parked = ours._replace(parkings=(Parking((1, 2)),))
    assert compare_conversation(ours, parked, EVERYTHING).result == ComparisonResult.DIFFERS
    assert compare_conversation(ours, None, EVERYTHING).result == ComparisonResult.MISSING
    assert compare_conversation(ours, None, Reach(1, 9, 5)).result == ComparisonResult.BEHIND


def test_a_change_of_blocks_written_before_its_event_was_kept_is_the_same():
    changes = tuple(Block("a", "b", (1, offset), offset == 1, event_id=bytes([offset]) * 16) for offset in (1, 2))
    ours = ConversationRow("c", ("a", "b"), (1,), changes, (), 2, (1, 2), 9)
    for first in changes[0], changes[0]._replace(event_id=b""):
        theirs = ours._replace(blocks=(first, changes[1]._replace(event_id=b"")))
        assert compare_conversation(ours, theirs, EVERYTHING).result == ComparisonResult.SAME
        assert (
            compare_conversation(ours, theirs._replace(blocks=theirs.blocks[:1]), EVERYTHING).result
            == ComparisonResult.DIFFERS
        )
    other = ours._replace(blocks=(changes[0]._replace(event_id=b"x" * 16), changes[1]))
    assert compare_conversation(ours, other, EVERYTHING).result == ComparisonResult.DIFFERS


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_row_as_it_stood_before_an_offset_is_the_fold_up_to_there(count):
    for events in (STEPS, [SENT, event("EXPIRE", 0, ""), STEPS[2], STEPS[3]]):
        late = [events[0], *(each for each in events[1:])]
        seeded = as_of(stored(4, late), 1, count * 10)
        assert seeded is not None
        expected = stored(count, late)
        assert seeded.row == expected.row
        assert list(seeded.transitions) == [step for step, _ in expected.transitions]
    assert as_of(stored(4), 1, 0) is None


def test_offsets_of_an_earlier_generation_are_behind_both():
    reach = Reach(2, 1, 0, began_ms=START_MS + 2)  # the first two steps are older
    assert compare_message(stored(1), None, reach).result == ComparisonResult.MISSING
    assert compare_message(stored(2), stored(1), reach).result == ComparisonResult.DIFFERS
    assert compare_message(stored(3), stored(2), reach).result == ComparisonResult.BEHIND
    assert compare_message(stored(2), stored(3), reach).result == ComparisonResult.AHEAD
    assert invented(stored(1), reach).result == ComparisonResult.INVENTED
