"""Deliveries by HTTP POST, each with the `Idempotency-Key` of draft-ietf-httpapi-idempotency-key-header-07.

Every call has a connection of its own: an answer that a server sends twice, or late, must never be read as the answer
to the next call, for it would tick a message that nobody got.
"""

import json
import socket
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from threading import Timer
from time import monotonic, time
from typing import Final
from uuid import UUID

from urllib3 import HTTPConnectionPool, HTTPResponse, HTTPSConnectionPool, PoolManager, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.util import Url, parse_url

from consumers.claims.contract import Answer, CallOutcome
from consumers.claims.settings import WebhookSettings
from schemas.identity import text_of
from schemas.records import Delivery

_AGAIN: Final = frozenset({401, 403, 404, 407, 408, 409, 421, 423, 424, 425, 429})
"""Refusals that time or someone's hand may end: a gateway that is being set up, or has the first call under way."""


class _Connection(HTTPConnection):
    """Cuts a connection off when the call's whole time is over, however slowly its server speaks."""

    total_s: float
    _timer: Timer | None = None
    _over = False

    def _begin(self) -> None:
        self._timer = Timer(self.total_s, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def _cut(self) -> None:
        self._over = True
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)

    def _in_time(self) -> None:
        """Refuse what came of a call that was cut off: half an answer is read as a whole one."""
        if self._over:
            raise TimeoutError("the call's time is over")

    def connect(self) -> None:
        self._begin()
        super().connect()
        self._in_time()

    def getresponse(self) -> HTTPResponse:  # type: ignore[override]
        answer = super().getresponse()
        try:
            self._in_time()
        except TimeoutError:
            answer.close()
            raise
        return answer

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().close()


class _SecureConnection(_Connection, HTTPSConnection):
    """The same over TLS: `super()` leads to urllib3's HTTPSConnection here."""


def _pools(total_s: float) -> dict[str, type[HTTPConnectionPool]]:
    plain = type("_TimedPlain", (_Connection,), {"total_s": total_s})
    secure = type("_TimedSecure", (_SecureConnection,), {"total_s": total_s})
    return {
        "http": type("_Pool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("_SecurePool", (HTTPSConnectionPool,), {"ConnectionCls": secure}),
    }


class Webhook:
    """`Handler` that posts."""

    def __init__(self, settings: WebhookSettings, *, now_s: Callable[[], float] = time) -> None:
        self._url: Url = parse_url(settings.url)
        self._timeout_s = settings.timeout_s
        self._authorization = settings.authorization
        self._now_s = now_s
        self._manager = PoolManager(
            num_pools=1, maxsize=settings.calls_in_flight_max, block=False, timeout=Timeout(settings.timeout_s)
        )
        self._manager.pool_classes_by_scheme = _pools(settings.timeout_s)

    def __call__(self, delivery: Delivery, key: UUID, attempt: int) -> Answer:
        """Post a delivery; each attempt's body and key are the same."""
        start = monotonic()
        try:
            response = self._manager.request(
                "POST",
                self._url.url,
                body=body_of(delivery),
                headers=self._headers(key, attempt),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except (HTTPError, OSError, ValueError) as error:
            if monotonic() - start >= self._timeout_s:
                return Answer(CallOutcome.AGAIN, f"no answer within {self._timeout_s:g} s")
            return Answer(CallOutcome.AGAIN, f"no answer: {_why(error)}")
        # The status is the answer; a text that may never end is not waited for.
        response.close()
        return self._answer(response.status, response.headers.get("Retry-After"))

    def _headers(self, key: UUID, attempt: int) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Connection": "close",
            "User-Agent": "twotick",
            "Idempotency-Key": f'"{key}"',
            "Twotick-Attempt": str(attempt),
        }
        return {**headers, "Authorization": self._authorization} if self._authorization else headers

    def _answer(self, status: int, retry_after: str | None) -> Answer:
        detail = f"status {status}"
        if 200 <= status < 300:
            return Answer(CallOutcome.DONE, detail)
        if 400 <= status < 500 and status not in _AGAIN:
            return Answer(CallOutcome.NEVER, detail)
        return Answer(CallOutcome.AGAIN, detail, seconds_of(retry_after, self._now_s()))


def _why(error: Exception) -> str:
    """Return the system's word, such as "Connection refused", else the kind of error: a text could name the address."""
    return getattr(error.__cause__, "strerror", None) or type(error).__name__


def seconds_of(retry_after: str | None, now_s: float) -> float | None:
    """Return what a Retry-After field asks for (RFC 9110, section 10.2.3): seconds, or a date; None for neither."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - now_s)
    except (ValueError, OverflowError):
        return None


def body_of(delivery: Delivery) -> bytes:
    """Return the JSON that is posted: the same for every attempt, as the key demands."""
    content: dict[str, object] = {
        "message_id": text_of(delivery.message_id),
        "conversation_id": delivery.conversation_id,
        "sender": delivery.sender,
        "recipient": delivery.user,
        "recipients": delivery.recipients,
        "sent_at": delivery.sent_at,
        "deliver_by": delivery.deliver_by,
        "content_type": delivery.content_type or "text/plain",
        "body": b64encode(delivery.body).decode(),
    }
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
