"""Whoever presses "resend" again and again has sent one message."""

from compose.checking.history import Logged
from compose.checking.replay import replay
from consumers.fold import Policy
from consumers.rows import At
from producers.retry import RetryPolicy
from producers.settings import ClientSettings
from schemas.lifecycle import State
from tests.unit.producers.world import World

PRESSED = 5


def test_resend_pressed_five_times_is_one_row_under_the_first_id(tmp_path):  # case M1
    # No attempt but the ones that are asked for.
    world = World(tmp_path / "outbox.sqlite", settings=ClientSettings(retry=RetryPolicy(first_s=600, max_s=600)))
    pump = world.pump()
    (written,) = world.send()
    world.run(pump)
    for _ in range(PRESSED):
        assert world.outbox.retry_now(written.message_id) == 1
        world.run(pump)
    sends = world.broker.sends()
    assert len(sends) == 1 + PRESSED
    assert {send.message_id for send in sends} == {written.message_id}
    log = [Logged(At(1, 0, offset, world.clock.wall_ms()), event) for offset, (_, event) in enumerate(world.broker.log)]
    (row,) = replay(log, Policy()).messages.values()
    assert (row.message_id, row.state, row.version) == (written.message_id, State.SENT, 1)
