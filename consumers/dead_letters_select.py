"""Which dead letters are meant, and what a redrive does with them. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumers.dead_letters import ATTEMPTS_HEADER
from consumers.parking import waiting_key
from consumers.rows import Parking
from consumers.stores.contract import DeadLetterMark
from schemas.errors import UndecodableError
from schemas.lifecycle import CONVERSATION_KINDS, Reason
from schemas.records import DeadLetter, Event, Record
from schemas.topics import EVENTS

Place = tuple[int, int, int]
"""Where the original stood: partition and offset of the events topic, and its append time."""


class Letter(NamedTuple):
    """A dead letter and what was done about it."""

    letter: DeadLetter
    mark: DeadLetterMark | None

    @property
    def place(self) -> Place:
        """Where the original stood."""
        return place_of(self.letter)

    @property
    def name(self) -> str:
        """How people name it on the command line."""
        return f"{self.letter.log_partition}:{self.letter.log_offset}"

    @property
    def handled(self) -> str:
        """What was done about it and by whom, for people; empty where nothing was."""
        return f"{self.mark.deed} by {self.mark.who}" if self.mark else ""

    @property
    def conversation(self) -> str:
        """The original's key, which is the conversation's id where it is in order."""
        return self.letter.key.decode("utf-8", "backslashreplace")


def place_of(letter: DeadLetter) -> Place:
    """Return where a dead letter's original stood."""
    return (letter.log_partition, letter.log_offset, letter.appended_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which letters somebody asked for; what is empty or None is not limited."""

    names: frozenset[str] = frozenset()
    """`PARTITION:OFFSET` of the originals."""
    reasons: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()
    conversations: frozenset[str] = frozenset()
    from_ms: int | None = None
    """Of the time at which they came among the dead letters, ms since 1970."""
    to_ms: int | None = None
    handled: bool = False
    """Whether those that were redriven or discarded are wanted too."""

    @property
    def is_everything(self) -> bool:
        """Whether nothing limits it."""
        return self == Wanted(handled=self.handled)

    def has(self, found: Letter) -> bool:
        """Say whether a letter is wanted."""
        letter = found.letter
        return (
            (self.handled or found.mark is None)
            and (not self.names or found.name in self.names)
            and (not self.reasons or letter.reason in self.reasons)
            and (not self.partitions or letter.log_partition in self.partitions)
            and (not self.conversations or found.conversation in self.conversations)
            and (self.from_ms is None or letter.failed_at >= self.from_ms)
            and (self.to_ms is None or letter.failed_at < self.to_ms)
        )


def select(letters: Iterable[DeadLetter], marks: Mapping[Place, DeadLetterMark], wanted: Wanted) -> list[Letter]:
    """Return the letters that are wanted, each original once, in the order in which the log had them.

    That is by append time, then offset: offsets begin anew where a topic was made anew.
    """
    found: dict[Place, Letter] = {}
    for letter in letters:
        place = place_of(letter)
        one = Letter(letter, marks.get(place))
        if place not in found and wanted.has(one):
            found[place] = one
    return sorted(found.values(), key=lambda one: (one.letter.appended_at, one.letter.log_offset, one.place))


def waiting_of(
    found: Sequence[Letter], parking: Parking | None, decode: Callable[[bytes | None], Record]
) -> list[Letter]:
    """Return the letters that a release redrives, in the order of what waits by the conversation's row.

    What waits may have been redriven before, in vain: its mark says nothing. The others are behind it, if nobody has
    dealt with them: copies of messages. A BLOCK or an UNBLOCK that does not wait has gone through by its client's own
    resend, and is no copy to the fold: behind what came since, it would take effect once more.
    """
    order = {key: place for place, key in enumerate(parking.waiting)} if parking else {}
    wanted: list[tuple[int, Letter]] = []
    for each in found:
        event = _event_of(each, decode)
        place = order.get(waiting_key(event), len(order)) if event else len(order)
        is_block = event is not None and event.kind in CONVERSATION_KINDS
        if place < len(order) or (each.mark is None and not is_block):
            wanted.append((place, each))
    return [each for _, each in sorted(wanted, key=lambda one: one[0])]


def _event_of(found: Letter, decode: Callable[[bytes | None], Record]) -> Event | None:
    try:
        event = decode(found.letter.value)
    except UndecodableError:
        return None
    return event if type(event) is Event else None


class Redrive(NamedTuple):
    """What a redrive does with one letter."""

    letter: Letter
    obstacle: str
    """Why it is left out; empty where it is not."""


def redrives(letters: Sequence[Letter], *, attempts_max: int, forced: bool, parked: frozenset[str]) -> list[Redrive]:
    """Return what a redrive does with letters, in their order; `parked` are the conversations that are."""
    return [Redrive(each, _obstacle(each, attempts_max, forced=forced, parked=parked)) for each in letters]


def _obstacle(found: Letter, attempts_max: int, *, forced: bool, parked: frozenset[str]) -> str:
    letter = found.letter
    if letter.topic != EVENTS:
        return f"it comes from {letter.topic}"
    if letter.reason == Reason.PARKED and found.conversation in parked:
        return "its conversation is parked: release it"
    if found.mark and not forced:
        return f"{found.handled}: --force"
    if letter.attempts >= attempts_max and not forced:
        return f"it has been here {letter.attempts} times: --force"
    return ""


class RawRecord(NamedTuple):
    """A record as it was found, but for the header that counts its attempts."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def original_of(letter: DeadLetter) -> RawRecord:
    """Return the record that goes back: null where it was null, empty where it was empty.

    To have been parked is no failure, and does not count as an attempt.
    """
    nulls = frozenset(letter.null_headers)
    told = enumerate(letter.headers)
    headers = [(name, None if index in nulls else value) for index, (name, value) in told if name != ATTEMPTS_HEADER]
    attempts = letter.attempts - (letter.reason == Reason.PARKED)
    if attempts:
        headers.append((ATTEMPTS_HEADER, str(attempts).encode()))
    return RawRecord(_part(letter, "key", letter.key), _part(letter, "value", letter.value), headers)


def _part(letter: DeadLetter, name: str, content: bytes) -> bytes | None:
    return content if content or name in letter.empty_parts else None
