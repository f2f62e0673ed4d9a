"""The schema registry: which ids our schemas get, and what is said where it is away, refuses or is no registry."""

import json
import sys
from importlib.util import find_spec

import pytest

from compose.errors import ComposeError, SettingsError, UnreachableError
from compose.registry import RegistrySettings, registry_codec, remembered_codec, subject_of
from compose.wiring import Wiring
from schemas.codec import MAGIC, PLAIN, VERSIONS
from schemas.errors import UndecodableError
from schemas.records import NO_ID, Delivery
from schemas.versions import newest, registered_form
from tests.registry import Registry, serving

pytestmark = pytest.mark.skipif(find_spec("authlib") is None, reason="the extra `registry` is not installed")

RECORD = Delivery("bob", "direct:alice+bob", NO_ID, "alice", ("bob",), b"hi", "", 1, 2)


@pytest.fixture
def registry():
    with serving(Registry()) as made:
        yield made


def holding(registry, versions):
    """Put schemas into a registry."""
    for version in versions:
        schema = json.dumps(registered_form(version), sort_keys=True)
        registry.subjects.setdefault(subject_of(version), []).append(schema)
        registry.ids[schema] = registry.first_id + len(registry.ids)


def test_missing_schemas_are_registered_once_and_records_carry_their_ids(registry, tmp_path) -> None:
    settings = RegistrySettings(url=registry.url)
    codec = registry_codec(settings, tmp_path)
    assert sorted(registry.subjects) == sorted({subject_of(version) for version in VERSIONS})
    assert len(registry.subjects["twotick.events-twotick.Event"]) == 2
    data = codec.encode(RECORD)
    number = int.from_bytes(data[1:5], "big")
    assert (data[:1], number) == (b"\0", registry.ids[registry.subjects["twotick.inbox-twotick.Delivery"][0]])
    assert codec.decode(data) == RECORD
    assert codec.decode(PLAIN.encode(RECORD)) == RECORD

    registry.requests.clear()
    assert registry_codec(settings, tmp_path).encode(RECORD) == data
    assert {request.action for request in registry.requests} == {"lookup"}


def test_an_id_of_another_schema_stays_undecodable(registry, tmp_path) -> None:
    codec = registry_codec(RegistrySettings(url=registry.url), tmp_path)
    unknown = b"\0" + (registry.first_id + 999).to_bytes(4, "big") + codec.encode(RECORD)[5:]
    with pytest.raises(UndecodableError, match="number 100999 of the registry"):
        codec.decode(unknown)


def test_wording_makes_no_other_schema() -> None:
    assert '"doc"' not in json.dumps([registered_form(version) for version in VERSIONS])


def test_nothing_is_registered_where_that_is_not_wanted(registry, tmp_path) -> None:
    settings = RegistrySettings(url=registry.url, auto_register=False)
    with pytest.raises(ComposeError, match="does not have") as caught:
        registry_codec(settings, tmp_path)
    assert "auto_register" in caught.value.hint
    assert registry.subjects == {}
    holding(registry, newest(VERSIONS).values())
    assert registry_codec(settings, tmp_path).encode(RECORD)[0] == 0
    assert {request.action for request in registry.requests} == {"lookup"}


def test_it_asks_with_user_and_password(registry, tmp_path) -> None:
    registry.password = "right:or not"
    with pytest.raises(ComposeError, match=r"refuses.*Unauthorized") as caught:
        registry_codec(RegistrySettings(url=registry.url, username="tester", password="wrong"), tmp_path)  # noqa: S106
    assert not caught.value.retriable
    assert "wrong" not in caught.value.message + caught.value.hint
    settings = RegistrySettings(url=registry.url, username="tester", password="right:or not")  # noqa: S106
    assert registry_codec(settings, tmp_path).encode(RECORD)[0] == 0


def test_what_was_learned_serves_while_the_registry_is_away(registry, tmp_path) -> None:
    settings = RegistrySettings(url=registry.url)
    registry.status = 503
    with pytest.raises(UnreachableError, match="cannot be reached"):
        registry_codec(settings, tmp_path)
    registry.status = 0
    data = registry_codec(settings, tmp_path).encode(RECORD)
    registry.status = 503
    assert registry_codec(settings, tmp_path).encode(RECORD) == data
    assert remembered_codec(settings, tmp_path).encode(RECORD) == data
    other = RegistrySettings(url=f"{registry.url}/other")
    assert remembered_codec(other, tmp_path).encode(RECORD)[:2] == MAGIC
    for file in tmp_path.iterdir():
        file.write_text('{"half')
    with pytest.raises(UnreachableError):
        registry_codec(settings, tmp_path)


def test_nobody_there(tmp_path) -> None:
    with serving(Registry()) as registry:
        url = registry.url
    with pytest.raises(UnreachableError) as caught:
        registry_codec(RegistrySettings(url=url), tmp_path)
    assert caught.value.retriable


def test_a_server_that_is_no_registry(registry, tmp_path) -> None:
    registry.text = "<html>hello</html>"
    with pytest.raises(ComposeError, match="does not answer as a schema registry") as caught:
        registry_codec(RegistrySettings(url=registry.url), tmp_path)
    assert not caught.value.retriable


def test_without_the_extra_the_hint_names_it(registry, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(SettingsError, match="not installed") as caught:
        registry_codec(RegistrySettings(url=registry.url), tmp_path)
    assert "twotick[registry]" in caught.value.hint


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "registry:8081"},
        {"url": "http://user:secret@registry:8081"},
        {"username": "x"},
        {"timeout_s": 0.0},
        {"timeout_s": float("nan")},
    ],
)
def test_settings_that_cannot_work(wrong) -> None:
    with pytest.raises(ValueError, match=r"url|username|timeout_s") as caught:
        RegistrySettings(**wrong)
    assert "secret" not in str(caught.value)


def test_workers_need_it_and_clients_take_messages_without(registry, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    registry.status = 500
    wiring = Wiring(flags=[f"registry.url={registry.url}", f"user.outboxes={tmp_path / 'outboxes'}"])
    with pytest.raises(UnreachableError):
        wiring.codec()
    with wiring.open_client("alice", offline=True) as alice:
        assert alice.send(to="bob", body="hi").state == "pending"
    assert wiring._client_codec(offline=False).encode(RECORD)[:2] == MAGIC
    registry.status = 0
    assert wiring.codec().encode(RECORD)[0] == 0
    assert wiring.again()._client_codec(offline=True).encode(RECORD)[0] == 0
    assert Wiring().codec() is PLAIN


@pytest.mark.parametrize("url", ["ftp://me:s3cret@host", "me:s3cret@host", "http://me:s3cret@host", "http://"])
def test_a_wrong_address_is_not_repeated_with_the_password_in_it(url: str) -> None:
    with pytest.raises(ValueError, match="url") as caught:
        RegistrySettings(url=url)
    assert "s3cret" not in str(caught.value)
