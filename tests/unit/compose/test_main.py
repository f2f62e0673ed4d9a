"""The command line as a whole: help, exit codes, errors as text, and readers that go away."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compose.app import exit_code
from compose.errors import NotFoundError, SettingsError, UnreachableError

pytestmark = pytest.mark.timeout(60)


def twotick(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    home = {"HOME": str(cwd), "XDG_DATA_HOME": str(cwd), "XDG_CONFIG_HOME": str(cwd), "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-m", "compose.main", *arguments]
    environment = {"PATH": os.environ["PATH"], **home, **environ}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=30)


def test_help_lists_commands_and_exit_codes(tmp_path: Path) -> None:
    done = twotick("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "config" in done.stdout
    assert "130 interrupted" in done.stdout


def test_a_paragraph_of_help_is_wrapped_by_the_terminal_alone(tmp_path: Path) -> None:
    done = twotick("send", "--help", cwd=tmp_path, COLUMNS="80")
    assert "up, or when you press Ctrl-C" in done.stdout


def test_help_loads_no_driver_and_no_validation() -> None:
    heavy = "{'confluent_kafka', 'cassandra', 'fastavro', 'pydantic', 'sqlite3', 'rich.live'}"
    code = f"import sys; from compose.app import build_app; build_app(); print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "set()"


def test_an_unknown_setting_ends_with_2_and_a_hint_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "twotick.toml").write_text("[store.cassandra]\nkeyspase = 'x'\n")
    done = twotick("config", "show", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    message, hint = done.stderr.splitlines()
    assert message == "error: twotick.toml: there is no setting store.cassandra.keyspase"
    assert hint == "hint: Did you mean store.cassandra.keyspace?"


def test_a_pinned_kafka_setting_ends_with_2_like_any_other_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "twotick.toml").write_text("[kafka]\nacks = 1\n")
    done = twotick("send", "--as", "ann", "--to", "ben", "hello", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: the Kafka setting acks is 1, but it must be all\n"), done.stderr


def test_debug_shows_where_an_error_comes_from(tmp_path: Path) -> None:
    done = twotick("--debug", "--set", "store.x=1", "config", "show", cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_an_unknown_command_ends_with_2(tmp_path: Path) -> None:
    assert twotick("sned", cwd=tmp_path).returncode == 2


def test_rows_are_json_lines_where_standard_output_is_no_terminal(tmp_path: Path) -> None:
    done = twotick("config", "show", "--sources", cwd=tmp_path, TWOTICK_STORE__CASSANDRA__PORT="9043")
    assert (
        '{"setting": "store.cassandra.port", "value": 9043, "source": "TWOTICK_STORE__CASSANDRA__PORT"}'
        in done.stdout.splitlines()
    )


def test_no_color_is_kept(tmp_path: Path) -> None:
    done = twotick("config", "show", "--output", "table", cwd=tmp_path, NO_COLOR="1", FORCE_COLOR="1")
    assert "\x1b[3" not in done.stdout
    assert "store.cassandra.keyspace" in done.stdout


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd()), "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "compose.main", "config", "show"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_under_standard_output_is_an_error_and_no_fault(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd()), "HOME": str(tmp_path), "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-m", "compose.main", "config", "show"]
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = subprocess.run(command, env=environ, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "error: [Errno 28] No space left on device",
        "hint: Look at what standard output is.",
    ]


def test_without_standard_streams_nothing_is_printed_and_all_is_done(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd()), "HOME": str(tmp_path)}
    command = f"{sys.executable} -m compose.main config show <&- >&-"
    done = subprocess.run(["/bin/sh", "-c", command], env=environ, cwd=tmp_path, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("error", "code"),
    [(SettingsError("x"), 2), (NotFoundError("x"), 3), (UnreachableError("x"), 5), (RuntimeError("x"), 1)],
)
def test_each_kind_of_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_what_the_output_has_no_character_for_is_shown_all_the_same(tmp_path: Path):
    shown = ("--set", "user.name=jos\u00e9", "config", "show", "--output")
    for form, told in (("jsonl", "jos\\"), ("table", "jos\\xe9")):
        done = twotick(*shown, form, cwd=tmp_path, PYTHONIOENCODING="ascii")
        assert (done.returncode, told in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("loaded", ["schemas.text", "compose.errors", "compose.output", "compose.wiring"])
def test_ctrl_c_while_the_command_is_loaded_ends_it_in_silence(tmp_path: Path, loaded: str) -> None:
    # One that does not end by itself: a busy machine may let it run on before the signal is sent.
    command = [sys.executable, "-X", "importtime", "-m", "compose.main", "send", "--as", "ann", "--file", "-"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(Path.cwd())}
    # A test runner in the background ignores Ctrl-C, and what it starts would too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stderr is not None
        told = [next(line for line in process.stderr if line.rstrip().endswith(f" {loaded}"))]
        process.send_signal(signal.SIGINT)
        told += process.stderr
        assert process.wait(30) == 130
    assert [line for line in told if not line.startswith("import time:")] == []
