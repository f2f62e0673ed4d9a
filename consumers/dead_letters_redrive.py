"""Sends the originals of dead letters back to where they came from, and parks and releases conversations.

One idempotent producer, so the order in a partition is the order in which they are handed over. A letter is marked
once its original is in the log: a command that dies in between sends it again, which the fold takes for a copy. A
record that is still bad comes back as one new letter; nothing here sends it again by itself.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from secrets import randbits
from time import monotonic, sleep, time_ns
from typing import Any, Final, Self

from confluent_kafka import KafkaException, Producer

from consumers.dead_letters_select import Letter, Original, Place, Wanted, original_of, place_of, select, waiting_of
from consumers.errors import KafkaUnavailableError, WorkerError
from consumers.kafka_clients import LOG as KAFKA_LOG
from consumers.kafka_clients import producer_config
from consumers.kafka_errors import translated
from consumers.parking import GIVE_UP, is_parked
from consumers.replay.log import Log, committed
from consumers.replay.spans import Span, Wish
from consumers.rows import NOWHERE, Parking
from consumers.stores.contract import DeadLetterMark, Store
from schemas.codec import Codec
from schemas.errors import UndecodableError
from schemas.identity import uuid7
from schemas.lifecycle import Kind, Reason
from schemas.records import NO_ID, DeadLetter, Event, Record
from schemas.topics import DEAD_LETTERS, EVENTS, Setting

TIMEOUT_S: Final = 30.0
CHUNK: Final = 500
"""Letters that are in the log before any of them is marked."""
_POLL_S: Final = 0.2
_BY_KEY: Final = -1
"""librdkafka's partition for "as the partitioner says"."""
REDRIVEN: Final = "redriven"
DISCARDED: Final = "discarded"


class Letters:
    """The dead-letters topic as far as it was read; each call reads what has come since."""

    def __init__(self, kafka: Mapping[str, Setting], codec: Codec) -> None:
        self._kafka = kafka
        self._codec = codec
        self._positions: dict[int, int] = {}
        self.strangers = 0
        """Records of the topic that are no dead letters."""

    def new(self) -> Iterator[DeadLetter]:
        """Yield the letters that were not yielded before. Raises WorkerError."""
        with Log(self._kafka, DEAD_LETTERS) as log:
            spans = [
                Span(each.partition, max(each.low, self._positions.get(each.partition, 0)), each.high, is_whole=False)
                for each in log.extents(Wish())
            ]
            for batch in log.batches(spans, CHUNK):
                for messages in batch.values():
                    yield from self._decoded(messages)
            self._positions |= {span.partition: span.end for span in spans}

    def partitions(self) -> frozenset[int]:
        """Return the partitions of the events topic, where the originals were. Raises WorkerError."""
        with Log(self._kafka, EVENTS) as log:
            return frozenset(each.partition for each in log.extents(Wish()))

    def decode(self, value: bytes | None) -> Record:
        """Return an original's value, decoded. Raises UndecodableError."""
        return self._codec.decode(value)

    def _decoded(self, messages: Iterable[Any]) -> Iterator[DeadLetter]:
        for message in messages:
            try:
                yield self._codec.decode_as(DeadLetter, message.value())
            except UndecodableError:
                self.strangers += 1


def marks_of(store: Store) -> dict[Place, DeadLetterMark]:
    """Return what was done about letters, by place."""
    return {(one.partition, one.offset, one.appended_at): one for one in store.dead_letter_marks()}


def mark(store: Store, letters: Sequence[Letter], deed: str, who: str) -> None:
    """Note what was done about letters. Raises the store's errors."""
    at = time_ns() // 1_000_000
    store.mark_dead_letters([DeadLetterMark(*place_of(each.letter), deed, who, at) for each in letters])


class Sender:
    """Writes into the events topic; a context that ends its producer."""

    def __init__(self, kafka: Mapping[str, Setting], codec: Codec) -> None:
        self._producer = Producer({**producer_config(kafka), "logger": KAFKA_LOG})
        self._codec = codec
        self._failed: list[Any] = []
        self._last = (-1, -1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.purge()
        self._producer.flush(0)

    def command(self, kind: str, conversation_id: str, who: str, *, give_up: bool = False) -> tuple[int, int]:
        """Append a PARK or a RELEASE; return its partition and offset. Raises WorkerError."""
        event_id = uuid7(time_ns() // 1_000_000, randbits(80))
        event = Event(kind, event_id, conversation_id, NO_ID, who, NO_ID, GIVE_UP if give_up else 0)
        self._hand_over(Original(conversation_id.encode(), self._codec.encode(event), []), _BY_KEY)
        self._insist(self._producer.flush(TIMEOUT_S))
        return self._last

    def redrive(self, store: Store, letters: Sequence[Letter], who: str) -> int:
        """Append the originals in this order, marking those of each few that are in the log; return how many.

        Raises WorkerError: those that are marked are in the log.
        """
        for start in range(0, len(letters), CHUNK):
            arrived: list[Letter] = []
            try:
                for each in letters[start : start + CHUNK]:
                    original = original_of(each.letter)
                    # Without a key it may be anywhere, so it goes to where it was.
                    partition = _BY_KEY if original.key else each.letter.log_partition
                    self._hand_over(original, partition, partial(arrived.append, each))
            finally:
                # One that is refused says nothing about the others.
                left = self._producer.flush(TIMEOUT_S)
                if arrived:
                    mark(store, arrived, REDRIVEN, who)
            self._insist(left)
        return len(letters)

    def _hand_over(self, original: Original, partition: int, arrived: Callable[[], None] = lambda: None) -> None:
        """Hand a record over, waiting for room where the client's queue is full; `arrived` is called at its report."""
        key, value, headers = original
        told: list[tuple[str, str | bytes | None]] = [*headers]
        deadline = monotonic() + TIMEOUT_S
        while True:
            try:
                self._producer.produce(
                    EVENTS, value, key, partition, headers=told, on_delivery=partial(self._reported, arrived)
                )
            except BufferError as error:
                if monotonic() > deadline:
                    raise KafkaUnavailableError(f"a record cannot be handed over: {error}", "Try again.") from error
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                raise KafkaUnavailableError(f"a record cannot be handed over: {error}", "Try again.") from error
            else:
                break
        self._producer.poll(0)

    def _reported(self, arrived: Callable[[], None], error: Any, message: Any) -> None:  # noqa: ANN401 - the client's
        if error is not None:
            self._failed.append(error)
        else:
            self._last = (message.partition(), message.offset())
            arrived()

    def _insist(self, left: int) -> None:
        """Raise WorkerError where a record was refused, or some are not in the log yet."""
        if self._failed:
            raise translated(KafkaException(self._failed[0]), "appending to the log")
        if left:
            raise KafkaUnavailableError(f"{left} records are not in the log after {TIMEOUT_S:.0f} s", "Try again.")


def parked_among(store: Store, conversations: Iterable[str]) -> frozenset[str]:
    """Return which of these conversations are parked, as far as the workers have got."""
    names = sorted(set(conversations))
    return frozenset(name for name, row in store.read((), names).conversations.items() if is_parked(row))


def parking_of(store: Store, conversation_id: str) -> Parking | None:
    """Return how a conversation is parked, as far as the workers have got; None where it is not."""
    row = store.read((), [conversation_id]).conversations.get(conversation_id)
    return row.parkings[-1] if row is not None and is_parked(row) else None


class Workers:
    """How far the workers have got, by what their group has committed."""

    def __init__(self, kafka: Mapping[str, Setting], group: str) -> None:
        self._kafka = kafka
        self._group = group

    def have_folded(self, place: tuple[int, int]) -> bool:
        """Say whether the event at (partition, offset) is in the store, and what it led to among the dead letters."""
        partition, offset = place
        return committed(self._kafka, EVENTS, self._group, [partition]).get(partition, 0) > offset


class OperatorError(WorkerError):
    """Whoever parks or releases is not among the operators."""


class NotParkedError(WorkerError):
    """A conversation that is to be released is not parked, or is not there."""

    exit_code = 3


_OPERATORS_DIFFER: Final = (
    "Their worker.operators may be others than here: see `twotick dead-letters list --reason not_an_operator`."
)


def operator(name: str, operators: Container[str]) -> str:
    """Return the name of who parks or releases. Raises OperatorError where the workers would refuse it."""
    if name not in operators:
        raise OperatorError(
            f"{name!r} may neither park nor release",
            "Name who may in worker.operators, the same for all workers; or one of them with --operator.",
        )
    return name


def park(  # noqa: PLR0913, PLR0917 - who, what, and who tells what came of it
    sender: Sender, workers: Workers, store: Store, conversation_id: str, who: str, wait_s: float
) -> bool:
    """Park a conversation; return whether the workers have taken note in time.

    Raises OperatorError where they have, and did not park it; WorkerError.
    """
    place = sender.command(Kind.PARK, conversation_id, who)
    if not _until(lambda: workers.have_folded(place), wait_s):
        return False
    if not parked_among(store, [conversation_id]):
        raise OperatorError(
            f"the workers did not park {conversation_id!r} for {who!r}",
            _OPERATORS_DIFFER,
        )
    return True


def waiting_in(conversation_id: str) -> Wanted:
    """Return the choice of what ever waited in a conversation; `waiting_of` tells what does now."""
    return Wanted(reasons=frozenset({Reason.PARKED}), conversations=frozenset({conversation_id}), handled=True)


def release(  # noqa: PLR0913, PLR0917 - who, what, where from and where to
    sender: Sender, letters: Letters, store: Store, workers: Workers, conversation_id: str, who: str, wait_s: float
) -> tuple[int, bool]:
    """Release a conversation and, once the workers let it through, redrive what waits, in order, until nothing does.

    What comes meanwhile lines up behind it and is redriven too. Returns how many records were redriven, and whether
    the conversation was open in time. Raises OperatorError where the workers have taken note and do not release it;
    NotParkedError; WorkerError.
    """
    deadline = monotonic() + wait_s
    place = sender.command(Kind.RELEASE, conversation_id, who)
    if not _until(lambda: workers.have_folded(place), wait_s):
        return 0, False
    _insist_parked_until(store, conversation_id, place)
    sent, places = 0, set[Place]()
    while True:
        # The row before the letters: what is new among them is behind all that waits by the row.
        parking = parking_of(store, conversation_id)
        if parking is not None and not parking.releasing:
            raise _not_released(conversation_id, who)
        found = select(letters.new(), marks_of(store), waiting_in(conversation_id))
        waiting = [each for each in waiting_of(found, parking, letters.decode) if each.place not in places]
        sent += sender.redrive(store, waiting, who)
        places |= {each.place for each in waiting}
        if parking is None and not waiting:
            return sent, True
        if monotonic() > deadline:
            return sent, False
        sleep(_POLL_S)


def give_up(  # noqa: PLR0913, PLR0917 - who, what, and who tells what came of it
    sender: Sender, workers: Workers, store: Store, conversation_id: str, who: str, wait_s: float
) -> bool:
    """Open a conversation whatever waits; return whether the workers have taken note in time.

    Raises OperatorError where they have, and did not open it; NotParkedError; WorkerError.
    """
    place = sender.command(Kind.RELEASE, conversation_id, who, give_up=True)
    if not _until(lambda: workers.have_folded(place), wait_s):
        return False
    _insist_parked_until(store, conversation_id, place)
    if parking_of(store, conversation_id) is not None:
        raise _not_released(conversation_id, who)
    return True


def _insist_parked_until(store: Store, conversation_id: str, place: tuple[int, int]) -> None:
    """Raise NotParkedError where a conversation was not parked when the RELEASE at (partition, offset) came."""
    row = store.read((), [conversation_id]).conversations.get(conversation_id)
    until = row.parkings[-1].until if row is not None and row.parkings else None
    # The RELEASE itself, or what went through after it, has ended its parking; an older one it has found ended.
    if until is None or (until != NOWHERE and until[1] < place[1]):
        raise NotParkedError(f"{conversation_id!r} is not parked", "Look at its id: nothing is changed.")


def _not_released(conversation_id: str, who: str) -> OperatorError:
    return OperatorError(f"the workers did not release {conversation_id!r} for {who!r}", _OPERATORS_DIFFER)


def _until(is_so: Callable[[], bool], wait_s: float) -> bool:
    deadline = monotonic() + wait_s
    while not is_so():
        if monotonic() > deadline:
            return False
        sleep(_POLL_S)
    return True
