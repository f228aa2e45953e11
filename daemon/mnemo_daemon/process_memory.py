"""The memory of the process: settings of the C allocator that make it return memory to the system, and files in memory.

numpy, LMDB, usearch and onnxruntime allocate through it on many threads. glibc keeps an arena for each of up to eight
threads a core, and keeps what is freed in each: memory then grows with every thread that once had a large array,
although nothing holds it. Other C libraries have no such calls, and are left as they are.
"""

import ctypes
import os
import sys
import tempfile
from typing import IO

ARENAS_MAX = 2
MAPPED_BYTES_MIN = 1 << 20  # what is as large is mapped by itself, and given back as soon as it is freed
# Free bytes that stay at the end of an arena until the next trim: with 1 MiB, each run of the model returned them and
# fetched them again, and page faults took a fifth of the processor time of an ingested memory.
KEPT_BYTES_MAX = 16 << 20
# Between two times that what is free within the arenas is given back. With a minute, the daemon had 3 MB more after
# 30,000 mixed requests (`tests/bench/bench_memory.py`).
TRIM_SECONDS = 15.0

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def limit_arenas() -> bool:
    """Limit the memory that the allocator keeps. Call before threads start; False where it cannot be set."""
    mallopt = _function("mallopt")
    if mallopt is None:
        return False
    wanted = {_M_ARENA_MAX: ARENAS_MAX, _M_MMAP_THRESHOLD: MAPPED_BYTES_MIN, _M_TRIM_THRESHOLD: KEPT_BYTES_MAX}
    return all(mallopt(name, value) for name, value in wanted.items())


def trim() -> bool:
    """Give back what is free; False where the system offers no such call."""
    malloc_trim = _function("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)
    return malloc_trim is not None


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), name, None)


def open_scratch_file(name: str) -> IO[bytes]:
    """An empty file that is gone when it is closed: in memory where the system can, so that nothing is on a disk."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create(name), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
