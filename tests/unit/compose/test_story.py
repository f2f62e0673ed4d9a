"""A message's story: outboxes and store in one line of time, steps before what is told of them."""

from compose.outboxes import Entry
from compose.story import story, summary
from consumers.rows import MessageRow, Owner, Transition
from consumers.stores.contract import Content, StoredMessage

ROW = MessageRow(
    conversation_id="c",
    message_id=bytes(16),
    state="READ",
    sender="ann",
    recipients=("ben",),
    receipts=("READ",),
    digest=b"",
    install=bytes(16),
    seq=1,
    partition=3,
    sent_at=2_000,
    deliver_by=9_000,
    version=2,
    applied=(1, 8),
    stamp=0,
)
STORED = StoredMessage(
    ROW,
    Content(b"hi", ""),
    0,
    Owner(5, "node-b"),
    [
        (Transition(1, "SENT", "ann", 2_000, 7), Owner(4, "node-a")),
        (Transition(2, "READ", "ben", 3_000, 8), Owner(5, "node-b")),
    ],
)
ENTRIES = [
    Entry(1_000, "ann", "written", 0, ""),
    Entry(2_000, "ann", "SENT", 1, ""),
    Entry(3_000, "ann", "READ", 2, "ben"),
    Entry(2_000, "ben", "arrived", 0, "ann"),
]


def test_a_story_is_told_in_order_with_owner_epoch_and_offset() -> None:
    rows = story(ENTRIES, STORED)
    assert [(row["where"], row["what"]) for row in rows] == [
        ("outbox of ann", "written"),
        ("inbox of ben", "arrived"),
        ("store", "sent"),
        ("outbox of ann", "told sent"),
        ("store", "read"),
        ("outbox of ann", "told read"),
    ]
    assert (rows[4]["log"], rows[4]["owner"], rows[4]["epoch"]) == ("partition 3 offset 8", "node-b", 5)
    assert rows[0]["time"] == "1970-01-01T00:00:01.000+00:00"


def test_each_half_stands_alone() -> None:
    assert len(story(ENTRIES, None)) == 4
    assert [row["what"] for row in story([], STORED)] == ["sent", "read"]


def test_the_summary_says_what_the_store_says() -> None:
    assert summary(STORED) == "read, version 2, from ann to ben read, in c (log partition 3)"
