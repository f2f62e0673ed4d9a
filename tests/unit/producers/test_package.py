"""The package's front door."""

import subprocess
import sys

import pytest

import producers


def test_every_public_name_is_there():
    assert all(getattr(producers, name).__name__ == name for name in producers.__all__ if name != "default_outbox")
    assert set(producers.__all__) <= set(dir(producers))
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        producers.Clinet  # noqa: B018


def test_the_commands_are_mounted_without_loading_a_driver():
    code = "import sys, typer, producers.cli as c; c.register(typer.Typer()); print([m for m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "producers.cli.send" in loaded
    assert not [name for name in ("confluent_kafka", "sqlite3", "fastavro", "rich.progress") if f"'{name}'" in loaded]
