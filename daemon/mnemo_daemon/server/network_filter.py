"""The kernel's filter that forbids this process and its children every socket but Unix sockets. adr/0012, SPEC 17.5.

seccomp(2), which needs no privilege. The filter is installed after the listening sockets are bound and before anything
else is loaded, so it holds for every library, thread and child process, and nothing can remove it. Listening sockets
from before, also of TCP, go on accepting.
"""

import ctypes
import errno
import itertools
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

Mode = Literal["auto", "require", "off"]

# linux/prctl.h, linux/seccomp.h, linux/bpf_common.h
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_ALL_THREADS = 1  # SECCOMP_FILTER_FLAG_TSYNC
_FULL_SPEED = 4  # SECCOMP_FILTER_FLAG_SPEC_ALLOW: before Linux 5.16 a filter slows the processor down without it
_RET_ALLOW = 0x7FFF0000
_RET_ERRNO = 0x00050000
_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_OFFSET_OF_NUMBER, _OFFSET_OF_ARCHITECTURE = 0, 4  # in struct seccomp_data
_OFFSET_OF_FIRST_ARGUMENT = 16  # its lower half, on the little-endian processors below; the kernel takes an int, too

_X32_CALLS = 0x40000000  # of x86-64, from here on: the same kernel functions under other numbers
_IO_URING_SETUP, _PIDFD_GETFD = 425, 438  # the same on all processors
_REFUSALS = (errno.EAFNOSUPPORT, errno.EPERM, errno.EACCES)


class NetworkFilterError(Exception):
    """The kernel does not block the network, and the settings require it."""


class NetworkBlock(NamedTuple):
    """The result: `reason` says why the network is not blocked, "" if it is."""

    is_blocked: bool
    reason: str = ""


class Processor(NamedTuple):
    """The numbers of a processor's system calls, and its own in linux/audit.h."""

    architecture: int
    socket: int
    socketpair: int
    bind: int
    seccomp: int
    has_x32: bool


PROCESSORS: Mapping[str, Processor] = {
    "x86_64": Processor(0xC000003E, socket=41, socketpair=53, bind=49, seccomp=317, has_x32=True),
    "aarch64": Processor(0xC00000B7, socket=198, socketpair=199, bind=200, seccomp=277, has_x32=False),
}


class Instruction(ctypes.Structure):
    """struct sock_filter."""

    _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction)))


def block(mode: Mode, *, install: Callable[[Sequence[Instruction]], str] | None = None) -> NetworkBlock:
    """Install the filter and verify it by an attempt. Raises NetworkFilterError where `mode` is `require` and the
    network is not blocked afterwards."""
    if mode == "off":
        return NetworkBlock(is_blocked=False, reason="switched off (`daemon.network_block`)")
    machine = os.uname().machine
    reason = (
        obstacle(sys.platform, machine)
        or (install or install_filter)(filter_program(PROCESSORS[machine]))
        or _open_family()
    )
    if reason and mode == "require":
        raise NetworkFilterError(f"the network cannot be blocked, and `daemon.network_block` requires it: {reason}")
    return NetworkBlock(not reason, reason)


def filter_program(processor: Processor) -> list[Instruction]:
    """Return the filter: EAFNOSUPPORT for a socket that is no Unix socket, EPERM for other ways to one.

    Refused as well: io_uring, which opens sockets without a system call of their own; taking a descriptor out of
    another process; calls by the numbers of another architecture; and `bind`, since an accepted connection that is
    disconnected and bound to another address could connect to another machine.
    """
    end = [
        Instruction(_LOAD_WORD, 0, 0, _OFFSET_OF_FIRST_ARGUMENT),
        Instruction(_JUMP_IF_EQUAL, 0, 1, socket.AF_UNIX),
        Instruction(_RETURN, 0, 0, _RET_ALLOW),
        Instruction(_RETURN, 0, 0, _RET_ERRNO | errno.EAFNOSUPPORT),
        Instruction(_RETURN, 0, 0, _RET_ERRNO | errno.EPERM),
    ]
    at_family, at_refusal = 0, len(end) - 1
    tests = [(_JUMP_IF_EQUAL, number, at_family) for number in (processor.socket, processor.socketpair)]
    tests += [(_JUMP_IF_EQUAL, number, at_refusal) for number in (processor.bind, _IO_URING_SETUP, _PIDFD_GETFD)]
    if processor.has_x32:
        tests.append((_JUMP_IF_AT_LEAST, _X32_CALLS, at_refusal))
    left = len(tests) + 1  # instructions from the first test to the beginning of `end`
    program = [
        Instruction(_LOAD_WORD, 0, 0, _OFFSET_OF_ARCHITECTURE),
        Instruction(_JUMP_IF_EQUAL, 0, left + 1 + at_refusal, processor.architecture),
        Instruction(_LOAD_WORD, 0, 0, _OFFSET_OF_NUMBER),
    ]
    for position, (code, value, target) in enumerate(tests, start=1):
        program.append(Instruction(code, left - position + target, 0, value))
    return [*program, Instruction(_RETURN, 0, 0, _RET_ALLOW), *end]


def obstacle(platform: str, machine: str, integer_max: int = sys.maxsize) -> str:
    """Return why there is no filter for this machine, "" where there is one."""
    if not platform.startswith("linux"):
        return "only Linux lets a program forbid itself the network"
    if machine not in PROCESSORS or integer_max < 2**32:
        machine = machine if integer_max > 2**32 else f"a 32-bit program on {machine}"
        return f"the filter knows the system calls of {' and '.join(PROCESSORS)}, not of {machine}"
    return ""


def install_filter(instructions: Sequence[Instruction]) -> str:
    """Install the filter in every thread; return why the kernel refuses it, "" where it does not."""
    program = _Program(len(instructions), (Instruction * len(instructions))(*instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, one, zero, zero, zero) != 0:
        return f"the kernel refuses PR_SET_NO_NEW_PRIVS: {os.strerror(ctypes.get_errno())}"
    result = libc.syscall(
        ctypes.c_long(PROCESSORS[os.uname().machine].seccomp), ctypes.c_ulong(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_ulong(_ALL_THREADS | _FULL_SPEED), ctypes.byref(program),
    )  # fmt: skip
    if result > 0:  # the number of a thread with a filter of its own
        return f"thread {result} could not be included"
    return f"the kernel refuses the seccomp filter: {os.strerror(ctypes.get_errno())}" if result else ""


def _open_family() -> str:
    """Try to open sockets of the network; return what the kernel did instead of refusing one, "" if it refused all."""
    families, kinds = (socket.AF_INET, socket.AF_INET6), (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    for family, kind in itertools.product(families, kinds):
        try:
            socket.socket(family, kind).close()
        except OSError as refused:
            if refused.errno not in _REFUSALS:
                return f"an attempt to open a socket ({family.name}) failed in an unexpected way: {refused}"
        else:
            return f"the kernel took the filter and opened a socket ({family.name}) all the same"
    return ""
