"""Kafka and Cassandra in containers, once a run, and deployments on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.containers.deployment import Deployment, lent, started
from tests.integration.containers.engine import Engine, why_not
from tests.integration.containers.servers import IMAGES, Servers
from tests.missing import missing


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Give the container engine; what is still there at the end fails the run (case T1)."""
    if reason := why_not():
        missing("containers", reason)
    engine = Engine()
    for name, image in IMAGES.items():
        if not engine.has(image):
            missing(
                "containers", f"the image {image} ({name}) is not here and cannot be pulled; `make images` builds one"
            )
    engine.clear_dead()
    yield engine
    left = engine.clear()
    engine.close()
    assert not left, f"left behind, and removed now: {', '.join(left)}"


@pytest.fixture(scope="session")
def servers(engine: Engine) -> Iterator[Servers]:
    """Give servers that a record and a row have made their round trip through."""
    with started(Servers(engine)) as servers:
        yield servers


@pytest.fixture
def deployment(servers: Servers, tmp_path: Path) -> Iterator[Deployment]:
    """Give empty topics and tables, and a place for clients and workers."""
    with lent(servers, tmp_path) as deployment:
        yield deployment
