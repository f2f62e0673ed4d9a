"""One client of the demo, as a process of its own: sends its part of the plan at its pace, reads whatever comes in.

It can be killed anywhere and started again on the same outbox: how far it got is what the outbox says.
"""

import argparse
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compose import outboxes
from compose.demo.plan import Intended, Plan, of_sender
from compose.wiring import Wiring
from consumers.life_line import hold_life_line
from producers import Client, ClientClosedError, Outgoing

_SEND_EVERY_S: Final = 0.1
SOON_BACK: Final = ("kafka.reconnect.backoff.max.ms=500",)
"""A short demo does not wait 10 s after the network is mended."""


def main() -> None:
    """Send and read until SIGTERM, or until the demo is gone."""
    arguments = _parser().parse_args()
    plan = Plan(arguments.messages, arguments.seed, arguments.suffix)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    hold_life_line(stop.set)
    flags = [f"kafka.bootstrap.servers={arguments.brokers}", *SOON_BACK] if arguments.brokers else []
    wiring = Wiring(flags=flags, config=arguments.config)
    with wiring.open_client(arguments.user, outbox=arguments.outbox) as me:
        threading.Thread(target=_read_all, args=(me,), name="reader", daemon=True).start()
        sent = len(outboxes.own_messages(arguments.outbox))
        _send_all(me, of_sender(plan, arguments.user)[sent:], arguments.began, arguments.rate, stop)
        stop.wait()


def _send_all(me: Client, intended: Sequence[Intended], began: float, rate: float, stop: threading.Event) -> None:
    """Send each message when it is due by its number in the whole plan: `rate` a second since `began`."""
    waiting = list(reversed(intended))
    while waiting and not stop.wait(_SEND_EVERY_S):
        due = (time.time() - began) * rate
        batch = []
        while waiting and waiting[-1].number <= due:
            one = waiting.pop()
            conversation = "" if len(one.recipients) == 1 else one.conversation_id
            batch.append(Outgoing(to=one.recipients, body=one.body, conversation=conversation))
        if batch:
            me.send_many(batch)


def _read_all(me: Client) -> None:
    try:
        for message in me:
            me.mark_read(message)
    except ClientClosedError:
        return


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compose.demo.client")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--brokers", help="where this client finds them, if not where the others do")
    parser.add_argument("--user", required=True)
    parser.add_argument("--outbox", type=Path, required=True)
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--suffix", default="")
    parser.add_argument("--began", type=float, required=True, help="when the plan starts, s since 1970")
    parser.add_argument("--rate", type=float, required=True, help="messages a second of all clients together")
    return parser


if __name__ == "__main__":
    main()
