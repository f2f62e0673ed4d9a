"""Java, Maven, and the servers' class paths: downloaded once into a cache that all stacks share."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from filelock import FileLock
from platformdirs import user_cache_dir

from compose.stacks.errors import StackError, ToolMissingError

JAVA_MAJOR_MIN = 17

_JAVA_HINT = (
    "install a Java 17 runtime (Debian/Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
    "and put `java` on PATH or set JAVA_HOME"
)
_MAVEN_HINT = "install Maven (Debian/Ubuntu: apt install maven; macOS: brew install maven) and put `mvn` on PATH"
_DOWNLOAD_HINT = (
    "check that Maven can reach its repository (a proxy or mirror belongs in ~/.m2/settings.xml), then retry"
)
_DOWNLOAD_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that is new enough."""

    path: str
    major_version: int


def default_jars_folder() -> Path:
    """Return the cache folder that stacks share unless told otherwise."""
    return Path(user_cache_dir("twotick")) / "jars"


def find_java() -> Java:
    """Return the runtime of JAVA_HOME, else of PATH; raise ToolMissingError if it is missing or older than 17."""
    path = _java_path()
    if path is None:
        raise ToolMissingError("the local stack needs Java, and no `java` was found", hint=_JAVA_HINT)
    shown = subprocess.run([path, "-version"], capture_output=True, check=False, text=True)  # noqa: S603
    major = java_major_version(shown.stderr + shown.stdout)
    if major < JAVA_MAJOR_MIN:
        found = f"version {major}" if major else "a version that cannot be told"
        raise ToolMissingError(f"the local stack needs Java {JAVA_MAJOR_MIN}, {path} is {found}", hint=_JAVA_HINT)
    return Java(path, major)


def java_major_version(version_output: str) -> int:
    """Return the major version out of what `java -version` prints, 0 if there is none.

    >>> java_major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> java_major_version('java version "1.8.0_392"')
    8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', version_output)
    return int(found.group(1)) if found else 0


def class_path(server: str, *, jars_folder: Path, progress: Callable[[str], None]) -> str:
    """Return the class path of `server` ("kafka" or "cassandra"), downloading its jars on first use.

    Two stacks that ask at once download once. Raises ToolMissingError without Maven, StackError if the download fails.
    """
    pom = files(__package__).joinpath(f"{server}.pom.xml").read_bytes()
    folder = jars_folder / f"{server}-{hashlib.sha256(pom).hexdigest()[:12]}"
    if not folder.is_dir():
        jars_folder.mkdir(parents=True, exist_ok=True)
        with FileLock(jars_folder / f"{folder.name}.lock"):
            if not folder.is_dir():
                _download(server, pom, folder, progress)
    return str(folder / "*")


def _java_path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (inside := shutil.which("java", path=str(Path(home) / "bin"))):
        return inside
    return shutil.which("java")


def _download(server: str, pom: bytes, folder: Path, progress: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ToolMissingError(f"{server}'s jars come through Maven, and no `mvn` was found", hint=_MAVEN_HINT)
    progress(f"{server}: downloading its jars with Maven (once, 40 to 70 MB) ...")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    # Beside the folder, not in it: a class path of `folder/*` takes jars only, but a clean folder is easier to check.
    pom_path = folder.with_suffix(".pom.xml")
    pom_path.write_bytes(pom)
    _run_maven([maven, "-q", "-B", "-f", str(pom_path), "dependency:copy-dependencies"], server, partial)
    partial.rename(folder)
    progress(f"{server}: {len(list(folder.glob('*.jar')))} jars ready in {folder}")


def _run_maven(command: list[str], server: str, into: Path) -> None:
    command = [*command, "-DincludeScope=runtime", f"-DoutputDirectory={into}"]
    try:
        done = subprocess.run(  # noqa: S603 - the command is made here
            command, capture_output=True, check=False, text=True, timeout=_DOWNLOAD_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as error:
        message = f"downloading {server}'s jars took longer than {_DOWNLOAD_TIMEOUT_S:.0f} s"
        raise StackError(message, hint=_DOWNLOAD_HINT, retriable=True) from error
    if done.returncode != 0 or not any(into.glob("*.jar")):
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise StackError(f"Maven could not download {server}'s jars:\n{tail}", hint=_DOWNLOAD_HINT, retriable=True)
