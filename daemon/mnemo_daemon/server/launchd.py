"""The sockets that launchd of macOS opened for the daemon's job: launch_activate_socket(3), through ctypes."""

import ctypes
import errno
import os
import sys
from typing import Any

NOT_OURS = (errno.ESRCH, errno.ENOENT)  # launchd did not start this process; its job has no socket of that name
SOCKET_NAME = "api"  # its key in `Sockets` of the job that `mnemo service install` writes


class LaunchdError(Exception):
    """launchd has sockets for this process and does not hand them over."""


def activated_sockets(name: str = SOCKET_NAME, library: Any = None) -> list[int]:
    """Return the descriptors of the listening sockets of that name; none where launchd has not started this process
    or its job has no such socket. `library`: the C library to call, the system's on macOS. Raises LaunchdError."""
    if library is None:
        if sys.platform != "darwin":
            return []
        library = ctypes.CDLL(None)
    descriptors = ctypes.POINTER(ctypes.c_int)()
    count = ctypes.c_size_t()
    error = library.launch_activate_socket(name.encode(), ctypes.byref(descriptors), ctypes.byref(count))
    if error in NOT_OURS:
        return []
    if error:
        raise LaunchdError(f"launchd does not hand over the socket {name!r}: {os.strerror(error)}")
    try:
        return [descriptors[position] for position in range(count.value)]
    finally:
        library.free(descriptors)
