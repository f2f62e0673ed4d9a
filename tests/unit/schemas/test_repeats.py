"""Of log lines that say the same one is told in 30 s, with how many were held back."""

import logging

import pytest

from schemas.repeats import Repeats, kind_of

REFUSED = "Connect to ipv4#127.0.0.1:9092 failed: Connection refused (after {}ms in state CONNECT)"


def line(text: str, at: float, level: int = logging.ERROR) -> logging.LogRecord:
    record = logging.makeLogRecord({"msg": "%s", "args": (text,), "levelno": level})
    record.created = at
    return record


def test_the_first_is_told_at_once_and_then_one_every_30_s_with_how_many_were_held_back() -> None:
    repeats = Repeats()
    told = []
    for number in range(701):
        client = f"FAIL [rdkafka#producer-{number % 2}] [thrd:127.0.0.1:9092/bootstrap]: 127.0.0.1:9092/bootstrap: "
        record = line(client + REFUSED.format(number), 1_000 + number / 10)
        if repeats(record):
            told.append((record.created, record.getMessage().partition("; ")[2]))
    held = "299 more lines like this were held back"
    assert told == [(1_000, ""), (1_030, held), (1_060, held)]


def test_an_error_and_the_librarys_own_line_about_it_are_one_kind() -> None:
    text = "127.0.0.1:9092/bootstrap: " + REFUSED.format(0)
    logged = f"FAIL [rdkafka#consumer-1] [thrd:127.0.0.1:9092/bootstrap]: {text}"
    assert kind_of(text) == kind_of(logged) == kind_of(f"[producer]: {text}")


@pytest.mark.parametrize(
    "text",
    [
        "FAIL [rdkafka#producer-1] [thrd:h:1/1]: h:1/1: Disconnected (after 3000ms in state UP)",
        "FAIL [rdkafka#producer-1] [thrd:h:1/1]: h:1/1: SSL handshake failed: no (after 3ms in state CONNECT)",
        "[consumer]: 1/1 brokers are down",
    ],
)
def test_another_kind_is_told_at_once(text: str) -> None:
    repeats = Repeats()
    assert repeats(line("h:1/1: " + REFUSED.format(1), 0))
    assert repeats(line(text, 1))
    assert not repeats(line(text, 2))


def test_what_is_no_warning_and_what_comes_after_the_clock_was_set_back_is_told() -> None:
    repeats = Repeats()
    assert all(repeats(line("UPDATE [c] [thrd:main]: metadata", 1, logging.INFO)) for _ in range(3))
    assert repeats(line("Disconnected", 1_000))
    assert repeats(line("Disconnected", 10))


def test_it_keeps_a_bounded_number_of_kinds() -> None:
    repeats = Repeats()
    for number in range(1_000):
        kind = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        assert repeats(line(kind, 1))
    assert len(repeats._told) <= 100
