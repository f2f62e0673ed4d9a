"""What `[kafka]` passes through is checked by librdkafka before any client is made, and a typo gets a guess."""

import pytest

from compose.errors import SettingsError
from compose.kafka_settings import USUAL, check


def test_settings_of_producers_and_consumers_pass(capfd: pytest.CaptureFixture[str]) -> None:
    check({"bootstrap.servers": "127.0.0.1:1", "linger.ms": 5, "fetch.min.bytes": "1", "session.timeout.ms": 6000}, {})
    assert capfd.readouterr().err == ""


def test_a_misspelt_setting_is_named_with_its_source_and_a_guess() -> None:
    with pytest.raises(SettingsError) as caught:
        check({"bootstrap.server": "x"}, {"bootstrap.server": "TWOTICK_KAFKA__BOOTSTRAP_SERVER"})
    assert caught.value.message == "TWOTICK_KAFKA__BOOTSTRAP_SERVER: there is no setting kafka.bootstrap.server"
    assert caught.value.hint == "Did you mean kafka.bootstrap.servers?"


@pytest.mark.parametrize("value", ["soon", "-7"])
def test_a_value_that_cannot_be_is_named_with_its_source(value: str) -> None:
    with pytest.raises(SettingsError, match=r"a\.toml: .*linger\.ms") as caught:
        check({"linger.ms": value}, {"linger.ms": "a.toml"})
    assert caught.value.hint


@pytest.mark.parametrize("name", USUAL)
def test_every_guess_exists(name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check({name: "\x00not a value of anything", "there.is.none": 1}, {})
    assert f"there is no setting kafka.{name}" not in caught.value.message


@pytest.mark.parametrize("nobody", ["", " ", ",", " , "])
def test_no_server_at_all_is_refused(nobody: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check({"bootstrap.servers": nobody}, {"bootstrap.servers": "--set kafka.bootstrap.servers"})
    assert caught.value.message == "--set kafka.bootstrap.servers: kafka.bootstrap.servers names no server"
