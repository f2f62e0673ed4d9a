"""What a user reads when the local stack cannot start: what is missing, what is taken, what a server said last."""

import os
import socket
import sys

import pytest

from compose.stacks.errors import PortTakenError, ServerDiedError, StackError, ToolMissingError
from compose.stacks.local import LocalSettings, LocalStack, jars, ports
from compose.stacks.local.logs import fresh_log, log_tail


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Give an empty folder that is all of PATH, with a function that puts shell scripts into it."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def add(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return add


def no_progress(_line):
    pass


def test_missing_java_is_named_with_the_way_to_get_it(programs, tmp_path):
    with pytest.raises(ToolMissingError, match="no `java` was found") as raised:
        LocalStack(tmp_path / "stack").up(no_progress)
    assert "openjdk-17" in raised.value.hint
    assert not raised.value.retriable


def test_an_old_java_is_named_with_its_version(programs, tmp_path):
    programs("java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    with pytest.raises(ToolMissingError, match=r"needs Java 17.*is version 11"):
        LocalStack(tmp_path / "stack").up(no_progress)


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", 0),
    ],
)
def test_java_versions_are_read(output, major):
    assert jars.java_major_version(output) == major


def test_java_home_comes_before_path(programs, tmp_path, monkeypatch):
    programs("java", """echo 'openjdk version "11.0.2"' >&2""")
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert jars.find_java() == jars.Java(str(home / "bin" / "java"), 17)


def test_missing_maven_is_named_with_the_way_to_get_it(programs, tmp_path):
    programs("java", """echo 'openjdk version "17.0.1"' >&2""")
    stack = LocalStack(tmp_path / "stack", LocalSettings(jars_folder=tmp_path / "jars"))
    with pytest.raises(ToolMissingError, match="no `mvn` was found") as raised:
        stack.up(no_progress)
    assert "apt install maven" in raised.value.hint


def test_a_failed_download_shows_mavens_words_and_leaves_no_half_folder(programs, tmp_path):
    programs("mvn", "echo 'Unknown host: example.org'; exit 1")
    with pytest.raises(StackError, match="Unknown host") as raised:
        jars.class_path("kafka", jars_folder=tmp_path / "jars", progress=no_progress)
    assert raised.value.retriable
    assert not [path for path in (tmp_path / "jars").iterdir() if path.is_dir() and path.suffix != ".partial"]


def test_jars_are_downloaded_once(programs, tmp_path):
    programs(
        "mvn",
        f"""for a in "$@"; do case $a in -DoutputDirectory=*) : > "${{a#*=}}/one.jar";; esac; done
echo call >> {tmp_path / "calls"}""",
    )
    lines = []
    first = jars.class_path("kafka", jars_folder=tmp_path / "jars", progress=lines.append)
    assert jars.class_path("kafka", jars_folder=tmp_path / "jars", progress=lines.append) == first
    assert (tmp_path / "calls").read_text().split() == ["call"]
    assert [line.split()[0] for line in lines] == ["kafka:", "kafka:"]


def test_kafka_and_cassandra_have_class_paths_of_their_own(programs, tmp_path):
    programs("mvn", """for a in "$@"; do case $a in -DoutputDirectory=*) : > "${a#*=}/one.jar";; esac; done""")
    both = {jars.class_path(name, jars_folder=tmp_path, progress=no_progress) for name in ("kafka", "cassandra")}
    assert len(both) == 2


def test_a_taken_port_is_named_with_its_server(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert not ports.is_free(port)
        with pytest.raises(PortTakenError, match=f"port {port} .* kafka") as raised:
            ports.require_free("kafka", [port])
        assert f"lsof -i :{port}" in raised.value.hint


def test_chosen_ports_are_free_distinct_and_safe_from_outgoing_connections():
    chosen = set()
    for _ in range(20):
        chosen.add(ports.choose_free(chosen))
    assert len(chosen) == 20
    assert all(20_000 <= port < 32_000 and ports.is_free(port) for port in chosen)


@pytest.mark.skipif(sys.platform != "linux", reason="ports are held on Linux only")
def test_a_chosen_port_is_nobody_elses_until_its_server_listens():
    ours = ports.Reservations()
    port = ours.choose()
    assert ports._bound(port) is None
    with socket.create_server(("127.0.0.1", port)):
        ours.let_go()
        ours.let_go()
        assert ports._bound(port) is None
    assert not ours._held


@pytest.fixture
def stack_of_failing_servers(programs, tmp_path):
    """Give a stack whose `java` prints 30 lines and ends."""
    programs("mvn", """for a in "$@"; do case $a in -DoutputDirectory=*) : > "${a#*=}/one.jar";; esac; done""")
    script = "import sys; [print('line', n) for n in range(30)]; sys.exit(0 if 'format' in sys.argv else 3)"
    programs(
        "java",
        f"""[ "$1" = -version ] && {{ echo 'version "17.0.1"' >&2; exit 0; }}
exec {sys.executable} -c "{script}" "$@" """,
    )
    return LocalStack(tmp_path / "stack", LocalSettings(jars_folder=tmp_path / "jars", start_timeout_s=10))


def test_a_server_that_dies_at_its_start_shows_its_last_lines(stack_of_failing_servers):
    with pytest.raises(ServerDiedError, match="kafka ended while starting") as raised:
        stack_of_failing_servers.up(no_progress)
    assert raised.value.log_tail.splitlines() == [f"line {n}" for n in range(10, 30)]
    assert "kafka.log" in raised.value.hint


def test_addresses_of_a_stack_that_never_ran_are_an_error(tmp_path):
    with pytest.raises(StackError, match="no stack has run"):
        LocalStack(tmp_path).addresses()


def test_unknown_servers_are_refused(tmp_path):
    with pytest.raises(StackError, match="no server named 'zookeeper'") as raised:
        LocalStack(tmp_path).kill("zookeeper")
    assert "kafka, cassandra" in raised.value.hint


def test_logs_are_kept_for_one_start_back(tmp_path):
    path = tmp_path / "logs" / "kafka.log"
    assert log_tail(path) == ""
    fresh_log(path).write_text("first")
    fresh_log(path).write_text("second" + os.linesep)
    assert (path.read_text().strip(), path.with_suffix(".log.1").read_text()) == ("second", "first")


def test_removing_data_leaves_what_the_servers_did_not_write(tmp_path):
    for name in ("logs", "kafka"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").touch()
    LocalStack(tmp_path).down(remove_data=True)
    assert (tmp_path / "logs" / "precious").exists()
    assert (tmp_path / "kafka" / "precious").exists()


def test_removing_data_removes_all_that_the_servers_wrote(stack_of_failing_servers):
    with pytest.raises(ServerDiedError):
        stack_of_failing_servers.up(no_progress)
    assert {"kafka", "logs"} <= {path.name for path in stack_of_failing_servers.data_folder.iterdir()}
    stack_of_failing_servers.down(remove_data=True)
    assert {path.name for path in stack_of_failing_servers.data_folder.iterdir()} <= {"lock", "state.json"}
