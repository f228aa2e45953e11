"""Runs a command where the only network is this machine's loopback, by unshare(1): nothing beyond can be reached.

    python -m tests.support.loopback_only COMMAND...

Needs no privilege where users may make namespaces of their own. Linux.
"""

import fcntl
import os
import socket
import struct
import sys

SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40  # linux/sockios.h, linux/if.h
INSIDE = "--inside"


def main(words: list[str]) -> None:
    """Replace this process by the command, in a namespace of its own."""
    if words[:1] != [INSIDE]:
        # Root keeps the other users, as which some tests start processes; anybody else becomes root of a namespace.
        option = "-n" if os.geteuid() == 0 else "-rn"
        os.execvp("unshare", ["unshare", option, sys.executable, "-m", "tests.support.loopback_only", INSIDE, *words])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        sys.exit(f"there is more than loopback: {names}")
    os.execvp(words[1], words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
