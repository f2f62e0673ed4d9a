"""Messages that came in, handed to the program at least once."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from producers.database import Database
from producers.views import Arrival, Views, moment
from schemas.identity import text_of

_PAGE = 20
"""Bodies that are in memory at once."""
_TAKEN_ROWS, _TAKEN_S = 100, 1.0
"""Each note of what was dealt with is a write to the disk: after so many messages, or after so long."""
_WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message for this user."""

    arrival: int
    """Rises with each message that comes into this outbox."""
    message_id: str
    conversation: str
    sender: str
    recipients: tuple[str, ...]
    body: bytes
    content_type: str
    """A media type; empty means text/plain in UTF-8."""
    sent_at: datetime
    """When the log took it."""
    _mark_read: Callable[[str], bool] = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """The body as text; what is no UTF-8 shows as U+FFFD."""
        return self.body.decode(errors="replace")

    def mark_read(self) -> bool:
        """Tell the sender that it was read; say whether this was the first time. On disk when it returns."""
        return self._mark_read(self.message_id)


class Inbox:
    """Hands messages over. One that was handed over comes again after a restart until the next one was asked for."""

    def __init__(self, database: Database, views: Views, mark_read: Callable[[str], bool]) -> None:
        self._database = database
        self._views = views
        self._mark_read = mark_read
        self._lock = threading.Lock()
        self._last = 0
        self._page: list[Arrival] = []
        self._loops: dict[int, list[int]] = {}
        """What each loop has dealt with and not noted."""

    def messages(self, timeout_s: float | None) -> Iterator[Incoming]:
        """Yield messages as they come; end when none came for `timeout_s` (None: never)."""
        done: list[int] = []
        self._loops[id(done)] = done
        noted_at = time.monotonic()
        try:
            while (arrival := self._next(timeout_s, done)) is not None:
                yield self._incoming(arrival)
                # Asked for the next one: this one is dealt with.
                done.append(arrival.arrival)
                if len(done) >= _TAKEN_ROWS or time.monotonic() - noted_at >= _TAKEN_S:
                    self._taken(done)
                    noted_at = time.monotonic()
        finally:
            self._taken(done)
            del self._loops[id(done)]

    def note(self) -> None:
        """Note what all loops have dealt with: the client ends."""
        for done in list(self._loops.values()):
            self._taken(done)

    def _taken(self, done: list[int]) -> None:
        # The loop's own thread may go on while another one closes the client.
        if noted := done[:]:
            self._views.take(noted)
            del done[: len(noted)]

    def _next(self, timeout_s: float | None, done: list[int]) -> Arrival | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            generation = self._database.generation
            with self._lock:
                if not self._page:
                    self._page = list(self._views.arrivals_after(self._last, _PAGE))
                if self._page:
                    found = self._page.pop(0)
                    self._last = found.arrival
                    return found
            left_s = _WAIT_S if deadline is None else min(_WAIT_S, deadline - time.monotonic())
            if left_s <= 0:
                return None
            self._taken(done)
            self._database.wait_for_change(generation, left_s)

    def _incoming(self, arrival: Arrival) -> Incoming:
        return Incoming(
            arrival=arrival.arrival,
            message_id=text_of(arrival.message_id),
            conversation=arrival.conversation_id,
            sender=arrival.sender,
            recipients=arrival.recipients,
            body=arrival.body,
            content_type=arrival.content_type,
            sent_at=moment(arrival.sent_at),
            _mark_read=self._mark_read,
        )
