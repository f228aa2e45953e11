"""The embedder of a GGUF model, computed by llama.cpp in a child process (`embedding_worker`). SPEC 4.1

A query waits for one window of background work at most. A process that dies is started again; what it could not
compute is no number, which the callers know of any embedder: the query is answered by words, and the text is tried
again.
"""

import contextlib
import importlib.util
import logging
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from mnemo_core.documents.chunking import estimate_tokens
from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_daemon.errors import DamagedModelError, MissingModelError, UnsupportedModel
from mnemo_daemon.models.catalogue import ModelManifest
from mnemo_daemon.models.embedders.embedder import Embedder, Floats, RunAll, name_space, window_bounds
from mnemo_daemon.models.embedders.embedding_worker import Encode, EncoderFacts, Reply, Tokenize, Tokens, Vector
from mnemo_daemon.models.worker_process import START_LIMIT_S, CallQueue, Worker
from mnemo_daemon.models.worker_protocol import BrokenFrame, ModelRefusal

WORKER_COMMAND = (sys.executable, "-P", "-m", "mnemo_daemon.models.embedders.embedding_worker")
LIMIT_S = 30.0  # for a window, waiting included; MiniLM takes 0.14 s for 256 tokens on one core
FAILURE_PAUSE_S = 10.0  # after a process that failed twice, in which nothing is computed
WAITING_MAX = 64  # callers at once: the threads of queries and of the background
REQUEST_CHARACTERS_MAX = 1 << 17  # which fit a message, whatever letters they are; the longest memory has 8,192

WORKER_FAILURES = (OSError, BrokenFrame, msgspec.DecodeError)  # it ended, hung, or sent nonsense

log = logging.getLogger("mnemo.embedding")


class GgufEmbedder(Embedder):
    """A GGUF model in a process of its own. Safe to use from several threads."""

    def __init__(self, manifest: ModelManifest, command: Sequence[str] = WORKER_COMMAND) -> None:
        """Damaged when llama.cpp cannot use the file; Unsupported without llama.cpp. command: for tests."""
        if importlib.util.find_spec("llama_cpp") is None:
            raise UnsupportedModel(
                f"{manifest.name} needs llama-cpp-python, which is not installed: pip install 'mnemod[llm]'"
            )
        self.name, self.dimensions = manifest.name, manifest.dimensions
        self.space, self.tokens_max = name_space(manifest), manifest.tokens_max
        self.form = manifest.form
        self._query_prefix = manifest.query_prefix
        self._process = _EncoderProcess(manifest, command)
        # Who switched to another model lets this one go without closing it.
        self._finalizer = weakref.finalize(self, self._process.close)

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        return [vectors for vectors, _ in self.encode_each(texts, run_all)]

    def encode_each(self, texts: Sequence[str], run_all: RunAll = map) -> Iterator[tuple[Floats, Codes | None]]:
        for (vectors,) in run_all(lambda some: list(map(self._encode, some)), [[text] for text in texts]):
            yield vectors, None

    def encode_query(self, text: str) -> Floats:
        vector: Floats = self._encode(self._query_prefix + text, windows_max=1, is_interactive=True)[0]
        return vector

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """The estimate of texts, where the model failed."""
        counts: list[int] = []
        for some in _requests(texts):
            try:
                counts += map(len, self._process.tokenize(some, is_interactive=True))
            except _EncodingFailure:
                counts += estimate_tokens(some)
        return counts

    def close(self) -> None:
        self._finalizer()  # does nothing a second time

    def _encode(self, text: str, *, windows_max: int | None = None, is_interactive: bool = False) -> Floats:
        """The vectors of a text's windows; one that is no number where the model failed."""
        process = self._process
        try:
            (tokens,) = process.tokenize([text[:REQUEST_CHARACTERS_MAX]], is_interactive=is_interactive)
            bounds = window_bounds(len(tokens), self.tokens_max, process.special_tokens)
            windows = [tokens[start:end] for start, end in bounds[:windows_max]]
            return np.stack([process.encode(window, is_interactive=is_interactive) for window in windows])
        except _EncodingFailure as error:
            log.warning("%s did not embed a text: %s", self.name, error)
            return np.full((1, self.dimensions), np.nan, np.float32)


def _requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in groups that fit a message."""
    group, characters = list[str](), 0
    for text in texts:
        cut = text[:REQUEST_CHARACTERS_MAX]
        if characters + len(cut) > REQUEST_CHARACTERS_MAX:
            yield group
            group, characters = [], 0
        group.append(cut)
        characters += len(cut)
    if group:
        yield group


class _EncodingFailure(Exception):
    """The model's process gave no answer."""


class _EncoderProcess:
    """Keeps the process of a model running while it is used; serves one request at a time, queries first."""

    def __init__(self, manifest: ModelManifest, command: Sequence[str]) -> None:
        """Damaged when the process cannot use the file."""
        self._name, self._dimensions = manifest.name, manifest.dimensions
        self._command = [
            *command, f"--sha256={manifest.weights_sha256}", f"--tokens={manifest.tokens_max}",
            f"--pooling={manifest.pooling}", str(manifest.path()),
        ]  # fmt: skip
        self._queue = CallQueue(WAITING_MAX)
        self._lock = threading.Lock()  # of _worker and _is_closed, which `close` changes at any time
        self._worker: Worker | None = None
        self._is_closed = False
        self._paused_until = 0.0
        try:
            self._start()
        except (_EncodingFailure, *WORKER_FAILURES) as error:
            self.close()
            raise DamagedModelError(f"{manifest.name} cannot be loaded: {error}") from error
        if self._facts.dimensions != manifest.dimensions:
            self.close()
            raise DamagedModelError(
                f"{manifest.name} gives {self._facts.dimensions} numbers, not {manifest.dimensions} as its file says"
            )

    @property
    def special_tokens(self) -> int:
        """The number of tokens that are put around those of a text."""
        return len(self._facts.before) + len(self._facts.after)

    def tokenize(self, texts: list[str], *, is_interactive: bool) -> list[list[int]]:
        """The tokens of each text, special ones not counted. Raises _EncodingFailure."""
        reply = self._ask(Tokenize(texts), is_interactive)
        if not isinstance(reply, Tokens) or len(reply.tokens) != len(texts):
            raise _EncodingFailure("it sent something else than tokens")
        return reply.tokens

    def encode(self, tokens: Sequence[int], *, is_interactive: bool) -> Floats:
        """The unit vector of a window. Raises _EncodingFailure."""
        reply = self._ask(Encode([*self._facts.before, *tokens, *self._facts.after]), is_interactive)
        if not isinstance(reply, Vector) or len(reply.numbers) != 4 * self._dimensions:
            raise _EncodingFailure("it sent something else than a vector")
        return np.frombuffer(reply.numbers, np.float32).copy()

    def close(self) -> None:
        """End the process; a request that is served fails."""
        with self._lock:
            self._is_closed = True
            if self._worker is not None:
                self._worker.kill()
        with self._queue.turn(float("inf")):
            self._drop()

    def _ask(self, request: Tokenize | Encode, is_interactive: bool) -> Reply:
        until = time.monotonic() + LIMIT_S
        try:
            with self._queue.turn(until, is_interactive=is_interactive):
                return self._ask_in_turn(request, until)
        except OverflowError as error:
            raise _EncodingFailure("too many callers wait for it") from error
        except TimeoutError as error:
            raise _EncodingFailure(f"it was busy for {LIMIT_S:g} s") from error

    def _ask_in_turn(self, request: Tokenize | Encode, until: float) -> Reply:
        """Send a request and return the answer, of a new process if the running one has died."""
        if time.monotonic() < self._paused_until:
            raise _EncodingFailure("its process failed a moment ago")
        for _ in range(2):
            try:
                if self._worker is None:
                    self._start()
                    until = time.monotonic() + LIMIT_S
                assert self._worker is not None
                self._worker.send(request, until)
                reply: Reply = self._worker.receive(until)
                return reply
            except ConnectionError as error:
                failure = f"{error}; {self._worker.exit_report()}" if self._worker is not None else str(error)
                self._drop()
            except WORKER_FAILURES as error:
                self._drop()
                raise _EncodingFailure(f"it hung or sent nonsense, and was killed: {error!r}") from error
        self._paused_until = time.monotonic() + FAILURE_PAUSE_S
        raise _EncodingFailure(failure)

    def _start(self) -> None:
        """Start the process, and return when its model is loaded."""
        with self._lock:
            if self._is_closed:
                raise MissingModelError(f"{self._name} has been closed")
            self._worker = Worker(self._command, Reply)
        match self._worker.receive(time.monotonic() + START_LIMIT_S):
            case EncoderFacts() as facts:
                self._facts = facts
            case ModelRefusal(reason=reason):
                self._drop()
                self._paused_until = time.monotonic() + FAILURE_PAUSE_S
                raise _EncodingFailure(reason)
            case unexpected:
                raise BrokenFrame(f"it began with {unexpected!r:.100}")

    def _drop(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            with contextlib.suppress(OSError):
                worker.end()
