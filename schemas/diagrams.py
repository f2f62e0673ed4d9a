"""Renders docs/life-cycle.md from the life-cycle table; `make docs` writes it.

The rules in prose are the module docstring of `schemas.lifecycle`; diagrams and tables are made from its tables, so
the page cannot say anything else than the code.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from schemas import lifecycle
from schemas.lifecycle import (
    CONVERSATION_TABLE,
    FINAL,
    GUARDS,
    MESSAGE_KINDS,
    RANK,
    TABLE,
    Kind,
    Outcome,
    Rule,
    State,
    label,
)

_HEAD: Final = """\
<!-- Written by `make docs`; change schemas/lifecycle.py instead. -->

# The life-cycle
"""


def life_cycle_page() -> str:
    """Return the whole page."""
    parts = [_HEAD, lifecycle.__doc__ or "", *_diagrams(), *_tables()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _diagrams() -> Iterable[str]:
    yield "## The states of a message"
    yield (
        "A group's message stands where the lowest of its recipients does. PENDING is known to the sender's client\n"
        "alone. What ends in the final circle is never left."
    )
    yield _mermaid()


def _mermaid() -> str:
    """Return the state diagram: every applied pair of the table, every guard that fails a SEND."""
    events: dict[tuple[str, str], list[str]] = defaultdict(list)
    for state, row in TABLE.items():
        for kind, rule in row.items():
            if rule.outcome == Outcome.APPLIED:
                events[state, rule.after].append(kind)
    for guard, rule in GUARDS.items():
        if rule.outcome == Outcome.APPLIED:
            events[State.PENDING, rule.after].append(f"{Kind.SEND.value} ({guard})")
    lines = ["stateDiagram-v2", "direction LR"]
    lines += [f'state "{label(state)}" as {state.value}' for state in State]
    lines.append(f"[*] --> {State.PENDING.value}")
    lines += [f"{one} --> {other}: {', '.join(kinds)}" for (one, other), kinds in events.items()]
    lines += [f"{state.value} --> [*]" for state in State if state in FINAL]
    return "\n".join(["```mermaid", lines[0], *(f"    {line}" for line in lines[1:]), "```"])


def _tables() -> Iterable[str]:
    yield "## Every state and every event"
    yield (
        "For a receipt (DELIVERED, READ) the state is the recipient's, for the others the message's. An applied event\n"
        "is shown in bold, as the state after it; every other leaves the state as it is."
    )
    header = ["state", "rank", *(kind.value for kind in MESSAGE_KINDS)]
    rows = [
        [label(state), str(RANK[state]), *(_answer(TABLE[state][kind]) for kind in MESSAGE_KINDS)] for state in State
    ]
    yield _table(header, rows)
    yield "## What a first SEND meets before it becomes sent"
    yield "In this order; the first that holds decides. A first CANCEL meets the first of them alone."
    yield _table(["guard", "answer"], [[guard, _answer(rule)] for guard, rule in GUARDS.items()])
    yield "## Blocks of a conversation"
    yield (
        "A copy of a BLOCK or UNBLOCK whose change is still kept is a duplicate, whatever came after it. Kept are\n"
        "changes of the last `worker.policy.block_window_offsets` offsets, of one generation of the topic, and older\n"
        "BLOCKs that held then."
    )
    kinds = list(CONVERSATION_TABLE[False])
    yield _table(
        ["the actor blocks the subject already", *(str(kind) for kind in kinds)],
        [
            ["yes" if blocks else "no", *(row[kind].outcome.lower() for kind in kinds)]
            for blocks, row in CONVERSATION_TABLE.items()
        ],
    )


def _answer(rule: Rule) -> str:
    """Return a table's answer for people."""
    if rule.outcome == Outcome.APPLIED:
        return f"**{label(rule.after)}**"
    return f"{rule.outcome.lower()}: {rule.reason}" if rule.reason else rule.outcome.lower()


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(life_cycle_page())
