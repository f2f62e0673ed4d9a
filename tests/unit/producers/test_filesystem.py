"""Network file systems are found out."""

import logging

import pytest

from producers import filesystem
from producers.database import Database
from producers.errors import OutboxError

MOUNTS = """/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/alice/local tmpfs rw 0 0
//box/share /mnt/with\\040space cifs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/data", "ext4"),
        ("/home", "nfs4"),
        ("/home/alice/x", "nfs4"),
        ("/homes", "ext4"),
        ("/home/alice/local/x", "tmpfs"),
        ("/mnt/with space/x", "cifs"),
    ],
)
def test_the_innermost_mount_counts(path, found):
    assert filesystem.type_of(path, MOUNTS) == found


def test_an_outbox_there_is_refused_unless_allowed(tmp_path, monkeypatch, caplog):  # case O5
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x {tmp_path} nfs4 rw 0 0\n")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)
    with pytest.raises(OutboxError, match="network file system") as refused:
        Database(tmp_path / "outbox").open()
    assert "allow_network_outbox" in refused.value.hint
    assert not (tmp_path / "outbox").exists()
    with caplog.at_level(logging.WARNING):
        allowed = Database(tmp_path / "outbox", allow_network=True)
        allowed.open()
        allowed.close()
    assert "messages can be lost" in caplog.text
