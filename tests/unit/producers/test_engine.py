"""The threads behind a client: what they do besides pumping."""

import threading
from pathlib import Path
from typing import Any

import pytest

from producers import engine as engine_module
from producers.database import Database
from producers.engine import Engine
from producers.errors import ClientError, OutboxError
from producers.health import HealthBoard


class Idle:
    """A pump and a listener with nothing to do."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def start(self) -> int:
        """Recover nothing."""
        return 0

    def turn(self) -> bool:
        """Wait a little."""
        self.stopped.wait(0.001)
        return True

    def stop(self) -> None:
        """Stop waiting."""
        self.stopped.set()

    def close(self) -> None:
        """Stop waiting."""
        self.stopped.set()


def prunes_three_times(folder: Path, answer: int | None) -> bool:
    """Run an engine whose pruning answers so; say whether it is asked three times."""
    asked = threading.Semaphore(0)
    make: Any = Idle

    def prune() -> int | None:
        asked.release()
        return answer

    engine = Engine(
        database=Database(folder / "outbox.sqlite"),
        lock_path=folder / "lock",
        make_pump=make,
        make_listener=make,
        prune=prune,
        health=HealthBoard(),
        name="test",
    )
    engine.start()
    try:
        return all(asked.acquire(timeout=30) for _ in range(3))
    finally:
        engine.stop()


def test_an_outbox_is_pruned_for_as_long_as_its_client_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "PRUNE_EVERY_S", 0.0)
    assert prunes_three_times(tmp_path, 0)


def test_pruning_that_has_to_wait_is_tried_again(tmp_path: Path) -> None:
    assert prunes_three_times(tmp_path, None)


def test_trouble_that_is_over_is_told_no_more(tmp_path: Path) -> None:
    health = HealthBoard()
    told: list[ClientError | None] = []
    went_on = threading.Event()

    class FailsOnce(Idle):
        """A pump whose outbox cannot be written for a moment."""

        turns = 0

        def turn(self) -> bool:
            self.turns += 1
            if self.turns == 2:
                raise OutboxError("the outbox cannot be written")
            told.append(health.read().error)
            if self.turns == 4:
                went_on.set()
            return super().turn()

    make_pump: Any = FailsOnce
    make_listener: Any = Idle
    engine = Engine(
        database=Database(tmp_path / "outbox.sqlite"),
        lock_path=tmp_path / "lock",
        make_pump=make_pump,
        make_listener=make_listener,
        prune=lambda: 0,
        health=health,
        name="test",
    )
    engine.start()
    try:
        assert went_on.wait(30)
    finally:
        engine.stop()
    assert isinstance(told[1], OutboxError)
    assert (told[0], told[2], health.read().error) == (None, None, None)
