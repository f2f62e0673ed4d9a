"""The demo's acts come once each, in order, when their share or time is reached."""

from compose.demo.acts import Act, Director


def test_acts_come_in_order_and_once() -> None:
    director = Director()
    assert director.due(0.1, 1.0) is None
    assert director.due(0.9, 2.0) is Act.KILL_WORKER
    assert director.due(0.9, 2.0) is Act.CUT_OFF_CLIENT
    assert director.due(1.0, 4.9) is None
    assert director.due(1.0, 5.0) is Act.RECONNECT_CLIENT
    assert director.finished
    assert director.due(1.0, 9.0) is None


def test_a_cut_off_client_comes_back_although_nothing_more_is_written() -> None:
    director = Director()
    assert [director.due(0.5, 0.0), director.due(0.5, 0.0)] == [Act.KILL_WORKER, Act.CUT_OFF_CLIENT]
    assert director.due(0.5, 3.0) is Act.RECONNECT_CLIENT
