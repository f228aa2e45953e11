"""The integrity check of a database file before it is opened. store/docs/format.md.

LMDB trusts its file: a truncated one kills the process on access, a torn one gives wrong answers. Verifying the whole
tree finds both, in about 25 s per million memories. It is skipped where nothing but a kill can have happened: LMDB
overwrites no page that is in use, and the kernel's cache keeps what was written, so a kill leaves the file as the last
commit left it.
"""

import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path

import lmdb.verify

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Beginning of a meta page of LMDB 0.9, 64 bit: page header; magic, version, address, map size; two databases, the first
# of which begins with the page size; last page, transaction.
_META = struct.Struct("=16xI4x16xI92xQQ")
_MAGIC = 0xBEEFC0DE
_PAGE_BYTES = frozenset(1 << power for power in range(9, 17))

log = logging.getLogger("mnemo.store")


def boot_mark(data: Path) -> str:
    """Identity of this file in this run of the machine: the same after a kill, another one for a copy or after a
    restart of the machine. "" where the system does not provide it."""
    try:
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
        stat = data.stat()
    except OSError:
        return ""
    return f"{boot}/{stat.st_dev}/{stat.st_ino}"


def has_all_pages(data: Path) -> bool:
    """True if the file has all pages that its newest meta page counts. False also for a file that is no database."""
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
    """True if every page of the database in folder verifies; logs the problems."""
    verify: Callable[[str], list[str]] = lmdb.verify.verify
    try:
        problems = verify(str(folder))
    except lmdb.verify.VerifyError as error:
        problems = [str(error)]
    for problem in problems[:10]:
        log.error("%s: %s", folder / "data.mdb", problem)
    return not problems
