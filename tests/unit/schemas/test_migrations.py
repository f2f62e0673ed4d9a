"""Migration files become statements and checksums; a history that does not fit them is refused with what to do."""

import pytest

from schemas.errors import MigrationError
from schemas.migrations import check_sequence, load, parse, pending

KNOWN = tuple(parse(f"000{number}_step.cql", f"CREATE TABLE t{number} (k int PRIMARY KEY);") for number in (1, 2, 3))
HISTORY = {each.number: each.checksum for each in KNOWN}


def statements(text):
    return parse("0001_x.cql", text).statements


def test_statements_end_at_semicolons_outside_quotes_and_comments():
    assert statements(
        """
        -- a comment; with a semicolon and a 'quote
        CREATE TABLE a (
            k text PRIMARY KEY,   // another; one
            v int
        ) WITH comment = 'it''s; -- no comment';
        /* over;
           lines ' */
        INSERT INTO "odd;""name" (k) VALUES ($$it's; here$$);;
        """
    ) == (
        "CREATE TABLE a ( k text PRIMARY KEY, v int ) WITH comment = 'it''s; -- no comment'",
        'INSERT INTO "odd;""name" (k) VALUES ($$it\'s; here$$)',
    )


def test_comments_and_layout_may_change_but_nothing_else():
    first = parse("0001_x.cql", "CREATE TABLE a (k int PRIMARY KEY);")
    assert parse("0001_x.cql", "-- why\nCREATE  TABLE a\n(k int PRIMARY KEY);").checksum == first.checksum
    assert parse("0001_x.cql", "CREATE TABLE b (k int PRIMARY KEY);").checksum != first.checksum
    assert parse("0001_x.cql", "A 'x y';").checksum != parse("0001_x.cql", "A 'x  y';").checksum
    assert parse("0001_x.cql", "A; B;").checksum != parse("0001_x.cql", "A B;").checksum


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A;\nB 'open;", "line 2: ' is not closed"),
        ('A "open;', "not closed"),
        ("A $$open;", "not closed"),
        ("A; /* open", "not closed"),
        ("A; B", "no end"),
        ("-- nothing\n", "no statement"),
        (" ; ", "no statement"),
    ],
)
def test_a_text_that_does_not_end_as_it_should_is_refused(text, why):
    with pytest.raises(MigrationError, match=why) as refused:
        statements(text)
    assert refused.value.hint


@pytest.mark.parametrize("name", ["1_x.cql", "0001-x.cql", "0001_x.sql", "0001_X.cql", "x.cql"])
def test_a_file_of_another_name_is_refused(name):
    with pytest.raises(MigrationError, match="no name"):
        parse(name, "A;")


def test_files_are_ordered_and_a_gap_or_a_number_twice_is_refused():
    assert check_sequence(KNOWN[::-1]) == KNOWN
    for wrong in (KNOWN[1:], (*KNOWN, KNOWN[1])):
        with pytest.raises(MigrationError, match="should"):
            check_sequence(wrong)


def test_what_a_keyspace_lacks_is_pending_in_order():
    assert list(pending(KNOWN, {})) == list(KNOWN)
    assert list(pending(KNOWN, {1: HISTORY[1]})) == list(KNOWN[1:])
    assert list(pending(KNOWN, HISTORY)) == []


@pytest.mark.parametrize(
    ("history", "why", "hint"),
    [
        ({**HISTORY, 4: "x"}, "at migration 4", "upgrade"),
        ({**HISTORY, 2: "other"}, "0002_step has changed", "new migration"),
        ({1: HISTORY[1], 3: HISTORY[3]}, "lacks migration 0002_step", "Restore"),
    ],
)
def test_a_history_that_does_not_fit_is_refused_with_what_to_do(history, why, hint):
    with pytest.raises(MigrationError, match=why) as refused:
        pending(KNOWN, history)
    assert hint in refused.value.hint
    assert not refused.value.retriable


def test_the_packages_own_files_are_a_sequence_of_creations_that_may_be_repeated():
    migrations = load()
    assert [each.number for each in migrations] == list(range(1, len(migrations) + 1))
    assert migrations
    for statement in (statement for each in migrations for statement in each.statements):
        assert "--" not in statement
        assert "IF NOT EXISTS" in statement or statement.startswith("ALTER"), statement
