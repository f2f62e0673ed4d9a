"""Puts a courier together: a store of its own, for its threads wait where the worker's must not."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import random
from threading import Event as Signal
from threading import Lock
from time import monotonic
from typing import Any, Final

from confluent_kafka import Producer

from consumers import clock
from consumers.claims.claiming import Claiming
from consumers.claims.courier import Courier
from consumers.claims.partition_locks import PartitionLocks
from consumers.claims.settings import WebhookSettings
from consumers.claims.webhook import Webhook
from consumers.counters import Counters
from consumers.kafka_clients import LOG as KAFKA_LOG
from consumers.kafka_clients import producer_config
from consumers.locks.locking import TableLocks
from consumers.stores.contract import MessageKey, Rows, Store
from schemas.codec import Codec
from schemas.records import Event
from schemas.topics import EVENTS, Setting

WRITE_TIMEOUT_S: Final = 10.0


class SharedReader:
    """A store that several threads read, one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mutex = Lock()

    def read(self, messages: list[MessageKey], conversations: list[str]) -> Rows:
        """Read rows. Raises StoreUnavailableError, StoreRefusedError."""
        with self._mutex:
            return self._store.read(messages, conversations)


class EventWriter:
    """Writes single events into the log; safe to use from several threads."""

    def __init__(self, kafka: Mapping[str, Setting], codec: Codec) -> None:
        self._producer = Producer({**producer_config(kafka), "logger": KAFKA_LOG})
        self._codec = codec

    def __call__(self, event: Event) -> bool:
        """Write an event; say whether it is known to be there. One that was written all the same does no harm."""
        reported = Signal()
        errors: list[object] = []

        def told(error: Any, _message: Any) -> None:  # noqa: ANN401 - the client's own types
            errors.append(error)
            reported.set()

        try:
            key = event.conversation_id.encode()
            self._producer.produce(EVENTS, self._codec.encode(event), key, on_delivery=told)
        except BufferError:
            self._producer.poll(0)
            return False
        deadline = monotonic() + WRITE_TIMEOUT_S
        while not reported.is_set() and monotonic() < deadline:
            self._producer.poll(0.05)
        return reported.is_set() and errors == [None]


@contextmanager
def open_courier(  # noqa: PLR0913 - the parts of a courier
    settings: WebhookSettings,
    *,
    kafka: Mapping[str, Setting],
    open_store: Callable[[], Store],
    codec: Codec,
    node: str,
    counters: Counters,
) -> Iterator[Courier]:
    """Give a courier that runs for as long as the block takes. Raises StoreUnavailableError, StoreRefusedError."""
    store = open_store()
    try:
        shared = store.shared()
        claiming = Claiming(
            table=shared.claims,
            reader=SharedReader(store),
            handler=Webhook(settings),
            settings=settings,
            now_ms=clock.now_ms,
            chance=random,
        )
        courier = Courier(
            step=claiming.step,
            locks=PartitionLocks(TableLocks(shared.locks, node), settings.claim_ttl_s),
            write=EventWriter(kafka, codec),
            settings=settings,
            counters=counters,
        )
        courier.start()
        try:
            yield courier
        finally:
            courier.stop(settings.timeout_s + 1)
    finally:
        store.close()
