"""The webhook against a real HTTP server that does everything a gateway does wrong."""

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from uuid import UUID

import pytest

from consumers.claims.contract import CallOutcome, ClaimKey
from consumers.claims.settings import WebhookSettings
from consumers.claims.webhook import Webhook, seconds_of
from consumers.logs import set_level
from schemas.identity import text_of, uuid7
from schemas.records import Delivery
from tests.gateway import Gateway, running

MESSAGE = uuid7(1_800_000_000_000, 7)
DELIVERY = Delivery("bot:1", "c", MESSAGE, "ann", ("bot:1", "ben"), b"\x00hi", "", 5, 6, attempt=3)
KEY = ClaimKey.of(DELIVERY).idempotency_key()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running(Gateway()) as gateway:
        yield gateway


def webhook(gateway: Gateway, timeout_s: float = 1.0, **more) -> Webhook:
    return Webhook(WebhookSettings(url=gateway.url, timeout_s=timeout_s, claim_ttl_s=30, **more))


def test_a_call_tells_all_of_the_delivery_and_is_the_same_each_time(gateway: Gateway) -> None:
    post = webhook(gateway, authorization="Bearer x")
    assert [post(DELIVERY._replace(attempt=n), KEY, n).outcome for n in (1, 2)] == [CallOutcome.DONE] * 2
    first, second = gateway.calls
    assert first.body == second.body
    assert first.body == {
        "message_id": text_of(MESSAGE),
        "conversation_id": "c",
        "sender": "ann",
        "recipient": "bot:1",
        "recipients": ["bot:1", "ben"],
        "sent_at": 5,
        "deliver_by": 6,
        "content_type": "text/plain",
        "body": "AGhp",
    }
    assert first.key == second.key == f'"{KEY}"'
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.headers["Authorization"] == "Bearer x"
    assert gateway.effects == [f'"{KEY}"']


@pytest.mark.parametrize(
    ("answer", "outcome", "detail"),
    [
        ("200", CallOutcome.DONE, "status 200"),
        ("202", CallOutcome.DONE, "status 202"),
        ("500", CallOutcome.AGAIN, "status 500"),
        ("503", CallOutcome.AGAIN, "status 503"),
        ("429", CallOutcome.AGAIN, "status 429"),
        ("409", CallOutcome.AGAIN, "status 409"),  # the first call with this key is still under way
        ("401", CallOutcome.AGAIN, "status 401"),
        ("307", CallOutcome.AGAIN, "status 307"),  # not followed
        ("400", CallOutcome.NEVER, "status 400"),
        ("422", CallOutcome.NEVER, "status 422"),
        ("close", CallOutcome.AGAIN, "no answer: ProtocolError"),
    ],
)
def test_what_each_answer_means(gateway: Gateway, answer: str, outcome: CallOutcome, detail: str) -> None:
    gateway.plan = [answer]
    told = webhook(gateway)(DELIVERY, KEY, 1)
    assert (told.outcome, told.detail) == (outcome, detail)
    assert len(gateway.calls) == 1


@pytest.mark.parametrize("answer", ["stall", "drip"])
def test_a_call_ends_in_its_time(gateway: Gateway, answer: str) -> None:
    gateway.plan = [answer]
    begun = time.monotonic()
    told = webhook(gateway, timeout_s=0.5)(DELIVERY, KEY, 1)
    assert (told.outcome, told.detail) == (CallOutcome.AGAIN, "no answer within 0.5 s")
    assert time.monotonic() - begun < 5


def test_a_gateway_that_is_not_there_is_told_in_the_systems_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/s3cret"
    told = Webhook(WebhookSettings(url=url, timeout_s=5))(DELIVERY, KEY, 1)
    assert (told.outcome, told.detail) == (CallOutcome.AGAIN, "no answer: Connection refused")


def test_a_handshake_without_end_ends_in_the_calls_time() -> None:
    """A byte of TLS at a time keeps each read within its own time-out."""
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        line, _ = listening.accept()
        with line, suppress(OSError):
            line.sendall(b"\x16\x03\x03\x40\x00")
            while not over.wait(0.05):
                line.sendall(b"\x02")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,), daemon=True)
        thread.start()
        # However long the test waits, it ends.
        stop = threading.Timer(20, over.set)
        stop.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        begun = time.monotonic()
        told = Webhook(WebhookSettings(url=url, timeout_s=0.5))(DELIVERY, KEY, 1)
        took_s = time.monotonic() - begun
        stop.cancel()
        over.set()
        thread.join()
    assert told.outcome is CallOutcome.AGAIN
    assert took_s < 5


def test_an_answer_that_comes_twice_is_not_the_next_calls(gateway: Gateway) -> None:
    gateway.plan = ["twice", "stall"]
    post = webhook(gateway, timeout_s=0.5)
    assert post(DELIVERY, KEY, 1).outcome is CallOutcome.DONE
    told = post(DELIVERY, KEY, 2)
    assert (told.outcome, told.detail.startswith("no answer")) == (CallOutcome.AGAIN, True)


def test_no_log_tells_the_gateways_address_or_key(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """At any level: urllib3 by itself tells of each call where it goes."""
    set_level("debug")
    try:
        webhook(gateway, authorization="Bearer s3cret")(DELIVERY, KEY, 1)
    finally:
        set_level("warning")
    assert len(gateway.calls) == 1
    assert "/messages" not in caplog.text
    assert "s3cret" not in caplog.text


def test_nobody_there_is_a_call_to_be_made_again() -> None:
    with running(Gateway()) as gone:
        pass
    assert webhook(gone)(DELIVERY, KEY, 1).outcome is CallOutcome.AGAIN


def test_retry_after_is_told(gateway: Gateway) -> None:
    gateway.plan, gateway.retry_after = ["503"], "7"
    assert webhook(gateway)(DELIVERY, KEY, 1).retry_after_s == 7
    assert seconds_of("Wed, 21 Oct 2015 07:28:30 GMT", 1445412480) == 30
    assert seconds_of("Wed, 21 Oct 2015 07:28:30 GMT", 2e9) == 0
    assert [seconds_of(text, 0) for text in (None, "soon", "-3", "\u0661")] == [None] * 4


def test_keys_are_one_for_each_recipient_and_message() -> None:
    keys = {
        ClaimKey(conversation, message, user).idempotency_key()
        for conversation in ("c", "d")
        for message in (MESSAGE, uuid7(1, 1))
        for user in ("bot:1", "bot:2")
    }
    assert len(keys) == 8
    assert ClaimKey.of(DELIVERY._replace(attempt=9)).idempotency_key() == KEY == UUID(str(KEY))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"url": "ftp://x"}, "http://"),
        ({"url": "https://"}, "http://"),
        ({"url": "http://x:99999/"}, "[Pp]ort"),
        ({"url": "http://x/a b"}, "spaces"),
        ({"url": "http://x/\n"}, "spaces"),
        ({"url": "http://x/\u00e9"}, "ASCII"),
        ({"url": "http://ann:s3cret@x/"}, "password$"),
        ({"authorization": "Bearer a\nb"}, "one line"),
        ({"authorization": "Bearer \u20ac"}, "ASCII"),
        ({"first_wait_s": math.inf}, "from 0"),
        ({"wait_s_max": math.nan}, "from 0"),
        ({"timeout_s": math.nan}, "more than 0"),
        ({"attempts_max": 0}, "at least 1"),
        ({"timeout_s": 20.0}, "at least twice"),
    ],
)
def test_settings_that_cannot_work_are_refused(changed: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        WebhookSettings(**changed)  # type: ignore[arg-type]
