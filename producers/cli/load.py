"""Test load: messages that carry their number, in many conversations, at a rate."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from producers.checks import Outgoing

if TYPE_CHECKING:
    from producers.client import Client
    from producers.sent import Sent

_TURN_S = 0.1
_BATCH_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Load:
    """What to send."""

    count: int
    rate: float
    """Messages a second; 0: as fast as the disk takes them."""
    size: int
    """Bytes of each body."""
    conversations: int
    recipients: int
    """Of each message."""
    to: tuple[str, ...]
    """Empty: made-up users."""
    prefix: str


def messages(load: Load) -> Iterator[Outgoing]:
    """Yield the messages, round-robin over the conversations."""
    for number in range(load.count):
        place = number % load.conversations
        made_up = tuple(f"{load.prefix}user-{place}-{one}" for one in range(load.recipients))
        body = f"{number} ".ljust(load.size, "x")[: max(load.size, 1)]
        yield Outgoing(to=load.to or made_up, body=body, conversation=f"{load.prefix}conversation-{place}")


def run(client: "Client", load: Load, advance: Callable[[int], object]) -> Sequence["Sent"]:
    """Send it all; `advance` hears how many more are on disk."""
    waiting = threading.Event()
    started = time.monotonic()
    sent: list[Sent] = []
    pending = messages(load)
    while len(sent) < load.count:
        allowed = load.count if not load.rate else int((time.monotonic() - started + _TURN_S) * load.rate)
        batch = [message for _, message in zip(range(min(_BATCH_ROWS, allowed - len(sent))), pending, strict=False)]
        if batch:
            sent += client.send_many(batch)
            advance(len(batch))
        else:
            waiting.wait(min(_TURN_S, 1 / load.rate))
    return sent
