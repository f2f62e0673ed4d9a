"""`make bench`: every measurement on a local stack of its own; prints a table, writes bench/results.json.

Rounds are interleaved (floor, subject, floor, subject, …) and medians are told, because machines are noisy. A ratio is
that of the medians of one run, never of figures from two runs.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.child import Measured, build, measure
from bench.deployed import consuming, environment, migrate
from compose.stacks.local import LocalStack, StackAddresses

RESULTS = Path(__file__).with_name("results.json")
LATENCY_RATE = 200
_PROGRESS = Console(stderr=True)


class Rounds(NamedTuple):
    """One subject and its floor, round by round."""

    name: str
    subject: list[Measured]
    floor: list[Measured]

    def figures(self) -> dict[str, float]:
        """Return the medians, and the ratio of the rates."""
        rate, floor_rate = (median(each.per_second for each in rounds) for rounds in (self.subject, self.floor))
        return {
            "rounds": len(self.subject),
            "per_second": round(rate),
            "floor_per_second": round(floor_rate),
            "ratio": round(rate / floor_rate, 3),
            "cpu_us": round(median(each.cpu_us for each in self.subject), 1),
            "floor_cpu_us": round(median(each.cpu_us for each in self.floor), 1),
            "memory_mb": round(max(each.memory_mb for each in self.subject), 1),
        }


def worker_rounds(addresses: StackAddresses, rounds: int, messages: int) -> Rounds:
    """Measure one worker against its floor; each measurement has a fresh keyspace, all read the same log."""
    kafka, port = addresses.kafka_bootstrap_servers, str(addresses.cassandra_port)
    migrate(addresses, "bench_first")
    subprocess.run([sys.executable, "-m", "bench.worker", "fill", kafka, str(messages)], check=True)
    found = Rounds("worker: events applied, answered, committed", [], [])
    for number in range(rounds):
        for kind, into in (("floor", found.floor), ("worker", found.subject)):
            keyspace = f"bench_{kind}_{number}"
            migrate(addresses, keyspace)
            into.append(measure("bench.worker", [kind, kafka, port, keyspace, str(3 * messages)]))
            _tell(f"{kind} round {number + 1} of {rounds}", into[-1])
    return found


def client_rounds(addresses: StackAddresses, rounds: int, backlog: int, folder: Path) -> Rounds:
    """Measure a client's pump against a raw producer; each round pumps a copy of the same outbox."""
    full = folder / "full.sqlite"
    subprocess.run([sys.executable, "-m", "bench.client_backlog", "fill", str(full), str(backlog)], check=True)
    found = Rounds("client: backlog handed over and reported", [], [])
    for number in range(rounds):
        for kind, into in (("floor", found.floor), ("pump", found.subject)):
            outbox = folder / f"{kind}-{number}.sqlite"
            shutil.copy(full, outbox)
            into.append(measure("bench.client_backlog", [kind, str(outbox), addresses.kafka_bootstrap_servers]))
            outbox.unlink()
            _tell(f"{kind} round {number + 1} of {rounds}", into[-1])
    return found


def latency(addresses: StackAddresses, seconds: int, folder: Path) -> dict[str, dict[str, float]]:
    """Measure send to ✓ with one worker, on topics that hold nothing else; what comes first only warms the servers up.

    Both of them compile themselves while they run, and take a core each for that in the first half minute.
    """
    migrate(addresses, "bench_latency")
    kafka = addresses.kafka_bootstrap_servers
    with consuming(environment(addresses, "bench_latency")):
        for name in ("warm-up", "latency"):
            arguments = [kafka, str(folder / f"{name}.sqlite"), str(LATENCY_RATE * seconds), str(LATENCY_RATE)]
            done = subprocess.run(
                [sys.executable, "-m", "bench.latency", *arguments], stdout=subprocess.PIPE, check=True, text=True
            )
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def _tell(what: str, measured: Measured) -> None:
    _PROGRESS.print(
        f"{what}: {measured.per_second:,.0f}/s, {measured.cpu_us:.1f} µs CPU each, {measured.memory_mb:.0f} MB",
        highlight=False,
    )


def show(results: list[Rounds], ticks: dict[str, dict[str, float]]) -> None:
    """Print the medians."""
    table = Table(title="medians; a floor is measured in the same rounds")
    for column in ("what", "a second", "floor", "ratio", "CPU µs each", "floor", "MB"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for rounds in results:
        found = rounds.figures()
        table.add_row(
            rounds.name,
            *(f"{found[key]:,.0f}" for key in ("per_second", "floor_per_second")),
            f"{found['ratio']:.2f}",
            *(f"{found[key]:.1f}" for key in ("cpu_us", "floor_cpu_us")),
            f"{found['memory_mb']:.0f}",
        )
    Console().print(table)
    print(f"the hot path is {build()}")
    for name, text in (("send", "send() returns"), ("sent", "send to ✓")):
        print(f"{text}, {LATENCY_RATE}/s: p50 {ticks[name]['p50_ms']} ms, p99 {ticks[name]['p99_ms']} ms")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=60_000, help="each is three events")
    parser.add_argument("--backlog", type=int, default=100_000, help="events in the client's outbox")
    parser.add_argument("--seconds", type=int, default=20, help="how long the latency is measured")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="twotick-bench-") as name:
        folder = Path(name)
        stack = LocalStack(folder / "stack")
        try:
            addresses = stack.up(_PROGRESS.print)
            results = [
                worker_rounds(addresses, asked.rounds, asked.messages),
                client_rounds(addresses, asked.rounds, asked.backlog, folder),
            ]
            stack.down(remove_data=True)
            ticks = latency(stack.up(_PROGRESS.print), asked.seconds, folder)
        finally:
            stack.down(remove_data=True)
    show(results, ticks)
    figures = {rounds.name: rounds.figures() for rounds in results}
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "build": build()}
    RESULTS.write_text(json.dumps({"machine": machine, "medians": figures, "latency": ticks}, indent=2) + "\n")


if __name__ == "__main__":
    main()
