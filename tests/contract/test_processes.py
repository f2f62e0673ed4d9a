"""A store belongs to the process that opened it, and to the time before it was closed."""

import os

import pytest

from consumers.errors import StoreRefusedError
from consumers.stores.contract import Store
from tests.contract.made import OWNER, Written, id_of, made, write

REFUSED = 77


def _child_is_refused(store: Store, name: str) -> bool:
    """Use the store in a forked child; say whether every call was refused at once."""
    calls = (
        lambda: store.read([(name, id_of(1))], [name]),
        lambda: store.claim_lease(1, "node"),
        store.ping,
        lambda: list(store.history(name, 1)),
        lambda: list(store.all_messages()),
    )
    refused = 0
    for call in calls:
        try:
            call()
        except StoreRefusedError:
            refused += 1
    written = Written()
    store.write(OWNER, [made(name, 1)], [], written.done)
    return refused == len(calls) and isinstance(written.calls[0], StoreRefusedError)


# case C6
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_refused_at_once(store: Store, name: str) -> None:
    child = os.fork()
    if child == 0:
        os._exit(REFUSED if _child_is_refused(store, name) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == REFUSED
    write(store, [made(name, 2)])  # the parent's goes on


def test_a_closed_store_is_refused_and_closing_twice_does_nothing(open_another, name: str) -> None:
    store = open_another()
    store.close()
    store.close()
    with pytest.raises(StoreRefusedError):
        store.ping()
    written = Written()
    store.write(OWNER, [made(name, 1)], [], written.done)
    with pytest.raises(StoreRefusedError):
        written.wait()


def test_closing_finishes_what_was_started(open_another, name: str) -> None:
    store = open_another()
    all_written = [Written() for _ in range(50)]
    for number, written in enumerate(all_written):
        store.write(OWNER, [made(name, number)], [], written.done)
    store.close()
    for written in all_written:
        assert written.calls == [None]
    assert len(open_another().read([(name, id_of(number)) for number in range(50)], []).messages) == 50
