"""Random histories of one partition: owners that die at any step leave the same rows, and owe nobody an answer."""

import random

import pytest

from consumers.intake import Entry
from consumers.partition_rows import OwnerSettings
from schemas.lifecycle import State
from schemas.records import Acknowledgement, Delivery
from tests.unit.consumers.world import SMALL, START_MS, Truth, World, event, send


def history(seed: int) -> list[Entry]:
    """A log of a few messages: copies, receipts in any order, cancels, blocks, ids old and young, clocks that jump."""
    rng = random.Random(seed)
    pools = []
    for number in range(rng.randint(3, 8)):
        made_at = START_MS + rng.choice([0, -5_000, -100_000_000])
        conversation = rng.choice(["c", "d"])
        to = rng.choice([("bob",), ("bob", "carol")])
        about = {"at_ms": made_at, "conversation": conversation}
        events = [send(number, to=to, **about)] * rng.choice([1, 1, 2])
        for user in (*to, "mallory"):
            events += [event(kind, number, user, **about) for kind in ("DELIVERED", "READ") if rng.random() < 0.7]
        if rng.random() < 0.2:
            events.append(event("CANCEL", number, "alice", **about))
        if rng.random() < 0.6:
            rng.shuffle(events)
        pools.append(events)
    blocks = [event(kind, n, "bob", subject="alice") for n in range(rng.randint(0, 2)) for kind in ("BLOCK", "UNBLOCK")]
    pools.append([*blocks, *rng.sample(blocks, len(blocks) // 2)])  # copies come after what took them back
    log, clock = [], START_MS
    while any(pools):
        pool = rng.choice([pool for pool in pools if pool])
        clock = max(START_MS - 500, clock + rng.choice([0, 1, 200, 3_000, -200]))
        log.append(Entry(len(log), clock, pool.pop(0)))
    return log


def check(seed: int, messages_max: int) -> None:
    log = history(seed)
    settings = OwnerSettings(partitions=1, messages_max=messages_max, conversations_max=1 if seed % 3 else 10, **SMALL)
    world = World(seed, log, settings)
    world.run(150)
    world.settle()
    truth = Truth.of(log, settings.policy)
    stored = {key: row for key, (_, row) in world.store.messages.items()}
    assert stored == truth.messages
    assert {
        name: row._replace(sequences=()) for name, (_, row) in world.store.conversations.items()
    } == truth.conversations
    for key, row in truth.messages.items():
        assert key in world.store.bodies
        assert sorted(world.store.transitions[key]) == list(range(1, row.version + 1))
    answered = {(each.user, each.event_id) for each in world.inbox if isinstance(each, Acknowledgement)}
    for entry in log:
        assert entry.event is not None
        assert (entry.event.actor, entry.event.event_id) in answered
    for event_id, sender, _ in truth.moves:
        assert (sender, event_id) in answered
    delivered = {(each.user, each.message_id) for each in world.inbox if isinstance(each, Delivery)}
    spilled = {key for bucket in world.store.spilled.values() for key in bucket}
    for key, row in truth.messages.items():
        for user, own in zip(row.recipients, row.receipts, strict=True):
            if own == State.SENT:  # a receipt proves that it came
                assert (user, row.message_id) in delivered
        if State.SENT in row.receipts:
            assert key in world.owner.pending.entries or key in spilled
    assert world.committed <= len(log)


@pytest.mark.parametrize("messages_max", [2, 1_000])
@pytest.mark.parametrize("block", range(20))
def test_whatever_dies_the_store_ends_as_the_pure_fold(block: int, messages_max: int) -> None:
    # cases K7, K9, K16, M6: and every event answered, every move ticked, every message delivered or still owed
    for seed in range(block * 25, block * 25 + 25):
        try:
            check(seed, messages_max)
        except AssertionError as error:
            pytest.fail(f"history {seed}, {messages_max} rows in memory: {error}")
