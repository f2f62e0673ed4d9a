"""The comparison of rows keeps the pace asked for, and tells how far it has got while it goes on."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from consumers.replay import comparing
from consumers.replay.compare import ComparisonResult, Reach
from consumers.replay.comparing import Comparison
from consumers.replay.control import Control, Report
from consumers.replay.pace import Pace
from consumers.replay.run import ReplayOutcome, compare
from consumers.replay.spans import Wish
from consumers.rows import ConversationWrite
from consumers.stores.sqlite import SqliteStore
from tests.contract.made import conversation, made, write

MESSAGES, CONVERSATIONS = 50, 10
EVERYTHING = {0: Reach(2, 1_000, 1_000)}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Give what a replay rebuilt and the live store, which are the same."""
    opened = SqliteStore.open(tmp_path / "rebuilt"), SqliteStore.open(tmp_path / "live")
    for each in opened:
        write(
            each,
            [made("c", number) for number in range(MESSAGES)],
            [ConversationWrite(conversation(f"c{number}")) for number in range(CONVERSATIONS)],
        )
    yield opened
    for each in opened:
        each.close()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the time in seconds, which only a pace's waits move."""
    time = [0.0]

    def wait(seconds: float) -> None:
        time[0] += seconds

    paced = partial(Pace, clock=lambda: time[0], wait=wait)
    monkeypatch.setattr(comparing, "Pace", paced)
    return time


class Bars:
    """What progress bars were told, by name."""

    def __init__(self) -> None:
        self.told: dict[str, list[tuple[int, int | None]]] = {}

    @contextmanager
    def bar(self, what: str) -> Iterator[Report]:
        """Show one at a time: a terminal has only one line for it."""
        assert "" not in self.told
        told = self.told[""] = []
        yield lambda done, total: told.append((done, total))
        self.told[what] = self.told.pop("")


@pytest.mark.parametrize("mend", [False, True])
def test_no_more_rows_a_second_are_compared_than_asked_for(stores, tmp_path, now, mend):
    rebuilt, live = stores
    with closing(sqlite3.connect(tmp_path / "live")) as connection, connection:
        connection.execute("UPDATE contents SET body = x'00'")
    comparison = Comparison(rebuilt, live, EVERYTHING, 1, Control(rate=20))
    found = []
    for each in compare(comparison, ReplayOutcome((), is_whole=True), Wish(), mend=mend):
        found.append(each)
        assert len(found) <= 20 * now[0] + 5, "a quarter of a second's at once"
    assert [each.mended for each in found] == [mend] * MESSAGES
    assert now[0] == pytest.approx((MESSAGES + CONVERSATIONS + MESSAGES) / 20)


def test_each_phase_tells_how_far_it_has_got(stores):
    bars = Bars()
    comparison = Comparison(*stores, EVERYTHING, 1, Control(rate=1e9))
    assert not list(compare(comparison, ReplayOutcome((), is_whole=True), Wish(), mend=False, bar=bars.bar))
    assert bars.told == {
        "comparing messages": [(MESSAGES, MESSAGES)],
        "comparing conversations": [(CONVERSATIONS, CONVERSATIONS)],
        "looking for messages that nobody sent": [(MESSAGES, MESSAGES)],
    }


def test_how_many_there_are_is_left_open_where_a_store_cannot_tell(stores, monkeypatch):
    rebuilt, live = stores
    monkeypatch.setattr(live, "row_counts", lambda: None)
    monkeypatch.setattr(comparing, "PAGE_ROWS", 20)
    bars = Bars()
    comparison = Comparison(rebuilt, live, EVERYTHING, 1)
    list(compare(comparison, ReplayOutcome((), is_whole=True), Wish(), mend=False, bar=bars.bar))
    assert bars.told["comparing messages"] == [(20, 50), (40, 50), (50, 50)]
    assert bars.told["looking for messages that nobody sent"] == [(20, None), (40, None), (50, None)]


def test_it_is_stopped_between_two_looks(stores, now):
    rebuilt, live = stores
    write(rebuilt, [made("c", number) for number in range(MESSAGES, MESSAGES + 2)])
    comparison = Comparison(rebuilt, live, EVERYTHING, 1, Control(rate=40, stopping=lambda: now[0] > 0.5))
    assert not list(compare(comparison, ReplayOutcome((), is_whole=True), Wish(), mend=True))
    assert comparison.checked.messages == {ComparisonResult.SAME: 30}
