"""Whether a folder lies on a file system on which SQLite's locks and WAL can be trusted."""

import os
from pathlib import Path

NETWORK_TYPES = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gfs2",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "virtiofs",
    }
)
"""WAL needs shared memory between the processes that use the file, and working locks (sqlite.org/wal.html)."""

MOUNTS = Path("/proc/self/mounts")


def type_of(path: Path, mounts: str) -> str:
    """Return the type of the file system that holds `path` by a text in the format of /proc/mounts; "" if unknown."""
    folder = os.path.realpath(path)
    best, found = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        # Of two mounts on one point the later one is on top.
        if inside and len(point) >= best:
            best, found = len(point), fields[2]
    return found


def network_type(path: Path) -> str:
    """Return the type where `path` lies on a network file system, else "" (also where the system does not tell)."""
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    found = type_of(path, mounts)
    return found if found in NETWORK_TYPES else ""
