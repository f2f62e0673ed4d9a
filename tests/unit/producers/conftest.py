"""The world of a client without threads."""

import pytest

from tests.unit.producers.world import World


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "alice.sqlite")
    yield made
    made.database.close()
