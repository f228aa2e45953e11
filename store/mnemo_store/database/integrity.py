"""Whether a database file may be opened. FORMAT.md.

LMDB trusts its file: a truncated one kills the process on access, a torn one answers nonsense. Walking the whole tree
finds both, at some 25 s a million memories, so it is left out where nothing but a kill can have happened: LMDB writes
no page that is in use, and what it wrote is in the kernel's cache, so a kill leaves what a commit left.
"""

import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path

import lmdb.verify

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# The head of a meta page of LMDB 0.9, 64 bit: page header; magic, version, address, map size; two databases, the first
# of which begins with the page size; last page, transaction.
_META = struct.Struct("=16xI4x16xI92xQQ")
_MAGIC = 0xBEEFC0DE
_PAGE_BYTES = frozenset(1 << power for power in range(9, 17))

log = logging.getLogger("mnemo.store")


def boot_mark(data: Path) -> str:
    """Names this file in this run of the machine: the same after a kill, another for a copy or after a restart of the
    machine. "" where the system does not tell."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
        stat = data.stat()
    except OSError:
        return ""
    return f"{boot}/{stat.st_dev}/{stat.st_ino}"


def has_all_pages(data: Path) -> bool:
    """Whether the file holds every page that its newest meta page counts. False also for what is no database."""
    with data.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(_META.size)
        if len(first) < _META.size:
            return False
        magic, page_bytes, last_page, transaction = _META.unpack(first)
        if magic != _MAGIC or page_bytes not in _PAGE_BYTES:
            return False
        file.seek(page_bytes)
        second = file.read(_META.size)
    if len(second) < _META.size:
        return False
    other_magic, _, other_last_page, other_transaction = _META.unpack(second)
    if other_magic == _MAGIC and other_transaction > transaction:
        last_page = other_last_page
    return bool(size >= (last_page + 1) * page_bytes)


def is_intact(folder: Path) -> bool:
    """Whether every page of the database in folder is as it should be; logs what is not."""
    verify: Callable[[str], list[str]] = lmdb.verify.verify
    try:
        problems = verify(str(folder))
    except lmdb.verify.VerifyError as error:
        problems = [str(error)]
    for problem in problems[:10]:
        log.error("%s: %s", folder / "data.mdb", problem)
    return not problems
