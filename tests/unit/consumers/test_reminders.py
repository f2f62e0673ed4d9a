"""Spilled deliveries on their way into a later bucket."""

from typing import Any

import pytest

from consumers.counters import Counters
from consumers.errors import StoreRefusedError, StoreUnavailableError
from consumers.held import HeldPartition, Stage
from consumers.outage import Outage
from consumers.pipeline import Pipeline
from consumers.reminders import Bucket, Reminders

NOTHING: Any = None


def test_a_store_that_takes_no_spill_is_left_alone_for_a_while_or_ends_the_worker() -> None:
    outage = Outage(1.0, 4.0)
    pipeline = Pipeline(NOTHING, NOTHING, NOTHING, outage, Counters())
    reminders = Reminders(NOTHING, NOTHING, pipeline, NOTHING, Counters())
    held, bucket = HeldPartition(0), Bucket(1, iter(()))
    held.stage, bucket.unsafe = Stage.OWNED, 2
    reminders._spilled_again(bucket, held, 5, StoreUnavailableError("away", ""))
    assert (bucket.unsafe, bucket.failed, outage.active) == (1, True, True)
    with pytest.raises(StoreRefusedError):
        reminders._spilled_again(bucket, held, 5, StoreRefusedError("no permission", ""))
