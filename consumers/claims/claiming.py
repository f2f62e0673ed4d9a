"""One step of a claimed delivery: whoever dies anywhere in it leaves a row from which the next one goes on.

1. Look again: the message still waits for this recipient, and its delivery time is not over.
2. Read the delivery's row. Settled already: only the event is left to be written. Someone with a larger token has
   it: stop.
3. Mark it: CLAIMED, with the lock's token and the owner's epoch, one more attempt; under the version that was read.
4. Make the call, with the delivery's one idempotency key.
5. Settle it under the version that was marked: DELIVERED, UNDELIVERABLE, or WAITING for the next attempt. Where that
   is refused, someone has taken it over: the outcome is theirs to tell.
6. Write the event into the log, in the recipient's name: DELIVERED, or EXPIRE where the gateway gives up. The fold
   decides what it means; one that is written twice is a duplicate.

Who died between 3 and 5 may have made the call or not: the next one makes it again with the same key.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from consumers.backoff import backoff_s
from consumers.claims.contract import Answer, CallOutcome, Claim, ClaimKey, ClaimState, ClaimTable, Handler
from consumers.claims.settings import WebhookSettings
from consumers.rows import Owner
from consumers.stores.contract import MessageKey, Rows
from schemas.identity import time_of, uuid7
from schemas.lifecycle import Kind, State
from schemas.records import NO_ID, Delivery, Event

KEEP_AFTER_S: Final = 7 * 24 * 3600
"""How long a row is kept after the message's delivery time: a redelivery that comes late must find it."""
RETRY_AFTER_S_MAX: Final = 3600.0
_DETAIL_MAX: Final = 200


class RowReader(Protocol):
    """What of a store is asked here."""

    def read(self, messages: list[MessageKey], conversations: list[str]) -> Rows:
        """Read rows. Raises StoreUnavailableError, StoreRefusedError."""


class Holding(NamedTuple):
    """Under what a delivery is claimed."""

    owner: Owner
    """Of the partition, by its lease."""
    token: int
    """Of the lock."""


class ClaimStep(NamedTuple):
    """What came of a step."""

    event: Event | None = None
    """To be written into the log."""
    again_at: int = 0
    """When to take the next step, ms since 1970; 0: never."""
    called: bool = False
    lost: bool = False
    """Whether another has it."""
    detail: str = ""
    """What came of the last call, for people."""


class Claiming:
    """Takes the steps; safe to use from several threads, for different deliveries."""

    def __init__(  # noqa: PLR0913 - time and chance are arguments
        self,
        *,
        table: ClaimTable,
        reader: RowReader,
        handler: Handler,
        settings: WebhookSettings,
        now_ms: Callable[[], int],
        chance: Callable[[], float],
    ) -> None:
        """Take the parts; `chance` is between 0 and 1."""
        self._table = table
        self._reader = reader
        self._handler = handler
        self._settings = settings
        self._now_ms = now_ms
        self._chance = chance

    def step(self, delivery: Delivery, holding: Holding) -> ClaimStep:
        """Go on with a delivery as far as it gets now. Raises StoreUnavailableError, StoreRefusedError."""
        key = ClaimKey.of(delivery)
        if not self._is_owed(key):
            return ClaimStep()
        before = self._table.find(key)
        if before is not None and before.state in _SETTLED:
            return ClaimStep(_SETTLED[before.state](key), detail=before.detail)
        if before is not None and before.token > holding.token:
            return ClaimStep(lost=True)
        if before is not None and before.state is ClaimState.WAITING and before.next_at > self._now_ms():
            return ClaimStep(again_at=before.next_at)
        if before is not None and before.attempts >= self._settings.attempts_max:
            # The last call's maker is gone; nobody knows its end.
            return self._settle(delivery, holding, before, Answer(CallOutcome.NEVER, "the last call was cut off"))
        return self._call(delivery, holding, before)

    def _is_owed(self, key: ClaimKey) -> bool:
        row = self._reader.read([key[:2]], []).messages.get(key[:2])
        if row is None or self._now_ms() > row.deliver_by:
            return False
        return (key.recipient, State.SENT) in zip(row.recipients, row.receipts, strict=True)

    def _call(self, delivery: Delivery, holding: Holding, before: Claim | None) -> ClaimStep:
        key = ClaimKey.of(delivery)
        version, attempts = (before.version, before.attempts) if before else (0, 0)
        marked = Claim(key, version + 1, holding.token, ClaimState.CLAIMED, attempts + 1, holding.owner)
        if not self._table.put(marked, before, self._keep_s(delivery)):
            return ClaimStep(lost=True)
        answer = self._handler(delivery, key.idempotency_key(), marked.attempts)
        return self._settle(delivery, holding, marked, answer)._replace(called=True)

    def _settle(self, delivery: Delivery, holding: Holding, marked: Claim, answer: Answer) -> ClaimStep:
        state, next_at = self._state_after(marked, answer)
        settled = marked._replace(
            version=marked.version + 1,
            token=holding.token,
            owner=holding.owner,
            state=state,
            next_at=next_at,
            detail=answer.detail[:_DETAIL_MAX],
        )
        if not self._table.put(settled, marked, self._keep_s(delivery)):
            return ClaimStep(lost=True)
        event = None if state is ClaimState.WAITING else _SETTLED[state](marked.key)
        return ClaimStep(event, again_at=next_at, detail=settled.detail)

    def _state_after(self, marked: Claim, answer: Answer) -> tuple[ClaimState, int]:
        if answer.outcome is CallOutcome.DONE:
            return ClaimState.DELIVERED, 0
        if answer.outcome is CallOutcome.NEVER or marked.attempts >= self._settings.attempts_max:
            return ClaimState.UNDELIVERABLE, 0
        wait_s = wait_before(marked.attempts + 1, self._settings, self._chance())
        if answer.retry_after_s is not None:
            wait_s = max(wait_s, min(answer.retry_after_s, RETRY_AFTER_S_MAX))
        return ClaimState.WAITING, self._now_ms() + int(wait_s * 1000)

    def _keep_s(self, delivery: Delivery) -> int:
        return max(0, delivery.deliver_by - self._now_ms()) // 1000 + KEEP_AFTER_S


def wait_before(attempt: int, settings: WebhookSettings, chance: float) -> float:
    """Return the s before an attempt (from the second); by default 1, 2, 4, 8, 16, 32, 60, each less up to a half."""
    return backoff_s(settings.first_wait_s, settings.wait_s_max, attempt - 2, chance)


def _event(kind: Kind, key: ClaimKey) -> Event:
    """Return what a gateway says in the recipient's name: the same event, with the same id, each time."""
    seed = key.idempotency_key().int ^ (kind is Kind.EXPIRE)
    event_id = uuid7(time_of(key.message_id), seed)
    return Event(kind, event_id, key.conversation_id, key.message_id, key.recipient, NO_ID)


def delivered(key: ClaimKey) -> Event:
    """Return the receipt of a delivery that the gateway took."""
    return _event(Kind.DELIVERED, key)


def given_up(key: ClaimKey) -> Event:
    """Return the end of a delivery that the gateway did not take."""
    return _event(Kind.EXPIRE, key)


_SETTLED: Final = {ClaimState.DELIVERED: delivered, ClaimState.UNDELIVERABLE: given_up}
