"""The client's commands, without Kafka."""

# ruff: noqa: D102 - what stands in for the real thing is named after it

import io
import json
import signal
import sys

import pytest
import typer
from typer.testing import CliRunner

from producers import Client, InvalidMessageError
from producers.arrivals import Arrivals, Place
from producers.checks import Limits
from producers.cli import lines, register
from producers.cli.lines import LINE_BYTES_MAX, BadLine, GoodLine, read, split
from producers.cli.load import Load, messages
from producers.cli.ports import NotFoundError, UsageError
from producers.errors import DeniedError, OutboxFullError, UnknownMessageError, UnreachableError
from producers.sent import Sent
from schemas.records import Delivery
from schemas.text import harmless


class Factory:
    """A deployment whose Kafka cannot be reached."""

    user = "alice"
    offline = False
    """Whether every client is: where a test need not wait for Kafka."""

    def __init__(self, folder):
        self.folder = folder

    def outbox_path(self, user):
        return self.folder / user

    def open_client(self, user, *, outbox=None, offline=False):
        path = outbox or self.outbox_path(user)
        return Client(user, outbox=path, bootstrap_servers="127.0.0.1:1", offline=offline or self.offline).open()

    def show(self, rows, columns, form):
        for row in rows:
            assert set(columns) <= set(row)
            sys.stdout.write(json.dumps(row) + "\n")

    def follow(self, columns, form):
        return lambda row: self.show([row], columns, form)


@pytest.fixture
def run(tmp_path):
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    factory = Factory(tmp_path)

    def invoked(*arguments, stdin=None):
        return CliRunner().invoke(app, [str(one) for one in arguments], obj=factory, input=stdin)

    invoked.factory = factory
    return invoked


def rows(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_text_stays_in_the_outbox_where_kafka_is_away(run):
    result = run("send", "hi", "--to", "bob", "--timeout", 0.1)
    assert result.exit_code == 5
    (row,) = rows(result)
    assert (row["state"], row["to"], row["conversation"]) == ("pending", ["bob"], "direct:alice+bob")
    assert "1 events stay in the outbox" in result.stderr
    (listed,) = rows(run("outbox", "list"))
    assert listed["message_id"] == row["message_id"]


def test_waiting_for_a_state_that_does_not_come(run):
    result = run("send", "hi", "--to", "bob", "--wait", "sent", "--timeout", 0.1)
    assert result.exit_code == 5
    assert "Kafka was not reached" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["send"], ["send", "hi"], ["send", "hi", "--to", "bob", "--count", 3], ["send", "--file", "/no/such"]]
)
def test_wrong_usage(run, arguments):
    error = run(*arguments).exception
    assert isinstance(error, UsageError)
    assert error.exit_code == 2
    assert error.hint


@pytest.mark.parametrize(
    "arguments",
    [
        ["hi", "--to", "alice"],
        ["hi", "--to", " bob"],
        ["hi", "--to", "bob", "--expires-in", -1],
        ["hi", "--to", "bob", "--expires-in", "nan"],
        ["--count", 3, "--to", "alice"],
        ["--count", 2_000, "--size", 99_999_999],
        ["--count", 3, "--recipients", 300],
    ],
)
def test_refused_options_write_nothing_and_end_with_2(run, arguments):
    run.factory.offline = True
    error = run("send", *arguments).exception
    assert isinstance(error, (InvalidMessageError, UsageError))
    assert error.exit_code == 2
    assert error.hint
    assert rows(run("outbox", "list")) == []


@pytest.mark.parametrize(
    ("what", "options", "named"),
    [
        (["--file", "-"], ["--to", "bob"], "--to"),
        (["--file", "-"], ["--conversation", "c"], "--conversation"),
        (["--file", "-"], ["--expires-in", 60], "--expires-in"),
        (["--count", 1], ["--conversation", "c"], "--conversation"),
        (["--count", 1], ["--expires-in", 60], "--expires-in"),
        (["--count", 1], ["--strict"], "--strict"),
        (["--count", 1], ["--rate", "inf"], "--rate"),
        (["hi", "--to", "bob"], ["--rate", 5], "--rate"),
        (["hi", "--to", "bob"], ["--size", 5], "--size"),
    ],
)
def test_options_that_say_nothing_about_what_is_sent_are_refused(run, what, options, named):
    run.factory.offline = True
    error = run("send", *what, *options, "--timeout", 0).exception
    assert isinstance(error, UsageError)
    assert named in error.message
    assert not run.factory.outbox_path("alice").exists()


def test_a_line_without_an_end_takes_bounded_memory():
    class Endless(io.RawIOBase):
        read = 0

        def read1(self, size):
            assert 0 < size <= LINE_BYTES_MAX
            self.read += size
            return b"x" * size if self.read < 4 * LINE_BYTES_MAX else b""

    parts = [part for (part,) in split(Endless())]
    assert [len(part) <= LINE_BYTES_MAX + lines._READ_BYTES for part in parts] == [True]
    assert list(read([parts], "alice", Limits())) == [[BadLine(1, f"longer than {LINE_BYTES_MAX} bytes")]]


def test_lines_after_one_that_is_too_long_keep_their_numbers():
    stream = io.BytesIO(b"x" * (3 * LINE_BYTES_MAX) + b'\n{"to": "bob", "body": "x"}\n{"to": "bob", "body": "y"}')
    found = [line.number for group in read(split(stream), "alice", Limits()) for line in group]
    assert found == [1, 2, 3]


def test_lines_come_as_soon_as_they_are_there():
    pieces = [b"o", b"ne\ntwo", b"\n", b"\nthree\nfo", b"ur", b""]

    class Slow(io.RawIOBase):
        def read1(self, _size):
            return pieces.pop(0)

    found = [(group, len(pieces)) for group in split(Slow())]
    assert found == [([b"one"], 4), ([b"two"], 3), ([b"", b"three"], 2), ([b"four"], 0)]


@pytest.mark.parametrize("after", [b"", b"\n", b"x\ny", b"\nx\ny\n", b"xxxx\n\n"])
def test_lines_are_the_same_however_they_are_read(monkeypatch, after):
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 8)
    whole = b"a\n\n" + b"x" * 9 + after
    for size in range(1, len(whole) + 1):
        monkeypatch.setattr(lines, "_READ_BYTES", size)
        found = [line[:9] for group in split(io.BytesIO(whole)) for line in group]
        assert found == [line[:9] for line in whole.splitlines()]


def test_lines_are_utf_8_whatever_they_look_like():
    group = ['\ufeff{"to": "bob", "body": "é"}'.encode(), '{"to": "bob", "body": "x"}'.encode("utf-16")]
    ((mark, other),) = read([group], "alice", Limits())
    assert isinstance(mark, GoodLine)
    assert mark.message.body == "é"
    assert isinstance(other, BadLine)


@pytest.fixture
def told(run, monkeypatch):
    """Return what makes clients without threads that were told something about Kafka."""

    def tell(*, error=None, **health):
        def open_client(user, *, outbox=None, offline=False):
            me = Client(user, outbox=outbox or run.factory.outbox_path(user), offline=True).open()
            me._health.set(**health)
            if error is not None:
                me._health.fail(error)
            return me

        monkeypatch.setattr(run.factory, "open_client", open_client)

    return tell


@pytest.mark.parametrize("wait", [[], ["--wait", "sent"]])
def test_why_nothing_goes_out_is_said_and_the_message_shown(run, told, wait):
    told(error=DeniedError("Kafka refuses this client: wrong password", "Check its credentials."))
    result = run("send", "hi", "--to", "bob", "--timeout", 0.01, *wait)
    assert (result.exit_code, len(rows(result))) == (1, 1)
    assert "Kafka refuses this client: wrong password. Check its credentials." in result.stderr
    assert "Kafka was not reached" not in result.stderr
    told(error=UnreachableError("there is no topic", "Make it."))
    result = run("send", "hi", "--to", "bob", "--timeout", 0.01, *wait)
    assert (result.exit_code, len(rows(result))) == (5, 1)
    assert "there is no topic. Make it." in result.stderr


def test_who_stands_by_does_not_say_that_kafka_was_not_reached(run, told):
    told(pumping=False)
    result = run("send", "hi", "--to", "bob", "--timeout", 0)
    assert "Kafka was not reached" not in result.stderr
    assert "1 events stay in the outbox" in result.stderr


def test_an_interrupted_wait_for_what_kafka_has_says_nothing_of_the_outbox(run, told, monkeypatch):
    told(reachable=True, pumping=True)

    def interrupted(sent, *_more):
        with sent._database.transaction() as connection:
            connection.execute("DELETE FROM queue")
        raise KeyboardInterrupt

    monkeypatch.setattr(Sent, "wait", interrupted)
    result = run("send", "hi", "--to", "bob", "--wait", "read", "--timeout", 0)
    assert (result.exit_code, result.stderr) == (130, "")


def test_that_no_worker_answers_is_told_from_a_kafka_that_is_away(run, told):
    told(reachable=True, pumping=True)
    result = run("send", "hi", "--to", "bob", "--wait", "sent", "--timeout", 0)
    assert "twotick owners" not in result.stderr, "Kafka was handed nothing yet"
    with run.factory.open_client("alice") as me, me._database.transaction() as connection:
        connection.execute("UPDATE queue SET handed = 1")
    result = run("send", "more", "--to", "bob", "--wait", "sent", "--timeout", 0)
    assert "no worker has answered: `twotick owners`" in result.stderr


def test_what_is_sent_and_not_read_yet_is_partly_done(run, told, monkeypatch):
    told(reachable=True, pumping=True)
    monkeypatch.setattr(Sent, "state", "sent")
    result = run("send", "hi", "--to", "bob", "--wait", "read", "--timeout", 0)
    assert result.exit_code == 4
    assert result.stderr == "1 of 1 messages are not read yet\n"


FILE = (
    b'{"to": "bob", "body": "one"}\n'
    b"\n"
    b"no json\n"
    b'{"to": ["bob", "carol"], "conversation": "c", "body": "two", "expires_in_s": 60}\n'
    b'{"to": "bob", "boddy": "typo"}\n'
    b'{"to": "bob"}\n'
    b'{"to": "bob", "body": "x", "expires_at": "2030-01-01T00:00:00"}\n'
    b'{"to": "bob", "body": "\\ud800"}\n'
    b'{"to": "bob", "body": 7}\n'
    b"[1]\n"
    b'{"to": "\x1b[2J", "body": "x"}\n'
    b"\xff\xfe\n"
    b'{"to": "bob", "body": "three", "expires_at": "2030-01-01T00:00:00+02:00"}\n'
)


def test_good_lines_of_a_file_are_sent_and_bad_ones_named(run, tmp_path):
    (tmp_path / "file").write_bytes(FILE)
    result = run("send", "--file", tmp_path / "file", "--timeout", 0)
    assert [row["to"] for row in rows(result)] == [["bob"], ["bob", "carol"], ["bob"]]
    told = result.stderr.splitlines()
    assert [line.removeprefix(f"{tmp_path}/file:").split(":")[0] for line in told[:9]] == [*"356789", "10", "11", "12"]
    assert "boddy" in told[1]
    assert "'body' is missing" in told[2]
    assert "\x1b" not in result.stderr
    assert result.exit_code in {1, 4, 5}


@pytest.mark.parametrize("error", [OutboxFullError("no room left"), KeyboardInterrupt()])
def test_how_far_a_file_got_is_said_where_it_was_not_to_its_end(run, tmp_path, monkeypatch, error):
    run.factory.offline = True
    monkeypatch.setattr(lines, "_READ_BYTES", 56)
    send_many, calls = Client.send_many, []

    def failing(self, messages):
        calls.append(list(messages))
        if len(calls) == 3:
            raise error
        return send_many(self, calls[-1])

    monkeypatch.setattr(Client, "send_many", failing)
    (tmp_path / "file").write_bytes(b'{"to": "bob", "body": "x"}\n\n' * 7)
    result = run("send", "--file", tmp_path / "file")
    assert f"lines 1 to 7 of {tmp_path}/file are in the outbox, go on with line 8" in result.stderr
    assert len(rows(run("outbox", "list"))) == 4


@pytest.mark.parametrize(("which", "written"), [(2, 4), (4, 7)])
def test_lines_that_are_being_written_at_ctrl_c_count_as_written(run, tmp_path, monkeypatch, which, written):
    run.factory.offline = True
    monkeypatch.setattr(lines, "_READ_BYTES", 54)
    send_many, calls = Client.send_many, []

    def interrupted(self, messages):
        sent = send_many(self, messages)
        calls.append(sent)
        if len(calls) == which:
            signal.raise_signal(signal.SIGINT)
        return sent

    monkeypatch.setattr(Client, "send_many", interrupted)
    (tmp_path / "file").write_bytes(b'{"to": "bob", "body": "x"}\n' * 7)
    # Whoever runs the tests in the background may have them ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = run("send", "--file", tmp_path / "file")
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130
    assert len(rows(run("outbox", "list"))) == written
    assert f"lines 1 to {written} of {tmp_path}/file are in the outbox, go on with line {written + 1}" in result.stderr


def test_a_full_disk_is_no_server_that_did_not_answer():
    assert (OutboxFullError("full").exit_code, OutboxFullError("full").retriable) == (1, True)


def test_strict_sends_nothing_where_a_line_is_bad(run, tmp_path):
    (tmp_path / "file").write_bytes(FILE)
    result = run("send", "--file", tmp_path / "file", "--strict")
    assert isinstance(result.exception, UsageError)
    assert rows(run("outbox", "list")) == []


def test_standard_input(run):
    result = run("send", "--file", "-", "--timeout", 0, stdin=b'{"to": "bob", "body": "piped"}\n')
    assert len(rows(result)) == 1


def test_a_line_is_checked_like_any_message():
    ((good, bad),) = read([[b'{"to": "bob", "body": "x"}', b'{"to": "", "body": "x"}']], "alice", Limits())
    assert isinstance(good, GoodLine)
    assert good.checked.conversation_id == "direct:alice+bob"
    assert bad == BadLine(2, "the recipient is empty")


def test_test_load(run):
    result = run("send", "--count", 25, "--conversations", 4, "--recipients", 2, "--size", 10, "--timeout", 0)
    sent = rows(result)
    assert len(sent) == 25
    assert len({row["conversation"] for row in sent}) == 4
    assert all(len(row["to"]) == 2 for row in sent)


def test_test_load_is_numbered_and_sized():
    load = Load(count=5, rate=0, size=8, conversations=2, recipients=1, to=("bob",), prefix="p-")
    made = list(messages(load))
    assert [message.body for message in made] == ["0 xxxxxx", "1 xxxxxx", "2 xxxxxx", "3 xxxxxx", "4 xxxxxx"]
    assert [message.conversation for message in made[:3]] == [
        "p-conversation-0",
        "p-conversation-1",
        "p-conversation-0",
    ]


def test_cancelling_and_retrying(run):
    message_id = rows(run("send", "hi", "--to", "bob", "--timeout", 0))[0]["message_id"]
    assert "0 events are due" in run("outbox", "retry", message_id).stderr
    assert rows(run("outbox", "cancel", message_id))[0]["state"] == "failed(cancelled)"
    assert rows(run("outbox", "list", "--pending")) == []
    result = run("outbox", "cancel", message_id)
    assert (result.exit_code, rows(result)[0]["state"]) == (0, "failed(cancelled)")
    for command in ("cancel", "retry"):
        error = run("outbox", command, "01a2284b-82e1-763e-96b0-71690944b91d").exception
        assert isinstance(error, UnknownMessageError)
        assert error.exit_code == 3
    assert isinstance(run("outbox", "cancel", "rubbish").exception, UnknownMessageError)


def test_it_is_too_late_to_cancel(run, monkeypatch):
    run.factory.offline = True
    message_id = rows(run("send", "hi", "--to", "bob", "--timeout", 0))[0]["message_id"]
    monkeypatch.setattr(Client, "cancel", lambda _client, _message: "delivered")
    result = run("outbox", "cancel", message_id)
    assert (result.exit_code, len(rows(result))) == (1, 1)
    assert "too late to cancel it: it is delivered" in result.stderr


@pytest.mark.parametrize("command", [["list"], ["retry"], ["cancel", "01a2284b-82e1-763e-96b0-71690944b91d"]])
def test_an_outbox_that_is_not_there_is_not_made(run, command):
    error = run("outbox", *command, "--as", "alcie").exception
    assert isinstance(error, NotFoundError)
    assert error.exit_code == 3
    assert not run.factory.outbox_path("alcie").exists()


@pytest.mark.parametrize(
    ("health", "code", "said"),
    [
        ({"reachable": True}, 0, ""),
        ({}, 0, ""),
        ({"pumping": True}, 5, "there may be more"),
        ({"reachable": False, "pumping": True}, 5, "there may be more"),
        ({"error": UnreachableError("no broker", "Look.")}, 5, "no broker. Look."),
        ({"error": DeniedError("no", "Look at the ACLs.")}, 1, "no. Look at the ACLs."),
    ],
)
def test_receiving_says_where_there_may_be_more(run, told, health, code, said):
    told(**health)
    result = run("receive", "--timeout", 0.01)
    assert result.exit_code == code
    assert said in result.stderr
    assert bool(result.stderr) == bool(said)
    assert run("receive", "--timeout", 0).exit_code == 0, "nobody waited for Kafka"


def test_who_has_as_many_as_were_asked_for_has_all(run, arrived, told):
    told(error=UnreachableError("no broker", "Look."))
    result = run("receive", "--limit", 1, "--timeout", 0.01)
    assert (result.exit_code, len(rows(result))) == (0, 1)
    assert run("receive", "--limit", 3, "--timeout", 0.01).exit_code == 5


def test_watching_nothing_ends(run):
    assert run("watch", "--timeout", 0.01).exit_code == 0


@pytest.mark.parametrize("timeout", ["inf", "1e10"])
def test_watching_may_wait_longer_than_the_system_can_tell(run, monkeypatch, timeout):
    run.factory.offline = True
    on_tick = Client.on_tick

    def followed_by_one(self, callback):
        on_tick(self, callback)
        self.cancel(self.send(to="bob", body="hi"))

    monkeypatch.setattr(Client, "on_tick", followed_by_one)
    result = run("watch", "--timeout", timeout, "--limit", 1)
    assert (result.exit_code, [row["state"] for row in rows(result)]) == (0, ["failed(cancelled)"])


@pytest.fixture
def arrived(run):
    """Let three messages have come in for alice."""
    run.factory.offline = True
    with run.factory.open_client("alice", offline=True) as me:
        arrivals = Arrivals(me._database, me._outbox, "alice", me._clock)
        deliveries = [
            Delivery("alice", "c", bytes([number]) * 16, "bob", ("alice",), b"hi", "", 1, 2**42, 1)
            for number in range(3)
        ]
        arrivals.apply(deliveries, Place("cluster", "twotick.inbox", 0), 3)


@pytest.mark.parametrize("form", [[], ["--output", "table"], ["--output", "jsonl"], ["--output", "json"]])
def test_what_could_not_be_shown_comes_again_and_was_not_read(run, arrived, form):
    shown = []

    def show(row):
        if shown:
            raise OSError(28, "No space left on device")
        shown.append(row)

    run.factory.follow = lambda columns, form: show
    run.factory.show = lambda rows, columns, form: [show(row) for row in rows]
    result = run("receive", "--read", "--timeout", 0, *form)
    assert isinstance(result.exception, OSError)
    with run.factory.open_client("alice", offline=True) as me:
        assert me.stats().outbox.waiting == 2
        read = me._database.connection().execute("SELECT count(*) FROM deliveries WHERE was_read = 1").fetchone()[0]
        assert read == 1


@pytest.mark.parametrize("form", [[], ["--output", "table"]])
def test_what_is_received_is_shown_as_it_comes(run, arrived, form):
    waiting = []

    def show(row):
        with run.factory.open_client("alice", offline=True) as me:
            waiting.append(me.stats().outbox.waiting)
        raise KeyboardInterrupt

    run.factory.follow = lambda columns, form: show
    assert run("receive", "--timeout", 0, *form).exit_code == 130
    assert waiting == [3]


def test_no_user(run):
    run.factory.user = ""
    assert isinstance(run("receive").exception, UsageError)


def test_foreign_text_is_harmless():
    assert harmless("a\x1b[2Jb\u202ec\n") == "a\\x1b[2Jb\\u202ec\\n"
