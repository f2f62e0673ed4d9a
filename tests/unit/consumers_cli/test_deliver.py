"""`twotick consume --deliver webhook:URL` as people run it: what reaches the workers, what is refused."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import consumers.process
import consumers.supervisor
from compose.errors import SettingsError
from compose.sections import StoreSettings
from compose.settings import load
from consumers.claims.settings import WebhookSettings
from consumers.cli import consume
from consumers.settings import WorkerSettings
from schemas.codec import Codec

URL = "https://gateway.example/messages"


class Factory:
    """A deployment with a webhook of the test's choice."""

    def __init__(self, **webhook: Any) -> None:
        self._webhook = WebhookSettings(**webhook)
        self.status_folder = None

    def webhook_settings(self) -> WebhookSettings:
        """Return it."""
        return self._webhook

    def worker_settings(self) -> WorkerSettings:
        """Return the defaults."""
        return WorkerSettings()

    def worker_command(self, slot: int) -> list[str]:
        """Return a command that shows its slot."""
        return ["twotick", "consume", f"--slot={slot}"]

    def kafka(self) -> dict[str, str]:
        """Return nothing."""
        return {}

    def make_store(self) -> None:
        """Never called."""

    def codec(self) -> Codec:
        """Return the plain one."""
        return Codec()


def _run(monkeypatch: pytest.MonkeyPatch, factory: Factory, *arguments: str) -> tuple[Any, dict[str, Any]]:
    seen: dict[str, Any] = {}

    class Supervisor:
        def __init__(self, command: Any, workers: int, **_: Any) -> None:
            seen["command"] = command(workers - 1)

        def run(self) -> int:
            return 0

    def run_worker(**given: Any) -> int:
        seen.update(given)
        return 0

    monkeypatch.setattr(consumers.supervisor, "Supervisor", Supervisor)
    monkeypatch.setattr(consumers.process, "run_worker", run_worker)
    monkeypatch.setattr("consumers.logs.configure", lambda **_: None)
    app = typer.Typer()
    app.callback()(lambda: None)
    consume.register(app)
    return CliRunner().invoke(app, ["consume", *arguments], obj=factory), seen


def test_a_worker_is_told_where_and_for_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    options = (f"--deliver=webhook:{URL}", "--deliver-to=bot:*", "--deliver-to=x")
    result, seen = _run(monkeypatch, Factory(attempts_max=3), "--slot=1", *options)
    assert result.exit_code == 0, result.output
    assert seen["webhook"] == WebhookSettings(url=URL, users=("bot:*", "x"), attempts_max=3)


def test_what_the_settings_say_counts_without_options(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seen = _run(monkeypatch, Factory(url=URL, users=("a",)), "--slot=1")
    assert seen["webhook"] == WebhookSettings(url=URL, users=("a",))
    _, seen = _run(monkeypatch, Factory(), "--slot=1")
    assert seen["webhook"].url == ""


def test_a_supervisor_passes_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    result, seen = _run(monkeypatch, Factory(), f"--deliver=webhook:{URL}", "--deliver-to=bot:*")
    assert result.exit_code == 0, result.output
    assert seen["command"][:3] == ["twotick", "consume", "--slot=0"]
    assert {f"--deliver=webhook:{URL}", "--deliver-to=bot:*"} <= set(seen["command"])


@pytest.mark.parametrize("deliver", ["pigeon:home", "webhook:ftp://x", "webhook:", "webhook:http://x:99999/", URL])
def test_what_is_no_gateway_is_refused(monkeypatch: pytest.MonkeyPatch, deliver: str) -> None:
    result, seen = _run(monkeypatch, Factory(), f"--deliver={deliver}")
    assert (result.exit_code, seen) == (2, {})
    assert "--deliver" in result.output


def test_recipients_without_a_gateway_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    result, seen = _run(monkeypatch, Factory(), "--deliver-to=bot:*")
    assert (result.exit_code, seen) == (2, {})
    assert "--deliver-to" in result.output
    result, _ = _run(monkeypatch, Factory(url=URL), "--deliver-to=bot:*")
    assert result.exit_code == 0


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "find_spec", lambda _: None)
    result, _ = _run(monkeypatch, Factory(url=URL), "--slot=0")
    assert result.exit_code == 2
    assert "twotick[webhook]" in result.output


def test_strict_mode_is_cassandras() -> None:
    settings = load(flags=["store.mode=strict"], environ={}, config=None)
    with pytest.raises(SettingsError, match="mode strict is Cassandra's"):
        settings.section("store", StoreSettings)
    settings = load(flags=["store.mode=strict", "store.kind=cassandra"], environ={}, config=None)
    assert settings.section("store", StoreSettings).mode == "strict"
