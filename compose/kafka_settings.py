"""Checks the settings that `[kafka]` passes through: librdkafka says whether it knows them, we guess what was meant."""

import difflib
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException, Producer

from compose.errors import SettingsError
from schemas.topics import Setting

_SERVERS: Final = "bootstrap.servers"
_UNKNOWN: Final = "No such configuration property"
USUAL: Final = (
    "allow.auto.create.topics", "api.version.request.timeout.ms", "batch.num.messages", "batch.size",
    "bootstrap.servers", "broker.address.family", "broker.address.ttl", "client.dns.lookup", "client.id",
    "client.rack", "compression.codec", "compression.level", "compression.type", "connections.max.idle.ms", "debug",
    "enable.ssl.certificate.verification", "fetch.error.backoff.ms", "fetch.max.bytes", "fetch.message.max.bytes",
    "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms", "group.remote.assignor",
    "heartbeat.interval.ms", "isolation.level", "linger.ms", "log.connection.close", "log_level",
    "max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "message.max.bytes", "metadata.broker.list",
    "metadata.max.age.ms", "queue.buffering.max.kbytes", "queue.buffering.max.messages", "queue.buffering.max.ms",
    "queued.max.messages.kbytes", "queued.min.messages", "receive.message.max.bytes", "reconnect.backoff.max.ms",
    "reconnect.backoff.ms", "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms",
    "sasl.kerberos.keytab", "sasl.kerberos.principal", "sasl.kerberos.service.name", "sasl.mechanism",
    "sasl.mechanisms", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config",
    "sasl.oauthbearer.method", "sasl.oauthbearer.scope", "sasl.oauthbearer.token.endpoint.url", "sasl.password",
    "sasl.username", "security.protocol", "session.timeout.ms", "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable", "socket.nagle.disable", "socket.receive.buffer.bytes", "socket.send.buffer.bytes",
    "socket.timeout.ms", "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
    "ssl.cipher.suites", "ssl.endpoint.identification.algorithm", "ssl.key.location", "ssl.key.password",
    "ssl.key.pem", "ssl.keystore.location", "ssl.keystore.password", "statistics.interval.ms",
    "topic.metadata.refresh.interval.ms",
)  # fmt: skip
"""Those that people set; only guesses are made from them, librdkafka itself decides what exists."""


def check(settings: Mapping[str, Setting], source_of: Mapping[str, str]) -> None:
    """Have librdkafka look at the settings. Raises SettingsError for one that it does not know or cannot take.

    `source_of` names where each setting comes from.
    """
    servers = settings.get(_SERVERS)
    if isinstance(servers, str) and not servers.strip(", "):
        raise SettingsError(
            f"{source_of.get(_SERVERS, '[kafka]')}: kafka.{_SERVERS} names no server", "Name one by host:port."
        )
    said = _complaint(settings)
    if said is None:
        return
    # librdkafka may name an alias of what was set, so each is tried alone to find the one that it means.
    guilty = next((name for name, value in settings.items() if _complaint({name: value}) == said), "")
    raise _refused(said, guilty, source_of.get(guilty, "[kafka]"))


def _complaint(settings: Mapping[str, Setting]) -> str | None:
    """Return what librdkafka says against these settings. It talks to nobody, and writes no log."""
    try:
        Producer({**settings, "bootstrap.servers": "", "log_level": 0})
    except KafkaException as error:
        return str(error.args[0].str()).strip()
    return None


def _refused(said: str, name: str, source: str) -> SettingsError:
    if said.startswith(_UNKNOWN):
        guesses = difflib.get_close_matches(name, USUAL, n=1)
        hint = f"Did you mean kafka.{guesses[0]}?" if guesses else "librdkafka's documentation lists all of them."
        return SettingsError(f"{source}: there is no setting kafka.{name}", hint)
    subject = f"kafka.{name}: " if name else ""
    return SettingsError(f"{source}: {subject}{said}", "Change it; librdkafka's documentation says what it takes.")
