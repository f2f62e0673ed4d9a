"""The configuration that a demo writes reads back as what was meant, by the same code that reads a user's."""

from pathlib import Path

from compose.demo.stage import config_text
from compose.sections import StoreSettings
from compose.settings import load
from consumers.settings import WorkerSettings


def test_a_written_configuration_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "twotick.toml"
    path.write_text(
        config_text(
            {
                "kafka.bootstrap.servers": "127.0.0.1:1",
                "store.kind": "cassandra",
                "store.cassandra.contact_points": ["a", "b"],
                "store.cassandra.port": 9,
                "worker.allow_new_topic": True,
                "worker.session_timeout_s": 6.0,
                "store.path": '/srv/a "quoted" name',
            }
        )
    )
    settings = load(environ={}, config=path)
    store = settings.section("store", StoreSettings)
    worker = settings.section("worker", WorkerSettings)
    assert settings.kafka()["bootstrap.servers"] == "127.0.0.1:1"
    assert (store.kind, store.cassandra.contact_points, store.cassandra.port) == ("cassandra", ("a", "b"), 9)
    assert store.path == Path('/srv/a "quoted" name')
    assert (worker.allow_new_topic, worker.session_timeout_s) == (True, 6.0)
