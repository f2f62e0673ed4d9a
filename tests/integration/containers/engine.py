"""The container engine, and the clean-up of what a run has started there: by label, with no help of the reaper.

Every container and network carries the name of its run, see `runs`. A run begins by removing what runs of its own place
left that are gone, and ends by removing its own; what it finds then had been forgotten by a test, and fails the run.
"""

import gc
import warnings
from collections.abc import Iterator
from typing import Any, Final

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import IPAMConfig, IPAMPool
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from tests.integration.containers.runs import is_known_dead, own_run

LABEL: Final = "twotick.tests.run"

# Its image would have to be had first, and what it does is done here.
testcontainers_config.ryuk_disabled = True
# Ports are published on this machine, also where that looks like a container itself.
testcontainers_config.connection_mode_override = ConnectionMode.docker_host
testcontainers_config.tc_host_override = "127.0.0.1"


class Engine:
    """The engine, for one run."""

    def __init__(self, run: str | None = None) -> None:
        """Connect. Raises DockerException where no engine answers."""
        self.run = run or own_run()
        self._client = docker.from_env()
        self._client.ping()

    def has(self, image: str) -> bool:
        """Say whether an image is here, or can be pulled."""
        try:
            self._client.images.get(image)
        except ImageNotFound:
            try:
                self._client.images.pull(image)
            except (APIError, NotFound):
                return False
        return True

    def container(self, image: str, **options: Any) -> DockerContainer:
        """Return a container of this run, not started; `options` are those of docker's `run`."""
        return DockerContainer(image, labels={LABEL: self.run}, **options)

    def network(self) -> Network:
        """Return a network of this run, in which a container can have an address of its choice.

        Only a network whose subnet was named allows for that. So the engine chooses one first, for another network.
        """
        trial = self._client.networks.create(f"twotick-trial-{self.run}", labels={LABEL: self.run})
        trial.reload()
        subnet = trial.attrs["IPAM"]["Config"][0]["Subnet"]
        trial.remove()
        ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)])
        return Network(docker_network_kw={"labels": {LABEL: self.run}, "ipam": ipam}).create()

    def clear(self) -> list[str]:
        """Remove what is left of this run; return what it was."""
        return list(self._remove(lambda run: run == self.run))

    def clear_dead(self) -> list[str]:
        """Remove what is left of runs whose process is known to be gone; return what it was."""
        return list(self._remove(is_known_dead))

    def _remove(self, chosen: Any) -> Iterator[str]:
        for container in self._client.containers.list(all=True, filters={"label": LABEL}):
            if chosen(container.labels[LABEL]):
                yield f"container {container.name} of {container.image.tags or container.image.id}"
                _gone(container.remove, v=True, force=True)
        for network in self._client.networks.list(filters={"label": LABEL}):
            if chosen(network.attrs["Labels"][LABEL]):
                yield f"network {network.name}"
                _gone(network.remove)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _gone(remove: Any, **options: Any) -> None:
    try:
        remove(**options)
    except NotFound:
        return


def why_not() -> str | None:
    """Return why no engine can be used here; None where one answers."""
    reason = None
    with warnings.catch_warnings():
        # Where nothing listens docker's library leaves its socket to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            Engine().close()
        except DockerException as error:
            reason = f"no container engine answers ({str(error)[:200]})"
        gc.collect()
    return reason
