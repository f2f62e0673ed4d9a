"""The generated pages say what the code says; `make docs` writes them anew."""

import pytest

from compose.docs import FOLDER, pages
from compose.settings import SECTIONS, known_settings


@pytest.mark.parametrize("name", ["cli.md", "settings.md"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == pages()[name], "run `make docs`"


def test_every_setting_is_documented() -> None:
    page = pages()["settings.md"]
    for section in SECTIONS:
        for known in known_settings(section):
            row = next(line for line in page.splitlines() if line.startswith(f"| `{known.key}` |"))
            assert not row.endswith("|  |"), f"{known.key} has no text below its field"
