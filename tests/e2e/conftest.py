"""A whole deployment in one folder: a broker, a store and workers as real processes, and the command line on top."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compose.demo.crew import Workers
from compose.demo.show import prepared
from compose.demo.stage import EmbeddedStage, LocalStage, Stage
from compose.stacks.local import LocalStack
from compose.wiring import Wiring

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Deployment:
    """What a test uses of it."""

    config: Path
    wiring: Wiring

    def twotick(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of the command line."""
        command = [sys.executable, "-m", "compose.main", "--config", str(self.config), *arguments]
        return subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, check=False, timeout=120)


def deployed(stage: Stage, folder: Path) -> Iterator[Deployment]:
    """Start everything, lend it, end it."""
    try:
        config = prepared(stage, folder)
        wiring = Wiring(config=config)
        workers = Workers(config, 2, wiring.status_folder, folder / "workers.log")
        workers.start()
        try:
            yield Deployment(config, wiring)
            workers.check()
        finally:
            workers.stop()
    finally:
        stage.stop()


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Give a deployment on the embedded stack, one a run; tests use users of their own."""
    folder = tmp_path_factory.mktemp("embedded")
    yield from deployed(EmbeddedStage(folder), folder)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, local_stack: LocalStack) -> Iterator[Deployment]:
    """Give a deployment on real Kafka and Cassandra; tests use users of their own.

    It ends with its module: its workers read the topics of all tests, and would refuse what others' operators do there.
    """
    folder = tmp_path_factory.mktemp("local")
    yield from deployed(LocalStage(local_stack, lambda _line: None, keep=True), folder)
