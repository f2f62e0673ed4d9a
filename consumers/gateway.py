"""What becomes of a delivery when its message is durable: into the recipient's inbox, or to an outside gateway."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from consumers.rows import Owner
from schemas.records import Delivery


class Gateway(Protocol):
    """Delivers for some recipients; neither call waits for anything."""

    def takes(self, user: str) -> bool:
        """Say whether this recipient's deliveries are its."""

    def submit(self, partition: int, owner: Owner, delivery: Delivery) -> None:
        """Take a delivery. It may be forgotten: the owner makes it again until there is a receipt."""

    def drop(self, partition: int) -> None:
        """Let go of a partition that is no longer ours."""


class Nobody:
    """The gateway of a deployment that has none."""

    def takes(self, user: str) -> bool:  # noqa: ARG002
        """Take nobody's."""
        return False

    def submit(self, partition: int, owner: Owner, delivery: Delivery) -> None:
        """Never called."""

    def drop(self, partition: int) -> None:
        """Have nothing to let go of."""


def for_inboxes(deliveries: Iterable[Delivery], gateway: Gateway, partition: int, owner: Owner) -> Iterator[Delivery]:
    """Yield the deliveries that go into inboxes; hand the others to the gateway."""
    for delivery in deliveries:
        if gateway.takes(delivery.user):
            gateway.submit(partition, owner, delivery)
        else:
            yield delivery
