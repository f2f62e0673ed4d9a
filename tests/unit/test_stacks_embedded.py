"""The embedded broker does what its module's text says, for the claims that other parts lean on."""

import signal

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from compose.stacks.embedded import EmbeddedBroker, EmbeddedBrokerProcess
from compose.stacks.errors import StackError


@pytest.fixture
def broker():
    with EmbeddedBroker({"events": 8}) as broker:
        yield broker


def produce(broker, count, topic="events", partition=0, size_bytes=10):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    reports = []
    for _ in range(count):
        producer.produce(
            topic, partition=partition, value=b"x" * size_bytes, on_delivery=lambda *report: reports.append(report)
        )
    assert producer.flush(10) == 0
    assert all(error is None for error, _ in reports)
    return [message for _, message in reports]


def consumer(broker, **settings):
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "readers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **settings,
        }
    )


def test_topics_have_the_partitions_asked_for(broker):
    metadata = Producer({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=5)
    assert {name: len(topic.partitions) for name, topic in metadata.topics.items()} == {"events": 8}


def test_it_listens_on_loopback(broker):
    assert broker.bootstrap_servers.startswith("127.0.0.1:")


def test_every_start_has_an_id_of_its_own():
    with EmbeddedBroker({}) as first, EmbeddedBroker({}) as second:
        assert first.cluster_id != second.cluster_id


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_commits_and_the_commit_outlives_its_member(broker, protocol):
    produce(broker, 3)
    member = consumer(broker, **{"group.protocol": protocol})
    member.subscribe(["events"])
    assert member.consume(3, timeout=10)
    member.commit(offsets=[TopicPartition("events", 0, 2)], asynchronous=False)
    member.close()
    later = consumer(broker, **{"group.protocol": protocol})
    assert later.committed([TopicPartition("events", 0)], timeout=5)[0].offset == 2
    later.close()


def test_the_producers_clock_is_the_only_time(broker):
    report = produce(broker, 1)[0]
    assert report.timestamp() == (2, 1234)
    reader = consumer(broker)
    assert reader.offsets_for_times([TopicPartition("events", 0, 0)], timeout=5)[0].offset == -1
    reader.close()


def test_a_full_partition_drops_its_oldest_records(broker):
    for _ in range(8):
        produce(broker, 1, size_bytes=900_000)
    reader = consumer(broker)
    low, high = reader.get_watermark_offsets(TopicPartition("events", 0), timeout=5)
    reader.close()
    assert high == 8
    assert 0 < low < 8


@pytest.mark.parametrize(("reset", "expected"), [("earliest", 3), ("error", KafkaError._AUTO_OFFSET_RESET)])
def test_a_reader_of_dropped_records_is_moved_or_told(broker, reset, expected):
    for _ in range(5):
        produce(broker, 1)
    broker.drop_records("events", 0, before_offset=3)
    reader = consumer(broker, **{"auto.offset.reset": reset})
    reader.assign([TopicPartition("events", 0, 1)])
    message = reader.poll(10)
    reader.close()
    assert (message.error().code() if message.error() else message.offset()) == expected


def test_a_producer_delivers_what_it_held_while_the_broker_was_down(broker):
    settings = {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    producer = Producer({**settings, "reconnect.backoff.max.ms": 100})
    reports = []
    producer.list_topics(timeout=5)
    broker.go_down()
    producer.produce("events", value=b"held", on_delivery=lambda *report: reports.append(report))
    assert producer.flush(0.3) == 1
    broker.come_up()
    assert producer.flush(10) == 0
    assert [error for error, _ in reports] == [None]


def test_a_topic_exists_once(broker):
    with pytest.raises(StackError, match="already exists"):
        broker._cluster.create_topic("events", 8)


def test_closing_twice_is_fine():
    broker = EmbeddedBroker({})
    broker.close()
    broker.close()


def test_a_child_process_hosts_it_until_its_input_closes():
    with EmbeddedBrokerProcess({"events": 3}) as child:
        topics = Producer({"bootstrap.servers": child.bootstrap_servers}).list_topics(timeout=5).topics
        assert len(topics["events"].partitions) == 3
    assert child._child.returncode == 0


def test_a_child_process_ends_in_good_order_on_sigterm():
    with EmbeddedBrokerProcess({}) as child:
        child._child.send_signal(signal.SIGTERM)
        assert child._child.wait(10) == 0
