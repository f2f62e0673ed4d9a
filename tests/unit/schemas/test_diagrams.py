"""The page about the life-cycle says what the table says."""

from pathlib import Path

from schemas.diagrams import life_cycle_page
from schemas.lifecycle import GUARDS, MESSAGE_KINDS, State, label

PAGE = Path(__file__).parents[3] / "docs" / "life-cycle.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == life_cycle_page(), "run `make docs`"


def test_every_pair_and_every_guard_is_on_the_page():
    lines = life_cycle_page().splitlines()
    for state in State:
        row = next(line for line in lines if line.startswith(f"| {label(state)} |"))
        assert row.count("|") == len(MESSAGE_KINDS) + 3
        assert all(cell.strip() for cell in row.strip("|").split("|"))
    for guard in GUARDS:
        assert any(line.startswith(f"| {guard} |") for line in lines)


def test_the_diagram_ends_where_the_table_does():
    page = life_cycle_page()
    assert "    SENT --> UNDELIVERED: EXPIRE\n" in page
    assert "    READ --> [*]\n" in page
    assert "UNDELIVERED --> [*]" not in page
