"""The generated pages say what the code says; `make docs` writes them anew."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from compose.docs import FOLDER, pages
from compose.settings import SECTIONS, known_settings, load
from producers import Client, Incoming, Sent


@pytest.mark.parametrize("name", ["cli.md", "settings.md", "life-cycle.md"])
def test_a_generated_page_is_up_to_date(name: str) -> None:
    assert (FOLDER / name).read_text() == pages()[name], "run `make docs`"


def test_every_setting_is_documented() -> None:
    page = pages()["settings.md"]
    for section in SECTIONS:
        for known in known_settings(section):
            row = next(line for line in page.splitlines() if line.startswith(f"| `{known.key}` |"))
            assert not row.endswith("|  |"), f"{known.key} has no text below its field"


def test_the_readmes_programs_call_what_is_there() -> None:
    programs = re.findall(r"```python\n(.*?)```", (FOLDER.parent / "README.md").read_text(), re.DOTALL)
    calls = [node for program in programs for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Call)]
    owners = {"me": Client, "sent": Sent, "message": Incoming}
    shown = set()
    for call in calls:
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            called = getattr(owners[call.func.value.id], call.func.attr)
            assert {each.arg for each in call.keywords} <= set(inspect.signature(called).parameters)
            shown.add(call.func.attr)
    assert shown >= {"on_tick", "send", "wait", "mark_read", "block"}


def test_the_readmes_configuration_is_one(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", (FOLDER.parent / "README.md").read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "secret").write_text("s3cret")
    path = tmp_path / "twotick.toml"
    path.write_text(found[1].replace("/run/secrets/kafka", str(tmp_path / "secret")))
    settings = load(environ={}, config=path)
    assert settings.kafka()["sasl.password"] == "s3cret"
    assert list(settings.effective())
