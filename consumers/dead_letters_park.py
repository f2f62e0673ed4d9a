"""Parks and releases conversations: writes the command, and tells what the workers make of it.

A release redrives what waits once the workers let it through, until nothing waits.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from time import monotonic, sleep
from typing import Final

from consumers.dead_letters_redrive import Letters, LogWriter, marks_of
from consumers.dead_letters_select import Place, Wanted, select, waiting_of
from consumers.errors import WorkerError
from consumers.parking import is_parked
from consumers.replay.log import committed
from consumers.rows import NOWHERE, Parking
from consumers.stores.contract import Store
from schemas.lifecycle import Kind, Reason
from schemas.topics import EVENTS, Setting

_POLL_S: Final = 0.2
_SEE_LETTER: Final = (
    "`twotick dead-letters list --conversation` with its name tells the reason; not_an_operator: their worker.operators"
    " are others than here."
)


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

    exit_code = 2


class NotParkedError(WorkerError):
    """A conversation that is to be released is not parked, or is not there."""

    exit_code = 3


def operator(name: str, operators: Container[str]) -> str:
    """Return the name of who parks or releases. Raises OperatorError where the workers would refuse it."""
    if name not in operators:
        raise OperatorError(
            f"{name!r} may neither park nor release",
            "Name who may in worker.operators, the same for all workers; or one of them with --operator.",
        )
    return name


def park(  # noqa: PLR0913, PLR0917 - who, what, and who tells what came of it
    writer: LogWriter, workers: Workers, store: Store, conversation_id: str, who: str, wait_s: float
) -> bool:
    """Park a conversation; return whether the workers have taken note in time.

    Raises OperatorError where they have, and did not park it; WorkerError.
    """
    place = writer.command(Kind.PARK, conversation_id, who)
    if not _until(lambda: workers.have_folded(place), wait_s):
        return False
    if not parked_among(store, [conversation_id]):
        raise OperatorError(
            f"the workers did not park {conversation_id!r} for {who!r}",
            _SEE_LETTER,
        )
    return True


def waiting_in(conversation_id: str) -> Wanted:
    """Return the choice of what ever waited in a conversation; `waiting_of` tells what does now."""
    return Wanted(reasons=frozenset({Reason.PARKED}), conversations=frozenset({conversation_id}), handled=True)


def release(  # noqa: PLR0913, PLR0917 - who, what, where from and where to
    writer: LogWriter, letters: Letters, store: Store, workers: Workers, conversation_id: str, who: str, wait_s: float
) -> tuple[int, bool]:
    """Release a conversation and, once the workers let it through, redrive what waits, in order, until nothing does.

    What comes meanwhile lines up behind it and is redriven too. Returns how many records were redriven, and whether
    the conversation was open in time. Raises OperatorError where the workers have taken note and do not release it;
    NotParkedError; WorkerError.
    """
    deadline = monotonic() + wait_s
    place = writer.command(Kind.RELEASE, conversation_id, who)
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
        sent += writer.redrive(store, waiting, who)
        places |= {each.place for each in waiting}
        if parking is None and not waiting:
            return sent, True
        if monotonic() > deadline:
            return sent, False
        sleep(_POLL_S)


def give_up(  # noqa: PLR0913, PLR0917 - who, what, and who tells what came of it
    writer: LogWriter, workers: Workers, store: Store, conversation_id: str, who: str, wait_s: float
) -> bool:
    """Open a conversation whatever waits; return whether the workers have taken note in time.

    Raises OperatorError where they have, and did not open it; NotParkedError; WorkerError.
    """
    place = writer.command(Kind.RELEASE, conversation_id, who, give_up=True)
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
    record = store.topic_record(EVENTS)
    position = (record.generation if record is not None else 1, place[1])
    # The RELEASE itself, or what went through after it, has ended its parking; an older one it has found ended.
    if until is None or (until != NOWHERE and until < position):
        raise NotParkedError(f"{conversation_id!r} is not parked", "Look at its id: nothing is changed.")


def _not_released(conversation_id: str, who: str) -> OperatorError:
    return OperatorError(f"the workers did not release {conversation_id!r} for {who!r}", _SEE_LETTER)


def _until(is_so: Callable[[], bool], wait_s: float) -> bool:
    deadline = monotonic() + wait_s
    while not is_so():
        if monotonic() > deadline:
            return False
        sleep(_POLL_S)
    return True
