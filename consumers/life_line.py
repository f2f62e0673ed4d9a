"""A life line: standard input as a pipe from whoever started this process, which closes when they are gone."""

import logging
import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Final

LOG = logging.getLogger(__name__)

LIFE_LINE: Final = "TWOTICK_LIFE_LINE"
"""Environment variable that tells a process to stop when its standard input closes: who started it is gone then."""


def hold_life_line(stop: Callable[[], None]) -> None:
    """Call `stop` when standard input closes, where whoever started this process asked for that."""
    if not os.environ.get(LIFE_LINE):
        return

    def read() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        LOG.warning("whoever started this process is gone")
        stop()

    Thread(target=read, name="life-line", daemon=True).start()
