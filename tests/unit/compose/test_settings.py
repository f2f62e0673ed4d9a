"""Settings: which layer wins, where each value comes from, and that whatever is no setting is an error that guesses."""

from pathlib import Path

import pytest

from compose.errors import SettingsError
from compose.layers import Given, is_secret, variable_of
from compose.sections import StoreSettings
from compose.settings import SECTIONS, Settings, find_file, known_settings, load
from consumers.claims.settings import WebhookSettings


@pytest.fixture
def config(tmp_path: Path):
    """Write a twotick.toml and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "twotick.toml"
        path.write_text(text)
        return path

    return write


def sources(settings: Settings) -> dict[str, tuple[object, str]]:
    return {one.key: (one.value, one.source) for one in settings.effective()}


def test_flag_over_environment_over_file_over_stack_over_default(config) -> None:
    path = config('[store]\nkind = "cassandra"\n[store.cassandra]\nport = 1\nkeyspace = "file"\ndatacenter = "file"\n')
    settings = load(
        flags=["store.cassandra.port=3"],
        environ={"TWOTICK_STORE__CASSANDRA__PORT": "2", "TWOTICK_STORE__CASSANDRA__KEYSPACE": "environment"},
        config=path,
        stack=[
            Given("store.cassandra.datacenter", "stack", "the stack"),
            Given("store.cassandra.contact_points", ["10.0.0.1"], "the stack"),
        ],
    )
    found = sources(settings)
    assert found["store.cassandra.port"] == (3, "--set store.cassandra.port")
    assert found["store.cassandra.keyspace"] == ("environment", "TWOTICK_STORE__CASSANDRA__KEYSPACE")
    assert found["store.cassandra.datacenter"] == ("file", str(path))
    assert found["store.cassandra.contact_points"] == (("10.0.0.1",), "the stack")
    assert found["store.cassandra.username"] == ("", "default")


def test_every_setting_can_be_set_by_its_variable() -> None:
    for section in SECTIONS:
        for known in known_settings(section):
            text = str(known.default) if not isinstance(known.default, tuple) else ",".join(map(str, known.default))
            if known.default is None:
                continue
            settings = load(environ={variable_of(known.key): text}, config=None)
            assert sources(settings)[known.key][1] == variable_of(known.key)


def test_a_list_in_the_environment_is_separated_by_commas() -> None:
    settings = load(environ={"TWOTICK_STORE__CASSANDRA__CONTACT_POINTS": "one, two"}, config=None)
    assert settings.section("store", StoreSettings).cassandra.contact_points == ("one", "two")


@pytest.mark.parametrize(
    "text", ['bootstrap.servers = "k:1"', '"bootstrap.servers" = "k:1"', 'bootstrap.servers = ["k:1"]']
)
def test_kafka_settings_pass_through_by_their_own_names(config, text: str) -> None:
    settings = load(environ={"TWOTICK_KAFKA__LINGER_MS": "5"}, config=config(f"[kafka]\n{text}\n"))
    assert settings.kafka() == {"bootstrap.servers": "k:1", "linger.ms": "5"}


@pytest.mark.parametrize(
    ("environ", "flags", "text", "message", "hint"),
    [
        (
            {"TWOTICK_STORE__CASSANDRA__KEYSPASE": "x"},
            [],
            "",
            "TWOTICK_STORE__CASSANDRA__KEYSPASE: there is no setting store.cassandra.keyspase",
            "store.cassandra.keyspace",
        ),
        (
            {},
            [],
            "[store.cassandra]\nkeyspce = 1\n",
            "twotick.toml: there is no setting store.cassandra.keyspce",
            "store.cassandra.keyspace",
        ),
        ({}, [], "[sore]\nkind = 1\n", "twotick.toml: there is no section sore", "store.kind"),
        ({}, ["stor.x=1"], "", "--set stor.x: there is no section stor", "store"),
        (
            {"TWOTICK_KEYSPACE": "x"},
            [],
            "",
            "TWOTICK_KEYSPACE: there is no section keyspace",
            "store.cassandra.keyspace",
        ),
        ({"TWOTICK_KAFKA": "x"}, [], "", "TWOTICK_KAFKA: kafka is a section, not a setting", "TWOTICK_KAFKA__NAME"),
    ],
)
def test_what_is_no_setting_is_an_error_that_names_the_place_and_guesses(
    config, environ, flags, text: str, message: str, hint: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(flags=flags, environ=environ, config=config(text))
    assert caught.value.message.endswith(message)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[store.cassandra]\nport = 'many'\n", "store.cassandra.port = 'many'"),
        ("[store]\nkind = 'mysql'\n", "'sqlite' or 'cassandra'"),
        ("kind = 'sqlite'\n", "kind stands outside of any section"),
        ("[store\n", "is not valid TOML"),
        ("[store.cassandra]\ncontact_points = [1]\n", "store.cassandra.contact_points is neither"),
    ],
)
def test_a_value_that_cannot_be_is_an_error_that_names_file_and_key(config, text: str, says: str) -> None:
    path = config(text)
    with pytest.raises(SettingsError) as caught:
        load(environ={}, config=path).section("store", StoreSettings)
    assert says in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint


def test_a_flag_without_a_value_is_an_error() -> None:
    with pytest.raises(SettingsError, match="KEY=VALUE"):
        load(flags=["store.kind"], environ={}, config=None)


def test_secrets_come_from_files_and_are_never_shown(config, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    text = f'[store.cassandra]\npassword_file = "{secret}"\n[kafka]\n"sasl.password_file" = "{secret}"\n'
    settings = load(environ={}, config=config(text))
    assert settings.section("store", StoreSettings).cassandra.password == "s3cret"
    assert settings.kafka()["sasl.password"] == "s3cret"
    shown = sources(settings)
    assert shown["store.cassandra.password"] == ("********", f"{secret}, named by {tmp_path / 'twotick.toml'}")
    assert "s3cret" not in str(shown)


@pytest.mark.parametrize("name", ["TWOTICK_DEBUGG", "TWOTICK_CONFIGURATION", "TWOTICK_STOER__KIND"])
def test_a_misspelt_variable_is_an_error(name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load(environ={name: "1"}, config=None)


def test_the_address_of_a_webhook_is_a_secret() -> None:
    settings = load(environ={"TWOTICK_WORKER__ALERT_WEBHOOK": "https://hooks.example/T0/s3cret"}, config=None)
    shown = {one.key: one.value for one in settings.effective()}
    assert shown["worker.alert_webhook"] == "********"


@pytest.mark.parametrize("key", ["store.path", "stack.folder", "store.cassandra.ca_file", "worker.status_folder"])
def test_an_empty_path_is_not_taken_for_the_current_folder(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        sources(load(flags=[f"{key}="], environ={}, config=None))
    assert caught.value.message == f"--set {key}: {key} is empty"


def test_what_opens_a_gateway_is_a_secret_and_can_stand_in_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("Bearer s3cret\n")
    environ = {
        "TWOTICK_WEBHOOK__AUTHORIZATION_FILE": str(secret),
        "TWOTICK_WEBHOOK__URL": "https://gateway.example/T0/s3cret",
    }
    settings = load(environ=environ, config=None)
    assert settings.section("webhook", WebhookSettings).authorization == "Bearer s3cret"
    assert "s3cret" not in str(sources(settings))


@pytest.mark.parametrize(
    "name",
    [
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
    ],
)
def test_what_opens_kafka_is_a_secret(name: str) -> None:
    assert "s3cret" not in str(sources(load(flags=[f"kafka.{name}=s3cret"], environ={}, config=None)))


def test_what_a_section_does_not_tell_of_itself_is_a_secret() -> None:
    hidden = [known.key for section in SECTIONS for known in known_settings(section) if not known.field.repr]
    assert "webhook.authorization" in hidden
    assert [key for key in hidden if not is_secret(key)] == []


def test_a_secret_of_kafka_can_come_from_a_file_named_by_a_variable(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    settings = load(environ={"TWOTICK_KAFKA__SASL_PASSWORD_FILE": str(secret)}, config=None)
    assert settings.kafka()["sasl.password"] == "s3cret"


def test_a_secret_file_that_is_not_there_is_an_error(config) -> None:
    with pytest.raises(SettingsError, match=r"the secret named by store\.cassandra\.password_file .* cannot be read"):
        load(environ={}, config=config('[store.cassandra]\npassword_file = "/nowhere/at/all"\n'))


def test_a_bad_secret_is_not_repeated_in_the_error(config) -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ={}, config=config("[store.cassandra]\npassword = 12345\n")).section("store", StoreSettings)
    assert "12345" not in caught.value.message


def test_a_named_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(environ={"TWOTICK_CONFIG": "/nowhere/twotick.toml"}, config=None)


def test_the_file_of_this_folder_comes_before_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert find_file({}) is None
    own = tmp_path / "xdg" / "twotick" / "twotick.toml"
    own.parent.mkdir(parents=True)
    own.touch()
    assert find_file({}) == own
    (tmp_path / "twotick.toml").touch()
    assert find_file({}) == Path("twotick.toml")


def test_what_belongs_to_the_tests_is_no_setting() -> None:
    assert not load(environ={"TWOTICK_TEST_STACK": "x", "TWOTICK_DEBUG": "1", "HOME": "/"}, config=None).given


def test_a_default_in_the_users_folders_follows_the_environment(tmp_path, monkeypatch) -> None:
    found = []
    for name in ("one", "two"):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / name))
        found.append([known.default for section in SECTIONS for known in known_settings(section)])
    assert found[0] != found[1]
    assert not any(str(tmp_path / "one") in str(each) for each in found[1])
