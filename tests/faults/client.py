"""One client of a fault run, as a process: sends at a bounded rate to people and groups, reads whatever comes in.

It can be killed anywhere and started again on the same outbox. What it did stands in its journal. Files in the control
folder tell it what to do: `quiet` to send no more, `die-USER` to kill itself right after its next send returned.
"""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final
from uuid import UUID

from compose.wiring import Wiring
from consumers.life_line import hold_life_line
from producers import Client, ClientClosedError, ClientError, Outgoing, Sent
from tests.faults.journal import Entry, Journal

LOOK_EVERY_S: Final = 0.05
BURST_S: Final = 2.0
"""A client that stood still does not catch up on more than this."""
TROUBLE_WAIT_S: Final = 0.2
GROUP_SHARE, EXPIRING_SHARE, CANCELLED_SHARE = 0.12, 0.02, 0.01
EXPIRES_IN_S: Final = 3.0


class Chatter:
    """Who talks to whom, and about what: made of the seed, but for the moments."""

    def __init__(self, user: str, users: Sequence[str], random: Random) -> None:
        self._user = user
        self._others = [other for other in users if other != user]
        self._random = random
        # Unique over restarts: bodies tell messages apart.
        self._life = f"{user}/{time.time_ns():x}"
        self._count = 0

    def next(self) -> Outgoing:
        """Return the next message."""
        self._count += 1
        body = f"{self._life}/{self._count}"
        expires = EXPIRES_IN_S if self._random.random() < EXPIRING_SHARE else None
        if self._random.random() < GROUP_SHARE:
            members = sorted(self._random.sample(self._others, 2))
            # A few topics a group: many conversations.
            conversation = f"group:{'+'.join(sorted([*members, self._user]))}:{self._random.randrange(4)}"
            return Outgoing(to=members, body=body, conversation=conversation, expires_in_s=expires)
        return Outgoing(to=self._random.choice(self._others), body=body, expires_in_s=expires)


class Program:
    """What the process does with its client."""

    def __init__(self, me: Client, arguments: argparse.Namespace, stop: threading.Event) -> None:
        self._me = me
        self._journal = Journal(arguments.journal)
        self._random = Random(f"{arguments.seed} {arguments.user} {time.time_ns()}")
        self._chatter = Chatter(me.user, arguments.users.split(","), self._random)
        self._rate = arguments.rate
        self._quiet = arguments.control / "quiet"
        self._die = arguments.control / f"die-{me.user}"
        self._stop = stop

    def send_all(self) -> None:
        """Send until told to be quiet or to stop."""
        due, looked_at = 0.0, time.monotonic()
        while not self._stop.wait(LOOK_EVERY_S):
            now = time.monotonic()
            due = min(due + (now - looked_at) * self._rate, BURST_S * self._rate)
            looked_at = now
            if self._quiet.exists():
                continue
            while due >= 1:
                due -= self._send(min(int(due), self._random.choice((1, 1, 2, 5, 10))))

    def _send(self, count: int) -> int:
        messages = [self._chatter.next() for _ in range(count)]
        try:
            sent = self._me.send_many(messages)
        except ClientClosedError:
            return count
        except ClientError as error:
            sys.stderr.write(f"not sent: {error}\n")
            self._stop.wait(TROUBLE_WAIT_S)
            return count
        self._journal.add([_entry(one, message) for one, message in zip(sent, messages, strict=True)])
        self._die_if_told(sent[-1])
        if self._random.random() < CANCELLED_SHARE:
            self._cancel(sent[0])
        return count

    def _die_if_told(self, last: Sent) -> None:
        if self._die.exists():
            self._die.unlink()
            self._journal.add([Entry("died", UUID(last.message_id).bytes)])
            os.kill(os.getpid(), signal.SIGKILL)

    def _cancel(self, sent: Sent) -> None:
        try:
            self._me.cancel(sent)
        except ClientError as error:
            sys.stderr.write(f"not cancelled: {error}\n")

    def read_all(self) -> None:
        """Read whatever comes in."""
        while not self._stop.is_set():
            try:
                for message in self._me:
                    self._journal.add([Entry("read", UUID(message.message_id).bytes)])
                    self._me.mark_read(message)
            except ClientClosedError:
                return
            except (ClientError, OSError) as error:
                sys.stderr.write(f"not read: {error}\n")
                self._stop.wait(TROUBLE_WAIT_S)


def _entry(sent: Sent, message: Outgoing) -> Entry:
    body = message.body if isinstance(message.body, bytes) else message.body.encode()
    return Entry("sent", UUID(sent.message_id).bytes, body)


def main() -> None:
    """Send and read until SIGTERM, or until the run is gone."""
    arguments = _parser().parse_args()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    hold_life_line(stop.set)
    wiring = Wiring(config=arguments.config)
    while not stop.is_set():
        try:
            _live(wiring, arguments, stop)
        except ClientError as error:  # its disk is full before it could open the outbox
            sys.stderr.write(f"not open: {error}\n")
            stop.wait(TROUBLE_WAIT_S)


def _live(wiring: Wiring, arguments: argparse.Namespace, stop: threading.Event) -> None:
    with wiring.open_client(arguments.user, outbox=arguments.outbox) as me:
        program = Program(me, arguments, stop)
        threading.Thread(target=program.read_all, name="reader", daemon=True).start()
        program.send_all()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.client")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--user", required=True)
    parser.add_argument("--users", required=True, help="all users, with commas between")
    parser.add_argument("--outbox", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="messages a second")
    return parser


if __name__ == "__main__":
    main()
