"""Tests beside each other: those that share servers share a process, and a test that would start more is refused."""

from types import SimpleNamespace

import pytest

from tests.beside import CONTAINERS, LOCAL_STACK, OWN_SERVERS, check, group_of

REPLAY = "tests/integration/test_replay_local.py::test_two_workers_went_on_all_the_while"


@pytest.mark.parametrize(
    ("test_id", "group"),
    [
        (REPLAY, LOCAL_STACK),
        ("tests/contract/test_rows.py::test_one[strict]", LOCAL_STACK),
        ("tests/contract/test_rows.py::test_one[sqlite]", "tests/contract/test_rows.py"),
        ("tests/unit/stores/test_strict_rows.py::test_one", "tests/unit/stores/test_strict_rows.py"),
        ("tests/integration/test_local_stack.py::test_one", OWN_SERVERS),
        ("tests/integration/containers/test_faults.py::test_one", CONTAINERS),
        ("tests/simulation/test_simulation.py::test_one[25]", "tests/simulation/test_simulation.py::test_one[25]"),
    ],
)
def test_a_group_is_that_of_the_servers_else_the_file(test_id, group):
    assert group_of(test_id) == group


def test_a_test_that_would_start_a_second_stack_is_refused():
    check(SimpleNamespace(nodeid=REPLAY, fixturenames=["tmp_path", "local_stack"]))
    check(SimpleNamespace(nodeid="tests/unit/test_fold.py::test_one", fixturenames=[]))
    with pytest.raises(pytest.UsageError, match="beside"):
        check(SimpleNamespace(nodeid="tests/unit/test_fold.py::test_one", fixturenames=["local_stack"]))
