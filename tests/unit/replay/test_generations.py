"""A log whose partition count changed, or whose topic was made anew, is folded again as it was folded then."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from consumers.intake import Intake
from consumers.owner import PartitionOwner
from consumers.partition_rows import Takeover
from consumers.replay import run as running
from consumers.replay.comparing import Comparison, Difference
from consumers.replay.control import Control
from consumers.replay.progress_file import Asked, Progress
from consumers.replay.run import Source, compare, reaches, rebuild
from consumers.replay.spans import Extent, Span, Wish, eras_of, spans_of
from consumers.rows import Owner
from consumers.settings import WorkerSettings
from consumers.stores.contract import TopicRecord
from consumers.stores.sqlite import SqliteStore
from schemas.codec import PLAIN
from schemas.partitioner import partition_of
from schemas.records import Event
from schemas.topics import EVENTS
from tests.unit.consumers.world import START_MS, event, send

SETTINGS = WorkerSettings()
MOVES = "c14"
"""A conversation that is in partition 1 of 2, and in partition 0 of 5."""
CONVERSATIONS = [f"c{number}" for number in range(12)]


@dataclass
class MadeLog:
    """A topic in memory, as `consumers.replay.log.Log` tells it."""

    partitions: int
    clock_ms: int = START_MS
    records: dict[int, list[Any]] = field(default_factory=dict)

    def append(self, made: Event) -> None:
        """Append an event where its conversation belongs now."""
        key = made.conversation_id.encode()
        number = partition_of(key, self.partitions)
        self.clock_ms += 7
        records = self.records.setdefault(number, [])
        where, at = (len(records), self.clock_ms)
        records.append(
            SimpleNamespace(
                partition=lambda: number,
                offset=lambda: where,
                timestamp=lambda: (2, at),
                key=lambda: key,
                value=lambda: PLAIN.encode(made),
            )
        )

    def ends(self, partitions: int) -> tuple[int, ...]:
        """Return where each partition ends."""
        return tuple(len(self.records.get(number, ())) for number in range(partitions))

    def batches(self, spans: Sequence[Span], size: int) -> Iterator[dict[int, list[Any]]]:
        """Yield records by partition."""
        for span in spans:
            for start in range(span.start, span.end, size):
                yield {span.partition: self.records[span.partition][start : min(start + size, span.end)]}

    def spans(self, **wish: Any) -> tuple[Span, ...]:
        """Return what a replay reads of it."""
        extents = [Extent(number, 0, end) for number, end in enumerate(self.ends(self.partitions))]
        return tuple(spans_of(Wish(**wish), extents))


def in_conversation(made: Event, conversation_id: str) -> Event:
    return made._replace(conversation_id=conversation_id)


def first_part() -> list[Event]:
    """Messages in all conversations, some of them received, a block."""
    sent = [in_conversation(send(number), CONVERSATIONS[number % 12]) for number in range(48)]
    received = [in_conversation(event("DELIVERED", n, "bob"), CONVERSATIONS[n % 12]) for n in range(0, 48, 3)]
    return [*sent, *received, in_conversation(event("BLOCK", 99, "bob", subject="alice"), "c1")]


def second_part() -> list[Event]:
    """Receipts of old messages, old messages again, new ones, one of them blocked from before."""
    read = [in_conversation(event("READ", n, "bob"), CONVERSATIONS[n % 12]) for n in range(0, 48, 2)]
    again = [in_conversation(send(n), CONVERSATIONS[n % 12]) for n in range(0, 48, 5)]
    new = [in_conversation(send(n), CONVERSATIONS[n % 12]) for n in range(60, 90)]
    late = [in_conversation(event("DELIVERED", n, "bob"), CONVERSATIONS[n % 12]) for n in range(60, 90, 4)]
    mixed = [*read, *again, *new]
    Random(3).shuffle(mixed)
    return [*mixed, *late]


def worked_off(
    store: SqliteStore, log: MadeLog, generation: int, starts: Sequence[int], ends: Sequence[int] = ()
) -> None:
    """Fold what is left of the log as workers do, up to `ends` where they are given."""
    intake = Intake(PLAIN.decode, 100_000)
    for number, found in log.records.items():
        records = found[: ends[number]] if ends else found
        start = starts[number] if number < len(starts) else 0
        owner = PartitionOwner(
            SETTINGS.owner_settings(log.partitions),
            Takeover(
                number,
                generation,
                Owner(generation, "n"),
                start,
                start,
                from_the_start=generation == 1,
                spilled_to=0,
                covers_from=0 if generation == 1 else len(records),
            ),
        )
        for at in range(start, len(records), 9):
            entries = [
                intake.admit(each.offset(), each.timestamp()[1], each.key(), each.value())
                for each in records[at : at + 9]
            ]
            needs = owner.needs(entries)
            work = owner.fold(entries, store.read(needs.messages, needs.conversations), START_MS)
            answers: list[object] = []
            store.write(owner.owner, work.message_writes(), work.conversation_writes(), answers.append)
            while not answers:
                store.ping()
            assert answers == [None]
            owner.durable()
            owner.finished(work)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore.open(tmp_path / "live.sqlite")
    yield store
    store.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore.open(tmp_path / "rebuilt.sqlite")
    yield store
    store.close()


@pytest.fixture
def repartitioned(live: SqliteStore) -> tuple[MadeLog, TopicRecord]:
    """Give a log of two generations that `live` is folded from."""
    log = MadeLog(2)
    for made in first_part():
        log.append(made)
    # What is left of partition 0 is older than what is done of partition 1, some of which will be in partition 0 then.
    unfinished = log.ends(2)[0] - 3
    log.clock_ms += 30_000
    moved = in_conversation(send(200, at_ms=log.clock_ms), MOVES)
    log.append(moved)
    ends = (unfinished, log.ends(2)[1])
    worked_off(live, log, 1, (), ends)
    log.partitions = 5
    log.clock_ms += 60_000
    received = in_conversation(event("DELIVERED", 200, "bob", at_ms=log.clock_ms - 90_000), MOVES)
    for made in [moved, received._replace(message_id=moved.message_id), *second_part()]:
        log.append(made)
    worked_off(live, log, 2, ends)
    return log, TopicRecord(EVENTS, "id", 5, 2, (ends,))


@pytest.fixture
def made_anew(live: SqliteStore) -> tuple[MadeLog, TopicRecord]:
    """Give the log of a second topic of that name; the first one is gone."""
    gone = MadeLog(2)
    for made in first_part():
        gone.append(made)
    worked_off(live, gone, 1, ())
    log = MadeLog(2, gone.clock_ms + 60_000)
    for made in second_part():
        log.append(made)
    worked_off(live, log, 2, ())
    return log, TopicRecord(EVENTS, "another id", 2, 2)


def replayed(
    log: MadeLog,
    topic: TopicRecord,
    target: SqliteStore,
    live: SqliteStore,
    control: Control | None = None,
    **wish: Any,
) -> tuple[Comparison, list[Difference], bool]:
    control = control or Control()
    asked = Asked("a store", "", topic.topic_id, topic.generation)
    begun = (control.state and Progress.load(control.state, asked)) or Progress(asked, log.spans(**wish))
    source = Source(log, begun, Wish(**wish), Intake(PLAIN.decode, 100_000), control)  # type: ignore[arg-type]
    outcome = rebuild(source, target=target, live=live, topic=topic, settings=SETTINGS)
    comparison = Comparison(target, live, reaches(outcome, topic.generation, {}), topic.partitions)
    found = list(compare(comparison, outcome, Wish(**wish), mend=False)) if outcome.complete else []
    return comparison, found, outcome.is_whole


def rows(store: SqliteStore) -> dict[tuple[str, bytes], object]:
    """Return all rows but for who wrote them."""
    messages = {
        (each.row.conversation_id, each.row.message_id): (
            each.row,
            each.content,
            [step for step, _ in each.transitions],
        )
        for each in store.all_messages()
    }
    return messages | {(each.conversation_id, b""): each._replace(sequences=()) for each in store.all_conversations()}


def test_eras_are_cut_where_the_generation_rose():
    topic = TopicRecord(EVENTS, "id", 3, 4, ((5,), (8, 2)))
    spans = [Span(0, 3, 20, is_whole=False), Span(1, 0, 9, is_whole=True), Span(2, 0, 4, is_whole=True)]
    assert [(era.generation, era.partitions, [tuple(span) for span in era.spans]) for era in eras_of(topic, spans)] == [
        (2, 1, [(0, 3, 5, False), (1, 0, 0, True), (2, 0, 0, True)]),
        (3, 2, [(0, 5, 8, True), (1, 0, 2, True), (2, 0, 0, True)]),
        (4, 3, [(0, 8, 20, True), (1, 2, 9, True), (2, 0, 4, True)]),
    ]
    assert [era.generation for era in eras_of(topic, [Span(0, 19, 20, is_whole=False)])] == [4]


def test_a_log_that_was_repartitioned_gives_the_same_rows(repartitioned, live, target):
    log, topic = repartitioned
    comparison, found, is_whole = replayed(log, topic, target, live)
    assert (found, is_whole) == ([], True)
    assert set(comparison.checked.messages) == set(comparison.checked.conversations) == {"same"}
    assert rows(target) == rows(live)
    assert {each.row.applied[0] for each in target.all_messages()} == {1, 2}


@pytest.mark.parametrize("number", range(5))
def test_what_has_moved_out_of_the_partition_asked_for_is_passed_over(repartitioned, live, target, number):
    """Its later events are in other partitions, which are not replayed: nothing can be said of it."""
    log, topic = repartitioned
    comparison, found, _ = replayed(log, topic, target, live, partitions=frozenset({number}))
    assert not found
    here = [each for each in target.all_messages() if partition_of(each.row.conversation_id.encode(), 5) == number]
    assert comparison.checked.messages == {"same": len(here)}


@pytest.mark.parametrize("stops_after", [1, 4, 9])
def test_interrupted_in_any_generation_it_goes_on(repartitioned, live, target, stops_after, tmp_path, monkeypatch):
    log, topic = repartitioned
    monkeypatch.setattr(running, "BATCH_RECORDS", 11)
    left = [stops_after]

    def stopping() -> bool:
        left[0] -= 1
        return left[0] == 0

    state = tmp_path / "state"
    replayed(log, topic, target, live, Control(state=state, stopping=stopping))
    assert rows(target) != rows(live)
    _, found, _ = replayed(log, topic, target, live, Control(state=state))
    assert not found
    assert rows(target) == rows(live)


def test_a_topic_made_anew_is_folded_on_what_was_there_before(made_anew, live, target):
    log, topic = made_anew
    comparison, found, is_whole = replayed(log, topic, target, live)
    assert (found, is_whole) == ([], False)
    assert set(comparison.checked.messages) == {"same"}
    assert comparison.checked.messages["same"] >= 30 + 24
    ours, theirs = rows(target), rows(live)
    assert all(theirs[key] == row for key, row in ours.items() if key[1])
    assert len(theirs) > len(ours)


@pytest.mark.parametrize("from_offset", [3, 20])
def test_from_the_middle_of_a_later_generation(made_anew, live, target, from_offset):
    log, topic = made_anew
    comparison, found, _ = replayed(log, topic, target, live, from_offset=from_offset)
    assert not found
    assert comparison.checked.messages["same"] > 5


@pytest.mark.parametrize("which", ["repartitioned", "made_anew"])
@pytest.mark.parametrize("number", [0, 4, 60])
def test_what_is_wrong_or_gone_is_found_whenever_it_was_made(which, number, live, target, request, tmp_path):
    log, topic = request.getfixturevalue(which)
    broken = send(number).message_id
    with live._transaction() as connection:
        connection.execute("UPDATE transitions SET log_offset = log_offset + 1 WHERE message_id = ?", (broken,))
    _, found, _ = replayed(log, topic, target, live)
    assert [(each.kind, each.message_id) for each in found if each.message_id] == [("differs", broken)] or (
        which == "made_anew" and number < 60  # what was before is taken from the live store, right or wrong
    )
    again = SqliteStore.open(tmp_path / "again.sqlite")
    with live._transaction() as connection:
        for table in ("messages", "contents", "transitions"):
            connection.execute(f"DELETE FROM {table} WHERE message_id = ?", (send(60).message_id,))
    _, found, _ = replayed(log, topic, again, live)
    again.close()
    assert ("missing", send(60).message_id) in [(each.kind, each.message_id) for each in found]
