"""The store as commands get it: those that read make none."""

from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from compose.app import build_app
from compose.errors import SettingsError
from compose.wiring import Wiring
from consumers.cli.errors import NotFoundError


@pytest.mark.parametrize("command", [["history", "c"], ["owners"], ["stats"], ["message", str(uuid4())]])
def test_a_command_that_reads_makes_no_store_and_names_the_one_that_is_missing(
    command: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "data" / "store.sqlite"
    settings = [f"store.path={path}", f"user.outboxes={tmp_path}", f"stack.folder={tmp_path / 'local'}"]
    ran = CliRunner().invoke(build_app(), [*(part for one in settings for part in ("--set", one)), *command])
    missing = f"there is no SQLite store {path}"
    if command[0] == "message":  # its story is told without the store too
        assert (ran.exit_code, missing in ran.stderr) == (4, True)
    else:
        assert isinstance(ran.exception, NotFoundError)
        assert (str(ran.exception), ran.exception.exit_code) == (missing, 3)
        assert "TWOTICK_STORE__KIND=cassandra" in ran.exception.hint
    assert list(tmp_path.iterdir()) == []


def test_what_librdkafka_does_not_know_is_not_shown_as_a_setting(tmp_path: Path) -> None:
    flags = ["--set", f"stack.folder={tmp_path}", "--set", "kafka.sasl.pasword=s3cret"]
    ran = CliRunner().invoke(build_app(), [*flags, "config", "show"])
    assert isinstance(ran.exception, SettingsError)
    assert "s3cret" not in ran.output
    assert ran.exception.hint == "Did you mean kafka.sasl.password?"


def test_a_store_that_is_made_is_there_for_those_that_read(tmp_path: Path) -> None:
    wiring = Wiring(flags=[f"store.path={tmp_path / 'data' / 'store.sqlite'}", f"stack.folder={tmp_path / 'local'}"])
    wiring.make_store().close()
    wiring.open_store().close()


def test_a_client_alone_has_no_driver_and_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compose.extras.find_spec", lambda name: None if name == "cassandra" else pytest.fail(name))
    wiring = Wiring(flags=[f"stack.folder={tmp_path / 'local'}", "store.kind=cassandra"])
    for reach in (
        wiring.open_store,
        wiring.migration_targets,
        lambda: wiring.open_keyspace("other"),
        lambda: wiring.worker_command(0),
    ):
        with pytest.raises(SettingsError) as caught:
            reach()
        assert "twotick[cassandra]" in caught.value.hint


def test_the_store_is_named_by_its_kind_and_place(tmp_path: Path) -> None:
    flags = [f"stack.folder={tmp_path / 'local'}", f"store.path={tmp_path / 'x.sqlite'}"]
    assert Wiring(flags=flags).store_name() == f"the SQLite store {tmp_path / 'x.sqlite'}"
    flags += ["store.kind=cassandra", "store.cassandra.contact_points=a,b"]
    assert Wiring(flags=flags).store_name() == "the Cassandra store at a,b:9042, keyspace twotick"
