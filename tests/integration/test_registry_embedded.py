"""A whole deployment with a schema registry: a worker process and clients that write Confluent's wire format."""

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import islice

import pytest
from confluent_kafka import Consumer, TopicPartition

from compose.demo.stage import EmbeddedStage, config_text
from compose.wiring import Wiring
from schemas.codec import MAGIC
from schemas.topics import DEAD_LETTERS, EVENTS, INBOX, PARTITIONS_LOCAL
from tests.registry import Registry, serving

pytestmark = pytest.mark.skipif(find_spec("authlib") is None, reason="the extra `registry` is not installed")


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Give the configuration file of a broker, a store and a registry; a worker process runs with it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    stage = EmbeddedStage(tmp_path)
    with serving(Registry()) as registry:
        settings = {
            **stage.start(),
            "registry.url": registry.url,
            "user.outboxes": str(tmp_path / "outboxes"),
            "worker.status_folder": str(tmp_path / "workers"),
        }
        path = tmp_path / "twotick.toml"
        path.write_text(config_text(settings))
        command = [sys.executable, "-m", "compose.main", "--config", str(path), "consume", "--slot", "0"]
        with (tmp_path / "worker.log").open("w") as log:
            worker = subprocess.Popen(command, stderr=log, env=os.environ)
        try:
            yield path
        finally:
            worker.terminate()
            code = worker.wait(30)
            stage.stop()
        assert code == 0, (tmp_path / "worker.log").read_text()


def values_of(topic, wiring):
    """Return all values in a topic."""
    partitions = [TopicPartition(topic, number, 0) for number in range(PARTITIONS_LOCAL)]
    consumer = Consumer({**wiring.kafka(), "group.id": "look", "enable.partition.eof": True})
    try:
        consumer.assign(partitions)
        values, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(10)
            assert message is not None
            if message.error() is None:
                values.append(message.value())
            else:
                ended += 1
        return values
    finally:
        consumer.close()


def test_both_framings_are_read_and_the_registrys_is_written(config) -> None:
    with Wiring(config=config).open_client("alice", offline=True) as alice:
        early = alice.send(to="bob", body="before any registry was asked").message_id
    wiring = Wiring(config=config)
    with wiring.open_client("alice") as alice, wiring.open_client("bob") as bob:
        late = alice.send(to="bob", body="with its id")
        assert late.wait("delivered", timeout_s=60) == "delivered"
        assert alice.find(early).wait("delivered", timeout_s=60) == "delivered"
        found = {message.text for message in islice(bob.incoming(timeout_s=20), 2)}
    assert found == {"before any registry was asked", "with its id"}

    events = [value for value in values_of(EVENTS, wiring) if wiring.codec().decode(value).kind == "SEND"]
    assert {bytes(value[:2]) == MAGIC for value in events} == {True, False}
    for value in [*(value for value in events if value[:2] != MAGIC), *values_of(INBOX, wiring)]:
        assert value[0] == 0
        assert int.from_bytes(value[1:5], "big") >= 100_000
    assert values_of(DEAD_LETTERS, wiring) == []
