"""Puts a demo together: its folder, its stage, its configuration; and takes it all down again."""

import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, Literal

from compose import layers
from compose.demo.crew import Workers
from compose.demo.dead_letters import count_dead_letters
from compose.demo.network import Network
from compose.demo.plan import Plan, users
from compose.demo.report import Report
from compose.demo.run import Demo, DemoOutcome, Options
from compose.demo.screen import Screen
from compose.demo.stage import EmbeddedStage, LocalStage, Stage, config_text
from compose.errors import ComposeError
from compose.sections import StackSettings
from compose.stacks.local import LocalStack
from compose.wiring import Wiring
from consumers import migrate

SENDING_S: Final = 8.0
"""How long a short demo spreads its messages over."""
RATE_MAX: Final = 500.0
"""Messages a second; longer demos take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a visitor asked for."""

    stack: Literal["embedded", "local"]
    messages: int
    workers: int
    seed: int
    keep: bool


def play(servers: StackSettings, wish: Wish, screen: Screen) -> Report:
    """Run a demo and return its report; whatever was started is stopped, whatever was made is removed.

    Where the demo itself fails (ComposeError), its folder stays: the error's hint may name a file in it.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="twotick-demo-"))
    stage = _stage(servers, wish, folder, lambda line: screen.event(line, seconds=time.monotonic() - began))
    # They would count for more than the demo's own file: its clients would send to the servers that they name.
    for name in layers.settings_variables(os.environ):
        del os.environ[name]
    keep = wish.keep
    try:
        config = prepared(stage, folder)
        outcome = _run(config, wish, folder, screen)
    except ComposeError:
        keep = True
        raise
    finally:
        screen.close()
        stage.stop()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return _report(outcome, wish, folder)


def _end(number: int, _frame: FrameType | None) -> None:
    """End in good order, as after Ctrl-C, with the exit code that shells give for the signal."""
    sys.exit(128 + number)


def _stage(servers: StackSettings, wish: Wish, folder: Path, say: Callable[[str], None]) -> Stage:
    if wish.stack == "embedded":
        return EmbeddedStage(folder)
    return LocalStage(LocalStack(servers.folder, servers.local), say, keep=wish.keep)


def prepared(stage: Stage, folder: Path) -> Path:
    """Start a stage, make topics and tables there, and return the configuration file of all that plays on it."""
    config = folder / "twotick.toml"
    settings = {**stage.start(), "user.outboxes": str(folder), "worker.status_folder": str(folder / "workers")}
    config.write_text(config_text(settings))
    if stage.migrates:
        for _ in migrate.apply(Wiring(config=config).migration_targets()):
            pass
    return config


def _run(config: Path, wish: Wish, folder: Path, screen: Screen) -> DemoOutcome:
    wiring = Wiring(config=config)
    store = wiring.make_store()
    try:
        # Names of their own where other runs may have been on the same servers.
        suffix = "" if wish.stack == "embedded" else f"-{secrets.token_hex(3)}"
        plan = Plan(wish.messages, wish.seed, suffix)
        options = Options(plan=plan, folder=folder, config=config, rate=min(RATE_MAX, wish.messages / SENDING_S))
        workers = Workers(config, wish.workers, wiring.status_folder, folder / "workers.log")
        with closing(Network(str(wiring.kafka()["bootstrap.servers"]).split(","))) as network:
            demo = Demo(options, workers=workers, store=store, screen=screen, network=network)
            return demo.run(lambda: count_dead_letters(wiring.kafka()))
    finally:
        store.close()


def _report(outcome: DemoOutcome, wish: Wish, folder: Path) -> Report:
    return Report(
        stack=wish.stack,
        findings=outcome.findings,
        seconds=outcome.seconds,
        workers=wish.workers,
        clients=len(users(Plan(0, wish.seed))),
        workers_killed=outcome.workers_killed,
        clients_cut_off=outcome.clients_cut_off,
        takeovers=outcome.takeovers,
        folder=folder,
        kept=wish.keep,
    )
