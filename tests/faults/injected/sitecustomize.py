"""Loaded by Python at the start of every worker of a fault run, because this folder is on their PYTHONPATH.

Two faults have to come from inside: a clock that is wrong, and a death between two steps. Files in the control folder
(environment variable FAULTS_CONTROL) ask for them by the machine's name: `clock-NODE` holds the seconds by which its
clock is off; `die-after-rows-NODE` and `die-after-lease-NODE` have its worker kill itself at that moment, once.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

LOOK_EVERY_S = 0.1


def node_of(arguments):
    """Return the machine's name of a worker's command line; None for every other process."""
    names = [one.partition("=")[2] for one in arguments if one.startswith("worker.node=")]
    return names[0] if names and "consume" in arguments and "--slot" in arguments else None


class Clock:
    """The wall clock, off by as much as is asked for."""

    def __init__(self):
        self.shift_s = 0.0
        self._time, self._time_ns = time.time, time.time_ns
        time.time, time.time_ns = self.time, self.time_ns

    def time(self):
        """Stand in for time.time."""
        return self._time() + self.shift_s

    def time_ns(self):
        """Stand in for time.time_ns."""
        return self._time_ns() + int(self.shift_s * 1e9)


def die(order):
    order.unlink(missing_ok=True)
    os.kill(os.getpid(), signal.SIGKILL)


def arm_rows(store, order):
    """Have the process die when its next write is durable, before anybody hears of it."""
    write = store.write

    def deadly(self, owner, messages, conversations, done, **more):
        def told(error):
            if error is None and messages and order.exists():
                die(order)
            done(error)

        return write(self, owner, messages, conversations, told, **more)

    store.write = deadly


def arm_lease(store, order):
    """Have the process die when its next lease is claimed, before it is of any use."""
    claim_lease = store.claim_lease

    def deadly(self, *arguments, **more):
        lease = claim_lease(self, *arguments, **more)
        if order.exists():
            die(order)
        return lease

    store.claim_lease = deadly


def watch(control, node, clock):
    """Look for orders for as long as the process lives."""
    armed = False
    while True:
        module = sys.modules.get("consumers.stores.cassandra")
        store = getattr(module, "CassandraStore", None)
        if store is not None and not armed:
            arm_rows(store, control / f"die-after-rows-{node}")
            arm_lease(store, control / f"die-after-lease-{node}")
            armed = True
        try:
            clock.shift_s = float((control / f"clock-{node}").read_text())
        except (OSError, ValueError):
            clock.shift_s = 0.0
        time.sleep(LOOK_EVERY_S)


node = node_of(sys.orig_argv)
if node and os.environ.get("FAULTS_CONTROL"):
    threading.Thread(
        target=watch, args=(Path(os.environ["FAULTS_CONTROL"]), node, Clock()), name="faults", daemon=True
    ).start()
