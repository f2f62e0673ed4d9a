"""One conversation at half the traffic, or with a recipient who is away, does not hold up the others."""

import random
import sys
from types import FrameType
from typing import Any

from consumers.kafka_clients import consumer_config
from consumers.pending import PendingDeliveries
from consumers.settings import WorkerSettings
from tests.unit.consumers.world import NOTHING, START_MS, entries, owner_of, send

EVENTS = 2_000


def fold_lines(conversations: list[str]) -> int:
    """Return how many lines of code run to fold one message in each of these, in batches of 500."""
    events = [send(n, conversation=name, at_ms=START_MS + n) for n, name in enumerate(conversations)]
    owner = owner_of()
    batch = entries(events, step_ms=1)
    lines = 0

    def count(_frame: FrameType, happening: str, _about: object) -> Any:
        nonlocal lines
        lines += happening == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        for first in range(0, len(batch), 500):
            part = batch[first : first + 500]
            assert owner.needs(part).messages == []
            owner.fold(part, NOTHING, START_MS)
            owner.durable()
    finally:
        sys.settrace(before)
    return lines


# case M7
def test_an_event_of_a_hot_conversation_costs_no_more_than_any_other() -> None:
    chance = random.Random(1)
    spread = [f"c{chance.randrange(400)}" for _ in range(EVENTS)]
    half = ["hot" if n % 2 else name for n, name in enumerate(spread)]
    # Lines and not time, which a busy machine tells wrong. Of about 220 an event; few where the fold is compiled.
    assert fold_lines(half) < fold_lines(spread) + 10 * EVENTS


def test_a_batch_writes_a_hot_conversation_once() -> None:
    owner = owner_of()
    work = owner.fold(entries([send(n, conversation="hot") for n in range(300)]), NOTHING, START_MS)
    assert (len(work.conversation_writes()), len(work.message_writes())) == (1, 300)


def pending_of(hot: int, others: int) -> PendingDeliveries:
    """Return deliveries of one conversation that are all due before those of the others."""
    pending = PendingDeliveries()
    for n in range(hot):
        pending.add(("hot", n.to_bytes(16, "big")), n, START_MS, START_MS + 1)
    for n in range(others):
        pending.add((f"c{n}", n.to_bytes(16, "big")), hot + n, START_MS, START_MS + 2)
    return pending


def test_others_are_redelivered_while_one_has_thousands_due() -> None:
    pending = pending_of(5_000, 40)
    now_ms, seen, rounds = START_MS + 10, set(), 0
    while len(seen) < 40:
        rounds += 1
        taken = pending.due(now_ms, 200)
        assert len(taken) <= 200
        for key, waiting in taken:
            if key[0] != "hot":
                seen.add(key)
            pending.again(key, now_ms + 60_000, waiting.attempt + 1)
        now_ms += 250
    # In the order of their times they would come after 25 rounds.
    assert rounds <= 6


def test_one_that_is_alone_gets_all_and_nothing_is_forgotten() -> None:
    pending = pending_of(1_000, 0)
    assert len(pending.due(START_MS + 10, 200)) == 200
    seen = 200
    for step in range(1, 40):
        seen += len(pending.due(START_MS + 10 + step * 250, 200))
    assert seen == 1_000
    assert len(pending.entries) == 1_000


def test_little_of_a_partition_with_a_backlog_is_fetched_ahead_of_the_others() -> None:
    config = consumer_config({}, WorkerSettings(), "")
    assert config["queued.min.messages"] == 1_000
    assert consumer_config({"queued.min.messages": 9}, WorkerSettings(), "")["queued.min.messages"] == 9
