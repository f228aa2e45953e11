"""The daemon forbids itself the network: its own start-up, then every way to a socket. SPEC 17.5

The start-up runs in a process of the test, up to the point where the daemon would load everything else; there the
attempts are made. Two processors have the filter: on others the daemon reports that, and these tests fail.
"""

import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.protocol.status import NetworkStatus
from tests.support.running_daemon import RunningDaemon, has_ended, running
from tests.support.samples import quick_folder

UNKNOWN_FAMILY, REFUSED = "EAFNOSUPPORT", "EPERM"

START_UP = textwrap.dedent(
    """
    import socket, threading, sys
    listening = socket.create_server(("127.0.0.1", 0))
    before = threading.Event()  # of a thread that is there when the filter comes
    answers = {}
    thread = threading.Thread(target=lambda: (before.wait(), answers.update(thread=attempts())), daemon=True)

    def serve(configuration, listener, extra, notifier, network):
        import json, subprocess
        answers.update(main=attempts(), network=list(network), unix=attempts_on_unix_sockets())
        before.set()
        thread.join()
        child = subprocess.run([sys.executable, "-c", ATTEMPTS + "print(json.dumps(attempts()))"], capture_output=True)
        answers["child"] = json.loads(child.stdout)
        print(json.dumps(answers | {"port": listening.getsockname()[1]}), flush=True)
        connection, _ = listening.accept()
        connection.sendall(connection.recv(100))
        answers["rebound"] = attempt(lambda: connection.bind(("0.0.0.0", 0)))
        print(json.dumps(answers), flush=True)
        listener.close()
        return 0

    thread.start()
    from mnemo_daemon import __main__
    __main__._serve = serve
    sys.argv = ["mnemod"]
    sys.exit(__main__.main())
    """
)
ATTEMPTS = textwrap.dedent(
    """
    import ctypes, errno, json, platform, socket

    libc = ctypes.CDLL(None, use_errno=True)
    X32 = 0x40000000

    def attempt(act):
        try:
            act()
        except OSError as refused:
            return errno.errorcode[refused.errno]
        return "done"

    def call(number, *arguments):
        if libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in arguments)) < 0:
            raise OSError(ctypes.get_errno(), "")

    def attempts():
        socket_call = {"x86_64": 41, "aarch64": 198}[platform.machine()]
        return {
            "inet": attempt(lambda: socket.socket(socket.AF_INET)),
            "inet6": attempt(lambda: socket.socket(socket.AF_INET6)),
            "datagram": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
            "raw": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
            "netlink": attempt(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)),
            "packet": attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)),
            "pair": attempt(lambda: call({"x86_64": 53, "aarch64": 199}[platform.machine()], socket.AF_INET, 1, 0, 0)),
            "upper half": attempt(lambda: call(socket_call, socket.AF_INET | 1 << 32, 1, 0)),
            "uring": attempt(lambda: call(425, 1, 0)),
            "getfd": attempt(lambda: call(438, -1, 0, 0)),
            "x32": attempt(lambda: call(X32 | 41, socket.AF_UNIX, 1, 0)),
        }

    def attempts_on_unix_sockets():
        return [attempt(lambda: socket.socket(socket.AF_UNIX)), attempt(socket.socketpair)]
    """
)


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    with quick_folder() as folder:
        (folder / "config.toml").touch(0o600)
        yield {**os.environ, "MNEMO_DATA_DIR": str(folder), "MNEMO_CONFIG": str(folder / "config.toml"),
               "MNEMO_SOCKET": str(folder / "run" / "mnemo.sock")}  # fmt: skip


def start_up(environ: Mapping[str, str], **settings: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outcome of every attempt; then once more, after a client connected to the port from before."""
    program = f"ATTEMPTS = {ATTEMPTS!r}\nexec(ATTEMPTS)\n{START_UP}"
    with subprocess.Popen(
        [sys.executable, "-c", program], env={**environ, **settings}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", first["port"]), timeout=30) as client:
            client.sendall(b"hello")
            assert client.recv(100) == b"hello"
        return first, json.loads(process.stdout.readline())


REFUSALS = {
    **dict.fromkeys(("inet", "inet6", "datagram", "raw", "netlink", "packet", "pair", "upper half"), UNKNOWN_FAMILY),
    **dict.fromkeys(("uring", "getfd"), REFUSED),
    "x32": REFUSED if os.uname().machine == "x86_64" else "ENOSYS",
}


def test_after_its_start_the_daemon_can_open_no_socket_of_the_network(environ: dict[str, str]) -> None:
    first, last = start_up(environ, MNEMO_DAEMON_NETWORK_BLOCK="require")
    assert first["network"] == [True, ""]
    assert first["main"] == REFUSALS
    assert first["thread"] == REFUSALS  # of a thread that was there before
    assert first["child"] == REFUSALS
    assert first["unix"] == ["done", "done"]
    assert last["rebound"] == REFUSED  # an accepted connection is of no use for another one


def test_without_the_filter_the_same_attempts_succeed(environ: dict[str, str]) -> None:
    """Otherwise the test above would prove nothing."""
    first, last = start_up(environ, MNEMO_DAEMON_NETWORK_BLOCK="off")
    assert first["network"] == [False, "switched off (`daemon.network_block`)"]
    for who in ("main", "thread", "child"):
        assert {first[who][name] for name in ("inet", "datagram", "netlink", "upper half")} == {"done"}
        assert not {first[who]["pair"], first[who]["getfd"], first[who]["x32"]} & {UNKNOWN_FAMILY, REFUSED}
    assert first["unix"] == ["done", "done"]
    assert last["rebound"] == "EINVAL"  # it is bound already; a disconnected one could be


def filters(process: int) -> list[tuple[str, str]]:
    """NoNewPrivs and the number of filters, of every thread of the process."""
    found = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        fields = dict(line.split(":\t", 1) for line in (thread / "status").read_text().splitlines() if ":\t" in line)
        found.append((fields["NoNewPrivs"], fields["Seccomp_filters"]))
    return found


def test_every_thread_of_a_running_daemon_has_the_filter_and_its_status_says_so(daemon: RunningDaemon) -> None:
    assert daemon.process is not None
    [(_, own)] = set(filters(os.getpid()))  # a container has some, too
    found = filters(daemon.process.pid)
    assert len(found) > 5
    assert set(found) == {("1", str(int(own) + 1))}
    with daemon.client() as client:
        assert client.status().network == NetworkStatus(blocked=True)


def test_where_it_is_switched_off_the_status_says_so() -> None:
    with quick_folder() as folder, running(folder / "data", {"MNEMO_DAEMON_NETWORK_BLOCK": "off"}) as daemon:
        assert daemon.process is not None
        assert set(filters(daemon.process.pid)) <= set(filters(os.getpid()))
        with daemon.client() as client:
            assert client.status().network == NetworkStatus(
                blocked=False, reason="switched off (`daemon.network_block`)"
            )
    assert has_ended(daemon.process.pid)


WITHOUT_SECCOMP = textwrap.dedent(
    """
    import os, sys
    from mnemo_daemon.server.network_filter import PROCESSORS, Instruction, install_filter
    number = PROCESSORS[os.uname().machine].seccomp
    refused = [Instruction(0x20, 0, 0, 0), Instruction(0x15, 0, 1, number), Instruction(6, 0, 0, 0x50001)]
    assert install_filter([*refused, Instruction(6, 0, 0, 0x7FFF0000)]) == ""  # EPERM for seccomp(2), as containers do
    os.execv(sys.executable, [sys.executable, "-m", "mnemo_daemon"])
    """
)


def test_a_daemon_that_must_block_the_network_and_cannot_does_not_start(environ: dict[str, str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_SECCOMP], env={**environ, "MNEMO_DAEMON_NETWORK_BLOCK": "require"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (
        2,
        "mnemod: the network cannot be blocked, and `daemon.network_block` requires it: the kernel refuses the seccomp "
        "filter: Operation not permitted\n",
    )
    assert not Path(environ["MNEMO_SOCKET"]).exists()
