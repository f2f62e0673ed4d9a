"""What is refused before anything is written."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from producers.checks import Limits, Outgoing, check, user_id
from producers.errors import InvalidMessageError


def checked(**values):
    return check(Outgoing(**{"to": "bob", "body": "hi", **values}), "alice", Limits())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"to": ""}, "empty"),  # case K18
        ({"to": []}, "no recipient"),
        ({"to": "x" * 129}, "129 bytes"),
        ({"to": "bob\n"}, "cannot be printed"),
        ({"to": ["bob", "bob"], "conversation": "c"}, "named twice"),
        ({"to": ["bob", "carol"]}, "names no conversation"),
        ({"to": ["alice", "bob"], "conversation": "c"}, "sender is among"),
        ({"to": [f"u{n}" for n in range(257)], "conversation": "c"}, "257 recipients"),
        ({"to": 7}, "to is int"),
        ({"to": [7], "conversation": "c"}, "not text"),
        ({"to": "b\ud800b"}, "lone surrogate"),
        ({"conversation": "x" * 801}, "801 bytes"),
        ({"conversation": None}, "not text"),
        ({"body": "a\udc80b"}, "lone surrogate"),
        ({"body": "x" * (256 * 1024 + 1)}, "262145 bytes"),
        ({"body": "é" * (128 * 1024 + 1)}, "bytes"),
        ({"body": 3}, "body is int"),
        ({"body": None}, "body is NoneType"),  # case A6
        ({"content_type": "text/\x1b[2J"}, "no media type"),
        ({"content_type": 5}, "content_type is int"),
        ({"expires_at": datetime(2030, 1, 1)}, "no time zone"),  # noqa: DTZ001 # case A7
        ({"expires_at": "2030-01-01"}, "expires_at is str"),
        ({"expires_at": datetime(1960, 1, 1, tzinfo=UTC)}, "before 1970"),
        ({"expires_at": datetime(2030, 1, 1, tzinfo=UTC), "expires_in_s": 1}, "both"),
        ({"expires_in_s": 0}, "above 0"),
        ({"expires_in_s": float("nan")}, "above 0"),
        ({"expires_in_s": float("inf")}, "above 0"),
        ({"expires_in_s": 2**63}, "above 0"),  # case A8
        ({"expires_in_s": True}, "above 0"),
        ({"delivery_timeout_s": 2**31}, "whole number"),  # case A8
        ({"delivery_timeout_s": 2**63}, "whole number"),  # case A8
        ({"delivery_timeout_s": -1}, "whole number"),
        ({"delivery_timeout_s": 1.5}, "whole number"),
        ({"delivery_timeout_s": True}, "whole number"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_its_name(values, words):
    with pytest.raises(InvalidMessageError, match=words):
        checked(**values)


def test_a_record_must_fit_with_its_recipients():
    limits = Limits(body_bytes_max=990_000)
    to = [f"{n:03}" + "u" * 120 for n in range(200)]
    with pytest.raises(InvalidMessageError, match="one record holds"):
        check(Outgoing(to=to, body="x" * 985_000, conversation="c"), "alice", limits)
    assert len(check(Outgoing(to=to[:1], body="x" * 985_000), "alice", limits).body) == 985_000


@pytest.mark.parametrize("size", [0, 1_000_000])
def test_the_limit_itself_must_leave_room_below_the_brokers(size):
    with pytest.raises(ValueError, match="body_bytes_max"):
        Limits(body_bytes_max=size)


def test_what_is_fine_is_taken_as_it_is():
    found = checked(body="hé", expires_in_s=1.5, delivery_timeout_s=60)
    assert found.recipients == ("bob",)
    assert found.conversation_id == "direct:alice+bob"
    assert found.body == "hé".encode()
    assert (found.expires_in_ms, found.expires_at_ms, found.delivery_timeout_s) == (1500, 0, 60)
    assert checked(body=b"\xff").content_type == "application/octet-stream"
    assert checked(body=b"\xff", content_type="image/png").content_type == "image/png"


def test_an_aware_moment_is_the_same_in_every_zone():  # case A7
    there = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert checked(expires_at=there).expires_at_ms == checked(expires_at=there.astimezone(UTC)).expires_at_ms


@pytest.mark.parametrize("value", ["", None, 5, "a\tb", "x" * 129, " bob", "bob ", "\u3000bob"])
def test_a_bad_user_is_no_client(value):
    with pytest.raises(InvalidMessageError):
        user_id(value, "the user id")


def test_ids_that_look_like_another_are_refused_wherever_they_stand():
    for wrong in ({"to": " bob"}, {"to": ["bob", "carol "]}, {"conversation": " c"}):
        with pytest.raises(InvalidMessageError, match="begins or ends with a blank") as refused:
            checked(**wrong)
        assert refused.value.hint


def test_every_refusal_says_what_to_do():
    with pytest.raises(InvalidMessageError, match="delivery_timeout_s is -1") as refused:
        checked(delivery_timeout_s=-1)
    assert refused.value.hint
