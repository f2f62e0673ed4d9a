"""How long a tick takes: from the call of `send` to ✓ in the sender's program, at a steady rate.

    python -m bench.latency BOOTSTRAP OUTBOX COUNT RATE

A worker must be running. Every message is sent when its time has come, not when the one before it is done, so a
standstill shows in the figures of all that had to wait (no coordinated omission).
"""

import json
import sys
import threading
import time
from pathlib import Path
from statistics import quantiles

from producers import Client, Tick

CONVERSATIONS = 200
_WARM_UP_S = 3.0


def percentiles(values_s: list[float]) -> dict[str, float]:
    """Return the 50th and 99th percentile in ms."""
    cuts = quantiles(values_s, n=100)
    return {"p50_ms": round(cuts[49] * 1000, 1), "p99_ms": round(cuts[98] * 1000, 1)}


def run(bootstrap_servers: str, outbox: Path, count: int, rate: float) -> dict[str, dict[str, float]]:
    """Send `count` messages at `rate` a second; return percentiles of `send` and of the time to ✓."""
    ticked: dict[str, float] = {}
    all_ticked = threading.Event()

    def on_tick(tick: Tick) -> None:
        if tick.state == "sent":
            ticked[tick.message_id] = time.perf_counter()
            if len(ticked) == count + 1:
                all_ticked.set()

    with Client("bench-sender", bootstrap_servers=bootstrap_servers, outbox=outbox) as me:
        me.on_tick(on_tick)
        me.send(to="bench-user", body="warm up").wait("sent", timeout_s=60)
        time.sleep(_WARM_UP_S)
        due: dict[str, float] = {}
        returned: list[float] = []
        start = time.perf_counter()
        for number in range(count):
            at = start + number / rate
            time.sleep(max(0.0, at - time.perf_counter()))
            sent = me.send(to=f"bench-user-{number % CONVERSATIONS}", body="x" * 100)
            due[sent.message_id] = at
            returned.append(time.perf_counter() - at)
        if not all_ticked.wait(60):
            raise SystemExit(f"{count + 1 - len(ticked)} of {count + 1} messages got no tick")
    return {"send": percentiles(returned), "sent": percentiles([ticked[name] - at for name, at in due.items()])}


if __name__ == "__main__":
    servers, file, messages, per_second = sys.argv[1:]
    print(json.dumps(run(servers, Path(file), int(messages), float(per_second))))
