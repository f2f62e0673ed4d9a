"""One worker as a process: signals, the supervisor's life line, watchdog, status file, exit code."""

import gc
import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from socket import gethostname
from threading import Thread
from time import time

from consumers.claims.settings import WebhookSettings
from consumers.counters import Counters
from consumers.errors import ExitCode, WorkerError, exit_code_of
from consumers.gateway import Gateway
from consumers.health import Watchdog, write_status
from consumers.life_line import hold_life_line
from consumers.settings import WorkerSettings
from consumers.signals import as_socket
from consumers.stores.contract import Store
from consumers.topic_check import check_topic
from consumers.upkeep import Upkeep
from consumers.worker import Worker
from schemas.codec import Codec
from schemas.topics import Setting

LOG = logging.getLogger(__name__)


def node_name(settings: WorkerSettings, slot: int) -> str:
    """Return a worker's name in leases, rows and logs, and its static member id: the same after a restart."""
    return f"{settings.node or gethostname()}-{slot}"


def status_path(folder: Path, node: str) -> Path:
    """Return where a worker keeps its status."""
    return folder / f"worker-{node}.json"


def _heed_signals(stop: Callable[[], None]) -> None:
    """Have the first signal stop the worker and the second end the process, whatever it is doing."""
    signals = as_socket((signal.SIGTERM, signal.SIGINT))

    def heed() -> None:
        first = signals.recv(1)[0]
        stop()
        LOG.info("signal taken", extra={"signal": signal.Signals(first).name})
        signals.recv(1)
        os._exit(ExitCode.INTERRUPTED)

    Thread(target=heed, name="signals", daemon=True).start()


def quieten_collector() -> None:
    """Have Python look for cycles less often: a worker keeps hundreds of thousands of rows and makes none with them.

    With Python's own thresholds a busy worker took a third more CPU time (17.1 s against 12.8 s for 180,000 events).
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 1_000)


def run_worker(  # noqa: PLR0913 - the parts of one process
    *,
    kafka: Mapping[str, Setting],
    open_store: Callable[[], Store],
    settings: WorkerSettings,
    slot: int,
    codec: Codec,
    webhook: WebhookSettings | None = None,
) -> int:
    """Run one worker in this process, on its main thread, until it is told to stop; return the exit code."""
    node = node_name(settings, slot)
    try:
        store = open_store()
        try:
            counters = Counters()
            with _courier(webhook, kafka, open_store, codec, node, counters) as gateway:
                return _run(kafka, store, settings, slot, node, codec, gateway, counters)
        finally:
            store.close()
    except WorkerError as error:
        LOG.error("the worker ends", extra={"error": error.message, "hint": error.hint, "code": exit_code_of(error)})  # noqa: TRY400
        return exit_code_of(error)
    except Exception:
        LOG.exception("the worker ends: an error that nothing here foresees")
        return ExitCode.FAILED


def _courier(  # noqa: PLR0913, PLR0917 - the parts of a courier
    webhook: WebhookSettings | None,
    kafka: Mapping[str, Setting],
    open_store: Callable[[], Store],
    codec: Codec,
    node: str,
    counters: Counters,
) -> AbstractContextManager[Gateway | None]:
    """Return what delivers to an outside gateway, where one is set."""
    if webhook is None or not webhook.url:
        return nullcontext()
    from consumers.claims.opening import open_courier  # noqa: PLC0415 - its HTTP client is an optional extra

    return open_courier(webhook, kafka=kafka, open_store=open_store, codec=codec, node=node, counters=counters)


def _run(  # noqa: PLR0913, PLR0917 - the parts of one process
    kafka: Mapping[str, Setting],
    store: Store,
    settings: WorkerSettings,
    slot: int,
    node: str,
    codec: Codec,
    gateway: Gateway | None,
    counters: Counters,
) -> int:
    topic = check_topic(kafka, store, settings)
    upkeep = Upkeep(store.shared(), settings, node=node, partitions=topic.partitions)
    worker = Worker(
        kafka=kafka,
        store=store,
        settings=settings,
        topic=topic,
        node=node,
        codec=codec,
        report=_report_to(settings.status_folder, node, slot),
        upkeep=upkeep,
        gateway=gateway,
        counters=counters,
    )
    _heed_signals(worker.stop)
    hold_life_line(worker.stop)
    if settings.metrics_port:
        from consumers.metrics import serve_metrics  # noqa: PLC0415 - an optional extra

        serve_metrics(settings.metrics_port + slot, worker.counters, worker.status)
    quieten_collector()
    watchdog = Watchdog(lambda: worker.turns, settings.watchdog_s)
    watchdog.start()
    upkeep.start()
    LOG.info("worker started", extra={"group": settings.group, "protocol": settings.protocol, "pid": os.getpid()})
    try:
        drained = worker.run()
    finally:
        watchdog.stop()
        upkeep.stop()
    LOG.info("worker stopped", extra={"drained": drained})
    return ExitCode.DONE if drained else ExitCode.UNDRAINED


def _report_to(folder: Path | None, node: str, slot: int) -> Callable[[Mapping[str, object]], None]:
    if folder is None:
        return lambda _: None
    path = status_path(folder, node)
    own = {"pid": os.getpid(), "slot": slot, "started_at": round(time(), 3)}

    def report(status: Mapping[str, object]) -> None:
        try:
            write_status(path, {**status, **own})
        except OSError as error:
            LOG.warning("the status file cannot be written", extra={"path": str(path), "error": str(error)})

    return report
