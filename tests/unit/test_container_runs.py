"""The clean-up of containers: only a run of the same place whose process is gone is taken for dead."""

import subprocess
import sys

from tests.integration.containers.runs import is_known_dead, own_place, own_run

OTHER_PLACE = "4026532999.00000000-0000-0000-0000-000000000000"


def run_of_another_process() -> str:
    code = "from tests.integration.containers.runs import own_run; print(own_run())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_run_that_lives_is_left_alone():
    assert not is_known_dead(own_run())


def test_a_run_whose_process_is_gone_is_dead():
    ended = run_of_another_process()
    assert ended.endswith(own_place())
    assert is_known_dead(ended)


def test_a_number_that_was_given_again_is_another_run():
    pid, start, place = own_run().split(".", 2)
    assert is_known_dead(f"{pid}.{int(start) + 1}.{place}")


def test_of_runs_in_another_place_nothing_is_known():
    pid, start, _ = run_of_another_process().split(".", 2)
    assert not is_known_dead(f"{pid}.{start}.{OTHER_PLACE}")
    assert not is_known_dead(pid), "what an older version of these tests has named"


def test_a_run_may_stand_in_a_name_of_the_engine():
    assert set(own_run()) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
