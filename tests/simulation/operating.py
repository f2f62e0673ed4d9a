"""Somebody who parks conversations and releases them: production's commands, in the middle of everything."""

# ruff: noqa: D102 - what stands in for a library is named after it

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from consumers.dead_letters_park import park, parked_among, release
from consumers.dead_letters_redrive import LogWriter
from consumers.errors import WorkerError
from schemas.lifecycle import Kind
from schemas.records import DeadLetter, Record
from tests.simulation.broker import SimProducer
from tests.simulation.client import CODEC
from tests.simulation.process import Process
from tests.simulation.worker import OPERATOR

if TYPE_CHECKING:
    from tests.simulation.world import World

_WAIT_S = 20.0
_PATIENCE = 3
"""Releases, once all is healed, that do not get through before the conversation is opened whatever waits."""


class _Producer(SimProducer):
    """Waits in `flush`, as a command does."""

    def flush(self, timeout: float) -> int:
        until = self._world.now + timeout * 1000
        while self.queue and not self.fatal and self._world.now < until:
            self._world.meanwhile(0.1)
        self.poll(0)
        return len(self)


class Letters:
    """The dead letters as they come; stands in for what reads the topic."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._read = 0

    def new(self) -> Iterator[DeadLetter]:
        found = self._world.letters[self._read :]
        self._read += len(found)
        return (CODEC.decode_as(DeadLetter, value) for value in found)

    @staticmethod
    def decode(value: bytes | None) -> Record:
        return CODEC.decode(value)


class Workers:
    """How far the workers have got, by what their group has committed."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def have_folded(self, place: tuple[int, int]) -> bool:
        return self._world.group.committed.get(place[0], 0) > place[1]


class Operator(Process):
    """One shell, in which a command at a time is run."""

    def __init__(self, world: "World") -> None:
        super().__init__(world, OPERATOR)
        self.alive = True
        self.store: Any = world.shelf.session(self)
        self.parked: set[str] = set()
        """Conversations that it has ever parked."""
        self._failed = 0
        self._producer: SimProducer | None = None

    def make_producer(self, config: dict[str, Any]) -> SimProducer:
        self._producer = _Producer(self.world, self, config.get("error_cb", lambda _: None))
        return self._producer

    def act(self) -> None:
        """Park a conversation, or release one that is parked."""
        if not self.busy and not self.frozen:
            self.run(self._act)

    def _act(self) -> None:
        chance, conversations = self.world.chance, self.world.conversations()
        if conversations and chance.happens("parks", 0.5):
            self._command(Kind.PARK, chance.pick("park what", conversations))
        elif self.parked:
            self._command(Kind.RELEASE, chance.pick("release what", sorted(self.parked)))

    def settle(self) -> None:
        """Release what is still parked."""
        if self.parked and not self.busy:
            self.run(self._settle)

    def _settle(self) -> None:
        for name in sorted(parked_among(self.store, self.parked)):
            self._failed += 1
            self._command(Kind.RELEASE, name, give_up=self._failed > _PATIENCE)

    def _command(self, kind: Kind, name: str, *, give_up: bool = False) -> None:
        world = self.world
        world.note(self.name, kind, name)
        workers: Any = Workers(world)
        letters: Any = Letters(world)
        if kind == Kind.PARK:
            self.parked.add(name)
        try:
            with LogWriter({}, CODEC) as writer:
                if kind == Kind.PARK:
                    park(writer, workers, self.store, name, self.name, _WAIT_S)
                elif give_up:
                    writer.command(kind, name, self.name, give_up=True)
                else:
                    sent, is_open = release(writer, letters, self.store, workers, name, self.name, _WAIT_S)
                    world.note(self.name, "released", name, sent, is_open)
        except WorkerError as error:
            world.note(self.name, "gave up on", kind, name, str(error))

    def die(self) -> None:
        """The shell is closed; a new one is opened when there is something to do."""
        if self._producer is not None:
            self._producer.let_go()
        self.store.die()

    def start(self) -> None:
        """It is there whenever it is wanted."""

    def turn(self) -> None:
        """It does nothing by itself."""
