"""When a delivery is due again: schedules that work, and messages whose time is over."""

import pytest

from consumers.redelivery import Schedule
from consumers.rows import MessageRow
from schemas.lifecycle import State
from tests.unit.consumers.world import START_MS, message_id

WAITING = MessageRow(
    *("c", message_id(1), State.SENT, "alice", ("bob",), (State.SENT,)),
    *(b"", b"i" * 16, 1, 0, START_MS, START_MS + 1_000, 1, (1, 0), 1),
)


def test_an_expiry_is_not_written_again_at_every_look() -> None:
    schedule, over = Schedule(first_wait_s=10, jitter=0), WAITING.deliver_by + 1
    assert schedule.due(WAITING, 5, START_MS) == over
    assert schedule.due(WAITING, 5, WAITING.deliver_by) == over
    assert schedule.due(WAITING, 5, over) == over + 10_000


@pytest.mark.parametrize(
    "values", [{"first_wait_s": 0}, {"wait_s_max": -1}, {"factor": 0.5}, {"jitter": 1}, {"bucket_s": 0}]
)
def test_a_schedule_that_cannot_work_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="schedule needs"):
        Schedule(**values)  # type: ignore[arg-type]
