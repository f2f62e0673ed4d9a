"""A release redrives only what waits by the conversation's row, and only once the workers let it through."""

# ruff: noqa: D102 - what stands in for others is named after it

from types import SimpleNamespace
from typing import Any

import pytest

from consumers.dead_letters_park import NotParkedError, OperatorError, give_up, release
from consumers.dead_letters_select import Letter, place_of
from consumers.rows import NOWHERE, ConversationRow, Parking
from consumers.stores.contract import DeadLetterMark, TopicRecord
from schemas.codec import PLAIN
from schemas.records import DeadLetter, Event
from schemas.topics import EVENTS
from tests.unit.consumers.world import event, send

PLACE = (1, 50)
"""Where the RELEASE stands."""


class Deployment:
    """One conversation with what waits in it; stands in for sender, letters, store and workers."""

    def __init__(self, waiting: list[Event], *, obeys: bool = True, folds: bool = True, generation: int = 1) -> None:
        self._obeys, self._folds, self._generation = obeys, folds, generation
        self.parking = Parking((1, 1), waiting=tuple(each.message_id for each in waiting))
        self.unread = [letter(n, each) for n, each in enumerate(waiting, 10)]
        self.marks: dict[Any, DeadLetterMark] = {}
        self.sent: list[bytes] = []

    def command(self, *_: object, give_up: bool = False) -> tuple[int, int]:
        if self.parking.until != NOWHERE:
            return PLACE
        if self._obeys and self.parking.waiting and not give_up:
            self.parking = self.parking._replace(releasing=True)
        elif self._obeys:
            self.parking = self.parking._replace(until=(1, PLACE[1]))
        return PLACE

    def have_folded(self, place: tuple[int, int]) -> bool:
        return self._folds and place == PLACE

    def read(self, _: object, names: list[str]) -> SimpleNamespace:
        row = ConversationRow("c", parkings=(self.parking,))
        return SimpleNamespace(conversations={"c": row} if names == ["c"] else {})

    def topic_record(self, topic: str) -> TopicRecord:
        return TopicRecord(topic, "id", 4, self._generation)

    def dead_letter_marks(self) -> list[DeadLetterMark]:
        return list(self.marks.values())

    def new(self) -> list[DeadLetter]:
        found, self.unread = self.unread, []
        return found

    def decode(self, value: bytes | None) -> Any:
        return PLAIN.decode(value)

    def redrive(self, _: object, letters: list[Letter], who: str) -> int:
        """Send and mark; what is first at an open gate goes through, the last one opens the conversation."""
        for each in letters:
            self.marks[each.place] = DeadLetterMark(*each.place, "redriven", who, 9)
            key = PLAIN.decode(each.letter.value).message_id
            self.sent.append(key)
            if self.parking.releasing and self.parking.waiting[:1] == (key,):
                self.parking = self.parking._replace(waiting=self.parking.waiting[1:])
        if self.parking.releasing and not self.parking.waiting:
            self.parking = self.parking._replace(until=(1, 60))
        return len(letters)

    def give_up(self, wait_s: float = 1.0) -> bool:
        it: Any = self
        return give_up(it, it, it, "c", "me", wait_s)

    def release(self, wait_s: float = 1.0) -> tuple[int, bool]:
        it: Any = self
        return release(it, it, it, it, "c", "me", wait_s)


def letter(offset: int, event: Event) -> DeadLetter:
    return DeadLetter(EVENTS, 1, offset, 1_000, b"c", PLAIN.encode(event), (), "PARKED", "", 1, 5_000, "n", 1)


def test_nothing_is_redriven_while_the_gate_is_shut():
    refused = Deployment([send(1), send(2)], obeys=False)
    with pytest.raises(OperatorError, match="did not release 'c'"):
        refused.release()
    unheard = Deployment([send(1), send(2)], folds=False)
    assert unheard.release(0) == (0, False)
    assert (refused.sent, refused.marks, unheard.sent, unheard.marks) == ([], {}, [], {})


def test_what_was_redriven_in_vain_and_still_waits_is_redriven_in_the_order_of_the_row():
    waiting = [send(1), send(2), send(3)]
    deployment = Deployment(waiting)
    vain = [place_of(letter(n, each)) for n, each in enumerate(waiting, 10)][:2]
    deployment.marks = {place: DeadLetterMark(*place, "redriven", "other", 8) for place in vain}
    assert deployment.release() == (3, True)
    assert deployment.sent == [each.message_id for each in waiting]


def test_a_block_that_went_through_by_its_clients_own_resend_is_not_redriven():
    """An UNBLOCK may have followed since: no fold takes a BLOCK for a copy, as it does a message."""
    block = event("BLOCK", 7, "bob", subject="alice")
    deployment = Deployment([send(1)])
    deployment.unread += [letter(5, block), letter(6, send(4))]
    assert deployment.release() == (2, True)
    assert deployment.sent == [send(1).message_id, send(4).message_id]
    blocks = Deployment([])
    blocks.parking = blocks.parking._replace(waiting=(block.event_id,))
    blocks.unread = [letter(5, block)]
    blocks.release(0)
    assert len(blocks.sent) == 1, "it waits"


def test_a_parked_conversation_in_which_nothing_waits_is_opened():
    assert Deployment([]).release() == (0, True)


def test_what_is_given_up_is_open_once_the_workers_say_so():
    assert Deployment([send(1)]).give_up() is True
    assert Deployment([send(1)], folds=False).give_up(0) is False
    with pytest.raises(OperatorError):
        Deployment([send(1)], obeys=False).give_up()


@pytest.mark.parametrize("command", [Deployment.release, Deployment.give_up])
@pytest.mark.parametrize(("generation", "until"), [(1, 20), (2, 900)])
def test_what_is_not_parked_is_not_found(command, generation, until):
    """It was, once: maybe when the topic had other partitions, whose offsets say nothing about those of now."""
    deployment = Deployment([], generation=generation)
    deployment.parking = deployment.parking._replace(until=(1, until))
    with pytest.raises(NotParkedError) as told:
        command(deployment)
    assert told.value.exit_code == 3
