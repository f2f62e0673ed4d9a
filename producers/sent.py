"""The handle of a message that was sent."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from producers.checks import seconds
from producers.database import Database
from producers.errors import ClientClosedError, ClientError, DeliveryFailedError, UnknownMessageError, WaitTimeoutError
from producers.health import HealthBoard
from producers.views import Outlook, Views
from schemas.identity import text_of
from schemas.lifecycle import FAILED, RANK, State, label

_TARGETS: Final = {"sent": State.SENT, "delivered": State.DELIVERED, "read": State.READ}
_WAIT_S = 1.0

_HINTS: Final = {
    State.EXPIRED: "It did not reach the log in its time; send it again with a later expiry.",
    State.BLOCKED: "Every recipient blocks the sender in this conversation.",
    State.REJECTED: "The server does not take it; the reason says why.",
    State.CANCELLED: "It was cancelled before it was sent.",
    State.UNDELIVERED: "Nobody fetched it in its delivery time; a later proof of delivery still counts.",
}


class Sent:
    """A message in the outbox. Reading it reads the outbox, so it shows what any process knows."""

    def __init__(  # noqa: PLR0913, PLR0917 - made by Client alone
        self,
        position: int,
        first_id: bytes,
        database: Database,
        views: Views,
        health: HealthBoard,
        log_ms: Callable[[], int],
    ) -> None:
        self._position = position
        self._known_id = text_of(first_id)
        self._database = database
        self._views = views
        self._health = health
        self._log_ms = log_ms

    def __repr__(self) -> str:
        return f"<Sent {self._known_id}>"

    @property
    def message_id(self) -> str:
        """The message's UUID. It changes at most once, before the first hand-over, where the clock was far ahead."""
        # A handle outlives its client: then it says what it knew last.
        with suppress(ClientClosedError):
            found = self._views.at(self._position)
            if found is not None:
                self._known_id = found.message_id
        return self._known_id

    @property
    def state(self) -> str:
        """`pending`, `sent`, `delivered`, `read` or `failed(…)`."""
        return self.outlook().state

    @property
    def version(self) -> int:
        """How many transitions the log has accepted, as far as is known; 0 before the first answer."""
        return self.outlook().version

    @property
    def reason(self) -> str:
        """Why it failed; empty otherwise."""
        return self.outlook().reason

    @property
    def not_confirmed(self) -> bool:
        """Its time is over while the log's verdict is still out: it may have been sent."""
        return self.outlook().not_confirmed(self._log_ms())

    def outlook(self) -> Outlook:
        """Return all that is known. Raises UnknownMessageError where the outbox has forgotten it."""
        found = self._views.at(self._position)
        if found is None:
            raise UnknownMessageError(
                f"the outbox no longer holds message {self._known_id}", "It ended longer than keep_days ago."
            )
        return found

    def wait(self, state: str = "sent", timeout_s: float | None = None) -> str:
        """Wait until the message is `sent`, `delivered` or `read` (or further) and return its state.

        `timeout_s` is in seconds, None waits for ever. Raises DeliveryFailedError when it failed, WaitTimeoutError
        (retriable: the outbox goes on) when time is up, what keeps the client from working at all, such as DeniedError,
        ClientClosedError where it is closed meanwhile, and ValueError for a state or a time that nobody can wait for.
        """
        if state not in _TARGETS:
            raise ValueError(f"state is {state!r}, it must be one of {', '.join(_TARGETS)}")
        target = _TARGETS[state]
        wait_s = None if timeout_s is None else seconds(timeout_s, "timeout_s")
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while True:
            generation = self._database.generation
            found = self.outlook()
            if _reached(found, target):
                return found.state
            self._raise_what_blocks()
            left_s = _WAIT_S if deadline is None else deadline - time.monotonic()
            if left_s <= 0:
                raise self._timed_out(found, state, wait_s or 0.0)
            self._database.wait_for_change(generation, min(_WAIT_S, left_s))

    def _raise_what_blocks(self) -> None:
        error: ClientError | None = self._health.read().error
        if error is not None and not error.retriable:
            raise error

    def _timed_out(self, found: Outlook, wanted: str, timeout_s: float) -> WaitTimeoutError:
        unsure = ", not confirmed" if found.not_confirmed(self._log_ms()) else ""
        hint = "It stays in the outbox and is sent until it is answered; wait again, or look at `twotick outbox list`."
        health = self._health.read()
        why = ""  # in the message: a traceback shows no hint
        if health.error is not None:
            why, hint = f": {health.error}", f"{health.error.hint} {hint}"
        elif health.reachable is not True:
            why = ": Kafka has not been reached"
        return WaitTimeoutError(
            f"message {found.message_id} is {found.state}{unsure} after {timeout_s:g} s, not {wanted}{why}",
            hint,
            state=found.state,
        )


def _reached(found: Outlook, target: State) -> bool:
    """Say whether a message is where it was to be. Raises DeliveryFailedError where it will not get there."""
    state = found.raw_state
    if state in FAILED and not (state == State.UNDELIVERED and target == State.SENT):
        why = f": {found.reason}" if found.reason and found.reason != state else ""
        raise DeliveryFailedError(
            f"message {found.message_id} {label(state)}{why}",
            _HINTS[State(state)],
            state=label(state),
            reason=found.reason,
        )
    return RANK[state] >= RANK[target]
