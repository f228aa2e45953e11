"""Files without a name, for what passes between the daemon and its child processes."""

import os
import sys
import tempfile
from typing import IO


def open_scratch_file(name: str) -> IO[bytes]:
    """An empty file that is gone when it is closed: in memory where the system can, so that nothing is on a disk."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create(name), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
