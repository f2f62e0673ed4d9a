"""What all tests share: servers that are started once a run, and the last lines that name what could not run.

- `local_stack` is real Kafka and Cassandra, started through `compose.stacks` in a folder of the run's own. The variable
  TWOTICK_TEST_STACK names the folder of a stack to use instead, which is left running.
- `containers` is Kafka, Cassandra and workers in containers: `integration/containers`.
- Where Java, Maven or a container engine is missing the tests that need them are skipped, and the last lines say so.
  With TWOTICK_TEST_REQUIRE=local_stack,containers, which CI sets, that is a failure.
- What needs three nodes of each server is skipped in the same way unless it is asked for: `-m cluster`.
- With TWOTICK_TEST_REQUIRE=compiled the run ends at once where the hot path is not the compiled one.
- All servers of the tests start with QUICK_JAVA, `local_stack` also with QUICK_SCHEMA; see `tests.stacks`.
- With `-n auto` tests run in several processes; which share one, and with it their servers, says `tests.beside`.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import consumers.fold
from compose.stacks.errors import ToolMissingError
from compose.stacks.local import LocalSettings, LocalStack
from tests import beside
from tests.missing import NOT_HERE, is_required, missing
from tests.stacks import QUICK_JAVA, QUICK_SCHEMA, throw_away

_JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
"""What the launcher `java` reads, whoever starts it."""
if QUICK_JAVA not in os.environ.get(_JAVA_OPTIONS, ""):
    os.environ[_JAVA_OPTIONS] = f"{os.environ.get(_JAVA_OPTIONS, '')} {QUICK_JAVA}".strip()

# How long one example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("twotick", deadline=None)
hypothesis.settings.load_profile("twotick")


def pytest_configure() -> None:
    """Refuse to test the sources where the compiled build was asked for."""
    if is_required("compiled") and consumers.fold.__file__.endswith(".py"):
        raise pytest.UsageError(f"the compiled build is required, but {consumers.fold.__file__} is imported")


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what this machine's user has set or stored out of every test."""
    for name in os.environ:
        if name.startswith("TWOTICK_") and not name.startswith("TWOTICK_TEST_"):
            monkeypatch.delenv(name)
    home = tmp_path_factory.getbasetemp() / "home"
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(home / variable.lower()))


@pytest.fixture(scope="session")
def local_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Give real Kafka and Cassandra that are up; see the module's text for where they come from."""
    lent = os.environ.get("TWOTICK_TEST_STACK")
    folder = Path(lent) if lent else tmp_path_factory.mktemp("stack")
    stack = LocalStack(folder, LocalSettings(commitlog_sync="periodic"))
    with pytest.MonkeyPatch.context() as patch:
        if not lent:  # nobody kills it
            patch.setenv(_JAVA_OPTIONS, f"{os.environ[_JAVA_OPTIONS]} {QUICK_SCHEMA}")
        try:
            stack.up(lambda _line: None)
        except ToolMissingError as error:
            missing("local_stack", error.message)
    yield stack
    if not lent:
        throw_away(stack, "kafka", "cassandra")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses real servers, and order it.

    Alone, the quick tests report first. Beside each other, those begin first that wait for servers, and last those that
    only compute: they fill the time.
    """
    for item in items:
        if item.get_closest_marker("cluster") and "cluster" not in config.option.markexpr:
            item.add_marker(pytest.mark.skip(f'{NOT_HERE}being asked for: make test ARGS="-m cluster"'))
        if "local_stack" in getattr(item, "fixturenames", ()):
            item.add_marker("local_stack")
        if "engine" in getattr(item, "fixturenames", ()):
            item.add_marker("containers")
        beside.check(item)
    items.sort(key=_waiting, reverse=hasattr(config, "workerinput"))


def _waiting(item: pytest.Item) -> tuple[bool, ...]:
    """Return how much of its time a test waits, roughly."""
    return (
        bool(item.get_closest_marker("containers")),
        bool(item.get_closest_marker("local_stack")),
        not item.nodeid.startswith("tests/unit/"),
        not item.nodeid.startswith("tests/simulation/"),
    )


def pytest_xdist_auto_num_workers() -> int:
    """Return in how many processes `-n auto` runs the tests."""
    return beside.processes()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> beside.ByServers:
    """Keep tests that share servers in one process."""
    return beside.ByServers(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was missing, last."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if NOT_HERE in reason:
            reasons[reason.partition(NOT_HERE)[2]] += 1
    if reasons:
        terminalreporter.write_sep("-", "what was not run")
        for reason, count in sorted(reasons.items()):
            terminalreporter.write_line(f"{count} tests were not run without {reason}")
