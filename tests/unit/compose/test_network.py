"""A network that is cut lets nothing through in either direction, and nothing that is told goes around it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from compose.demo.network import Network
from compose.stacks.embedded import EmbeddedBroker

TOPIC = "talk"
RECORDS = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker({TOPIC: 1}) as broker:
        yield broker


@pytest.fixture
def network(broker: EmbeddedBroker) -> Iterator[Network]:
    with closing(Network([broker.bootstrap_servers])) as network:
        yield network


def settings(servers: str, error: Callable[[Any], None] = lambda _: None) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "log_level": 0, "error_cb": error, "reconnect.backoff.max.ms": 200}


def write(producer: Producer, bodies: list[str], outcomes: list[Any]) -> None:
    for body in bodies:
        producer.produce(TOPIC, body, partition=0, on_delivery=lambda error, _: outcomes.append(error))


def read(servers: str, count: int) -> list[bytes | None]:
    reader = Consumer({**settings(servers), "group.id": "readers"})
    reader.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[Message] = reader.consume(count, 30)
    reader.close()
    return [one.value() for one in found]


def test_a_client_behind_it_knows_no_other_way(broker: EmbeddedBroker, network: Network) -> None:
    # What a broker tells is what clients connect to, whatever they were given at first.
    told = Producer(settings(network.addresses)).list_topics(timeout=30).brokers.values()
    assert [f"{one.host}:{one.port}" for one in told] == [network.addresses] != [broker.bootstrap_servers]


def test_what_is_written_while_it_is_cut_arrives_once_it_is_mended(broker: EmbeddedBroker, network: Network) -> None:
    gone = Event()
    producer = Producer({**settings(network.addresses, lambda _: gone.set()), "enable.idempotence": True})
    outcomes: list[Any] = []
    write(producer, ["before"], outcomes)
    assert producer.flush(30) == 0
    network.cut()
    network.cut()
    while not gone.is_set():
        producer.poll(0.1)
    bodies = [str(number) for number in range(RECORDS)]
    write(producer, bodies, outcomes)
    # The client does not get through although the broker is there for everybody else.
    assert producer.flush(0.5) == RECORDS
    assert read(broker.bootstrap_servers, 1) == [b"before"]
    network.mend()
    assert producer.flush(60) == 0
    assert outcomes == [None] * (RECORDS + 1)
    kept = read(network.addresses, RECORDS + 1)
    assert kept == [b"before", *(body.encode() for body in bodies)]


def test_it_is_closed_twice_and_nobody_listens_any_more(network: Network, broker: EmbeddedBroker) -> None:
    network.close()
    network.close()
    gone = Event()
    producer = Producer(settings(network.addresses, lambda _: gone.set()))
    while not gone.is_set():
        producer.poll(0.1)
