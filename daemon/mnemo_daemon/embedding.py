"""Texts to vectors: the embedders, and the service that keeps one loaded for the daemon (SPEC 2.3, 4.1, 4.4, 4.6).

A text's vector is the same whatever it is embedded with. Every embedder keeps that by its own means (see the classes),
and all are held to it by one suite of tests.
"""

import contextlib
import hashlib
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol import ModelStatus
from mnemo_daemon import minilm
from mnemo_daemon.models import (
    DEFAULT_EMBEDDING,
    PROBE_TEXT,
    Catalogue,
    Damaged,
    Manifest,
    ModelError,
    NotInstalled,
    Unknown,
    Unsupported,
    find,
    verify,
)

TEMPLATE_VERSION = 1  # of the text that stands for a memory (records.embedded_text): grows when that is made otherwise
RUN_TOKENS_MAX = 256  # in one run: more falls out of the processor's cache and is slower (adr/0002-embedding-form.md)
STRIDE_SHARE = 0.75  # of tokens_max, from one window's first token to the next one's: 192 of 256 (SPEC 2.3)
QUERIES_KEPT_MAX = 512  # query vectors in the service's cache, 1.5 KB each
SLICE_TEXTS_MAX = 256  # of a larger batch, tokenised and planned at once
THREADS_MAX = 4  # for background work, when the number is not given
NICENESS = 10  # of the background threads, so that a query overtakes them on a busy machine
PROBE_COSINE_MIN = minilm.INT8_COSINE_MIN

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]  # (texts, tokens): texts of one token count
EncodeRun = Callable[[Ids], Floats]
RunAll = Callable[[EncodeRun, Iterable[Ids]], Iterable[Floats]]  # `map`, or that of a pool of threads

log = logging.getLogger("mnemo.embedding")


class Embedder(Protocol):
    """A loaded model. Safe to use from several threads."""

    name: str
    dimensions: int
    space: str  # vectors of different spaces must never be compared
    tokens_max: int  # of a window, the two special tokens included

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        """The unit vectors of each text, (windows, dimensions): one, or several for a text over tokens_max."""
        ...

    def encode_query(self, text: str) -> Floats:
        """The unit vector of a query, (dimensions,); what goes beyond tokens_max does not count."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has, special ones not counted."""
        ...

    def close(self) -> None:
        """The model's memory is free once the last run that uses it has ended."""
        ...


def load_embedder(manifest: Manifest) -> Embedder:
    """The installed model, checked and loaded. Damaged or Unsupported when it cannot be used."""
    if manifest.role != "embedding":
        raise Unsupported(f"{manifest.name} is a language model, not an embedding model")
    verify(manifest)
    return FastembedEmbedder(manifest) if manifest.form == "fastembed" else GraphEmbedder(manifest)


class _Windows:
    """Counts tokens and cuts a long text into windows that overlap."""

    def __init__(self, manifest: Manifest) -> None:
        try:
            self._tokenizer = minilm.open_tokenizer(manifest.path("tokenizer.json"))
        except (OSError, ValueError) as error:
            raise Damaged(f"the tokenizer of {manifest.name} cannot be loaded: {error}") from error
        special = self._tokenizer.encode("").ids
        if len(special) != 2:
            raise Unsupported(f"{manifest.name} puts {len(special)} special tokens around a text, not 2")
        self.first, self.last = special
        self.room = manifest.tokens_max - 2
        self.stride = int(manifest.tokens_max * STRIDE_SHARE)

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(found.ids) for found in self._encode(texts)]

    def ids(self, texts: Sequence[str]) -> list[list[list[int]]]:
        """Each text's windows as token ids, special tokens included."""
        return [
            [[self.first, *found.ids[a:b], self.last] for a, b in self._bounds(len(found.ids))]
            for found in self._encode(texts)
        ]

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        """Each text's windows as pieces of the text; one that fits stays as it is."""
        pieces = []
        for text, found in zip(texts, self._encode(texts), strict=True):
            bounds = self._bounds(len(found.ids))
            spans = [(found.offsets[a][0], found.offsets[b - 1][1]) for a, b in bounds] if len(bounds) > 1 else []
            pieces.append([text[start:end] for start, end in spans] or [text])
        return pieces

    def _bounds(self, tokens: int) -> list[tuple[int, int]]:
        further = -(-max(0, tokens - self.room) // self.stride)
        starts = (window * self.stride for window in range(1 + further))
        return [(start, min(start + self.room, tokens)) for start in starts]

    def _encode(self, texts: Sequence[str]) -> list[Any]:
        return list(self._tokenizer.encode_batch(list(texts), add_special_tokens=False))


class GraphEmbedder:
    """A graph that `minilm` built, run by onnxruntime.

    Texts of one token count go through together, unpadded; with fixed scales no text touches another (SPEC 2.3).
    """

    def __init__(self, manifest: Manifest) -> None:
        """Damaged when the files cannot be loaded, or give other vectors here than where they were built."""
        self.name, self.dimensions = manifest.name, manifest.dimensions
        self.space, self.tokens_max = name_space(manifest), manifest.tokens_max
        self._query_prefix = manifest.query_prefix
        self._windows = _Windows(manifest)
        with minilm.foreign_errors(Damaged, f"{manifest.name} cannot be loaded"):
            self._session: minilm.Session | None = minilm.open_session(manifest.path())
            (probe,) = self.encode_batch([PROBE_TEXT])
        cosine = float(probe[0] @ np.array(manifest.probe, np.float32))
        if not cosine >= PROBE_COSINE_MIN:
            raise Damaged(f"{manifest.name} computes wrong vectors on this processor (cosine {cosine:.3f})")

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        vectors: list[Floats] = []
        for start in range(0, len(texts), SLICE_TEXTS_MAX):
            vectors += self._encode_slice(texts[start : start + SLICE_TEXTS_MAX], run_all)
        return vectors

    def encode_query(self, text: str) -> Floats:
        window = self._windows.ids([self._query_prefix + text])[0][0]
        vector: Floats = self._run(np.array([window], np.int32))[0]
        return vector

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._windows.count(texts)

    def close(self) -> None:
        self._session = None

    def _encode_slice(self, texts: Sequence[str], run_all: RunAll) -> list[Floats]:
        windows = self._windows.ids(texts)
        flat = [window for text_windows in windows for window in text_windows]
        runs = _group(flat)
        rows = np.empty((len(flat), self.dimensions), np.float32)
        inputs = (np.array([flat[row] for row in run], np.int32) for run in runs)
        for run, vectors in zip(runs, run_all(self._run, inputs), strict=True):
            rows[run] = vectors
        ends = np.cumsum([len(text_windows) for text_windows in windows])
        return np.split(rows, ends[:-1])

    def _run(self, ids: Ids) -> Floats:
        session = self._session
        if session is None:
            raise NotInstalled(f"{self.name} has been closed")
        return session.run(None, {"ids": ids})[0]


def _group(windows: Sequence[Sequence[int]]) -> list[list[int]]:
    """The rows of windows in runs: of one length each, at most RUN_TOKENS_MAX tokens, the longest first."""
    by_length: dict[int, list[int]] = {}
    for row, window in enumerate(windows):
        by_length.setdefault(len(window), []).append(row)
    runs: list[list[int]] = []
    for length, rows in sorted(by_length.items(), reverse=True):
        size = max(1, RUN_TOKENS_MAX // length)
        runs += [rows[start : start + size] for start in range(0, len(rows), size)]
    return runs


class FastembedEmbedder:
    """A model that fastembed knows, or any ONNX model in its layout, from a local folder.

    One window a run: fastembed pads what it batches, and a model with dynamic int8 inside depends on its company. For
    the same reason the run goes through whatever thread asks; `run_all` is not used.
    """

    def __init__(self, manifest: Manifest) -> None:
        """Damaged when fastembed cannot load the folder. No network: the folder is named, not looked for."""
        self.name, self.dimensions = manifest.name, manifest.dimensions
        self.space, self.tokens_max = name_space(manifest), manifest.tokens_max
        self._query_prefix = manifest.query_prefix
        self._windows = _Windows(manifest)
        self._model: Any = _open_fastembed(manifest)
        if self._run("").shape != (self.dimensions,):
            raise Damaged(f"{self.name} does not give the {self.dimensions} numbers that its config.json says")

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        del run_all
        return [np.stack([self._run(piece) for piece in pieces]) for pieces in self._windows.pieces(texts)]

    def encode_query(self, text: str) -> Floats:
        return self._run(self._windows.pieces([self._query_prefix + text])[0][0])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._windows.count(texts)

    def close(self) -> None:
        self._model = None

    def _run(self, text: str) -> Floats:
        model = self._model
        if model is None:
            raise NotInstalled(f"{self.name} has been closed")
        (vector,) = model.embed([text], batch_size=1)
        vector = np.asarray(vector, np.float32).reshape(-1)
        unit: Floats = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return unit


def _open_fastembed(manifest: Manifest) -> Any:
    """fastembed's model: by its name where fastembed knows it, else under a name of the files' own."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    known = {entry["model"]: entry["model_file"] for entry in TextEmbedding.list_supported_models()}
    name = manifest.name
    with minilm.foreign_errors(Damaged, f"{manifest.name} cannot be loaded by fastembed"):
        if known.get(name) != manifest.weights_file:
            name = f"local/{manifest.files_folder}"
            if name not in known:  # names are the process's, and a second one of the same name is refused
                TextEmbedding.add_custom_model(
                    model=name,
                    pooling=PoolingType.CLS if manifest.pooling == "cls" else PoolingType.MEAN,
                    normalization=True,
                    sources=ModelSource(hf=name),
                    dim=manifest.dimensions,
                    model_file=manifest.weights_file,
                )
        return TextEmbedding(name, specific_model_path=str(manifest.path().parent), threads=1)


def name_space(manifest: Manifest) -> str:
    """The name of the space in which this model's vectors can be compared. SPEC 2.3"""
    parts = (manifest.name, manifest.weights_sha256, str(TEMPLATE_VERSION), manifest.numerics)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def spaces_of(catalogue: Catalogue) -> list[str]:
    """The spaces of every embedding model that is installed."""
    found = []
    for listed in catalogue.listing():
        with contextlib.suppress(ModelError):
            manifest = catalogue.installed(listed.name) if listed.role == "embedding" else None
            if manifest is not None:
                found.append(name_space(manifest))
    return found


class EmbeddingService:
    """Keeps the model in use loaded, and embeds with it: queries at once, texts in the background.

    Everything may be called from any thread. An embedder that was current stays usable by whoever holds it, so that
    queries can go on in the old space while the new one's vectors are filled (SPEC 4.4).
    """

    def __init__(self, catalogue: Catalogue, name: str = DEFAULT_EMBEDDING, threads: int = 0) -> None:
        """Loads nothing yet: `refresh` does. threads: for background texts; 0: one a processor, at most THREADS_MAX."""
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._name = name
        self._current: Embedder | None = None
        self._loading: Future[None] | None = None
        self._failure: ModelError | None = None
        self._queries: OrderedDict[tuple[str, str], Floats] = OrderedDict()
        self._loader = ThreadPoolExecutor(1, "mnemo-model")
        workers = threads or min(os.cpu_count() or 1, THREADS_MAX)
        self._workers = ThreadPoolExecutor(workers, "mnemo-embed", initializer=step_back)

    def status(self) -> ModelStatus:
        """What can be said of the model in use. A switch that failed leaves the old one ready, with the reason."""
        with self._lock:
            current, failure, loading = self._current, self._failure, self._loading
            name = self._name
        reason = str(failure) if failure else None
        hint = failure.hint if failure else None
        if current is not None:
            return ModelStatus(current.name, "ready", current.dimensions, reason, hint)
        if loading is not None or (failure is None and self._is_installed(name)):  # a start comes to it in a moment
            return ModelStatus(name, "loading")
        if failure is None or isinstance(failure, NotInstalled):
            return ModelStatus(name, "absent", None, f"{name} is not installed", NotInstalled.hint)
        return ModelStatus(name, "failed", None, reason, hint)

    def spaces(self) -> list[str]:
        """Of every embedding model that is installed: vectors of others are of no use here."""
        return spaces_of(self._catalogue)

    def manifest(self, name: str) -> Manifest | None:
        """Of an installed model; None where it is not, or not as it should be."""
        try:
            return self._catalogue.installed(name)
        except ModelError:
            return None

    def _is_installed(self, name: str) -> bool:
        return self.manifest(name) is not None

    def current(self) -> Embedder | None:
        """The embedder for new vectors; None while there is none."""
        return self._current

    def refresh(self) -> None:
        """Loads the model in use if it has been installed meanwhile, and returns when that is done, well or ill."""
        self._load(self._name).result()

    def use(self, name: str) -> None:
        """Begins to load another model; `current` becomes it once it is there, and stays as it is if that fails.

        Raises as `usable` does, and changes nothing.
        """
        self._load(self.usable(name))

    def usable(self, name: str) -> str:
        """The model's own name. Raises Unknown, NotInstalled, Unsupported or Damaged, when that can be seen at once."""
        known = find(name)
        name = known.name if known else name
        manifest = self._catalogue.installed(name)
        if manifest is None:
            if known is None:
                raise Unknown(f"there is no model named {name!r}")
            raise NotInstalled(f"{name} is not installed")
        if manifest.role != "embedding":
            raise Unsupported(f"{name} is a language model, not an embedding model")
        return name

    def encode_query(self, embedder: Embedder, text: str) -> Floats:
        """The query's unit vector, on the calling thread; what was asked lately is remembered."""
        key = (embedder.space, text)
        with self._lock:
            known = self._queries.get(key)
            if known is not None:
                self._queries.move_to_end(key)
                return known
        vector = embedder.encode_query(text)
        vector.flags.writeable = False
        if not np.isfinite(vector).all():
            return vector  # which is refused, and asked for again the next time
        with self._lock:
            self._queries[key] = vector
            while len(self._queries) > QUERIES_KEPT_MAX:
                self._queries.popitem(last=False)
        return vector

    def forget_queries(self) -> None:
        """Remembers none of the queries that were asked: they may have said what was forgotten."""
        with self._lock:
            self._queries.clear()

    def encode_batch(self, embedder: Embedder, texts: Sequence[str]) -> list[Floats]:
        """Each text's unit vectors, (windows, dimensions), on the background threads."""
        return embedder.encode_batch(texts, self._workers.map)

    def count_tokens(self, embedder: Embedder, text: str) -> int:
        """How many tokens of that model the text has."""
        return embedder.count_tokens([text])[0]

    def close(self) -> None:
        """Ends the threads and lets the model go."""
        self._loader.shutdown(cancel_futures=True)
        self._workers.shutdown(cancel_futures=True)
        with self._lock:
            current, self._current = self._current, None
            self._queries.clear()
        if current is not None:
            current.close()

    def _load(self, name: str) -> Future[None]:
        """The load that brings the model, begun or under way."""
        with self._lock:
            if self._loading is None or self._name != name:
                self._name, self._failure = name, None
                self._loading = self._loader.submit(self._bring, name)
            return self._loading

    def _bring(self, name: str) -> None:
        """Loads the model and makes it the current one; on the one loading thread, in the order asked for."""
        embedder, failure = None, None
        try:
            embedder = self._open(name)
        except ModelError as error:
            failure = error
        except Exception as error:
            log.exception("%s cannot be loaded", name)
            failure = Damaged(f"{name} cannot be loaded: {error!r}")
        with self._lock:
            self._current = embedder or self._current
            if self._name == name:  # otherwise another load was begun since, and the status is about that one
                self._loading, self._failure = None, failure

    def _open(self, name: str) -> Embedder:
        """The embedder of that name: the current one if it is that already."""
        manifest = self._catalogue.installed(name)
        if manifest is None:
            raise NotInstalled(f"{name} is not installed")
        current = self._current
        if current is not None and current.space == name_space(manifest):
            return current
        return load_embedder(manifest)


def step_back() -> None:
    """Lets others go before this thread. Linux can do that for one thread; elsewhere short runs have to do."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
