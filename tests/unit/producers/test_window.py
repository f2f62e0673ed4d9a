"""The window when a row is out twice: its answer came before its report, then the inbox lost records.

Found by the simulation (seed 248): the second report ended the pump.
"""

from producers.pages import Reports, Row
from producers.settings import ClientSettings
from producers.window import Window

ROW = Row(2, 126, "c", b"", 1, 0)


def test_a_row_that_is_out_twice_is_counted_once_and_may_be_reported_twice():
    window = Window(ClientSettings(in_flight_bytes_max=126))
    window.handed([ROW])
    window.handed([ROW])
    assert window.flying == {2: 126}
    assert window.room().rows == 0
    window.settled(Reports(done=[2]))
    assert window.room().rows > 0
    window.settled(Reports(done=[2]))
    assert window.flying == {}
    assert window.room().rows > 0
