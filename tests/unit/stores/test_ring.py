"""The token map, reduced: which rows may share a batch, and which node gets it."""

from types import SimpleNamespace

from cassandra.metadata import Murmur3Token

from consumers.stores.cassandra_replicas import Ring


def host(name: str, datacenter: str = "dc1", *, is_up: bool = True) -> SimpleNamespace:
    found = SimpleNamespace(endpoint=name, datacenter=datacenter, is_up=is_up)
    return _Host(found)


class _Host(SimpleNamespace):
    """Hashable, as the driver's are."""

    def __init__(self, found: SimpleNamespace) -> None:
        super().__init__(**vars(found))

    def __hash__(self) -> int:
        return hash(self.endpoint)


class TokenMap:
    """The part of the driver's token map that is used."""

    token_class = Murmur3Token

    def __init__(self, replicas: dict[int, list[_Host]]) -> None:
        self.ring = [Murmur3Token(value) for value in sorted(replicas)]
        self.tokens_to_hosts_by_ks = {"ks": {token: replicas[token.value] for token in self.ring}}

    def get_replicas(self, keyspace: str, token: Murmur3Token) -> list[_Host]:
        """Answer as the driver does."""
        return self.tokens_to_hosts_by_ks[keyspace][token]


def ring_of(replicas: dict[int, list[_Host]]) -> tuple[Ring, SimpleNamespace]:
    metadata = SimpleNamespace(token_map=TokenMap(replicas))
    return Ring(metadata, "ks", "dc1"), metadata


A, B, C, FAR = host("a"), host("b"), host("c"), host("far", "dc2")


def test_where_every_node_has_every_row_nothing_is_grouped() -> None:
    ring, _ = ring_of({-10: [A, B, FAR], 10: [B, A]})
    assert ring.replicas_of() is None
    assert {ring.coordinator(None).endpoint for _ in range(4)} == {"a", "b"}


def test_rows_are_grouped_by_the_replicas_of_their_token() -> None:
    low, high = -(2**62), 2**62
    ring, _ = ring_of({low: [A], 0: [B], high: [C]})
    replicas_of = ring.replicas_of()
    assert replicas_of is not None
    for number in range(200):
        key = f"key {number}".encode()
        token = Murmur3Token.hash_fn(key)
        expected = A if token <= low or token > high else B if token <= 0 else C
        assert replicas_of(key) == (expected,)
        assert ring.coordinator(replicas_of(key)) is expected


def test_a_node_that_is_down_gets_nothing_and_where_all_are_the_driver_chooses() -> None:
    down = host("b", is_up=False)
    ring, _ = ring_of({-10: [A, down], 10: [down]})
    replicas_of = ring.replicas_of()
    assert replicas_of is not None
    assert ring.coordinator((A, down)) is A
    assert ring.coordinator((down,)) is None


def test_a_new_token_map_is_followed() -> None:
    ring, metadata = ring_of({-10: [A], 10: [A]})
    assert ring.replicas_of() is None
    metadata.token_map = TokenMap({-10: [A], 10: [B]})
    assert ring.replicas_of() is not None
    metadata.token_map = None
    assert ring.replicas_of() is None
