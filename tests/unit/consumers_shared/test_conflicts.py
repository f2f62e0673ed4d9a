"""Conflicts are counted by kind; an episode of many is told once, and the next one again."""

import pytest

from consumers.conflicts import ConflictKind, ConflictWatch, kind_of
from consumers.counters import Counters
from consumers.metrics import COUNTERS, WorkerCollector, metric_rows
from consumers.work import Tally
from schemas.lifecycle import Reason
from tests.unit.consumers.world import NOTHING, START_MS, entries, event, owner_of, send


def test_a_batch_conflicts_are_counted_by_reason_and_kind() -> None:
    tally = Tally()
    for reason in (Reason.CONTENT_DIFFERS, Reason.SEQUENCE_REUSED):
        tally.conflict(reason)
    for reason in (Reason.ALREADY_FINAL, Reason.NOT_A_RECIPIENT, Reason.UNDECODABLE, Reason.ID_AHEAD):
        tally.refuse(reason)
    counters = Counters()
    counters.add(tally)
    counters.conflict(ConflictKind.LEASE)
    assert counters.conflicts_by_kind == {"version": 0, "lock": 0, "lease": 1, "transition": 2, "identity": 2}
    assert counters.refused["UNDECODABLE"] == 1
    assert kind_of(Reason.NOT_DUE) is None


@pytest.mark.parametrize("kind", ConflictKind)
def test_every_kind_is_in_the_metrics_and_in_what_a_worker_reports(kind: ConflictKind) -> None:
    counters = Counters()
    counters.conflict(kind, 3)
    families = {family.name: family for family in WorkerCollector(counters, dict).collect()}
    told = {
        sample.labels["kind"]: sample.value
        for sample in families["twotick_conflicts_by_kind"].samples
        if sample.name.endswith("_total")
    }
    assert told == {**dict.fromkeys(map(str, ConflictKind), 0), kind: 3} == counters.as_dict()["conflicts_by_kind"]


def test_refused_events_are_conflicts_of_their_kinds() -> None:
    """As an owner folds them: a refused transition, an id with another content, a seq under another id."""
    first = send(1)
    log = [
        first,
        event("READ", 1, "mallory"),
        first._replace(body=b"something else"),
        send(2)._replace(seq=first.seq),
        event("CANCEL", 1, "bob"),
    ]
    owner, counters = owner_of(), Counters()
    owner.needs(entries(log))
    counters.add(owner.fold(entries(log), NOTHING, START_MS).tally)
    assert (counters.conflicts_by_kind["transition"], counters.conflicts_by_kind["identity"]) == (2, 2)


def test_the_metrics_tell_kinds() -> None:
    counters = Counters()
    counters.conflict(ConflictKind.LOCK, 3)
    families = {family.name: family for family in WorkerCollector(counters, dict).collect()}
    samples = {
        sample.labels["kind"]: sample.value
        for sample in families["twotick_conflicts_by_kind"].samples
        if sample.name.endswith("_total")
    }
    assert samples == {"version": 0, "lock": 3, "lease": 0, "transition": 0, "identity": 0}
    assert "twotick__conflicts_lock" not in families


def test_every_metric_is_documented_and_every_documented_one_is_there() -> None:
    status = {"details": [], "config_version": 4}
    families = {family.name: family for family in WorkerCollector(Counters(), lambda: status).collect()}
    assert set(COUNTERS) == set(Counters().as_dict())
    assert {name.removesuffix("_total") for name, _, _, _ in metric_rows()} == set(families)
    assert families["twotick_config_version"].samples[0].value == 4


def test_an_episode_is_told_once_and_ends_below_half_the_limit() -> None:
    watch = ConflictWatch()
    assert watch.look({"lease": 0}, 10, 0.0) is None
    assert watch.look({"lease": 10}, 10, 1.0) is None
    alert = watch.look({"lease": 11, "lock": 4}, 10, 2.0)
    assert alert is not None
    assert (alert.per_minute, dict(alert.by_kind)) == (15.0, {"lease": 11, "lock": 4})
    # It goes on: not told again.
    assert watch.look({"lease": 100, "lock": 4}, 10, 30.0) is None
    # All of it is more than a minute ago: over.
    assert watch.look({"lease": 100, "lock": 4}, 10, 95.0) is None
    assert not watch.alerting
    assert watch.look({"lease": 120, "lock": 4}, 10, 96.0) is not None


def test_a_slow_drip_and_a_limit_of_nothing_are_no_episode() -> None:
    drip, off = ConflictWatch(), ConflictWatch()
    for second in range(600):
        assert drip.look({"lock": second // 10}, 10, float(second)) is None
        assert off.look({"lock": second * 100}, 0, float(second)) is None
    assert drip.per_minute <= 7
