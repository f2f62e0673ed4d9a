"""What keeps calls to a gateway right, and how each is switched off in a simulated world, never in production."""

from dataclasses import dataclass, fields, replace
from typing import Any
from uuid import uuid5

import consumers.claims.claiming
import consumers.claims.contract
import consumers.claims.partition_locks
import consumers.locks.cassandra
import consumers.locks.sqlite
import tests.simulation.cassandra
from tests.simulation.defences import Replacement
from tests.simulation.seams import world


@dataclass(frozen=True, slots=True)
class GatewayDefences:
    """True: as in production."""

    lock: bool = True
    """Who delivers for a partition holds its lock."""
    token_rises: bool = True
    """Each acquisition of a lock has a larger token than all before it."""
    holder: bool = True
    """Only its holder renews or releases a lock."""
    token: bool = True
    """A claim is not written under a smaller token than it has seen."""
    version: bool = True
    """A claim is written on the version that was read."""
    look: bool = True
    """Before a call it is looked again whether the delivery is still owed."""
    mark: bool = True
    """A delivery is marked before the call is made."""
    one_key: bool = True
    """Every call of a delivery has the same idempotency key."""

    def without(self, name: str) -> "GatewayDefences":
        """Return these with one switched off."""
        return replace(self, **{name: False})


NAMES = tuple(each.name for each in fields(GatewayDefences))


def _no_lock(_locks: Any, _partition: int) -> int:
    return 1


def _unmarked(claiming: Any, delivery: Any, holding: Any, before: Any) -> Any:
    contract = consumers.claims.contract
    key = contract.ClaimKey.of(delivery)
    version, attempts = (before.version, before.attempts) if before else (0, 0)
    answer = claiming._handler(delivery, key.idempotency_key(), attempts + 1)
    marked = contract.Claim(key, version + 1, holding.token, contract.ClaimState.CLAIMED, attempts + 1, holding.owner)
    if not claiming._table.put(marked, before, 60):
        return consumers.claims.claiming.ClaimStep(lost=True)
    return claiming._settle(delivery, holding, marked, answer)


def _key_of_its_own(key: Any) -> Any:
    return uuid5(_ONE_KEY(key), str(world().now))


_ONE_KEY = consumers.claims.contract.ClaimKey.idempotency_key


def _prepare_without_fence(_session: Any, text: str) -> Any:
    return tests.simulation.cassandra.Prepared(text.replace(" AND fence <= ?", ""))


def _unconditional(text: str) -> str:
    return text.split(" IF ", maxsplit=1)[0]


_REPLACED: dict[str, tuple[Replacement, ...]] = {
    "lock": ((consumers.claims.partition_locks.PartitionLocks, "token", _no_lock),),
    "token_rises": (
        (consumers.locks.sqlite, "_TAKE", consumers.locks.sqlite._TAKE.replace("fence = fence + 1", "fence = fence")),
    ),
    "holder": (
        (consumers.locks.cassandra, "_EXTEND", _unconditional(consumers.locks.cassandra._EXTEND)),
        (consumers.locks.cassandra, "_GIVE_BACK", _unconditional(consumers.locks.cassandra._GIVE_BACK)),
    ),
    "token": ((tests.simulation.cassandra.Session, "prepare", _prepare_without_fence),),
    "look": ((consumers.claims.claiming.Claiming, "_is_owed", lambda *_: True),),
    "mark": ((consumers.claims.claiming.Claiming, "_call", _unmarked),),
    "one_key": ((consumers.claims.contract.ClaimKey, "idempotency_key", _key_of_its_own),),
}


def replacements(defences: GatewayDefences) -> tuple[Replacement, ...]:
    """Return what production must be made to do without what is switched off."""
    off = [name for name in NAMES if not getattr(defences, name)]
    return tuple(each for name in off for each in _REPLACED.get(name, ()))
