"""A base image without a registry: a small file tree from this machine's own shell, C library and language runtime."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, Final

from compose.stacks.errors import StackError, ToolMissingError

PROGRAMS: Final = (
    "bash", "sh", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dirname", "env", "grep", "head",
    "hostname", "id", "ln", "ls", "mkdir", "mv", "od", "printf", "readlink", "rm", "sed", "sleep", "tail", "tr", "wc",
)  # fmt: skip
"""What scripts in the images may call, as Debian's own base has it."""
_LIBRARIES: Final = (
    "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libutil.so.1",
    "libgcc_s.so.1", "libstdc++.so.6", "libz.so.1",
)  # fmt: skip
"""What compiled Python packages and Java libraries take for granted."""
_HINT: Final = "name a base image instead: make images PYTHON_IMAGE=python:3.13-slim JAVA_IMAGE=eclipse-temurin:17-jre"

_JAVA_LEFT_OUT: Final = frozenset({"cacerts", "ct.sym", "demo", "docs", "include", "jmods", "legal", "man", "src.zip"})
_PYTHON_LEFT_OUT: Final = frozenset(
    {
        "config-*",
        "dist-packages",
        "idlelib",
        "lib2to3",
        "site-packages",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
        "__pycache__",
    }
)


class FileTree:
    """A root file system that grows; every file in it comes with the libraries that it is linked to."""

    def __init__(self, root: Path) -> None:
        """Take an empty folder."""
        self._root = root

    def lay(self) -> None:
        """Make the folders, users and programs that every image has. Raises ToolMissingError."""
        for name in ("etc", "opt", "proc", "root", "sys", "tmp", "dev", "run", "var/lib", "var/tmp"):
            (self._root / name).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self._root / "usr" / name).mkdir(parents=True)
            (self._root / name).symlink_to(f"usr/{name}")
        (self._root / "tmp").chmod(0o1777)
        (self._root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (self._root / "etc/group").write_text("root:x:0:\n")
        (self._root / "etc/nsswitch.conf").write_text("hosts: files dns\n")
        for name in PROGRAMS:
            self.add_program(name)
        for path in _known_libraries(_LIBRARIES):
            self._add_library(path)

    def add_program(self, name: str) -> None:
        """Add a program of this machine's PATH. Raises ToolMissingError."""
        found = shutil.which(name)
        if found is None:
            raise ToolMissingError(f"the base image needs {name}, which is not on this machine", hint=_HINT)
        self.add_file(Path(found), Path("usr/bin") / name)

    def add_file(self, source: Path, target: Path) -> None:
        """Copy a file and what it is linked to."""
        into = self._root / target
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, into)
        self._add_libraries_of([source], source.parent)

    def add_folder(self, source: Path, target: Path, left_out: frozenset[str]) -> None:
        """Copy a folder but for names that match one of `left_out`; what it links to becomes files."""
        into, ignored = self._root / target, shutil.ignore_patterns(*left_out)
        shutil.copytree(source, into, ignore=ignored, ignore_dangling_symlinks=True, dirs_exist_ok=True)
        copied = _compiled(into)
        self._add_libraries_of([source / path.relative_to(into) for path in copied], source)

    def write_to(self, stream: IO[bytes]) -> None:
        """Write it as a tar archive in which everything is root's."""

        def of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = "root"
            entry.mtime = 0
            return entry

        with tarfile.open(fileobj=stream, mode="w|") as archive:
            archive.add(self._root, arcname=".", filter=of_root)

    def _add_libraries_of(self, files: Sequence[Path], own_folder: Path) -> None:
        for path in _linked(files):
            # What lies beside a runtime's programs is copied with it, and found from there.
            if not path.is_relative_to(own_folder):
                self._add_library(path)

    def _add_library(self, path: Path) -> None:
        # The loader's path stands in every program; all else is looked for in /usr/lib.
        inside = path.relative_to("/") if path.name.startswith("ld-linux") else Path("usr/lib") / path.name
        target = self._root / inside
        if not target.exists():
            shutil.copy(path, target)


def java_tree(root: Path, java: Path) -> None:
    """Fill `root` with the Java runtime whose program is `java`, where the usual images have it. Raises StackError."""
    tree = FileTree(root)
    tree.lay()
    tree.add_folder(java.resolve().parents[1], Path("opt/java/openjdk"), _JAVA_LEFT_OUT)


def python_tree(root: Path) -> None:
    """Fill `root` with the Python that runs this, but for what is installed into it. Raises StackError."""
    tree = FileTree(root)
    tree.lay()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = Path(sys.base_prefix) / "bin" / version
    tree.add_file(program, Path("usr/local/bin") / version)
    tree.add_folder(
        Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix})),
        Path("usr/local/lib") / version,
        _PYTHON_LEFT_OUT,
    )
    wheels = sysconfig.get_config_var("WHEEL_PKG_DIR")
    if wheels and Path(wheels).is_dir():  # Debian keeps what `venv` installs apart
        tree.add_folder(Path(wheels), Path(wheels).relative_to("/"), frozenset())
    for name in ("python3", "python"):
        (root / "usr/local/bin" / name).symlink_to(version)


def import_image(tag: str, fill: Callable[[Path], None], scratch: Path, changes: Iterable[str]) -> None:
    """Make an image of the tree that `fill` lays into the folder `scratch`. Raises StackError."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        fill(scratch)
        options = [part for change in changes for part in ("--change", change)]
        command = ["docker", "import", *options, "-", tag]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as importing:  # noqa: S603
            if importing.stdin is None:  # it is a pipe
                raise AssertionError
            FileTree(scratch).write_to(importing.stdin)
            importing.stdin.close()
        if importing.returncode != 0:
            raise StackError(f"the image {tag} could not be made: docker ended with {importing.returncode}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _compiled(folder: Path) -> list[Path]:
    """Return the programs and libraries of a folder, as their first bytes tell."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as start:
                if start.read(4) == b"\x7fELF":
                    found.append(path)
    return found


def _linked(files: Sequence[Path]) -> Iterable[Path]:
    """Return what the dynamic linker would load for `files`; what it does not find is left out."""
    if not files:
        return ()
    ldd = shutil.which("ldd")
    if ldd is None:
        raise ToolMissingError("a base image can only be made on Linux with glibc, and no `ldd` was found", hint=_HINT)
    told = subprocess.run([ldd, *files], capture_output=True, check=False, text=True)  # noqa: S603
    return {Path(path) for path in re.findall(r"(?:=> |^\t)(/\S+) \(0x", told.stdout, re.MULTILINE)}


def _known_libraries(names: Sequence[str]) -> Iterable[Path]:
    """Return where the dynamic linker's cache has libraries for this processor, as this Python is built for it."""
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin")
    if ldconfig is None:
        raise ToolMissingError("a base image can only be made on Linux, and no `ldconfig` was found", hint=_HINT)
    told = subprocess.run([ldconfig, "-p"], capture_output=True, check=True, text=True)  # noqa: S603
    found = re.findall(r"^\s+(\S+) \([^)]*\) => (/\S+)$", told.stdout, re.MULTILINE)
    triplet = sysconfig.get_config_var("MULTIARCH") or ""
    for name in names:
        path = next((path for library, path in found if library == name and triplet in path), None)
        if path is None:
            raise ToolMissingError(f"the base image needs {name}, which is not on this machine", hint=_HINT)
        yield Path(path)
