"""Which PARK and RELEASE of the log the workers took: that is no fold of the log, for it hung on their settings then.

Their account is among the dead letters: whatever they refuse is there before they commit it. So a command that they
have committed was refused if its letter is there, else taken, whomever `worker.operators` names now and here. That
setting decides only about what they have not committed, and what is older than the letters that are left.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, NamedTuple

from consumers.dead_letters_select import Place, place_of
from consumers.errors import WorkerError
from consumers.intake import Entry, Intake
from consumers.replay.log import Log, committed
from consumers.replay.spans import Span, Wish
from schemas.codec import Codec
from schemas.errors import UndecodableError
from schemas.lifecycle import PARKING_KINDS, Reason
from schemas.records import DeadLetter, Event, Record
from schemas.topics import DEAD_LETTERS, EVENTS, VALUE_BYTES_MAX, Setting

_NAMES_MAX: Final = 5
_LETTERS_AT_ONCE: Final = 500


class OperatorsDifferError(WorkerError):
    """Rows differ where the log may have been folded by other operators than the workers'."""

    exit_code = 2


class Command(NamedTuple):
    """A PARK or a RELEASE of the log."""

    conversation_id: str
    kind: str
    actor: str
    partition: int
    offset: int
    taken: bool
    """Whether the replay took it."""

    def __str__(self) -> str:
        """Return it for people; what others wrote is made harmless."""
        return f"{self.kind} by {self.actor!r} in {self.conversation_id!r} (partition {self.partition}, {self.offset})"


@dataclass(frozen=True, slots=True)
class Account:
    """What the workers have told of the commands."""

    refused: frozenset[Place] = frozenset()
    committed: Mapping[int, int] = field(default_factory=dict)
    """By partition of the events topic, the offset below which their letters are there; taken before these were."""
    since_ms: float = inf
    """The append time from which on no letter is gone."""

    def tells(self, place: Place) -> bool | None:
        """Say whether the workers took the command that stands there; None where that cannot be told."""
        partition, offset, appended_at = place
        if place in self.refused:
            return False
        return True if offset < self.committed.get(partition, 0) and appended_at >= self.since_ms else None


def account_of(kafka: Mapping[str, Setting], group: str, codec: Codec, partitions: Iterable[int]) -> Account:
    """Read what workers of a group have told. Raises WorkerError."""
    done = committed(kafka, EVENTS, group, list(partitions))
    refused: set[Place] = set()
    with Log(kafka, DEAD_LETTERS) as log:
        extents = log.extents(Wish())
        spans = [Span(each.partition, each.low, each.high, is_whole=True) for each in extents]
        # Where the oldest letters of a partition are gone, the first that is left says how far back it goes.
        gone = {each.partition for each in extents if each.low}
        since_ms = 0.0 if extents else inf
        for batch in log.batches(spans, _LETTERS_AT_ONCE):
            for number, messages in batch.items():
                letters = list(_letters(messages, codec))
                refused.update(place_of(each) for each in letters if each.reason == Reason.NOT_AN_OPERATOR)
                if number in gone and letters:
                    gone.remove(number)
                    since_ms = max(since_ms, letters[0].failed_at)
    return Account(frozenset(refused), done, inf if gone else since_ms)


def _letters(messages: Iterable[Any], codec: Codec) -> Iterable[DeadLetter]:
    for message in messages:
        try:
            letter = codec.decode_as(DeadLetter, message.value())
        except UndecodableError:
            continue
        if letter.topic == EVENTS:
            yield letter


class Commands:
    """Has a replay take the commands that the workers took. The account is read once the log has a command."""

    def __init__(
        self,
        account: Callable[[], Account],
        decode: Callable[[bytes | None], Record],
        chosen: frozenset[str] = frozenset(),
        doubted: Iterable[Command] = (),
        refused: Iterable[Command] = (),
    ) -> None:
        """Take where the account is read; with `chosen` only commands of these conversations are judged.

        `doubted` is what an earlier run of the same replay could not be sure of, `refused` what it found refused.
        """
        self._read = account
        self._account: Account | None = None
        self._decode = decode
        self._chosen = chosen
        self.doubted = {each.conversation_id: each for each in doubted}
        """By conversation, the first command of which it is not sure what the workers did."""
        self.refused = {each.conversation_id: each for each in refused}
        """By conversation, the first that was refused."""
        self._refused_of: Counter[str] = Counter()
        self._taken_of: Counter[str] = Counter()

    def as_taken(self, entry: Entry, message: Any) -> Entry:  # noqa: ANN401 - the client's own types say less
        """Return the entry of a Kafka message, which this shell's operators made, as the workers' made it."""
        event = entry.event
        if event is None:
            if entry.reason != Reason.NOT_AN_OPERATOR:
                return entry
            event = self._decode(message.value())  # type: ignore[assignment]
        if type(event) is not Event or event.kind not in PARKING_KINDS:
            return entry
        if self._chosen and event.conversation_id not in self._chosen:
            return entry
        return self._judged(entry, event, message)

    def _judged(self, entry: Entry, event: Event, message: Any) -> Entry:  # noqa: ANN401
        if self._account is None:
            self._account = self._read()
        here, place = entry.event is not None, (message.partition(), entry.offset, entry.appended_at)
        told = self._account.tells(place)
        taken = here if told is None else told
        command = Command(event.conversation_id, event.kind, event.actor, *place[:2], taken)
        if self._is_doubtful(place, here=here, told=told):
            self.doubted.setdefault(event.conversation_id, command)
        if not taken:
            self._refused_of[event.actor] += 1
            self.refused.setdefault(event.conversation_id, command)
            return entry if not here else _refused(entry, event.actor)
        if here:
            return entry
        self._taken_of[event.actor] += 1
        intake = Intake(self._decode, VALUE_BYTES_MAX, (event.actor,))
        return intake.admit(entry.offset, entry.appended_at, message.key(), message.value())

    def _is_doubtful(self, place: Place, *, here: bool, told: bool | None) -> bool:
        """Say whether nothing but a setting, or nothing but a missing letter, says what the workers did."""
        if not here:
            return told is not False
        # Named here and not committed: workers that do not name them will refuse it.
        return told is None and place[1] >= (self._account or Account()).committed.get(place[0], place[1] + 1)

    def summary(self) -> str:
        """Return what became of the commands of who is not an operator, for people; empty where there were none."""
        told = []
        if self._refused_of:
            told.append(f"{self._refused_of.total():,} PARK or RELEASE refused, of {_names(self._refused_of)}")
        if self._taken_of:
            told.append(
                f"{self._taken_of.total():,} PARK or RELEASE taken as the workers took them, though worker.operators "
                f"here does not name {_names(self._taken_of)}"
            )
        return "; ".join(told)


def _refused(entry: Entry, actor: str) -> Entry:
    detail = f"{actor!r} was not among the workers' worker.operators"
    return Entry(entry.offset, entry.appended_at, None, Reason.NOT_AN_OPERATOR, detail)


def _names(actors: Counter[str]) -> str:
    first = ", ".join(repr(name) for name, _ in actors.most_common(_NAMES_MAX))
    return f"{first} and {len(actors) - _NAMES_MAX:,} others" if len(actors) > _NAMES_MAX else first


def doubt_about(command: Command) -> OperatorsDifferError:
    """Return the error where rows differ in the conversation of a command about which the workers are in doubt."""
    if command.taken:
        return OperatorsDifferError(
            f"rows differ, and the workers may not have taken a {command}: nothing of it is shown or mended",
            "Give worker.operators here the workers' value, or replay again once they have committed it.",
        )
    return OperatorsDifferError(
        f"rows differ, and the workers may have taken a {command}, who is no operator here: nothing is shown or mended",
        f"Give worker.operators here the workers' value, {command.actor!r} in it if they took it; then replay anew.",
    )
