"""The client: an outbox on disk, a pump into Kafka, a listener to the answers.

>>> with Client("alice", bootstrap_servers="127.0.0.1:9092", outbox="alice.sqlite") as me:  # doctest: +SKIP
...     sent = me.send(to="bob", body="hi")
...     sent.wait("read", timeout_s=30)
"""

from producers.checks import Limits, Outgoing
from producers.client import Client, Stats, default_outbox
from producers.errors import (
    ClientClosedError,
    ClientError,
    DeliveryFailedError,
    DeniedError,
    InvalidMessageError,
    OutboxBusyError,
    OutboxError,
    OutboxFullError,
    UnknownMessageError,
    UnreachableError,
    WaitTimeoutError,
)
from producers.health import Health
from producers.incoming import Incoming
from producers.retry import RetryPolicy
from producers.sent import Sent
from producers.settings import ClientSettings
from producers.views import Outlook, Tick

__all__ = [
    "Client",
    "ClientClosedError",
    "ClientError",
    "ClientSettings",
    "DeliveryFailedError",
    "DeniedError",
    "Health",
    "Incoming",
    "InvalidMessageError",
    "Limits",
    "OutboxBusyError",
    "OutboxError",
    "OutboxFullError",
    "Outgoing",
    "Outlook",
    "RetryPolicy",
    "Sent",
    "Stats",
    "Tick",
    "UnknownMessageError",
    "UnreachableError",
    "WaitTimeoutError",
    "default_outbox",
]
