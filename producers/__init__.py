"""The client: an outbox on disk, a pump into Kafka, a listener to the answers.

>>> with Client("alice", bootstrap_servers="127.0.0.1:9092", outbox="alice.sqlite") as me:  # doctest: +SKIP
...     sent = me.send(to="bob", body="hi")
...     sent.wait("read", timeout_s=30)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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

_MODULES: Final = {
    "Limits": "producers.checks",
    "Outgoing": "producers.checks",
    "Client": "producers.client",
    "Stats": "producers.client",
    "default_outbox": "producers.client",
    "ClientClosedError": "producers.errors",
    "ClientError": "producers.errors",
    "DeliveryFailedError": "producers.errors",
    "DeniedError": "producers.errors",
    "InvalidMessageError": "producers.errors",
    "OutboxBusyError": "producers.errors",
    "OutboxError": "producers.errors",
    "OutboxFullError": "producers.errors",
    "UnknownMessageError": "producers.errors",
    "UnreachableError": "producers.errors",
    "WaitTimeoutError": "producers.errors",
    "Health": "producers.health",
    "Incoming": "producers.incoming",
    "RetryPolicy": "producers.retry",
    "Sent": "producers.sent",
    "ClientSettings": "producers.settings",
    "Outlook": "producers.views",
    "Tick": "producers.views",
}
"""Name to module: a command's help should load neither Kafka's library nor SQLite (PEP 562)."""

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


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
