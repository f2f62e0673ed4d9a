"""Who sends what to whom in a demo: a pure function of a seed, so every process works it out by itself."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from schemas.identity import direct_conversation

USERS: Final = ("ann", "ben", "cleo", "dan", "eve", "finn")
GROUPS: Final = {
    "group:lunch": ("ann", "ben", "cleo", "dan"),
    "group:hiking": ("ben", "dan", "eve"),
    "group:band": ("cleo", "eve", "finn"),
}
_GROUP_SHARE: Final = 0.15
_TEXTS: Final = (
    "on my way",
    "did you see the news?",
    "lunch at one?",
    "thanks a lot!",
    "running ten minutes late",
    "can you call me back?",
    "the tickets are booked",
    "happy birthday 🎂",
    "see you tomorrow",
    "which platform?",
    "great idea",
    "don't forget the keys",
)


class Plan(NamedTuple):
    """All that decides a plan."""

    messages: int
    seed: int
    suffix: str = ""
    """Ends every name, so that runs on the same servers do not meet."""


class Intended(NamedTuple):
    """One message of the plan."""

    number: int
    sender: str
    recipients: tuple[str, ...]
    conversation_id: str
    seq: int
    """Its running number among its sender's messages in the conversation: what the outbox will give it."""
    body: str
    """Unique: it starts with the message's number."""


def users(plan: Plan) -> tuple[str, ...]:
    """Return everyone who takes part."""
    return tuple(name + plan.suffix for name in USERS)


def intentions(plan: Plan) -> Iterator[Intended]:
    """Yield the whole plan in the order in which it is to be sent."""
    chance = random.Random(plan.seed)  # noqa: S311 - a plan, not a secret
    groups = sorted(GROUPS)
    sent: Counter[tuple[str, str]] = Counter()
    for number in range(1, plan.messages + 1):
        body = f"#{number} {chance.choice(_TEXTS)}"
        if chance.random() < _GROUP_SHARE:
            name = chance.choice(groups)
            sender = chance.choice(GROUPS[name]) + plan.suffix
            members = tuple(user + plan.suffix for user in GROUPS[name])
            recipients = tuple(user for user in members if user != sender)
            conversation = name + plan.suffix
        else:
            sender, recipient = (user + plan.suffix for user in chance.sample(USERS, 2))
            recipients = (recipient,)
            conversation = direct_conversation(sender, recipient)
        sent[sender, conversation] += 1
        yield Intended(number, sender, recipients, conversation, sent[sender, conversation], body)


def of_sender(plan: Plan, sender: str) -> Sequence[Intended]:
    """Return what one client is to send, in order."""
    return [one for one in intentions(plan) if one.sender == sender]
