"""The demo's findings catch every kind of fault, each in a history that is otherwise faultless."""

from dataclasses import replace

import pytest

from compose.demo.findings import Evidence, Incoming, Outgoing, Planned, Step, Stored, judge

READ_BY_BOB = (Step(1, "SENT", "ann", 10), Step(2, "DELIVERED", "bob", 20), Step(3, "READ", "bob", 30))


def stored(number: int = 1, **changes: object) -> Stored:
    row = Stored(f"id-{number}", f"m{number}", "ann", ("bob",), ("READ",), "READ", 3, READ_BY_BOB)
    return row._replace(**changes)


def faultless() -> Evidence:
    """Two messages from ann, both read by bob."""
    numbers = (1, 2)
    return Evidence(
        planned=[Planned(f"m{n}", "ann", ("bob",)) for n in numbers],
        outgoing=[Outgoing(f"id-{n}", f"m{n}", "ann", "READ") for n in numbers],
        stored=[stored(n) for n in numbers],
        incoming=[Incoming(f"id-{n}", f"m{n}", "bob") for n in numbers],
    )


def counts(evidence: Evidence) -> tuple[int, int, int, int]:
    findings = judge(evidence)
    return findings.lost, findings.duplicates, findings.regressions, findings.stuck


def with_second(evidence: Evidence, row: Stored) -> Evidence:
    return replace(evidence, stored=[evidence.stored[0], row])


def test_a_faultless_history_has_no_faults() -> None:
    findings = judge(replace(faultless(), conflicts=2))
    assert findings.faults == ()
    assert findings.faultless
    assert (findings.messages, findings.sent, findings.delivered, findings.read, findings.failed) == (2, 2, 2, 2, 0)
    assert findings.conflicts == 2


def test_a_group_is_read_when_all_have_read_it() -> None:
    steps = (
        Step(1, "SENT", "ann", 1),
        Step(2, "READ", "bob", 2),
        Step(3, "DELIVERED", "cy", 3),
        Step(4, "READ", "cy", 4),
    )
    group = stored(2, recipients=("bob", "cy"), receipts=("READ", "READ"), version=4, steps=steps)
    evidence = replace(faultless(), planned=[Planned("m1", "ann", ("bob",)), Planned("m2", "ann", ("bob", "cy"))])
    evidence = with_second(evidence, group)
    assert counts(replace(evidence, incoming=[*evidence.incoming, Incoming("id-2", "m2", "cy")])) == (0, 0, 0, 0)


def test_a_recipient_whom_the_store_leaves_out_is_a_loss() -> None:
    evidence = replace(faultless(), planned=[Planned("m1", "ann", ("bob", "cy")), Planned("m2", "ann", ("bob",))])
    assert counts(evidence) == (1, 0, 0, 0)


def test_states_are_counted_from_the_store() -> None:
    delivered = stored(2, receipts=("DELIVERED",), state="DELIVERED", version=2, steps=READ_BY_BOB[:2])
    findings = judge(with_second(faultless(), delivered))
    assert (findings.sent, findings.delivered, findings.read) == (2, 2, 1)


def test_a_message_that_never_came_into_an_outbox_is_lost() -> None:
    evidence = faultless()
    assert counts(replace(evidence, planned=[*evidence.planned, Planned("m3", "ann", ("bob",))])) == (1, 0, 0, 0)


def test_a_message_told_sent_that_is_not_in_the_store_is_lost() -> None:
    evidence = faultless()
    findings = judge(replace(evidence, stored=evidence.stored[:1]))
    assert (findings.lost, findings.faults[0].body) == (1, "m2")


def test_another_content_under_the_same_id_is_a_loss() -> None:
    findings = judge(with_second(faultless(), stored(2, body="other")))
    assert {(fault.kind, fault.body) for fault in findings.faults} == {("lost", "m2")}


def test_a_delivery_that_the_recipient_does_not_have_is_lost() -> None:
    evidence = faultless()
    assert counts(replace(evidence, incoming=evidence.incoming[:1])) == (1, 0, 0, 0)


def test_a_message_only_one_of_two_recipients_has_is_lost_once() -> None:
    group = stored(2, recipients=("bob", "cy", "di"), receipts=("READ", "READ", "READ"))
    assert counts(with_second(faultless(), group)) == (1, 0, 0, 0)


def test_a_body_under_two_ids_is_a_duplicate() -> None:
    evidence = faultless()
    again = stored(3, body="m2")
    assert (
        counts(
            replace(
                evidence, stored=[*evidence.stored, again], incoming=[*evidence.incoming, Incoming("id-3", "m2", "bob")]
            )
        )[1]
        == 1
    )


def test_a_row_that_stands_twice_in_the_store_is_a_duplicate() -> None:
    evidence = faultless()
    assert counts(replace(evidence, stored=[*evidence.stored, stored(2)])) == (0, 1, 0, 0)


def test_a_send_that_an_outbox_took_twice_is_a_duplicate() -> None:
    evidence = faultless()
    again = Outgoing("id-3", "m2", "ann", "FAILED")
    assert counts(replace(evidence, outgoing=[*evidence.outgoing, again._replace(state="CANCELLED")])) == (0, 1, 0, 0)


def test_a_delivery_that_came_twice_to_the_recipient_is_a_duplicate() -> None:
    evidence = faultless()
    assert counts(replace(evidence, incoming=[*evidence.incoming, Incoming("id-2", "m2", "bob")])) == (0, 1, 0, 0)


def test_a_step_taken_twice_is_a_duplicate() -> None:
    steps = (*READ_BY_BOB, Step(4, "READ", "bob", 40))
    assert counts(with_second(faultless(), stored(2, version=4, steps=steps))) == (0, 1, 0, 0)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"version": 4}, id="a version that no step explains"),
        pytest.param({"steps": (READ_BY_BOB[0], READ_BY_BOB[2])}, id="a version left out"),
        pytest.param(
            {"steps": (READ_BY_BOB[0], READ_BY_BOB[1]._replace(offset=40), READ_BY_BOB[2])}, id="an offset that falls"
        ),
        pytest.param(
            {
                "steps": (READ_BY_BOB[0], Step(2, "READ", "bob", 20), Step(3, "DELIVERED", "bob", 30)),
            },
            id="a rank that falls",
        ),
        pytest.param({"receipts": ("DELIVERED",)}, id="a state above its recipients'"),
    ],
)
def test_a_story_that_goes_back_or_jumps_is_a_regression(changes: dict[str, object]) -> None:
    assert counts(with_second(faultless(), stored(2, **changes))) == (0, 0, 1, 0)


def test_a_sender_told_more_than_the_store_knows_is_a_regression() -> None:
    behind = stored(2, receipts=("DELIVERED",), state="DELIVERED", version=2, steps=READ_BY_BOB[:2])
    findings = judge(with_second(faultless(), behind))
    assert {fault.kind for fault in findings.faults} == {"regression", "stuck"}


def test_a_message_that_waits_in_its_outbox_is_stuck() -> None:
    evidence = faultless()
    waiting = evidence.outgoing[1]._replace(state="PENDING")
    assert counts(
        replace(
            evidence,
            outgoing=[evidence.outgoing[0], waiting],
            stored=evidence.stored[:1],
            incoming=evidence.incoming[:1],
        )
    ) == (0, 0, 0, 1)


def test_a_tick_that_never_came_back_is_stuck() -> None:
    evidence = faultless()
    behind = evidence.outgoing[1]._replace(state="SENT")
    assert counts(replace(evidence, outgoing=[evidence.outgoing[0], behind])) == (0, 0, 0, 1)


def test_a_message_that_failed_before_it_was_sent_is_no_fault_and_counted() -> None:
    evidence = faultless()
    failed = evidence.outgoing[1]._replace(state="EXPIRED")
    findings = judge(
        replace(
            evidence,
            outgoing=[evidence.outgoing[0], failed],
            stored=evidence.stored[:1],
            incoming=evidence.incoming[:1],
        )
    )
    assert (findings.faults, findings.failed, findings.sent) == ((), 1, 1)
