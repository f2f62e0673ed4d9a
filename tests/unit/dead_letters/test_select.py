"""Which dead letters are meant, how they are shown, and with which headers they go back."""

from types import SimpleNamespace

import pytest

from consumers.cli.letters import planned
from consumers.cli.times import time_text
from consumers.dead_letters import ATTEMPTS_HEADER, attempts_before, dead_letter
from consumers.dead_letters_select import Letter, Wanted, original_of, place_of, redrives, select
from consumers.dead_letters_show import fields, hex_lines, row, whole
from consumers.rows import Owner
from consumers.stores.contract import DeadLetterMark
from consumers.work import Refusal
from schemas.codec import PLAIN
from schemas.lifecycle import Reason
from schemas.records import DeadLetter
from schemas.topics import EVENTS
from tests.unit.consumers.world import send


def letter(offset: int, reason: str = "UNDECODABLE", **changes) -> DeadLetter:
    made = DeadLetter(EVENTS, 1, offset, 1_000, b"c", b"bad", (("a", b"b"),), reason, "d", 1, 5_000, "n", 1)
    return made._replace(**changes)


def chosen(letters, marks=None, **wanted) -> list[str]:
    return [each.name for each in select(letters, marks or {}, Wanted(**wanted))]


def mark(of: DeadLetter, deed: str = "redriven") -> dict:
    return {place_of(of): DeadLetterMark(*place_of(of), deed, "me", 9_000)}


def test_each_original_stands_once_in_the_order_of_the_log():
    letters = [letter(5), letter(3), letter(5, detail="again"), letter(4, log_partition=0)]
    assert chosen(letters) == ["1:3", "0:4", "1:5"]
    anew = [letter(1, appended_at=2_000), letter(9)]  # the topic was made anew between them
    assert chosen(anew) == ["1:9", "1:1"]


def test_handled_ones_are_hidden_unless_they_are_asked_for():
    letters = [letter(1), letter(2)]
    assert chosen(letters, mark(letters[0])) == ["1:2"]
    assert chosen(letters, mark(letters[0]), handled=True) == ["1:1", "1:2"]
    anew = letter(1, appended_at=2_000)  # the topic was made anew: another record at the same offset
    assert chosen([anew], mark(letters[0])) == ["1:1"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"reasons": frozenset({"INVALID"})}, ["1:2"]),
        ({"partitions": frozenset({2})}, ["2:3"]),
        ({"conversations": frozenset({"d"})}, ["2:3"]),
        ({"names": frozenset({"1:1", "9:9"})}, ["1:1"]),
        ({"from_ms": 6_000}, ["1:2"]),
        ({"to_ms": 5_001}, ["1:1", "2:3"]),
    ],
)
def test_a_choice_narrows(wanted, expected):
    letters = [letter(1), letter(2, "INVALID", failed_at=6_000), letter(3, log_partition=2, key=b"d")]
    assert chosen(letters, **wanted) == expected


def test_what_failed_too_often_or_is_parked_is_left_out():
    found = [Letter(letter(1, attempts=5), None), Letter(letter(2, "PARKED"), None), Letter(letter(3), None)]
    plan = redrives(found, attempts_max=5, forced=False, parked=frozenset({"c"}))
    assert [bool(each.obstacle) for each in plan] == [True, True, False]
    plan = redrives(found, attempts_max=5, forced=True, parked=frozenset())
    assert not any(each.obstacle for each in plan)
    strange = [Letter(letter(1, topic="other"), None)]
    assert redrives(strange, attempts_max=5, forced=True, parked=frozenset())[0].obstacle


@pytest.mark.parametrize("deed", ["redriven", "discarded"])
def test_what_was_dealt_with_is_redriven_again_by_force_only_and_is_shown_to_be(deed):
    done = letter(1)
    found = select([done], mark(done, deed), Wanted(names=frozenset({"1:1"}), handled=True))
    (plan,) = redrives(found, attempts_max=5, forced=False, parked=frozenset())
    assert planned(plan, "redrive")["what"] == f"left out: {deed} by me: --force"
    (plan,) = redrives(found, attempts_max=5, forced=True, parked=frozenset())
    assert (plan.obstacle, planned(plan, "redrive")["what"]) == ("", f"redrive again, {deed} by me before")


def test_attempts_go_along_and_parking_is_none():
    assert original_of(letter(1, attempts=2)).headers == [("a", b"b"), (ATTEMPTS_HEADER, b"2")]
    assert original_of(letter(1, "PARKED")).headers == [("a", b"b")]
    assert original_of(letter(1, "PARKED", attempts=3)).headers == [("a", b"b"), (ATTEMPTS_HEADER, b"2")]


@pytest.mark.parametrize("key", [None, b"", b"c"])
@pytest.mark.parametrize("value", [None, b"", b"bad"])
@pytest.mark.parametrize("header", [None, b"", b"h"])
def test_null_goes_back_as_null_and_empty_as_empty(key, value, header):
    headers = [(ATTEMPTS_HEADER, b"1"), ("a", b"b"), ("n", header)]
    found = SimpleNamespace(**vars(MESSAGE) | {"key": lambda: key, "value": lambda: value, "headers": lambda: headers})
    made = dead_letter(Refusal(7, Reason.UNDECODABLE, ""), found, Owner(1, "n"), 5)
    assert original_of(PLAIN.decode(PLAIN.encode(made))) == (key, value, [*headers[1:], (ATTEMPTS_HEADER, b"2")])
    told = whole(Letter(made, None), PLAIN.decode, str)
    assert told["value_hex"] == (None if value is None else value.hex())
    shown = {each["field"]: each["value"] for each in fields(told, made.value)}
    assert shown.get("value_hex") == ("null" if value is None else None)


def test_a_letter_of_an_older_worker_takes_what_is_empty_for_null():
    assert original_of(letter(1, key=b"", value=b"", attempts=0)) == (None, None, [("a", b"b")])


@pytest.mark.parametrize(
    ("value", "attempts"), [(b"3", 3), (b"-1", 0), (b"1_0", 0), ("٣".encode(), 0), (b"9" * 30, 0), (b"", 0)]
)
def test_a_foreign_attempts_header_is_read_with_care(value, attempts):
    assert attempts_before([("x", b"9"), (ATTEMPTS_HEADER, value)]) == attempts


MESSAGE = SimpleNamespace(
    topic=lambda: EVENTS,
    partition=lambda: 1,
    offset=lambda: 7,
    timestamp=lambda: (2, 1_000),
    key=lambda: b"c",
    value=lambda: b"bad",
    headers=lambda: [("a", b"b"), (ATTEMPTS_HEADER, b"2"), ("n", None)],
)
"""A redriven Kafka message."""


def test_the_worker_carries_the_attempts_on():
    made = dead_letter(Refusal(7, Reason.UNDECODABLE, ""), MESSAGE, Owner(1, "n"), 5)
    assert (made.attempts, made.headers) == (3, (("a", b"b"), ("n", b"")))
    assert (made.empty_parts, made.null_headers) == ((), (1,))


@pytest.mark.parametrize("at_ms", [2**62, -(2**63), 10**15])
def test_a_time_that_no_calendar_has_is_shown_as_its_number(at_ms):
    assert time_text(1_000) == "1970-01-01T00:00:01.000Z"
    assert time_text(at_ms) == str(at_ms)
    assert whole(Letter(letter(1, appended_at=at_ms), None), PLAIN.decode, time_text)["appended_at"] == str(at_ms)


def test_each_of_several_headers_of_one_name_is_shown():
    found = Letter(letter(1, headers=(("a", b"1"), ("b", b""), ("a", b"2")), null_headers=(1,)), None)
    told = whole(found, PLAIN.decode, str)
    assert told["headers"] == [["a", "1"], ["b", None], ["a", "2"]]
    shown = [(each["field"], each["value"]) for each in fields(told, b"")]
    assert [each for each in shown if each[0].startswith("headers.")] == [
        ("headers.a", "1"),
        ("headers.b", "null"),
        ("headers.a", "2"),
    ]


def test_it_is_shown_decoded_beside_its_bytes():
    event = send(3)
    good = Letter(letter(1, "UNKNOWN_MESSAGE", value=PLAIN.encode(event)), None)
    told = whole(good, PLAIN.decode, str)
    assert told["event"]["body"] == "hi"
    assert bytes.fromhex(told["value_hex"]) == good.letter.value
    assert row(good, PLAIN.decode, str)["actor"] == "alice"
    bad = Letter(letter(1, value=b"\x1b[2J" + bytes(range(20))), None)
    shown = {each["field"]: each["value"] for each in fields(whole(bad, PLAIN.decode, str), bad.letter.value)}
    assert shown["value 0x0000"].endswith("  .[2J............")
    assert shown["key_hex"] == "63"
    long = list(fields(whole(bad, PLAIN.decode, str), bytes(5_000)))
    assert long[-1] == {"field": "value ...", "value": "904 bytes more: --output json"}
    assert list(hex_lines(b"")) == []
