"""The process of a model as the daemon sees it. SPEC 12.1"""

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from mnemo_daemon.models.worker_protocol import take_frame, to_frame
from mnemo_daemon.process_memory import open_scratch_file

OUTPUT_SHOWN_CHARACTERS = 300
REAP_LIMIT_S = 5.0  # a killed process ends within 50 ms, measured; longer only where the kernel itself hangs
START_LIMIT_S = 120.0  # a 3B model from a slow disk takes some 30 s
EXIT_GRACE_S = 0.5  # for a process that closed its connection to end, so that its exit code is known


class Worker:
    """A child process and the socket to it. Not thread-safe: LanguageModel serves one call at a time."""

    def __init__(self, command: Sequence[str], replies: Any) -> None:
        """Start the process by exec, never by fork alone: the state of LMDB and onnxruntime must not exist twice.

        replies: the union of the messages that it sends.
        """
        self.ready = False
        self._replies = replies
        self.began = time.monotonic()
        self._received = bytearray()
        self._output = open_scratch_file("llm-worker")  # what it writes to its standard error
        self._wire, theirs = socket.socketpair()
        try:
            # A group of its own: Ctrl-C in the daemon's terminal is the daemon's to handle.
            self._process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=self._output.fileno(), process_group=0
            )
        except OSError:
            self._wire.close()
            self._output.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether the process runs; reap it if it has ended."""
        return self._process.poll() is None

    def send(self, message: msgspec.Struct, until: float) -> None:
        """Send a message. Raises TimeoutError after until (monotonic seconds), ConnectionError if the process ended."""
        self._wire.settimeout(time_left(until))
        self._wire.sendall(to_frame(message))

    def receive(self, until: float) -> Any:
        """Return the worker's next message. A part that came before `until` is kept for the next call of this.

        Raises TimeoutError after until (monotonic seconds), ConnectionError if the process ended, BrokenFrame and
        msgspec.DecodeError for an invalid message.
        """
        while (body := take_frame(self._received)) is None:
            self._wire.settimeout(time_left(until))
            data = self._wire.recv(65536)
            if not data:
                raise ConnectionResetError("it ended")
            self._received += data
        return msgspec.msgpack.decode(body, type=self._replies)

    def clear_output(self) -> None:
        """Delete the output of the worker, which would otherwise grow with every answer."""
        self._output.seek(0)
        self._output.truncate()

    def kill(self) -> None:
        """End the process at once, from any thread; a caller that waits for its answer sees it end."""
        self._process.kill()

    def exit_report(self) -> str:
        """Describe the exit of a process that closed its connection, with its last output."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_GRACE_S)
        code = self._process.poll()
        if code is None:
            how = "it closed its connection"
        elif code < 0:
            how = f"its process was ended by {signal.Signals(-code).name}"
        else:
            how = f"its process ended with exit code {code}"
        self._output.seek(0)
        output = self._output.read().decode(errors="replace").strip()
        return f"{how}; its last output: {output[-OUTPUT_SHOWN_CHARACTERS:]}" if output else how

    def end(self) -> None:
        """End the process; no zombie and no descriptor remain."""
        self.kill()
        self._process.wait(REAP_LIMIT_S)
        self._wire.close()
        self._output.close()


def time_left(until: float) -> float:
    """Return the seconds until then. Raises TimeoutError when there are none."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
