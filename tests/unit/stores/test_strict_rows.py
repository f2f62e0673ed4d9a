"""What a row that is not as expected tells: written by us, by the fold of another, or by someone else."""

from uuid import uuid4

import pytest

from consumers.rows import ConversationWrite, Owner
from consumers.stores.cassandra_strict import _batches
from consumers.stores.cassandra_strict_rows import (
    CONFLICT,
    FENCED,
    LANDED,
    Condition,
    ConversationChange,
    MessageChange,
    Standing,
    WriteOutcome,
    attempt_id,
)
from tests.contract.made import conversation, made, moved, row, transition

OURS, OTHER, LATER = Owner(3, "a"), Owner(2, "z"), Owner(4, "b")


def stands(version: int, owner: Owner = OURS, *, states: str = "SENT DELIVERED READ", **changed) -> Standing:
    told = {n: transition(n, state)[1:] for n, state in enumerate(states.split()[:version], start=1)}
    found = row("c", 1, version=version)
    return Standing(version, found.applied, found.stamp, owner, uuid4(), told)._replace(**changed)


def change(first: int, last: int, states: str = "SENT DELIVERED READ") -> MessageChange:
    """Return the write of versions `first` to `last`."""
    changes = tuple(transition(n, states.split()[n - 1]) for n in range(first, last + 1))
    write = made("c", 1) if first == 1 else moved("c", 1, last, states.split()[last - 1])
    write = write._replace(row=row("c", 1, version=last, state=states.split()[last - 1]), transitions=changes)
    return MessageChange(write, OURS)


def again(version: int, owner: Owner = OURS) -> WriteOutcome:
    return WriteOutcome(again=Condition(version, owner))


@pytest.mark.parametrize(
    ("ours", "standing", "outcome"),
    [
        (change(1, 1), None, again(0)),
        (change(2, 2), None, CONFLICT),  # it is gone
        (change(2, 2), stands(1), again(1)),
        (change(2, 2), stands(1, OTHER), again(1)),
        (change(2, 2), stands(2), LANDED),  # another owner folded the same
        (change(2, 2), stands(3, LATER), LANDED),  # and went on
        (change(2, 2), stands(2, states="SENT READ"), CONFLICT),
        (change(2, 2), stands(3, states="SENT READ READ"), CONFLICT),
        (change(2, 2), stands(2, transitions={}), CONFLICT),  # someone else, who tells no story
        (change(1, 3), stands(2), again(2)),  # our own earlier part
        (change(1, 3), stands(2, states="SENT READ"), CONFLICT),
        (change(3, 3), stands(1), CONFLICT),  # what it stands on has not come
        (change(2, 2), stands(1, LATER), FENCED),
        (change(2, 2), stands(1, LATER, applied=(1, 9**9)), again(1, LATER)),  # epochs of an earlier generation
        (change(2, 2), stands(1, OTHER, applied=(9, 0)), FENCED),
        (change(2, 2), stands(1, OTHER, applied=(2, 9**9)), CONFLICT),
    ],
)
def test_messages(ours: MessageChange, standing: Standing | None, outcome: WriteOutcome) -> None:
    assert ours.judge(standing) == outcome


# cases C1, C2: the attempt's id says that it was ours, whatever came after it.
def test_an_own_attempt_has_landed() -> None:
    ours = change(2, 2)
    assert ours.judge(stands(2, attempt=ours.attempt, transitions={})) == LANDED
    assert change(2, 2).attempt == ours.attempt
    assert len({ours.attempt, change(1, 2).attempt, change(3, 3).attempt}) == 2


def _conversation(version: int, base: int) -> ConversationChange:
    return ConversationChange(ConversationWrite(conversation("c", version), base), OURS)


def _of_fold(version: int, owner: Owner = OTHER, **changed) -> Standing:
    found = conversation("c", version)
    standing = Standing(version, found.applied, found.stamp, owner, None, {})._replace(**changed)
    return standing._replace(attempt=attempt_id("c", owner, version, standing.applied, standing.stamp))


@pytest.mark.parametrize(
    ("ours", "standing", "outcome"),
    [
        (_conversation(1, 0), None, again(0)),
        (_conversation(3, 2), None, CONFLICT),
        (_conversation(3, 2), _of_fold(2), again(2)),
        (_conversation(3, 1), _of_fold(2), again(2)),
        (_conversation(3, 1), _of_fold(2)._replace(attempt=uuid4()), CONFLICT),
        (_conversation(3, 2), _of_fold(2)._replace(attempt=uuid4()), again(2)),  # refolded on someone else's
        (_conversation(3, 2), _of_fold(3), LANDED),
        (_conversation(3, 2), _of_fold(5), LANDED),
        (_conversation(3, 2), _of_fold(5)._replace(attempt=None), CONFLICT),
        (_conversation(3, 2), _of_fold(3, applied=(2, 999)), CONFLICT),
        (_conversation(3, 2), _of_fold(1), CONFLICT),
        (_conversation(3, 2), _of_fold(2, LATER), FENCED),
    ],
)
def test_conversations(ours: ConversationChange, standing: Standing | None, outcome: WriteOutcome) -> None:
    assert ours.judge(standing) == outcome


def test_one_batch_never_has_two_of_a_row_and_the_earlier_comes_first() -> None:
    changes = [change(3, 3), change(1, 1), change(2, 2), MessageChange(made("c", 2), OURS)]
    found = [[(each.key[1], each.version) for each in batch] for batch in _batches(changes, 10**6)]
    keys = [key for batch in found for key, _ in batch]
    assert [version for batch in found for key, version in batch if key == changes[0].key[1]] == [1, 2, 3]
    assert all(len({key for key, _ in batch}) == len(batch) for batch in found)
    assert len(keys) == 4
    assert len(_batches([MessageChange(made("c", n), OURS) for n in range(65)], 10**6)) == 3
    assert len(_batches([MessageChange(made("c", n, body=bytes(900)), OURS) for n in range(4)], 2_000)) == 4
