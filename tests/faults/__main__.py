"""`python -m tests.faults --minutes M [--seed S] [--cluster]`: real servers, real kills, then the checker's word.

Starts servers, workers and clients of its own in a folder of its own, and ends nothing else. The same seed gives the
same schedule of faults. Exits with 1 if anything was lost, duplicated, regressed, stuck or reordered.
"""

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compose.stacks.errors import StackError
from tests import reports
from tests.faults.run import Options, Run, say

RATE, RATE_OF_CLUSTER = 150.0, 40.0
"""Messages a second: what two cores work off between the faults, shared with one server of each kind or with three."""


def main() -> int:
    """Run, report, and say whether all was right."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started, as Ctrl-C does
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="twotick-faults-"))
    options = Options(
        seconds=arguments.minutes * 60,
        seed=arguments.seed if arguments.seed is not None else secrets.randbelow(1_000_000),
        cluster=arguments.cluster,
        folder=folder.absolute(),
        rate=arguments.rate or (RATE_OF_CLUSTER if arguments.cluster else RATE),
        protocol=arguments.protocol,
        quiet_s=arguments.quiet_s,
    )
    say(f"seed {options.seed}, files in {folder}")
    try:
        result = Run(options).run()
    except StackError as error:
        say(f"error: {error.message}\nhint: {error.hint}")
        return 2
    except KeyboardInterrupt:
        say(f"ended early; everything that was left is in {folder}")
        return 130
    if arguments.report:
        reports.write(arguments.report, result.report)
    sys.stdout.write(_table(result.report) + "\n")
    if result.faultless and not arguments.folder:
        shutil.rmtree(folder, ignore_errors=True)
    elif not result.faultless:
        say(f"everything that was left is in {folder}; again with: {result.report['command']}")
    return 0 if result.faultless else 1


def _table(report: Mapping[str, Any]) -> str:
    counts = dict(report["counts"])
    rows = [
        ("seed", report["seed"]),
        ("servers", report["servers"]),
        ("minutes", report["minutes"]),
        *counts.items(),
        ("kills", report["kills"]),
        ("pauses", report["pauses"]),
        ("quiet after healing, s", report["quiet_after_s"]),
    ]
    for how, told in report["takeover"].items():
        rows.append((f"taken over {how}", ", ".join(f"{name} {value}" for name, value in told.items())))
    rows += [("complaint", one) for one in report["complaints"]]
    rows += [(one["kind"], f"{one['message_id']} {one['detail'][:300]}") for one in report["faults"][:20]]
    return "\n".join(f"{name:<45} {value}" for name, value in rows)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, help="[default: one that is told]")
    parser.add_argument("--cluster", action="store_true", help="three Kafka brokers and three Cassandra nodes")
    rates = f"[default: {RATE:g}, of a cluster {RATE_OF_CLUSTER:g}]"
    parser.add_argument("--rate", type=float, help=f"messages a second, of all clients together {rates}")
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic", help="group protocol")
    parser.add_argument("--quiet-s", type=float, default=600.0, help="how long all may take to end after healing")
    parser.add_argument("--folder", type=Path, help="where everything is kept [default: one that is removed again]")
    parser.add_argument("--report", type=Path, help="keep the report here, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
