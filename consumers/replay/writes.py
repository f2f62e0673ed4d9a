"""Writes in flight into one store: bounded, told in their order, made again while the store is away."""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from random import random
from time import monotonic, sleep
from typing import Final

from consumers.errors import WorkerError
from consumers.outage import Outage
from consumers.rows import ConversationWrite, MessageWrite, Owner
from consumers.stores.contract import Done

LOG = logging.getLogger(__name__)

IN_FLIGHT_MAX: Final = 8
GIVE_UP_S: Final = 120.0
"""A store that does not answer for so long ends the replay; it can be resumed."""


Write = Callable[[Owner, Sequence[MessageWrite], Sequence[ConversationWrite], Done], None]


@dataclass(slots=True, eq=False)
class _Write:
    messages: Sequence[MessageWrite]
    conversations: Sequence[ConversationWrite]
    finished: Callable[[], None]
    is_durable: bool = False


class Writes:
    """For one thread; the store's callbacks only put into a queue."""

    def __init__(self, write: Write, owner: Owner) -> None:
        """Take what begins a write: a store's `write` or `mend`."""
        self._write = write
        self._owner = owner
        self._answers: SimpleQueue[tuple[_Write, Exception | None]] = SimpleQueue()
        self._in_flight = 0
        self._order: deque[_Write] = deque()
        self._outage = Outage(0.2, 5.0)
        self._down_since: float | None = None

    def submit(
        self,
        messages: Sequence[MessageWrite],
        conversations: Sequence[ConversationWrite],
        finished: Callable[[], None],
    ) -> None:
        """Begin to write; `finished` is called by a later `submit` or `settle`, once this and all before are durable.

        Raises WorkerError.
        """
        write = _Write(messages, conversations, finished)
        self._order.append(write)
        if messages or conversations:
            self._begin(write)
        else:
            write.is_durable = True
        self._take(IN_FLIGHT_MAX)

    def wait(self) -> None:
        """Wait until there is an answer to one of those in flight, if there are any. Raises WorkerError."""
        self._take(max(0, self._in_flight - 1))

    def settle(self) -> None:
        """Wait until all is durable. Raises WorkerError."""
        self._take(0)

    def _begin(self, write: _Write) -> None:
        self._in_flight += 1
        answers = self._answers
        self._write(self._owner, write.messages, write.conversations, lambda error: answers.put((write, error)))

    def _take(self, most: int) -> None:
        """Take what is answered; wait until no more than `most` are in flight."""
        while self._in_flight:
            try:
                write, error = self._answers.get(block=self._in_flight > most)
            except Empty:
                break
            self._in_flight -= 1
            if error is None:
                self._down_since = None
                self._outage.over()
                write.is_durable = True
            else:
                self._again(write, error)
        self._tell()

    def _tell(self) -> None:
        while self._order and self._order[0].is_durable:
            self._order.popleft().finished()

    def _again(self, write: _Write, error: Exception) -> None:
        if not isinstance(error, WorkerError) or not error.retriable:
            raise error
        now = monotonic()
        self._down_since = self._down_since or now
        if now - self._down_since > GIVE_UP_S:
            raise error
        wait_s = self._outage.failed(str(error), now, random())  # noqa: S311 - spreads retries
        LOG.warning("the store does not answer: %s", error.message)
        sleep(wait_s)
        self._begin(write)
