"""Every rule of the checker catches what it is there for, and a true history shows nothing."""

from dataclasses import replace

import pytest

from compose.checking.checker import check
from compose.checking.history import KINDS, Answer, History, LateWrite, Logged, Own, Receipt, Sent, Taken
from compose.checking.replay import changes, replay
from consumers.fold import Policy
from consumers.overflow import HELD_MAX
from consumers.rows import At, Block, Hold, Owner, Parking
from consumers.stores.contract import Content, StoredMessage
from schemas.identity import uuid7
from schemas.records import Event

START_MS = 1_800_000_000_000
INSTALL = b"i" * 16
OWNER = Owner(1, "n")


def made(number):
    return uuid7(START_MS, number << 62)


def event(kind, number, actor="alice", **more):
    return Event(kind, made(900 + number), "c", made(number), actor, INSTALL, **more)


def send(number, seq):
    return event("SEND", number, recipients=("bob",), body=b"body %d" % number, seq=seq)


LOG = (send(1, 1), send(2, 2), event("DELIVERED", 1, "bob"), event("READ", 1, "bob"), event("DELIVERED", 2, "bob"))


def logged(events):
    return [Logged(At(1, 0, offset, START_MS + offset), each) for offset, each in enumerate(events)]


def stored(events=LOG, policy=Policy()):  # noqa: B008 - it is immutable
    folded = replay(logged(events), policy)
    bodies = {each.message_id: each.body for each in events if each.kind == "SEND"}
    return [
        StoredMessage(row, Content(bodies[key[1]], ""), 0, OWNER, [(step, OWNER) for step in folded.transitions[key]])
        for key, row in folded.messages.items()
    ]


def true_history():
    return History(
        sent=[Sent("alice", made(number), b"body %d" % number) for number in (1, 2)],
        own=[
            Own("alice", made(1), made(1), "READ", ("SENT", "DELIVERED", "READ")),
            Own("alice", made(2), made(2), "DELIVERED", ("SENT", "DELIVERED")),
        ],
        stored=stored(),
        taken=[Taken("bob", made(number), b"body %d" % number) for number in (1, 2)],
        conversations=list(replay(logged(LOG), Policy()).conversations.values()),
        log=logged(LOG),
        receipts=[
            Receipt("bob", made(number), kind) for number, kind in ((1, "DELIVERED"), (1, "READ"), (2, "DELIVERED"))
        ],
        answers=[Answer(made(1), 3, 3)],
    )


def changed(**by):
    return replace(true_history(), **by)


def with_row(**by):
    first, *others = true_history().stored
    return [first._replace(row=first.row._replace(**by)), *others]


def with_step(number, **by):
    first, *others = true_history().stored
    steps = list(first.transitions)
    steps[number] = (steps[number][0]._replace(**by), OWNER)
    return [first._replace(transitions=steps), *others]


def with_own(**by):
    first, *others = true_history().own
    return [first._replace(**by), *others]


def test_a_true_history_shows_nothing():
    findings = check(true_history())
    assert findings.faultless
    assert findings.counts() == {"acknowledged": 2, "settled": 2, **dict.fromkeys(KINDS, 0)}


def test_what_was_not_recorded_is_not_judged():
    findings = check(changed(log=None, receipts=None, answers=None, conversations=None))
    assert findings.faultless


PARK = Event("PARK", made(800), "c", bytes(16), "operator", bytes(16))
GIVEN_UP = PARK._replace(kind="RELEASE", seq=1)
WAITED = (PARK, send(1, 1), GIVEN_UP, send(2, 2), send(1, 1), *LOG[2:])
"""The first message waits, and comes second when all who wait are given up."""


def of_log(events, parked_max=1):
    policy = Policy(parked_max=parked_max)
    conversations = list(replay(logged(events), policy).conversations.values())
    return changed(stored=stored(events, policy), log=logged(events), conversations=conversations, policy=policy)


def test_who_gives_up_what_waits_gives_up_its_order_and_no_more():
    assert check(of_log(WAITED)).faultless
    assert {fault.kind for fault in check(of_log(WAITED[3:])).faults} == {"reordered"}
    # What is made before, or was not there while it was parked, has waited for nothing.
    assert {fault.kind for fault in check(of_log((PARK, GIVEN_UP, *WAITED[3:]))).faults} == {"reordered"}
    assert {fault.kind for fault in check(of_log((*WAITED[3:5], PARK, send(1, 1), GIVEN_UP, *LOG[2:]))).faults} == {
        "reordered"
    }


def test_who_waited_and_is_given_up_has_no_order_beside_one_that_had_no_room():
    log = (PARK, send(1, 1), send(2, 2), send(3, 3), GIVEN_UP, send(2, 2), send(1, 1), send(3, 3))
    history = of_log(log, parked_max=2)
    (parking,) = history.conversations[0].parkings
    assert [len(hold.passed) for hold in parking.holds] == [3]
    assert "reordered" not in {fault.kind for fault in check(history).faults}


CASES = {
    "an accepted send is in no outbox": ("lost", changed(own=true_history().own[1:])),
    "a sent message is not in the store": ("lost", changed(stored=true_history().stored[1:])),
    "the store holds other content": (
        "lost",
        changed(stored=[true_history().stored[0]._replace(content=Content(b"else", "")), true_history().stored[1]]),
    ),
    "who is said to have it does not": ("lost", changed(taken=true_history().taken[1:])),
    "a message taken twice": ("duplicated", changed(taken=[*true_history().taken, true_history().taken[0]])),
    "one body under two ids": ("duplicated", changed(taken=[*true_history().taken, Taken("bob", made(3), b"body 1")])),
    "one step twice": ("duplicated", changed(stored=with_step(2, state="DELIVERED"))),
    "a version left out": ("regressed", changed(stored=with_step(1, version=7))),
    "an offset that falls": ("regressed", changed(stored=with_step(1, offset=99))),
    "a rank that falls": ("regressed", changed(stored=with_step(2, state="SENT"))),
    "a state that is not the lowest": ("regressed", changed(stored=with_row(state="DELIVERED"))),
    "ticks that fall": ("regressed", changed(own=with_own(ticks=("SENT", "READ", "DELIVERED")))),
    "sent for ever": (
        "stuck",
        changed(own=with_own(state="SENT", ticks=()), stored=stored((LOG[0], *LOG[1:2], LOG[4]))),
    ),
    "a sender who was not told": ("stuck", changed(own=with_own(state="SENT", ticks=("SENT",)))),
    "pending for ever": ("stuck", changed(own=with_own(state="PENDING", ticks=()), stored=stored((LOG[1], LOG[4])))),
    "told more than is so": (
        "untrue",
        changed(own=[true_history().own[0], true_history().own[1]._replace(state="READ")]),
    ),
    "told a failure that is none": ("untrue", changed(own=with_own(state="EXPIRED"))),
    "answered before it was durable": ("untrue", changed(answers=[Answer(made(1), 3, 2)])),
    "applied in another order": ("reordered", changed(stored=stored((LOG[1], LOG[0], *LOG[2:])))),
    "a receipt nobody wrote": ("invented", changed(receipts=true_history().receipts[:1])),
    "a message nobody sent": ("invented", changed(own=true_history().own[:1])),
    "a row that the log never made": ("invented", changed(log=logged([LOG[0], *LOG[2:4]]))),
    "a row that the log makes otherwise": ("diverged", changed(stored=with_row(stamp=1))),
    "a row that is missing": ("diverged", changed(stored=true_history().stored[1:])),
    "a step that is missing": ("diverged", changed(log=logged([*LOG, event("READ", 2, "bob")]))),
    "a copy that blocked again": (
        "duplicated",
        changed(
            conversations=[
                each._replace(blocks=tuple(Block("b", "a", (1, n), n != 1, made(n % 2)) for n in range(3)))
                for each in true_history().conversations
            ]
        ),
    ),
    "a conversation that differs": ("diverged", changed(conversations=[])),
    "more waiting than may": (
        "invented",
        changed(
            conversations=[
                each._replace(parkings=(Parking((1, 0), waiting=(made(1), made(2))),))
                for each in true_history().conversations
            ],
            policy=Policy(parked_max=1),
        ),
    ),
    "more without room than may be noted": (
        "invented",
        changed(
            conversations=[
                each._replace(parkings=(Parking((1, 0), holds=(Hold(b"i" * 16, tuple(range(HELD_MAX + 1))),)),))
                for each in true_history().conversations
            ],
        ),
    ),
    "rows taken from a fenced owner": ("regressed", changed(late_writes=[LateWrite(0, 1, 2)])),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule_catches(name):
    kind, history = CASES[name]
    assert check(history).count(kind) > 0, name


def test_a_restored_backup_is_held_to_nothing_that_it_forgot():
    history = changed(
        sent=true_history().sent[1:],
        own=true_history().own[1:],
        forgotten=frozenset({("alice", made(1))}),
    )
    assert check(history).faultless


def test_a_restored_backup_may_send_again_under_another_id():
    again = Taken("bob", made(3), b"body 1")
    assert check(changed(taken=[*true_history().taken, again])).count("duplicated") == 1
    history = changed(taken=[*true_history().taken, again], forgotten=frozenset({("alice", made(3))}))
    assert check(history).count("duplicated") == 0


def test_a_restored_backup_may_send_what_was_cancelled_before_its_successor_went():
    late = changed(stored=stored((LOG[1], LOG[0], *LOG[2:])))
    assert check(late).count("reordered") == 1
    assert check(replace(late, forgotten=frozenset({("alice", made(2))}))).count("reordered") == 0


def test_a_message_that_never_reached_the_log_may_have_failed_in_the_outbox():
    failed = Own("alice", made(3), made(3), "EXPIRED", ("EXPIRED",))
    history = changed(sent=[*true_history().sent, Sent("alice", made(3), b"x")], own=[*true_history().own, failed])
    findings = check(history)
    assert findings.faultless
    assert findings.settled == 3


def test_offsets_begin_anew_with_a_generation_of_the_topic():
    ends_at = START_MS + 2  # after both SENDs; the receipts are in the second generation, at its first offsets
    second = [each._replace(at=each.at._replace(generation=2, offset=each.at.offset - 2)) for each in logged(LOG)[2:]]
    log = [*logged(LOG)[:2], *second]
    folded = replay(log, Policy())
    rows = [
        each._replace(
            row=folded.messages[each.row.conversation_id, each.row.message_id],
            transitions=[(step, OWNER) for step in folded.transitions[each.row.conversation_id, each.row.message_id]],
        )
        for each in true_history().stored
    ]
    conversations = list(folded.conversations.values())
    told = changed(log=log, stored=rows, conversations=conversations, generations_at=(ends_at,))
    assert check(told).faultless
    assert check(replace(told, generations_at=())).count("regressed") == 1


REPLAY_CHANGES = {
    "a row": changed(stored=with_row(stamp=1)),
    "a step": changed(stored=with_step(1, at=1)),
    "a row that goes": changed(stored=true_history().stored[1:]),
    "what a sender was told": changed(own=with_own(ticks=("SENT", "READ"))),
    "what a recipient holds": changed(taken=true_history().taken[1:]),
}


@pytest.mark.parametrize("what", REPLAY_CHANGES)
def test_a_replay_that_changes_something_is_found(what):
    assert not list(changes(true_history(), true_history()))
    assert [fault.kind for fault in changes(true_history(), REPLAY_CHANGES[what])] == ["diverged"]


def test_a_replay_may_bring_what_comes_only_then():
    later = (*LOG, event("READ", 2, "bob"))
    after = changed(
        stored=stored(later), log=logged(later), own=[true_history().own[0], Own("alice", made(2), made(2), "READ")]
    )
    assert not list(changes(true_history(), after))


def test_a_replay_may_bring_again_what_an_outbox_forgot():
    before = changed(taken=true_history().taken[1:], forgotten=frozenset({("bob", made(1))}))
    assert not list(changes(before, true_history()))
    assert list(changes(replace(before, forgotten=frozenset()), true_history()))


def test_what_is_stuck_tells_the_time_that_it_had():
    history = changed(own=with_own(state="SENT", ticks=("SENT",)), settled_within_s=240.0)
    (fault,) = (each for each in check(history).faults if each.kind == "stuck")
    assert fault.detail.endswith(", 240 s after healing")
