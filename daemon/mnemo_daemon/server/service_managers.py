"""Messages to the service manager by sd_notify(3) in the standard library, and the sockets that launchd of macOS opened
for the daemon's job, by launch_activate_socket(3) through ctypes.

Without NOTIFY_SOCKET no message is sent, so that the daemon need not know who started it.
"""

import contextlib
import ctypes
import errno
import os
import socket
import sys
import time
from collections.abc import MutableMapping
from typing import Any

NOTIFY_BYTES_MAX = 4096  # a status line is cut; systemd shows one line anyway


class Notifier:
    """The line to the service manager. `watchdog_seconds` is how often it wants to hear from us, None for never."""

    def __init__(self, address: str = "", watchdog_seconds: float | None = None) -> None:
        self.address = address
        self.watchdog_seconds = watchdog_seconds

    @classmethod
    def from_environ(cls, environ: MutableMapping[str, str]) -> "Notifier":
        """Take the variables out of `environ`, so that no child process speaks for the daemon."""
        address = environ.pop("NOTIFY_SOCKET", "")
        microseconds = environ.pop("WATCHDOG_USEC", "")
        environ.pop("WATCHDOG_PID", None)
        is_watched = microseconds.isdigit() and int(microseconds) > 0
        # Half the time-out, as sd_watchdog_enabled(3) advises.
        return cls(address, int(microseconds) / 2_000_000 if is_watched else None)

    def ready(self, status: str = "") -> None:
        """Report that the daemon serves."""
        self._send("READY=1", status)

    def stopping(self, status: str = "") -> None:
        """Report that the daemon ends."""
        self._send("STOPPING=1", status)

    def reloading(self) -> None:
        """Report that the settings are read again; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}", "")

    def keep_alive(self, status: str = "") -> None:
        """The watchdog's sign of life: to be sent by the event loop, so that a loop that hangs is noticed."""
        self._send("WATCHDOG=1", status)

    def _send(self, assignment: str, status: str) -> None:
        if not self.address:
            return
        line = f"STATUS={' '.join(status.split())}" if status else ""
        message = "\n".join(part for part in (assignment, line) if part).encode()[:NOTIFY_BYTES_MAX]
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        # A service manager that is gone must not take us along.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line_out:
            line_out.setblocking(False)
            line_out.sendto(message, address)


NOT_OURS = (errno.ESRCH, errno.ENOENT)  # launchd did not start this process; its job has no socket of that name
SOCKET_NAME = "api"  # its key in `Sockets` of the job that `mnemo service install` writes


class LaunchdError(Exception):
    """launchd has sockets for this process and does not hand them over."""


def activated_sockets(library: Any = None) -> list[int]:
    """Return the descriptors of the listening sockets of SOCKET_NAME; none where launchd has not started this process
    or its job has no such socket. `library`: the C library to call, the system's on macOS. Raises LaunchdError."""
    if library is None:
        if sys.platform != "darwin":
            return []
        library = ctypes.CDLL(None)
    descriptors = ctypes.POINTER(ctypes.c_int)()
    count = ctypes.c_size_t()
    error = library.launch_activate_socket(SOCKET_NAME.encode(), ctypes.byref(descriptors), ctypes.byref(count))
    if error in NOT_OURS:
        return []
    if error:
        raise LaunchdError(f"launchd does not hand over the socket {SOCKET_NAME!r}: {os.strerror(error)}")
    try:
        return [descriptors[position] for position in range(count.value)]
    finally:
        library.free(descriptors)
