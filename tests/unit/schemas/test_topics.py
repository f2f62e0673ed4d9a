"""Topics are made with what the contract requires, differences are told, pinned client settings stay."""

import pytest

from schemas.errors import PinnedSettingError
from schemas.topics import (
    CONSUMER,
    DEAD_LETTERS,
    EVENTS,
    INBOX,
    PRODUCER,
    TOPICS,
    Difference,
    Requirement,
    client_config,
    creation_config,
    differences,
)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("replication_factor", [1, 3])
def test_a_topic_created_with_the_required_settings_shows_no_difference(topic, replication_factor):
    assert differences(topic, creation_config(topic, replication_factor), replication_factor) == []


def test_the_log_has_append_times_and_is_never_compacted():
    config = creation_config(EVENTS, 3)
    assert config["message.timestamp.type"] == "LogAppendTime"
    assert config["cleanup.policy"] == "delete"
    assert config["min.insync.replicas"] == "2"
    assert creation_config(EVENTS, 1)["min.insync.replicas"] == "1"
    assert creation_config(INBOX, 3)["retention.ms"] == "604800000"


def test_a_topic_made_by_others_is_told_with_every_difference():
    described = {
        **creation_config(EVENTS, 3),
        "message.timestamp.type": "CreateTime",
        "retention.ms": "3600000",
        "min.insync.replicas": "1",
    }
    assert differences(EVENTS, described, 3) == [
        Difference(EVENTS, "message.timestamp.type", "LogAppendTime", "CreateTime"),
        Difference(EVENTS, "retention.ms", "-1", "3600000"),
        Difference(EVENTS, "min.insync.replicas", "2", "1"),
    ]


def test_a_setting_that_the_broker_does_not_tell_is_a_difference():
    described = creation_config(DEAD_LETTERS, 1)
    del described["cleanup.policy"]
    assert differences(DEAD_LETTERS, described, 1) == [Difference(DEAD_LETTERS, "cleanup.policy", "delete", None)]


@pytest.mark.parametrize(
    ("found", "met"), [("-1", True), ("1000", True), ("999", False), ("many", False), ("-2", False), (None, False)]
)
def test_more_than_the_least_will_do(found, met):
    assert Requirement("retention.ms", "5000", 1000).met_by(found) is met


def test_a_dead_letter_may_be_as_large_as_the_largest_event_and_its_account():
    largest_event = int(creation_config(EVENTS, 1)["max.message.bytes"])
    assert int(creation_config(DEAD_LETTERS, 1)["max.message.bytes"]) > largest_event + 64 * 1024


def test_passthrough_settings_reach_the_client():
    config = client_config({"bootstrap.servers": "one:9092", "linger.ms": 5}, PRODUCER)
    assert config == {"bootstrap.servers": "one:9092", "linger.ms": 5, **PRODUCER}


@pytest.mark.parametrize(
    ("passthrough", "pinned"),
    [
        ({"acks": "1"}, PRODUCER),
        ({"request.required.acks": 1}, PRODUCER),
        ({"delivery.timeout.ms": 1000}, PRODUCER),
        ({"enable.idempotence": "false"}, PRODUCER),
        ({"partitioner": "consistent"}, PRODUCER),
        ({"delivery.report.only.error": True}, PRODUCER),
        ({"enable.auto.commit": True}, CONSUMER),
        ({"auto.commit.enable": True}, CONSUMER),
        ({"auto.offset.reset": "latest"}, CONSUMER),
        ({"default.topic.config": "acks=1"}, CONSUMER),
    ],
)
def test_a_pinned_setting_is_not_overridden(passthrough, pinned):
    with pytest.raises(PinnedSettingError) as refused:
        client_config(passthrough, pinned)
    assert next(iter(passthrough)) in refused.value.message
    assert refused.value.hint
    assert refused.value.exit_code == 2, "as for any other wrong setting"


def test_saying_what_is_pinned_is_allowed():
    assert client_config({"acks": "all", "enable.idempotence": "true"}, PRODUCER) == dict(PRODUCER)


@pytest.mark.parametrize("pinned", [PRODUCER, CONSUMER])
def test_the_library_knows_every_pinned_setting(pinned):
    confluent_kafka = pytest.importorskip("confluent_kafka")
    kind = confluent_kafka.Producer if pinned is PRODUCER else confluent_kafka.Consumer
    group = {} if pinned is PRODUCER else {"group.id": "nobody"}
    client = kind({**client_config({}, pinned), **group})
    assert len(client) == 0 if pinned is PRODUCER else client.assignment() == []
