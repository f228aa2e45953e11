"""The kernel's filter against the network, instruction by instruction, for processors that this machine does not have
too. SPEC 17.5"""

import errno
import socket
from collections.abc import Sequence

import pytest

from mnemo_daemon.server import network_filter
from mnemo_daemon.server.network_filter import PROCESSORS, Instruction, NetworkBlock, filter_program, obstacle

ALLOWED = 0
UNKNOWN_FAMILY, REFUSED = errno.EAFNOSUPPORT, errno.EPERM
X86_64, AARCH64, I386 = 0xC000003E, 0xC00000B7, 0x40000003  # linux/audit.h
AF_NETLINK, AF_VSOCK = 16, 40

# Numbers from the kernel's tables (arch/x86/entry/syscalls, include/uapi/asm-generic/unistd.h), not from the filter.
CALLS = {
    "x86_64": {"socket": 41, "socketpair": 53, "bind": 49, "connect": 42, "read": 0, "execve": 59, "accept4": 288},
    "aarch64": {"socket": 198, "socketpair": 199, "bind": 200, "connect": 203, "read": 63, "execve": 221,
                "accept4": 242},
}  # fmt: skip
IO_URING_SETUP, PIDFD_GETFD = 425, 438


def run(program: Sequence[Instruction], architecture: int, number: int, argument: int = 0) -> int:
    """Return the error with which the filter answers the call, or ALLOWED: an interpreter of four instructions."""
    data = {0: number, 4: architecture, 16: argument & 0xFFFFFFFF}
    accumulator = position = 0
    while True:
        step = program[position]
        position += 1
        match step.code:
            case 0x20:
                accumulator = data[step.k]
            case 0x15:
                position += step.jt if accumulator == step.k else step.jf
            case 0x35:
                position += step.jt if accumulator >= step.k else step.jf
            case 0x06:
                assert step.k >> 16 in (0x7FFF, 0x0005)
                return ALLOWED if step.k >> 16 == 0x7FFF else step.k & 0xFFFF
            case other:
                raise AssertionError(f"instruction {other:#x}")


@pytest.mark.parametrize("machine", CALLS)
def test_only_unix_sockets_can_be_made(machine: str) -> None:
    program, calls = filter_program(PROCESSORS[machine]), CALLS[machine]
    own = PROCESSORS[machine].architecture
    for call in ("socket", "socketpair"):
        assert run(program, own, calls[call], socket.AF_UNIX) == ALLOWED
        for family in (0, socket.AF_INET, socket.AF_INET6, AF_NETLINK, AF_VSOCK, 17, 0xFFFFFFFF):
            assert run(program, own, calls[call], family) == UNKNOWN_FAMILY
        # The kernel takes an int: what stands in the upper half of the register changes nothing.
        assert run(program, own, calls[call], socket.AF_INET | 1 << 32) == UNKNOWN_FAMILY
    assert [run(program, own, calls[call], 2) for call in ("connect", "read", "execve", "accept4")] == [ALLOWED] * 4


@pytest.mark.parametrize("machine", CALLS)
def test_every_other_way_to_a_socket_is_refused(machine: str) -> None:
    program, calls = filter_program(PROCESSORS[machine]), CALLS[machine]
    own = PROCESSORS[machine].architecture
    for number in (calls["bind"], IO_URING_SETUP, PIDFD_GETFD):
        assert run(program, own, number, socket.AF_UNIX) == REFUSED
    for other in {X86_64, AARCH64, I386} - {own}:
        for number in (0, calls["socket"], 102, 359):  # 102 and 359: socketcall and socket of a 32-bit program
            assert run(program, other, number, socket.AF_UNIX) == REFUSED


def test_the_second_numbers_of_calls_on_x86_64_are_refused() -> None:
    program = filter_program(PROCESSORS["x86_64"])
    for number in (0, 41, 53, 59):
        assert run(program, X86_64, number | 0x40000000, socket.AF_UNIX) == REFUSED


def test_a_machine_without_a_filter_is_reported() -> None:
    assert obstacle("linux", "x86_64") == obstacle("linux", "aarch64") == ""
    assert obstacle("darwin", "arm64") == "only Linux lets a program forbid itself the network"
    assert "not of riscv64" in obstacle("linux", "riscv64")
    assert "not of a 32-bit program on x86_64" in obstacle("linux", "x86_64", integer_max=2**31 - 1)


def test_what_is_switched_off_is_not_called_blocked() -> None:
    assert network_filter.block("off") == NetworkBlock(False, "switched off (`daemon.network_block`)")
    socket.socket(socket.AF_INET).close()  # nothing was installed in this process


def test_a_kernel_that_refuses_the_filter_is_reported_and_enough_for_auto_alone() -> None:
    def refuse(_: Sequence[Instruction]) -> str:
        return "the kernel refuses the seccomp filter: Invalid argument"

    assert network_filter.block("auto", install=refuse) == NetworkBlock(False, refuse([]))
    with pytest.raises(network_filter.NetworkFilterError, match="requires it: the kernel refuses the seccomp filter"):
        network_filter.block("require", install=refuse)


def test_a_kernel_that_takes_the_filter_and_ignores_it_is_found_out() -> None:
    assert network_filter.block("auto", install=lambda _: "") == NetworkBlock(
        False, "the kernel took the filter and opened a socket (AF_INET) all the same"
    )
