"""`twotick verify` on what real clients, a worker and the embedded broker leave: who has lost what, and who has not."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from compose.stacks.embedded import EmbeddedBroker
from producers.client import Client
from schemas.topics import EVENTS
from tests.integration.commands import run
from tests.integration.deployment import PARTITIONS, Deployment, until
from tests.integration.test_worker_embedded import SETTINGS

pytestmark = pytest.mark.timeout(120)

MESSAGES = 5


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """Give a deployment in which bob's phone has read alice's messages while his laptop was off."""
    with EmbeddedBroker(PARTITIONS) as broker:
        kafka = {"bootstrap.servers": broker.bootstrap_servers, "fetch.wait.max.ms": 10}
        made = Deployment(tmp_path, kafka, {**SETTINGS, "topic_identity": broker.cluster_id})
        try:
            made.start()
            with Client("bob", outbox=tmp_path / "laptop.sqlite", offline=True):
                pass
            with (
                Client("alice", outbox=tmp_path / "alice.sqlite", kafka=kafka) as alice,
                Client("bob", outbox=tmp_path / "phone.sqlite", kafka=kafka) as phone,
            ):
                sent = [alice.send(to="bob", body=f"{number}") for number in range(MESSAGES)]
                for _, message in zip(sent, phone.incoming(timeout_s=30), strict=False):
                    message.mark_read()
                assert [each.wait("read", timeout_s=30) for each in sent] == ["read"] * MESSAGES
                assert phone.flush(30) == 0
                until(lambda: made.committed() == sum(made.ends(EVENTS).values()), "all is committed")
            yield made
        finally:
            made.close()


def test_what_the_laptop_never_had_is_not_lost_and_what_the_phone_had_is(deployment: Deployment) -> None:
    folder = deployment.folder
    alice, phone, laptop = (("--outbox", str(folder / f"{name}.sqlite")) for name in ("alice", "phone", "laptop"))
    for given in ([*alice, *laptop], [*alice, *phone], [*alice, *phone, *laptop], list(laptop)):
        ran = run(deployment, "verify", "--grace", "0", *given)
        assert (ran.code, ran.rows) == (0, []), ran.told
        assert (f"{MESSAGES} messages have arrived" in ran.told) == (given == [*alice, *laptop])
    with closing(sqlite3.connect(folder / "phone.sqlite")) as connection, connection:
        ((gone,),) = connection.execute("DELETE FROM deliveries WHERE arrival = 2 RETURNING message_id").fetchall()
    for given in ([*alice, *phone, *laptop], list(phone)):
        ran = run(deployment, "verify", "--grace", "0", *given)
        assert (ran.code, [(row["kind"], row["message_id"].replace("-", "")) for row in ran.rows]) == (
            1,
            [("lost", gone.hex())],
        ), ran.told
