"""Which tests share a process where tests run beside each other: those of one group do, and so they share servers.

A group is a function of a test's id, because the process that hands tests out knows no more of them. xdist's own
`loadgroup` changes the ids for that, which pytest 9.2 no longer lets it do.
"""

import os
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

LOCAL_STACK: Final = "local_stack"
CONTAINERS: Final = "containers"
OWN_SERVERS: Final = "own_servers"

PROCESSES_MIN: Final = 2
"""Also on one core: one of two waits for its servers most of the time."""
PROCESSES_MAX: Final = 8

_GROUPS: Final = {
    "tests/contract/test_store_down.py": OWN_SERVERS,
    "tests/faults/test_short_run.py": OWN_SERVERS,
    "tests/integration/test_local_stack.py": OWN_SERVERS,
    # Of more nodes than a machine has room for beside others.
    "tests/integration/test_local_cluster.py": CONTAINERS,
    "tests/contract/test_claims.py": LOCAL_STACK,
    "tests/contract/test_migrate_tables.py": LOCAL_STACK,
    "tests/integration/test_client_kafka.py": LOCAL_STACK,
}
_TELL_THE_STACK: Final = ("cassandra", "strict", "local", "real")
_SERVERLESS: Final = ("tests/unit/", "tests/simulation/")


def group_of(test_id: str) -> str:
    """Return the group of a test: that of its servers, else its file; of the simulation each test is one."""
    file, _, name = test_id.partition("::")
    if file.startswith("tests/simulation/"):
        return test_id
    if file.startswith("tests/integration/containers/"):
        return CONTAINERS
    if file in _GROUPS:
        return _GROUPS[file]
    if not file.startswith(_SERVERLESS) and any(word in f"{file}::{name}" for word in _TELL_THE_STACK):
        return LOCAL_STACK
    return file


def check(item: pytest.Item) -> None:
    """Refuse a test on the shared stack that would start a second one. Raises UsageError."""
    if LOCAL_STACK in getattr(item, "fixturenames", ()) and group_of(item.nodeid) != LOCAL_STACK:
        raise pytest.UsageError(f"{item.nodeid} uses local_stack: say so in its name, or in tests/beside.py")


def processes() -> int:
    """Return in how many processes tests run."""
    return min(max(os.cpu_count() or 1, PROCESSES_MIN), PROCESSES_MAX)


class ByServers(LoadScopeScheduling):
    """Hands out whole groups, in the order in which the tests were collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
