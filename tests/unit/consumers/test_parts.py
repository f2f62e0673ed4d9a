"""The small parts of a worker, each by itself."""

import json
import logging
from pathlib import Path

import pytest

from consumers.counters import Counters
from consumers.errors import EXIT_CODES, ExitCode, StoreRefusedError, StoreUnavailableError, StuckError, exit_code_of
from consumers.health import ProgressWatch, Watchdog, write_status
from consumers.intake import Intake
from consumers.kafka_clients import consumer_config, member_of, producer_config
from consumers.logs import JsonFormatter, TextFormatter
from consumers.low_water import LowWaterMark
from consumers.outage import Outage
from consumers.pending import PendingDeliveries
from consumers.redelivery import Schedule, redeliver
from consumers.rows import MessageRow
from consumers.settings import WorkerSettings
from consumers.stores.contract import Content, Pending
from consumers.supervisor import RestartPolicy
from consumers.takeover import Start, start_of
from schemas.codec import PLAIN, encode
from schemas.errors import PinnedSettingError
from schemas.lifecycle import Kind, Reason, State
from schemas.records import Delivery
from tests.unit.consumers.world import START_MS, event, message_id, send


@pytest.mark.parametrize(
    ("committed", "low", "high", "start"),
    [
        (None, 0, 9, Start(0, 0, None, replays=True)),
        (None, 5, 9, Start(5, 5, None, replays=True)),
        (100, 0, 200, Start(90, 100, None, replays=False)),
        (100, 95, 200, Start(95, 100, None, replays=False)),
        (5, 0, 5, Start(0, 5, None, replays=False)),
        (100, 150, 200, Start(150, 150, (100, 150), replays=False)),
        (100, 0, 50, Start(0, 0, (50, 100), replays=False)),
    ],
)
def test_where_a_new_owner_starts(committed: int | None, low: int, high: int, start: Start) -> None:
    # case K16, and never a silent jump
    assert start_of(committed, low, high, tail_records=10) == start


def test_the_low_water_mark_passes_only_what_is_finished() -> None:
    # case K9
    mark = LowWaterMark(7)
    spans = [mark.begin(offset) for offset in (10, 12, 20)]
    mark.finish(spans[1])
    assert mark.offset == 7
    mark.finish(spans[0])
    assert mark.offset == 12
    mark.finish(spans[2])
    assert (mark.offset, mark.unfinished) == (20, 0)


def test_waits_grow_are_bounded_and_the_same_for_every_owner() -> None:
    schedule = Schedule(first_wait_s=10, factor=2, wait_s_max=60, jitter=0.2)
    waits = [schedule.wait_ms(attempt, message_id(3)) for attempt in range(1, 100)]
    for attempt, wait in enumerate(waits):
        assert 0.8 * min(10_000 * 2**attempt, 60_000) - 1 <= wait <= 1.2 * 60_000
    assert waits == [schedule.wait_ms(attempt, message_id(3)) for attempt in range(1, 100)]
    assert len({schedule.wait_ms(1, message_id(number)) for number in range(20)}) > 10


def row(*receipts: str, deliver_by: int = START_MS + 1_000) -> MessageRow:
    users = ("bob", "carol")[: len(receipts)]
    return MessageRow(
        "c",
        message_id(1),
        State.SENT,
        "alice",
        users,
        receipts,
        b"",
        b"i" * 16,
        1,
        0,
        START_MS,
        deliver_by,
        1,
        (1, 0),
        1,
    )


def test_only_those_who_are_owed_a_message_get_it_again() -> None:
    due = [Pending("c", message_id(1), 3)]
    key = ("c", message_id(1))
    done = redeliver(due, {key: row(State.READ, State.SENT)}, {key: Content(b"hi", "")}, START_MS)
    assert [(each.user, each.attempt) for each in done.deliveries] == [("carol", 4)]
    assert [attempt for _, attempt in done.again] == [4]
    assert redeliver(due, {key: row(State.READ, State.READ)}, {}, START_MS) == ([], [], [])
    assert redeliver(due, {}, {}, START_MS) == ([], [], [])


def test_what_is_over_its_time_becomes_an_expire_event() -> None:
    key = ("c", message_id(1))
    done = redeliver([Pending(*key, 3)], {key: row(State.SENT)}, {key: Content(b"hi", "")}, START_MS + 1_001)
    assert [(each.kind, each.actor, each.message_id) for each in done.expiries] == [(Kind.EXPIRE, "", key[1])]
    assert done.deliveries == []
    assert [attempt for _, attempt in done.again] == [3]


def test_a_due_delivery_is_taken_once_and_memory_follows_what_waits() -> None:
    pending = PendingDeliveries()
    for number in range(5_000):
        pending.add(("c", message_id(number)), number, START_MS, START_MS + number)
    assert [offset for _, (offset, *_) in pending.due(START_MS + 1, 10)] == [0, 1]
    assert list(pending.due(START_MS + 1, 10)) == []
    pending.again(("c", message_id(0)), START_MS + 9_000, 2)
    for number in range(1, 5_000):
        pending.settle(("c", message_id(number)))
    assert [(key, waiting.attempt) for key, waiting in pending.due(START_MS + 9_000, 10)] == [(("c", message_id(0)), 2)]
    assert len(pending._due) < 2_000
    assert pending.oldest_offset() == 0


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"c", None, Reason.UNDECODABLE),
        (b"c", b"", Reason.UNDECODABLE),
        (b"c", b"Obj\x01", Reason.UNDECODABLE),
        (b"c", b"x" * 2_001, Reason.OVERSIZED),
        (b"c", encode(Delivery("u", "c", b"m" * 16, "a", (), b"", "", 0, 0)), Reason.UNDECODABLE),
        (b"d", encode(send(1)), Reason.WRONG_KEY),
        (None, encode(send(1)), Reason.WRONG_KEY),
        (b"", encode(send(1)._replace(conversation_id="")), Reason.INVALID),
        (b"c", encode(send(1)._replace(message_id=b"m" * 16)), Reason.INVALID),
        (b"c", encode(send(1)._replace(event_id=b"m" * 16)), Reason.INVALID),
        (b"c", encode(send(1)._replace(actor="")), Reason.INVALID),
        (b"c", encode(send(1)._replace(actor="a\0b")), Reason.INVALID),
        (b"c", encode(send(1)._replace(seq=-1)), Reason.INVALID),
        (b"c", encode(send(1)._replace(recipients=("bob", "bob"))), Reason.INVALID),
        (b"c", encode(send(1)._replace(delivery_timeout_s=-1)), Reason.INVALID),
        (b"c", encode(event("BLOCK", 1, "bob", subject="")), Reason.INVALID),
        (b"c", encode(event("PARK", 1, "bob")), Reason.NOT_AN_OPERATOR),
        (b"c", encode(event("RELEASE", 1, "")), Reason.NOT_AN_OPERATOR),
    ],
)
def test_what_is_no_event_is_named(key: bytes | None, value: bytes | None, reason: str) -> None:
    # cases A2, A3, K18
    entry = Intake(PLAIN.decode, 2_000).admit(5, START_MS, key, value)
    assert (entry.event, entry.reason) == (None, reason)
    assert entry.detail


def test_what_is_an_event_is_let_in() -> None:
    intake = Intake(PLAIN.decode, 2_000)
    known = [send(1), event("READ", 1, "bob"), event("EXPIRE", 1, ""), event("EXPIRE", 1, "bob")]
    known += [event("BLOCK", 1, "bob", subject="alice")]
    for each in [*known, *known]:
        entry = intake.admit(5, START_MS, b"c", encode(each))
        assert entry.event == each


def test_an_operator_parks_and_releases_and_nobody_else() -> None:
    intake = Intake(PLAIN.decode, 2_000, ["ops@one"])
    for kind in ("PARK", "RELEASE"):
        for actor, reason in (("ops@one", ""), ("ops", Reason.NOT_AN_OPERATOR), ("bob", Reason.NOT_AN_OPERATOR)):
            assert intake.admit(5, START_MS, b"c", encode(event(kind, 1, actor))).reason == reason


def test_waits_for_a_server_grow_and_end() -> None:
    outage = Outage(first_s=1, s_max=5)
    assert [outage.failed("down", 0.0, 1.0) for _ in range(5)] == [1, 2, 4, 5, 5]
    assert outage.active
    outage.over()
    assert not outage.active
    assert outage.failed("down", 0.0, 0.0) == 0.5


def test_a_loop_that_stands_still_ends_the_process() -> None:
    # case K20
    ended: list[int] = []
    turns = iter([1, 2, 2, 2, 2, 2])
    watchdog = Watchdog(lambda: next(turns), 3.0, ended.append)
    for _ in range(4):
        watchdog.tick()
    assert ended == []
    watchdog.tick()
    assert ended == [ExitCode.STUCK]


def test_records_that_wait_while_nothing_moves_are_noticed() -> None:
    # case K20
    progress = ProgressWatch(10.0, now=0.0)
    assert progress.stuck_s("a", 5, 1.0) == 0
    assert progress.stuck_s("a", 5, 10.0) == 0
    assert progress.stuck_s("b", 5, 12.0) == 0
    assert progress.stuck_s("b", 0, 30.0) == 0
    progress.excuse(35.0)
    assert progress.stuck_s("b", 5, 40.0) == 0
    assert progress.stuck_s("b", 5, 46.0) == pytest.approx(11.0)


def test_a_worker_that_would_end_the_same_way_is_not_restarted() -> None:
    # case K21
    policy = RestartPolicy(first_s=1, s_max=8)
    assert policy.wait_s(ExitCode.LOST_RANGE, 1) is None
    assert policy.wait_s(ExitCode.TOPIC_CHANGED, 1) is None
    assert [policy.wait_s(-9, deaths) for deaths in (1, 2, 3, 4, 50)] == [1, 2, 4, 8, 8]


def test_a_worker_that_was_fenced_is_restarted_once() -> None:
    # case K15: it may have been fenced by itself; fenced again, there is another
    policy = RestartPolicy(fenced_s=5)
    assert policy.wait_s(ExitCode.FENCED, 4, 1) == 5
    assert policy.wait_s(ExitCode.FENCED, 5, 2) is None


def test_a_worker_that_found_no_server_tries_again_soon() -> None:
    policy = RestartPolicy(first_s=1, s_max=60, waiting_s_max=5)
    for code in (ExitCode.UNREACHABLE, ExitCode.UNRELEASED):
        assert [policy.wait_s(code, deaths) for deaths in range(1, 6)] == [1, 2, 4, 5, 5]
    assert policy.wait_s(ExitCode.FAILED, 5) == 16


def test_every_exit_code_is_explained() -> None:
    assert set(EXIT_CODES) == set(ExitCode)
    assert exit_code_of(StuckError("x")) == ExitCode.STUCK
    assert exit_code_of(StoreRefusedError("x")) == ExitCode.STORE_REFUSED
    assert exit_code_of(StoreUnavailableError("x")) == ExitCode.UNREACHABLE
    assert exit_code_of(RuntimeError("x")) == ExitCode.FAILED


def test_client_settings_keep_what_is_pinned() -> None:
    settings = WorkerSettings()
    kafka = {"bootstrap.servers": "x", "fetch.wait.max.ms": 10}
    classic = consumer_config(kafka, settings, "n-0")
    assert classic["partition.assignment.strategy"] == "cooperative-sticky"
    assert classic["group.instance.id"] == "n-0"
    assert classic["auto.offset.reset"] == "error"
    modern = consumer_config(kafka, WorkerSettings(protocol="consumer"), "")
    assert modern["group.protocol"] == "consumer"
    assert not {"session.timeout.ms", "partition.assignment.strategy", "group.instance.id"} & set(modern)
    assert "fetch.wait.max.ms" not in producer_config(kafka)
    with pytest.raises(PinnedSettingError):
        producer_config({**kafka, "acks": "1"})


def test_log_lines_carry_fields_and_no_control_characters() -> None:
    record = logging.makeLogRecord({"msg": "partition taken", "levelname": "INFO", "partition": 3, "who": "a\x1b[2J"})
    line = json.loads(JsonFormatter("n-0").format(record))
    assert (line["event"], line["partition"], line["node"]) == ("partition taken", 3, "n-0")
    assert "\x1b" not in TextFormatter("n-0").format(record)


def test_a_text_line_of_a_library_is_one_line_without_control_characters_and_so_is_each_of_its_trace() -> None:
    error = ValueError("no \x1b[2J such host")
    told = (ValueError, error, None)
    record = logging.makeLogRecord({"msg": "a \x1b[1m host\nforged", "levelname": "WARNING", "exc_info": told})
    first, *trace = TextFormatter("n-0").format(record).split("\n")
    assert first.endswith("WARNING  n-0 a \\x1b[1m host\\nforged")
    assert trace[-1] == "ValueError: no \\x1b[2J such host"


def test_a_status_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "worker.json"
    write_status(path, {"turns": 1})
    write_status(path, {"turns": 2, "counters": Counters().as_dict()})
    assert json.loads(path.read_text())["turns"] == 2
    assert [each.name for each in path.parent.iterdir()] == ["worker.json"]


def test_a_static_member_is_another_one_in_each_generation() -> None:
    assert [member_of("n-0", generation) for generation in (1, 2, 3)] == ["n-0", "n-0-generation-2", "n-0-generation-3"]
