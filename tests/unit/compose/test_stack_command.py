"""What the commands of the local stack refuse, and how they say what to do instead."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compose.main import build_app
from compose.stacks.errors import StackError
from compose.stacks.local import LocalSettings, LocalStack, processes
from compose.stacks.local.kafka import KafkaNode
from compose.stacks.local.members import first_of
from compose.stacks.local.state import ServerRecord


def test_execute_is_refused_where_it_would_do_nothing(tmp_path: Path) -> None:
    ran = CliRunner().invoke(build_app(), ["--set", f"stack.folder={tmp_path / 'local'}", "down", "--execute"])
    assert (ran.exit_code, "--remove-data" in ran.stderr) == (2, True)
    assert not (tmp_path / "local").exists()


def test_another_port_is_refused_to_what_runs_and_the_way_to_it_is_told(tmp_path: Path) -> None:
    stack = LocalStack(tmp_path, LocalSettings(kafka_port=9192))
    kafka = first_of(stack.settings, KafkaNode)
    runs = ServerRecord(ports={KafkaNode.port_purposes[0]: 9092}, process=processes.identify(os.getpid()))
    with pytest.raises(StackError, match="9192") as refused:
        stack._apply_asked_port(kafka, runs)
    assert "`twotick down`" in refused.value.hint
