"""`python -m compose.stacks.local up|down|status|start|stop|kill`: the stack without the `twotick` command."""

import argparse
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from compose.stacks.errors import StackError
from compose.stacks.local import LocalSettings, LocalStack, ServerStatus, default_data_folder


def main() -> int:
    """Run one command; rows go to standard output, progress and errors to standard error."""
    parser = _parser()
    arguments = parser.parse_args()
    try:
        settings = LocalSettings(
            kafka_port=arguments.kafka_port,
            cassandra_port=arguments.cassandra_port,
            kafka_nodes=arguments.kafka_nodes,
            cassandra_nodes=arguments.cassandra_nodes,
        )
    except ValueError as error:
        parser.error(str(error))
    try:
        _run(LocalStack(arguments.folder, settings), arguments)
    except StackError as error:
        _say(f"error: {error.message}")
        _say(f"hint: {error.hint}")
        return 1
    return 0


def _run(stack: LocalStack, arguments: argparse.Namespace) -> None:
    match arguments.command:
        case "up":
            print(json.dumps(asdict(stack.up(_say))))  # noqa: T201 - this is the command's output
        case "down":
            stack.down(remove_data=arguments.remove_data)
        case "status":
            for status in stack.status():
                print(_row(status))  # noqa: T201
        case "start":
            stack.start(arguments.name, _say)
        case "stop":
            stack.stop(arguments.name)
        case "kill":
            stack.kill(arguments.name, signal.Signals[arguments.signal])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compose.stacks.local", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status", "start", "stop", "kill"])
    parser.add_argument(
        "name", nargs="?", default="kafka", help="for start, stop and kill: kafka, or kafka-2 of several"
    )
    parser.add_argument("--folder", type=Path, default=default_data_folder())
    parser.add_argument("--kafka-port", type=int, default=0)
    parser.add_argument("--cassandra-port", type=int, default=0)
    parser.add_argument("--kafka-nodes", type=int, default=1)
    parser.add_argument("--cassandra-nodes", type=int, default=1)
    parser.add_argument("--signal", default="SIGKILL", help="for kill, for example SIGSTOP")
    parser.add_argument("--remove-data", action="store_true", help="with down: delete everything the servers stored")
    return parser


def _row(status: ServerStatus) -> str:
    memory_mib = status.memory_bytes // (1024 * 1024)
    columns = (status.name, status.state.value, status.pid or "-", status.address or "-")
    return " ".join(f"{column!s:<16}" for column in columns) + f"{status.uptime_s:.0f} s  {memory_mib} MiB"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
