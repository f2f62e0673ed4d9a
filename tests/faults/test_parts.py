"""What fault runs are made of: a schedule that a seed repeats, journals that outlive their writers, honest figures."""

from collections import Counter

from consumers.rows import MessageRow, Owner, Transition
from consumers.stores.contract import Content, StoredMessage
from schemas.lifecycle import State
from tests.faults.deeds import Kill
from tests.faults.journal import Entry, Journal, read
from tests.faults.schedule import KILLS, LARGE, PAUSES, Cast, Deed, schedule
from tests.faults.takeovers import Takeover, figures, takeovers

HALF_HOUR_S = 1800.0
CAST = Cast(machines=3, clients=6)
ID = bytes(15) + b"\x01"


def test_a_seed_repeats_its_schedule_and_another_gives_another():
    assert schedule(7, HALF_HOUR_S, CAST) == schedule(7, HALF_HOUR_S, CAST)
    assert schedule(7, HALF_HOUR_S, CAST) != schedule(8, HALF_HOUR_S, CAST)


def test_half_an_hour_has_a_hundred_kills_and_thirty_pauses_and_all_of_the_large_faults():
    plan = schedule(1, HALF_HOUR_S, CAST)
    assert len(plan.kills) >= 150
    assert len(plan.pauses) >= 30
    assert {act.deed for act in plan.large} == set(LARGE)
    assert [act.deed for act in plan.last] == [Deed.ADD_PARTITIONS]
    assert {act.deed for line in plan.lines for act in line} | {Deed.ADD_PARTITIONS} == set(Deed)
    assert all(act.at_s < HALF_HOUR_S for line in plan.lines for act in line)


def test_the_shortest_run_begins_with_the_worst():
    plan = schedule(1, 45, CAST)
    assert [act.deed for act in plan.kills] == list(KILLS[: len(plan.kills)])
    assert [act.deed for act in plan.pauses] == list(PAUSES[: len(plan.pauses)])
    assert plan.large[0].deed is Deed.KILL_KAFKA
    assert plan.last == []


def test_in_a_cluster_each_node_is_killed_in_its_turn():
    plan = schedule(1, HALF_HOUR_S, Cast(3, 6, nodes=3))
    turns = [(act.deed, act.target) for act in plan.large][:6]
    killed = Counter(turns)
    assert all(count == 1 for count in killed.values())
    assert {deed for deed, _ in killed} == {Deed.KILL_KAFKA, Deed.KILL_CASSANDRA}


def test_a_journal_outlives_its_writer_and_a_line_cut_short_does_not_count(tmp_path):
    path = tmp_path / "ann.journal"
    first, second = Entry("sent", ID, b"hello"), Entry("read", ID)
    Journal(path).add([first])
    with path.open("a") as cut:
        cut.write("\nsent 0000")
    Journal(path).add([second])
    assert list(read(path)) == [first, second]
    assert list(read(tmp_path / "none")) == []


def stored(*steps: tuple[int, int, str]) -> StoredMessage:
    """Return a message of partition 5 with a step by each (version, epoch, node)."""
    row = MessageRow(
        "c", ID, State.SENT, "ann", ("ben",), (State.SENT,), b"", ID, 1, 5, 0, 0, len(steps), (1, len(steps)), 1
    )
    told = [(Transition(v, State.SENT, "ann", 0, v), Owner(epoch, node)) for v, epoch, node in steps]
    return StoredMessage(row, Content(b"", ""), 0, Owner(1, "m1-0"), told)


def test_a_takeover_lasts_from_the_death_to_the_first_answer_of_the_next_owner():
    kills = [Kill(100.0, "m1-0", {5: 1, 6: 1})]
    messages = [stored((1, 1, "m1-0"), (2, 2, "m2-0"), (3, 3, "m1-0"))]
    told = {(ID, 1): 99_000, (ID, 2): 103_500, (ID, 3): 104_000}
    assert list(takeovers(kills, messages, told, [])) == [Takeover(5, 3.5, moved=True, undisturbed=True)]
    assert list(takeovers(kills, messages, told, [(103.0, 120.0)])) == [Takeover(5, 3.5, moved=True, undisturbed=False)]
    # An answer of before the death is nobody's who came after it.
    again = takeovers(kills, messages, {(ID, 2): 99_000, (ID, 3): 101_000}, [(90.0, 100.0)])
    assert list(again) == [Takeover(5, 1.0, moved=False, undisturbed=True)]


def test_figures_are_the_median_and_the_worst():
    assert figures([3.0, 1.0, 2.0]) == {"partitions": 3, "median_s": 2.0, "worst_s": 3.0}
    assert figures([]) == {"partitions": 0}
