"""A replay takes a PARK or a RELEASE as the workers took it, whomever `worker.operators` names where it runs."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from consumers.intake import Entry, Intake
from consumers.replay import commands as judging
from consumers.replay.commands import Account, Command, Commands, OperatorsDifferError, account_of
from consumers.replay.compare import Reach
from consumers.replay.comparing import Comparison
from consumers.replay.run import ReplayOutcome, compare
from consumers.replay.spans import Extent, Wish
from consumers.rows import ConversationWrite, Parking
from consumers.stores.sqlite import SqliteStore
from schemas.codec import PLAIN
from schemas.lifecycle import Reason
from schemas.records import NO_ID, DeadLetter, Event
from schemas.topics import EVENTS
from tests.contract.made import conversation, made, write
from tests.unit.consumers.world import START_MS, event, send

COMMITTED = {0: 10}


def record(of: Event, offset: int) -> Any:
    return SimpleNamespace(
        partition=lambda: 0,
        offset=lambda: offset,
        timestamp=lambda: (2, START_MS + offset),
        key=of.conversation_id.encode,
        value=lambda: PLAIN.encode(of),
    )


def park(actor: str) -> Event:
    return event("PARK", 1, actor)._replace(message_id=NO_ID)


def judged(account: Account, actor: str, offset: int, *operators: str) -> tuple[Entry, Commands]:
    commands = Commands(lambda: account, PLAIN.decode)
    message = record(park(actor), offset)
    intake = Intake(PLAIN.decode, 10_000, operators)
    entry = intake.admit(offset, message.timestamp()[1], message.key(), message.value())
    return commands.as_taken(entry, message), commands


@pytest.mark.parametrize("here", [(), ("ops",)])
def test_what_the_workers_have_committed_is_taken_as_they_took_it(here: tuple[str, ...]):
    entry, commands = judged(Account(frozenset(), COMMITTED, 0), "ops", 5, *here)
    assert entry.event == park("ops")
    assert ("'ops'" in commands.summary()) is not bool(here)
    entry, commands = judged(Account(frozenset({(0, 5, START_MS + 5)}), COMMITTED, 0), "ops", 5, *here)
    assert (entry.event, entry.reason) == (None, Reason.NOT_AN_OPERATOR)
    assert commands.summary() == "1 PARK or RELEASE refused, of 'ops'"
    assert not commands.doubted  # a letter is proof: nobody is kept from mending by a PARK that was refused


@pytest.mark.parametrize(
    ("account", "here", "doubted"),
    [
        (Account(frozenset(), {0: 5}, 0), (), ["c"]),  # not committed yet
        (Account(frozenset(), {0: 5}, 0), ("ops",), ["c"]),
        (Account(frozenset(), COMMITTED, START_MS + 6), (), ["c"]),  # older than the letters that are left
        (Account(frozenset(), COMMITTED, START_MS + 6), ("ops",), []),
        (Account(frozenset(), {}, 0), ("ops",), []),  # a group that never committed
        (Account(frozenset(), {}, 0), (), ["c"]),
    ],
)
def test_where_the_workers_tell_nothing_the_setting_decides(
    account: Account, here: tuple[str, ...], doubted: list[str]
):
    entry, commands = judged(account, "ops", 5, *here)
    assert (entry.event is not None) is bool(here)
    assert list(commands.doubted) == doubted


def test_the_account_is_read_once_there_is_a_command_that_matters():
    reads: list[int] = []
    commands = Commands(lambda: reads.append(1) or Account(), PLAIN.decode, frozenset({"c"}))
    intake = Intake(PLAIN.decode, 10_000)
    for offset, each in enumerate([send(1), park("x")._replace(conversation_id="d"), park("x"), park("y")]):
        message = record(each, offset)
        commands.as_taken(intake.admit(offset, 0, message.key(), message.value()), message)
        assert len(reads) == (offset >= 2)


def letter(offset: int, reason: str) -> Any:
    told = DeadLetter(EVENTS, 0, offset, START_MS + offset, b"c", b"", (), reason, "", 1, START_MS + 50, "n", 1, (), ())
    return SimpleNamespace(value=lambda: PLAIN.encode(told))


@pytest.mark.parametrize(("low", "since_ms"), [(0, 0), (3, START_MS + 50), (9, float("inf"))])
def test_the_account_is_in_the_dead_letters(monkeypatch: pytest.MonkeyPatch, low: int, since_ms: float):
    class Letters:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self):
            return self

        def __exit__(self, *_: object) -> None: ...
        def extents(self, _wish: Wish) -> list[Extent]:
            return [Extent(0, low, 9)]

        def batches(self, spans: Any, _size: int) -> Iterator[dict[int, list[Any]]]:
            strange = SimpleNamespace(value=lambda: b"strange")
            if spans[0].start < spans[0].end:
                yield {0: [strange, letter(3, Reason.NOT_AN_OPERATOR), letter(4, Reason.PARKED)]}

    monkeypatch.setattr(judging, "Log", Letters)
    monkeypatch.setattr(judging, "committed", lambda *_: COMMITTED)
    account = account_of({}, "g", PLAIN, [0])
    assert (account.since_ms, account.committed) == (since_ms, COMMITTED)
    assert account.refused == (frozenset({(0, 3, START_MS + 3)}) if low < 9 else frozenset())


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Give what was rebuilt, and a live store that lacks a message in each of two conversations."""
    opened = SqliteStore.open(tmp_path / "rebuilt"), SqliteStore.open(tmp_path / "live")
    write(opened[0], [made("a", 1), made("c", 2)], [ConversationWrite(conversation("c"))])
    yield opened
    for each in opened:
        each.close()


def compared(stores: tuple[SqliteStore, SqliteStore], commands: Commands) -> list[bool]:
    comparison = Comparison(*stores, {0: Reach(1, 1_000, 1_000)}, 1, commands=commands)
    return [each.mended for each in compare(comparison, ReplayOutcome((), is_whole=True), Wish(), mend=True)]


def test_rows_that_differ_by_a_doubtful_command_are_not_mended_nor_is_anything_before(
    stores: tuple[SqliteStore, SqliteStore],
):
    doubted = Command("c", "PARK", "root@vm", 0, 5, taken=False)
    with pytest.raises(OperatorsDifferError) as raised:
        compared(stores, Commands(Account, PLAIN.decode, doubted=[doubted]))
    assert "PARK by 'root@vm' in 'c' (partition 0, 5)" in raised.value.message
    assert "'root@vm'" in raised.value.hint
    assert raised.value.exit_code == 2
    assert not list(stores[1].all_messages())


def test_a_forged_command_keeps_nobody_from_mending(stores: tuple[SqliteStore, SqliteStore]):
    commands = Commands(Account, PLAIN.decode)
    commands.refused["c"] = Command("c", "PARK", "mallory", 0, 5, taken=False)
    assert compared(stores, commands) == [True, True]
    assert compared(stores, commands) == []


def test_a_command_that_was_refused_and_that_the_live_store_shows_is_doubtful(stores: tuple[SqliteStore, SqliteStore]):
    write(stores[1], [], [ConversationWrite(conversation("c")._replace(parkings=(Parking((1, 5)),)))])
    commands = Commands(Account, PLAIN.decode)
    commands.refused["c"] = Command("c", "PARK", "root@vm", 0, 5, taken=False)
    with pytest.raises(OperatorsDifferError):
        compared(stores, commands)
