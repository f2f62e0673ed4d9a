"""Every kind of failure that is known from systems like this one has a test that names it: `# case K7`.

The ids are those of the list of cases that this project was begun with. A case that cannot apply stands in
`STRUCK_OUT` with the reason; one whose part is not built yet in `PENDING`.
"""

import re
from collections import defaultdict
from pathlib import Path

CASES = {
    **dict.fromkeys([f"K{number}" for number in range(1, 22)], "Kafka client"),
    **dict.fromkeys([f"A{number}" for number in range(1, 9)], "Avro"),
    **dict.fromkeys([f"C{number}" for number in range(1, 9)], "Cassandra"),
    **dict.fromkeys([f"O{number}" for number in range(1, 6)], "outbox"),
    **dict.fromkeys([f"M{number}" for number in range(1, 8)], "messaging"),
    **dict.fromkeys([f"T{number}" for number in range(1, 4)], "containers in tests"),
}
STRUCK_OUT: dict[str, str] = {}
"""Id and reason of what cannot apply here."""
PENDING: dict[str, str] = {}
"""Id and reason of what waits for its part."""

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"\bcases?\b((?:[\s,:]|and|to)*\b[KACOMT]\d+\b)+")
ID = re.compile(r"\b[KACOMT]\d+\b")


def files_by_case() -> dict[str, set[str]]:
    """Return in which files each case is named."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        if path == Path(__file__):
            continue
        for match in NAMED.finditer(path.read_text(encoding="utf-8")):
            for case in ID.findall(match.group()):
                found[case].add(str(path.relative_to(TESTS)))
    return found


def test_every_case_has_a_test_or_a_reason():
    found = files_by_case()
    missing = CASES.keys() - found.keys() - STRUCK_OUT.keys() - PENDING.keys()
    assert not missing, f"no test names {', '.join(sorted(missing))}"


def test_no_test_names_a_case_that_is_none():
    unknown = {case: sorted(files) for case, files in files_by_case().items() if case not in CASES}
    assert unknown == {}


def test_what_is_struck_out_or_pending_is_a_case_without_a_test():
    found = files_by_case()
    for case, reason in {**STRUCK_OUT, **PENDING}.items():
        assert case in CASES, f"{case} is no case"
        assert reason
        assert case not in found, f"{case} has a test now: {sorted(found[case])}"


def test_names_are_found_however_they_are_written():
    text = "# case K7\n# cases K5, K6 and M2\n(case C3)\n# cases K11 K12\nin any case, all is well"
    named = [case for match in NAMED.finditer(text) for case in ID.findall(match.group())]
    assert named == ["K7", "K5", "K6", "M2", "C3", "K11", "K12"]
