"""Worker processes on the embedded broker and a SQLite store: killed, stopped, rebalanced, starved, poisoned."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compose.stacks.embedded import EmbeddedBroker
from consumers.errors import ExitCode
from consumers.stores.contract import StoredMessage
from consumers.stores.sqlite import SqliteStore
from consumers.worker import LEAVE_S
from schemas.codec import encode
from schemas.lifecycle import Outcome, Reason, State
from schemas.partitioner import partition_of
from schemas.records import Event
from tests.integration.deployment import PARTITIONS, Deployment, check_story, dropped, until

SETTINGS: dict[str, Any] = {
    "group": "twotick",
    "protocol": "consumer",
    "static_members": False,
    "session_timeout_s": 1.5,
    "log_append_time_required": False,
    "commit_interval_s": 0.1,
    "retry_first_s": 0.05,
    "retry_s_max": 0.3,
}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(PARTITIONS) as broker:
        yield broker


@pytest.fixture
def deployment(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Deployment]:
    kafka = {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10}
    made = Deployment(tmp_path, kafka, {**SETTINGS, "topic_identity": broker.cluster_id})
    try:
        yield made
    finally:
        made.close()


def stored(deployment: Deployment) -> dict[bytes, StoredMessage]:
    """Return all rows by message id."""
    store = SqliteStore.open(deployment.store_path)
    try:
        return {each.row.message_id: each for each in store.all_messages()}
    finally:
        store.close()


def all_read(deployment: Deployment, sent: list[Event]) -> bool:
    rows = stored(deployment)
    return all(event.message_id in rows and rows[event.message_id].row.state == State.READ for event in sent)


def conversations(deployment: Deployment, count: int, messages: int) -> list[Event]:
    """Write messages and their receipts in several conversations."""
    return deployment.talk([f"c{number}" for number in range(count)], messages)


def check_stories(deployment: Deployment, sent: list[Event]) -> None:
    """Each message is there once, went sent, delivered, read, and has its content."""
    rows = stored(deployment)
    assert set(rows) == {event.message_id for event in sent}
    for event in sent:
        check_story(rows[event.message_id], event)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_the_whole_way_of_a_message(deployment: Deployment, protocol: str) -> None:
    # case K5, K19: both protocols; every event answered, the sender ticked, exit code 0
    worker = deployment.start(protocol=protocol)
    sent = conversations(deployment, 3, 4)
    until(lambda: all_read(deployment, sent), "all rows read")
    until(lambda: deployment.committed() == 36, "all committed")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == ExitCode.DONE
    check_stories(deployment, sent)
    answers = deployment.answers()
    for event in sent:
        mine = [each for each in answers if each.message_id == event.message_id and each.user == "alice"]
        assert sorted((each.kind, each.state) for each in mine) == [
            ("DELIVERED", "DELIVERED"),
            ("READ", "READ"),
            ("SEND", "SENT"),
        ]
    assert sorted(each.message_id for each in deployment.deliveries()) == sorted(e.message_id for e in sent)


def test_a_worker_with_nothing_to_do_ends_clean(deployment: Deployment) -> None:
    # case K19: nothing stored, nothing committed, exit code 0
    worker = deployment.start()
    until(lambda: bool(worker.lines("partition taken")), "a partition is taken")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == ExitCode.DONE


def test_killed_in_the_middle_nothing_is_lost(deployment: Deployment) -> None:
    # case K7 - kill -9 while batches are in flight; only what is finished was committed
    worker = deployment.start(batch_records_max=7)
    sent = conversations(deployment, 5, 600)
    until(lambda: worker.counters().get("applied", 0) > 20, "work has begun")
    worker.signal(signal.SIGKILL)
    worker.wait()
    assert deployment.committed() < 9_000
    deployment.start()
    until(lambda: all_read(deployment, sent), "all rows read")
    check_stories(deployment, sent)
    until(lambda: all(_told(deployment, sent)), "every SEND is answered")


def _told(deployment: Deployment, sent: list[Event]) -> list[bool]:
    answered = {each.event_id for each in deployment.answers() if each.user == "alice"}
    return [event.event_id in answered for event in sent]


def test_a_stopped_owner_comes_back_and_drops_its_partitions(deployment: Deployment) -> None:
    # case K4: SIGSTOP past the session time-out; B owns and moves on; A goes on with its old batch
    first = deployment.start(0, stall_s=0.5, batch_records_max=5)
    sent = conversations(deployment, 4, 5)
    until(lambda: all_read(deployment, sent), "the first owner works")
    first.signal(signal.SIGSTOP)
    second = deployment.start(1)
    more = conversations(deployment, 4, 10)
    until(lambda: all_read(deployment, more), "the second owner has moved on")
    before = {key: (each.row.version, each.row.stamp) for key, each in stored(deployment).items()}
    first.signal(signal.SIGCONT)
    until(lambda: dropped(first), "it notices, by its lease or by the group")
    again = conversations(deployment, 4, 2)
    until(lambda: all_read(deployment, again), "both go on")
    rows = stored(deployment)
    assert all((rows[key].row.version, rows[key].row.stamp) >= old for key, old in before.items())
    check_stories(deployment, sent + more + again)
    assert second.process.poll() is None
    assert first.process.poll() is None


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_second_worker_takes_its_share(deployment: Deployment, protocol: str) -> None:
    # cases K5, K6: incremental rebalance under both protocols while records flow; every partition owned once
    first = deployment.start(0, protocol=protocol)
    sent = conversations(deployment, 5, 10)
    until(lambda: len(first.status().get("partitions", ())) == 4, "the first owns all")
    second = deployment.start(1, protocol=protocol)
    sent += conversations(deployment, 5, 10)
    until(lambda: len(second.status().get("partitions", ())) == 2, "the second has its share")
    until(lambda: len(first.status().get("partitions", ())) == 2, "the first has the rest")
    assert not set(first.status()["partitions"]) & set(second.status()["partitions"])
    sent += conversations(deployment, 5, 10)
    until(lambda: all_read(deployment, sent), "all rows read")
    check_stories(deployment, sent)
    until(lambda: deployment.committed() == 450, "all committed")
    for worker in (first, second):
        worker.signal(signal.SIGTERM)
        assert worker.wait() == ExitCode.DONE


def test_poison_goes_to_the_dead_letters_and_its_neighbours_go_on(deployment: Deployment) -> None:
    # cases M3, M7, K18, A2: original bytes, headers and reason are kept; what comes after is applied
    deployment.start()
    good = deployment.send("c", 1)
    deployment.raw(b"Obj\x01 a container", b"c", headers=[("traceparent", b"00-x")])
    deployment.raw(None, b"c")
    deployment.raw(b"x" * 1_000_001, b"c")
    stray = Event("SEND", deployment.id(), "c", deployment.id(), "alice", b"i" * 16, 2, ("bob",), b"?")
    deployment.raw(encode(stray), b"other")
    deployment.raw(encode(stray._replace(message_id=b"m" * 16)), b"c")
    elsewhere = next(n for n in range(PARTITIONS["twotick.events"]) if n != _partition("d"))
    deployment.raw(encode(stray._replace(conversation_id="d")), b"d", partition=elsewhere)
    forged = deployment.receipt("READ", good, actor="mallory")
    unknown = Event("READ", deployment.id(), "c", deployment.id(), "bob", b"j" * 16)
    deployment.put(unknown)
    deployment.receipt("DELIVERED", good)
    deployment.receipt("READ", good)
    deployment.flush()
    until(lambda: all_read(deployment, [good]), "the neighbours are applied")
    until(lambda: len(deployment.dead_letters()) == 8, "all dead letters are written")
    letters = {each.reason: each for each in deployment.dead_letters()}
    assert sorted(each.reason for each in deployment.dead_letters()) == sorted(
        [
            Reason.UNDECODABLE,
            Reason.UNDECODABLE,
            Reason.OVERSIZED,
            Reason.WRONG_KEY,
            Reason.INVALID,
            Reason.WRONG_PARTITION,
            Reason.NOT_A_RECIPIENT,
            Reason.UNKNOWN_MESSAGE,
        ]
    )
    assert letters[Reason.WRONG_KEY].value == encode(stray)
    assert letters[Reason.WRONG_KEY].key == b"other"
    containers = [each for each in deployment.dead_letters() if each.value.startswith(b"Obj")]
    assert containers[0].headers == (("traceparent", b"00-x"),)
    assert deployment.answered(forged)
    assert deployment.answered(unknown)
    assert len(stored(deployment)) == 1


def _partition(conversation: str) -> int:
    return partition_of(conversation.encode(), PARTITIONS["twotick.events"])


def test_the_store_is_down_for_a_while(deployment: Deployment) -> None:
    # cases C8, K1: the worker pauses, keeps polling and its partitions, and goes on by itself; no dead letters
    worker = deployment.start(poll_interval_s_max=10, watchdog_s=3)
    sent = conversations(deployment, 3, 3)
    until(lambda: all_read(deployment, sent), "it works")
    deployment.outage.touch()
    more = conversations(deployment, 3, 5)
    until(lambda: worker.status().get("state") == "store-down", "it says so")
    turns = worker.status()["turns"]
    until(lambda: worker.status()["turns"] > turns + 200, "the loop moves on")
    until(lambda: worker.counters()["store_errors"] > 3, "it tries again and again")
    deployment.outage.unlink()
    until(lambda: all_read(deployment, more), "it goes on")
    check_stories(deployment, sent + more)
    assert deployment.dead_letters() == []
    assert worker.lines("partitions revoked") == []
    until(lambda: worker.status()["state"] == "running", "it says so")


def test_the_store_is_down_when_partitions_come(deployment: Deployment) -> None:
    # case C8: a lease cannot be claimed yet; the member stays in the group and takes its partitions later
    worker = deployment.start()
    until(lambda: len(worker.status().get("partitions", ())) == 4, "it owns all")
    worker.signal(signal.SIGKILL)
    worker.wait()
    second = deployment.start(watchdog_s=5)
    until(lambda: bool(second.lines("worker started")), "it has started")
    deployment.outage.touch()
    sent = conversations(deployment, 3, 3)
    deployment.outage.unlink()
    until(lambda: all_read(deployment, sent), "it takes them when the store is back")


def test_the_broker_is_down_for_a_while(deployment: Deployment, broker: EmbeddedBroker) -> None:
    # cases K2, K10: errors pass by; what was written meanwhile is applied afterwards
    worker = deployment.start(watchdog_s=2)
    sent = conversations(deployment, 3, 3)
    until(lambda: all_read(deployment, sent), "it works")
    broker.go_down()
    until(lambda: worker.counters().get("kafka_errors", 0) > 0, "it notices")
    broker.come_up()
    more = conversations(deployment, 3, 3)
    until(lambda: all_read(deployment, more), "it goes on")
    assert worker.process.poll() is None


def test_duplicates_get_the_first_answer_again(deployment: Deployment) -> None:
    # case M6, K3: same outcome state, same version, row unchanged
    deployment.start()
    event = deployment.send("c", 1)
    deployment.put(event)
    changed = event._replace(event_id=deployment.id(), body=b"other")
    deployment.put(changed)
    deployment.flush()
    until(lambda: len([each for each in deployment.answers() if each.message_id == event.message_id]) == 3, "3 answers")
    answers = sorted((each.log_offset, each.outcome, each.state, each.version) for each in deployment.answers())
    assert [each[1:] for each in answers] == [
        (Outcome.APPLIED, State.SENT, 1),
        (Outcome.DUPLICATE, State.SENT, 1),
        (Outcome.CONFLICT, State.SENT, 1),
    ]
    assert stored(deployment)[event.message_id].content.body == b"hi"
    until(
        lambda: [each.reason for each in deployment.dead_letters()] == [Reason.CONTENT_DIFFERS], "the conflict is kept"
    )


def test_replay_from_the_first_record_changes_no_row(deployment: Deployment) -> None:
    # cases K16, M4: committed offsets gone, so everything is folded again
    worker = deployment.start()
    sent = conversations(deployment, 4, 10)
    until(lambda: all_read(deployment, sent), "all rows read")
    until(lambda: deployment.committed() == 120, "all committed")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == ExitCode.DONE
    before = {
        key: (each.row, each.content, [move for move, _ in each.transitions])
        for key, each in stored(deployment).items()
    }
    second = deployment.start(group="another")
    until(lambda: second.counters().get("applied", 0) == 120, "all folded again")
    second.signal(signal.SIGTERM)
    assert second.wait() == ExitCode.DONE
    after = {
        key: (each.row, each.content, [move for move, _ in each.transitions])
        for key, each in stored(deployment).items()
    }
    assert after == before


def test_a_lost_range_is_told_and_the_choice_is_kept(deployment: Deployment, broker: EmbeddedBroker) -> None:
    # never a silent jump: the exact range, a counter, and stop or go on
    worker = deployment.start()
    first = [deployment.send("c", seq) for seq in range(1, 6)]
    deployment.flush()
    until(lambda: deployment.committed() == 5, "committed")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == ExitCode.DONE
    for seq in range(6, 16):
        deployment.send("c", seq)
        deployment.flush()
    partition = _partition("c")
    broker.drop_records("twotick.events", partition, before_offset=10)
    stopped = deployment.start()
    assert stopped.wait() == ExitCode.LOST_RANGE
    told = stopped.lines("the log no longer holds the committed position")
    assert [(line["partition"], line["first"], line["end"]) for line in told] == [(partition, 5, 10)]
    going = deployment.start(on_lost_range="earliest")
    until(lambda: len(stored(deployment)) == len(first) + 5, "it goes on behind the gap")
    until(lambda: going.counters().get("lost_records") == 5, "counted")


def test_another_topic_of_that_name_is_refused(deployment: Deployment) -> None:
    worker = deployment.start()
    until(lambda: bool(worker.lines("worker started")), "it starts")
    worker.signal(signal.SIGTERM)
    worker.wait()
    assert deployment.start(topic_identity="another").wait() == ExitCode.TOPIC_CHANGED
    accepted = deployment.start(topic_identity="another", allow_new_topic=True)
    until(lambda: accepted.status().get("generation") == 2, "the next generation")


def _attempts(deployment: Deployment, event: Event) -> int:
    """Return how often a message was delivered."""
    return max((each.attempt for each in deployment.deliveries() if each.message_id == event.message_id), default=0)


def _is_over(deployment: Deployment, event: Event) -> bool:
    """Say whether a message's sender was told that it was not delivered in time."""
    return any(each.state == State.UNDELIVERED for each in deployment.answers() if each.message_id == event.message_id)


def test_a_message_is_delivered_again_then_expires(deployment: Deployment) -> None:
    # redelivery in memory, then spilled, then EXPIRE by the owner, and the sender is ticked
    schedule = {"first_wait_s": 0.3, "wait_s_max": 0.6, "bucket_s": 1}
    worker = deployment.start(grace_s=1, schedule=schedule)
    # A worker that gets little of a busy machine's time may not repeat one four times before it expires.
    for seq, timeout_s in enumerate((6, 20, 60), 1):
        event = Event(
            *("SEND", deployment.id(), "c", deployment.id(), "alice", b"i" * 16, seq, ("bob",), b"hi"),
            delivery_timeout_s=timeout_s,
        )
        deployment.put(event)
        deployment.flush()
        until(lambda event=event: _is_over(deployment, event), "the sender is told", timeout_s + 40)
        if _attempts(deployment, event) >= 4:
            break
    assert _attempts(deployment, event) >= 4
    until(lambda: worker.counters().get("spilled", 0) > 0, "it was spilled meanwhile")
    assert stored(deployment)[event.message_id].row.state == State.UNDELIVERED
    late = deployment.receipt("DELIVERED", event)
    deployment.flush()
    until(lambda: deployment.answered(late), "a late proof is answered")
    until(lambda: stored(deployment)[event.message_id].row.state == State.DELIVERED, "and it wins")


def test_a_second_signal_ends_at_once(deployment: Deployment) -> None:
    worker = deployment.start(drain_timeout_s=60)
    until(lambda: len(worker.status().get("partitions", ())) == 4, "it owns all")
    until(lambda: worker.status()["state"] == "running", "it runs")
    deployment.outage.touch()
    conversations(deployment, 1, 1)
    until(lambda: worker.status()["state"] == "store-down", "it cannot finish")
    worker.signal(signal.SIGTERM)
    # Not when it drains: it may be in the midst of a revoke, which is a drain of its own.
    until(lambda: bool(worker.lines("signal taken")), "it heard the first one")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == ExitCode.INTERRUPTED
    assert deployment.committed() == 0


def test_a_worker_ends_in_time_though_no_coordinator_takes_its_commit(
    deployment: Deployment, broker: EmbeddedBroker
) -> None:
    # case K19: what was finished is not committed, so it comes again; the client by itself waits for 45 s
    worker = deployment.start(commit_interval_s=600, drain_timeout_s=2, lease_check_s=600)
    sent = conversations(deployment, 2, 2)
    until(lambda: all_read(deployment, sent), "all rows read")
    until(lambda: deployment.answered(sent[-1]), "the last one answered")
    until(lambda: worker.status()["counters"]["events"] == 12, "it has finished all")
    broker.go_down()
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.wait() in {ExitCode.DONE, ExitCode.UNDRAINED}
    assert time.monotonic() - began < 2 + LEAVE_S + 5
    broker.come_up()
    assert deployment.committed() == 0


def test_a_store_beside_which_the_group_has_worked_elsewhere_is_refused_and_filled_by_a_new_group(
    deployment: Deployment,
) -> None:
    # a lost store, or settings that name another one: what was acknowledged must not be left out
    first = deployment.start()
    sent = conversations(deployment, 3, 4)
    until(lambda: deployment.committed() == 36, "all committed")
    first.signal(signal.SIGTERM)
    assert first.wait() == ExitCode.DONE
    for path in deployment.folder.glob("store.sqlite*"):
        path.unlink()
    refused = deployment.start()
    assert refused.wait() == ExitCode.TOPIC_CHANGED
    (told,) = refused.lines("the worker ends")
    assert "the group twotick has committed offsets in" in told["error"]
    assert stored(deployment) == {}
    sent += conversations(deployment, 3, 2)  # clients go on meanwhile
    deployment.start(group="anew")
    sent += conversations(deployment, 3, 2)
    until(lambda: all_read(deployment, sent), "all rows read")
    assert set(stored(deployment)) == {event.message_id for event in sent}
