"""The demo's plan: the same for every process, every body once, running numbers as an outbox gives them."""

from collections import defaultdict

from compose.demo.plan import Plan, intentions, of_sender, users


def test_the_same_seed_gives_the_same_plan() -> None:
    assert list(intentions(Plan(50, 7))) == list(intentions(Plan(50, 7)))
    assert list(intentions(Plan(50, 7))) != list(intentions(Plan(50, 8)))


def test_a_longer_plan_starts_with_the_shorter_one() -> None:
    assert list(intentions(Plan(80, 7)))[:50] == list(intentions(Plan(50, 7)))


def test_every_body_is_unique_and_nobody_writes_to_himself() -> None:
    plan = list(intentions(Plan(500, 1, "-x")))
    assert len({one.body for one in plan}) == 500
    assert all(one.sender not in one.recipients for one in plan)
    assert {one.sender for one in plan} == set(users(Plan(500, 1, "-x")))


def test_the_plan_has_groups_and_direct_conversations() -> None:
    sizes = {len(one.recipients) for one in intentions(Plan(500, 1))}
    assert 1 in sizes
    assert max(sizes) == 3


def test_running_numbers_count_each_senders_messages_in_a_conversation() -> None:
    seen = defaultdict(list)
    for one in intentions(Plan(300, 3)):
        seen[one.sender, one.conversation_id].append(one.seq)
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in seen.values())


def test_the_clients_parts_make_up_the_whole() -> None:
    plan = Plan(200, 5, "-y")
    parts = [one for user in users(plan) for one in of_sender(plan, user)]
    assert sorted(parts) == sorted(intentions(plan))
