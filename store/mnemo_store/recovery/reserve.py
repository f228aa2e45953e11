"""The disk reserve: space that is released when the disk is full, so that deleting still works. SPEC 3.4."""

import logging
import os
from pathlib import Path

from mnemo_store.disk import Disk, is_disk_full

RESERVE_BYTES = 16 << 20

log = logging.getLogger("mnemo.store")


class DiskReserve:
    """A file without content of its own, which keeps space free for a full disk."""

    def __init__(self, path: Path, disk: Disk, size: int) -> None:
        self.is_released = False  # released: only writes that free space are accepted
        self._path = path
        self._disk = disk
        self._size = size  # 0: there is none

    def release(self) -> bool:
        """Frees the space of the reserve on a full disk; False where there was none."""
        self.is_released = True
        try:
            size = self._path.stat().st_size
            self._disk.unlink(self._path)
        except OSError:
            return False
        log.error("the disk is full: the reserve of %d bytes is released", size)
        return size > 0

    def allocate(self) -> None:
        """Allocates the reserve, or finds that there is no room for it."""
        if not self._size:
            self.is_released = False
            return
        try:
            if not self._path.exists() or self._path.stat().st_size < self._size:
                self._disk.allocate(self._path, self._size)
        except OSError as error:
            self.is_released = is_disk_full(error)
            log.warning("the reserve could not be allocated: %s", error)
        else:
            self.is_released = False

    def reallocate_if_room(self) -> None:
        """Allocates the reserve again once the disk has room for twice its size."""
        try:
            usage = os.statvfs(self._path.parent)
        except OSError as error:
            log.warning("the free space of the disk is unknown: %s", error)
            return
        if usage.f_bavail * usage.f_frsize >= 2 * self._size:
            self.allocate()
            if not self.is_released:
                log.warning("there is room on the disk again")
