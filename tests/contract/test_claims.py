"""Claims: a row is written on what was read, once, and never under a smaller token; an unknown outcome is settled."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from unittest import mock

import pytest
from cassandra import OperationTimedOut

from consumers.claims.contract import Claim, ClaimKey, ClaimState
from consumers.claims.sqlite import SqliteClaimTable
from consumers.rows import Owner
from consumers.stores.contract import Store
from consumers.stores.sqlite import SqliteStore
from consumers.stores.sqlite_shared import SharedConnection
from tests.contract.made import id_of

KEEP_S = 3_600


def claim(name: str, version: int = 1, token: int = 5, node: str = "a", **more) -> Claim:
    key = ClaimKey(name, id_of(1), "bot:é")
    return Claim(key, version, token, ClaimState.CLAIMED, version, Owner(3, node), **more)


def test_a_claim_reads_back_and_follows_what_was_read(store: Store, name: str) -> None:
    table = store.shared().claims
    first = claim(name)
    assert table.find(first.key) is None
    assert table.put(first, None, KEEP_S)
    assert table.find(first.key) == first
    second = claim(name, 2, 6, next_at=7, detail="status 503")._replace(state=ClaimState.WAITING)
    assert table.put(second, first, KEEP_S)
    assert table.find(first.key) == second
    assert not table.put(claim(name, 2, 9), first, KEEP_S)
    assert not table.put(claim(name, 1, 9), None, KEEP_S)
    assert not table.put(claim(name, 3, 5), second, KEEP_S)
    assert table.find(first.key) == second
    assert table.find(first.key._replace(recipient="ben")) is None


def test_of_those_who_claim_at_the_same_time_one_succeeds(open_another, name: str) -> None:
    tables = [open_another().shared().claims for _ in range(3)]
    start = Barrier(len(tables))

    def put(number: int) -> bool:
        start.wait()
        return tables[number].put(claim(name, node=f"node-{number}"), None, KEEP_S)

    with ThreadPoolExecutor(len(tables)) as pool:
        done = list(pool.map(put, range(len(tables))))
    assert done.count(True) == 1
    found = tables[0].find(claim(name).key)
    assert found is not None
    assert found.owner == Owner(3, f"node-{done.index(True)}")


# case C1, C2
@pytest.mark.local_stack
def test_an_unknown_outcome_of_a_claim_is_settled(cassandra_store, name: str) -> None:
    table = cassandra_store.shared().claims
    execute = cassandra_store._session.execute

    def unheard(statement, values, **options):
        result = execute(statement, values, **options)
        if statement.query_string.startswith("UPDATE"):
            raise OperationTimedOut
        return result

    with mock.patch.object(cassandra_store._session, "execute", unheard):
        assert table.put(claim(name), None, KEEP_S)
        assert table.put(claim(name, 2), claim(name), KEEP_S)
        assert not table.put(claim(name, 2, node="b"), claim(name), KEEP_S)
    assert table.find(claim(name).key) == claim(name, 2)


def test_sqlite_forgets_what_may_be_forgotten(tmp_path) -> None:
    opened = SqliteStore.open(tmp_path / "store.sqlite")
    now = [1_000_000]
    shared = SharedConnection(tmp_path / "store.sqlite", 5)
    try:
        SqliteClaimTable(shared, now_ms=lambda: now[0]).put(claim("c"), None, 10)
        now[0] += 10_001
        table = SqliteClaimTable(shared, now_ms=lambda: now[0])
        assert table.find(claim("c").key) == claim("c")
        table.put(claim("d"), None, 10)
        assert table.find(claim("c").key) is None
    finally:
        shared.close()
        opened.close()
