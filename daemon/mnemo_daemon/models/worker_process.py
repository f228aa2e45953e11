"""The process of a model as the daemon sees it, and the order in which callers get it: interactive calls before
background ones. SPEC 4.2, 12.1

Within a priority, first come is first served. The queue is bounded for each priority, so that background calls never
keep an interactive one out. The number of models that are loaded at once is bounded, too.
"""

import bisect
import contextlib
import itertools
import math
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
        replies: the union of the messages that it sends."""
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


POLL_S = 0.05  # between two looks whether a call that waits was cancelled


class CallQueue:
    """A queue for one resource; safe in any thread."""

    def __init__(self, waiting_max: int) -> None:
        """waiting_max: callers that wait at once, for each priority."""
        self._waiting_max = waiting_max
        self._changed = threading.Condition()
        self._waiting: list[tuple[bool, int]] = []  # (is a background call, arrival), the next one first
        self._arrivals = itertools.count()
        self._is_taken = False

    @contextlib.contextmanager
    def turn(
        self, until: float, *, is_interactive: bool = True, is_cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Hold the resource alone inside. Raises TimeoutError after until (monotonic seconds), InterruptedError when
        cancelled, OverflowError where too many wait already; a caller that waits for ever is always let in."""
        ticket = (not is_interactive, next(self._arrivals))
        with self._changed:
            if (
                until < math.inf
                and sum(is_background == ticket[0] for is_background, _ in self._waiting) >= self._waiting_max
            ):
                raise OverflowError
            bisect.insort(self._waiting, ticket)
            try:
                while self._is_taken or self._waiting[0] != ticket:
                    if is_cancelled():
                        raise InterruptedError
                    if (left := until - time.monotonic()) <= 0:
                        raise TimeoutError
                    self._changed.wait(min(left, POLL_S))
                self._is_taken = True
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._is_taken = False
                self._changed.notify_all()

    def has_interactive(self) -> bool:
        """Return whether an interactive call waits."""
        return any(not is_background for is_background, _ in self._waiting[:1])

    def __len__(self) -> int:
        """The number of calls that wait."""
        return len(self._waiting)


class WorkerSlots:
    """Places for loaded models; safe in any thread."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._lock = threading.RLock()  # unloading a model gives its place back
        self._unloading: dict[object, Callable[[], None]] = {}  # by owner, the one that was loaded first comes first

    def take(self, owner: object, unload_if_idle: Callable[[], None]) -> None:
        """Give the owner a place, if need be that of a model without a call. Raises OverflowError without one."""
        with self._lock:
            for unload_other in list(self._unloading.values()):
                if len(self._unloading) < self.count:
                    break
                unload_other()
            if len(self._unloading) >= self.count:
                raise OverflowError
            self._unloading[owner] = unload_if_idle

    def give_back(self, owner: object) -> None:
        """Free the place of the owner, if it has one."""
        with self._lock:
            self._unloading.pop(owner, None)
