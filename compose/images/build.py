"""The images, built one after another: what each is made of is gathered in a folder, and given to `docker build`."""

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from compose.images.file_tree import import_image, java_tree, python_tree
from compose.stacks.errors import StackError, ToolMissingError
from compose.stacks.local.cassandra import module_options
from compose.stacks.local.jars import class_path, default_jars_folder, find_java

LOCAL_PYTHON: Final = "twotick/base-python:local"
LOCAL_JAVA: Final = "twotick/base-java:local"
ALL: Final = ("kafka", "cassandra", "worker")

_LOCAL_PATH: Final = "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_POM: Final = {"": "http://maven.apache.org/POM/4.0.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bases:
    """What the images are built on; empty: on a base made from this machine's own files."""

    python: str = ""
    java: str = ""


class Builder:
    """Builds images from a checkout, in a folder of its own."""

    def __init__(self, *, checkout: Path, folder: Path, bases: Bases, say: Callable[[str], None]) -> None:
        self._checkout = checkout
        self._folder = folder
        self._bases = bases
        self._say = say

    def build(self, names: Sequence[str]) -> Sequence[str]:
        """Build images by their short names; return their tags. Raises StackError."""
        if shutil.which("docker") is None:
            raise ToolMissingError("images are built with docker, which is not on this machine", hint="install it")
        tags = []
        if {"kafka", "cassandra"} & set(names):
            java = self._java_base()
            tags += [self._server(name, java) for name in ("kafka", "cassandra") if name in names]
        if "worker" in names:
            tags.append(self._worker())
        return tags

    def _java_base(self) -> str:
        if self._bases.java:
            return self._bases.java
        self._say(f"{LOCAL_JAVA}: from this machine's Java ...")
        java = Path(find_java().path)
        home = "/opt/java/openjdk"
        changes = [f"ENV JAVA_HOME={home} LANG=C.UTF-8 {_LOCAL_PATH}:{home}/bin"]
        import_image(LOCAL_JAVA, partial(java_tree, java=java), self._folder / "java", changes)
        return LOCAL_JAVA

    def _server(self, name: str, base: str) -> str:
        tag = f"twotick/{name}:{server_version(name)}"
        self._say(f"{tag}: on {base} ...")
        context = self._context(name)
        jars = Path(class_path(name, jars_folder=default_jars_folder(), progress=self._say)).parent
        shutil.copytree(jars, context / "libs")
        if name == "cassandra":
            (context / "modules.options").write_text("\n".join(module_options()) + "\n")
        self._docker(tag, context, {"BASE": base})
        return tag

    def _worker(self) -> str:
        version = tomllib.loads((self._checkout / "pyproject.toml").read_text())["project"]["version"]
        tag = f"twotick/worker:{version}"
        context = self._context("worker")
        wheels = context / "wheels"
        self._pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, self._checkout)
        arguments = {}
        if self._bases.python:
            arguments["BASE"] = self._bases.python
        else:
            self._say(f"{LOCAL_PYTHON}: from this machine's Python ...")
            changes = [f"ENV LANG=C.UTF-8 {_LOCAL_PATH}"]
            import_image(LOCAL_PYTHON, python_tree, self._folder / "python", changes)
            # The same Python here and in the image: what suits the one suits the other, and its build needs no network.
            lock = context / "requirements.lock"
            self._pip("download", "--only-binary=:all:", "--require-hashes", "--dest", wheels, "--requirement", lock)
            arguments |= {"BASE": LOCAL_PYTHON, "PIP_OPTIONS": "--no-index --find-links=/wheels"}
        self._say(f"{tag}: on {arguments['BASE']} ...")
        self._docker(tag, context, arguments)
        return tag

    def _context(self, name: str) -> Path:
        """Return a folder with the files that an image is built from, as far as they stand in the checkout."""
        context = self._folder / name
        shutil.rmtree(context, ignore_errors=True)
        shutil.copytree(str(files(__package__) / name), context)
        return context

    def _pip(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
        _run(command, "pip could not get what the worker's image is made of")

    def _docker(self, tag: str, context: Path, arguments: Mapping[str, str]) -> None:
        given = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        _run(["docker", "build", "--quiet", "--tag", tag, *given, str(context)], f"the image {tag} could not be built")


def server_version(name: str) -> str:
    """Return the version of a server that the local stack runs, which its image has too.

    >>> server_version("cassandra").split(".")[0]
    '5'
    """
    pom = ET.fromstring(files("compose.stacks.local").joinpath(f"{name}.pom.xml").read_text())  # noqa: S314 - our own
    version = pom.findtext("version", namespaces=_POM)
    if version is None:
        raise StackError(f"{name}.pom.xml names no version")
    return version


def _run(command: Sequence[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603 - the command is made here
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise StackError(f"{failure}:\n{tail}\n({json.dumps(command)})", hint="see what it says; is an engine running?")
