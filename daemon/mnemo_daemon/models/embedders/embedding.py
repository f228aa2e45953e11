"""The embedders, and the service that keeps one loaded for the daemon (SPEC 2.3, 4.1, 4.4).

The vector of a text does not depend on the texts embedded with it. Each embedder ensures this by its own means (see the
classes); one suite of tests checks all of them.
"""

import contextlib
import itertools
import logging
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.protocol.status import ModelStatus
from mnemo_core.retrieval.ranking import late_interaction
from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_daemon.errors import DamagedModelError, MissingModelError, ModelError, UnsupportedModel, WrongNumerics
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, PROBE_TEXT, ROLES, ModelCatalogue, ModelManifest, verify
from mnemo_daemon.models.embedders import encoder_graph, fastembed_models
from mnemo_daemon.models.embedders.embedder import Embedder, Floats, QueryTokens, RunAll, name_space, window_bounds
from mnemo_daemon.models.embedders.gguf_embedding import GgufEmbedder
from mnemo_daemon.models.embedders.multilingual import MultilingualEmbedder, MultilingualEncoder
from mnemo_daemon.models.embedders.token_rows import TOKENS_MAX, Projection, TokenWord, find_projection, words_of
from mnemo_daemon.priority import never_yield
from mnemo_daemon.settings import Numerics
from mnemo_store.batches import batched
from mnemo_store.record_texts import text_hash

RUN_TOKENS_MAX = 256  # in one run: more falls out of the processor's cache and is slower (adr/0002-embedding-form.md)
QUERIES_KEPT_MAX = 512  # queries in the service's cache, 1.5 KB each, and half a KB for each token;
QUERY_BYTES_MAX = 4 << 20  # and of all of them: a question of the usual length takes 8 KB, a long one up to 50
SLICE_TEXTS_MAX = 64  # of a larger batch, tokenised at once; a slice is complete before the next
THREADS_MAX = 4  # for background work, when the number is not given
NICENESS = 10  # of the background threads, so that queries come first on a busy machine
INT8_PROBE_COSINE_MIN = encoder_graph.INT8_COSINE_MIN

log = logging.getLogger("mnemo.embedding")


class VectorMismatch(DamagedModelError):
    """The model's vectors here are not those of where it was installed."""


def load_embedder(manifest: ModelManifest, *, late: bool = True, numerics: Numerics = "auto") -> Embedder:
    """The installed model, checked and loaded; with `late`, with late interaction where there is a projection for it.

    Of a model that is installed in int8 and in float32, `auto` loads int8, and float32 where this processor computes
    int8 wrongly. Damaged, Unsupported or WrongNumerics when it cannot be used.
    """
    if manifest.role != "embedding":
        raise UnsupportedModel(f"{manifest.name} is {ROLES[manifest.role]}, not an embedding model")
    chosen = _in_form(manifest, numerics)
    verify(chosen)
    if manifest.form == "fastembed":
        return FastembedEmbedder(manifest)
    if manifest.form == "gguf":
        return GgufEmbedder(manifest)
    projection = find_projection(manifest) if late else None
    try:
        loaded = GraphEmbedder(chosen, projection)
    except VectorMismatch as error:
        exact = manifest.exact()
        if numerics != "auto" or exact is None or chosen is exact:
            raise
        log.warning("%s; it is used in float32, which takes twice the time", error)
        verify(exact)
        loaded = GraphEmbedder(exact, projection)
    return loaded if manifest.beside is None else MultilingualEmbedder(loaded, MultilingualEncoder(manifest.beside))


def _in_form(manifest: ModelManifest, numerics: Numerics) -> ModelManifest:
    """The manifest of the wanted form; the installed one for `auto`."""
    if numerics == "auto" or manifest.form in (numerics, "fastembed", "gguf"):
        return manifest
    exact = manifest.exact() if numerics == "float32" else None
    if exact is None:
        raise WrongNumerics(f"{manifest.name} is installed in {manifest.form} alone, and models.numerics is {numerics}")
    return exact


class _Window(NamedTuple):
    """A part of a text as the model takes it."""

    ids: list[int]  # special tokens included
    kept: list[int]  # which of them have token rows that no window before it gives


class _Windows:
    """Counts tokens and cuts a long text into windows that overlap."""

    def __init__(self, manifest: ModelManifest) -> None:
        try:
            self._tokenizer = encoder_graph.open_tokenizer(manifest.path("tokenizer.json"))
        except (OSError, ValueError) as error:
            raise DamagedModelError(f"the tokenizer of {manifest.name} cannot be loaded: {error}") from error
        self.special: list[int] = self._tokenizer.encode("").ids
        self.tokens_max = manifest.tokens_max

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(found.ids) for found in self._encode(texts)]

    def of_texts(self, texts: Sequence[str], *, keeps_tokens: bool) -> list[list[_Window]]:
        """Each text's windows; with `keeps_tokens`, the tokens that are kept for late interaction are chosen, too."""
        windows: list[list[_Window]] = []
        first, last = self.special
        for text, found in zip(texts, self._encode(texts), strict=True):
            tokens = (token for word in words_of(text, found) for token in word.tokens) if keeps_tokens else ()
            kept = list(itertools.islice(tokens, TOKENS_MAX))
            windows.append([])
            done = 0
            for a, b in self._bounds(len(found.ids)):
                own = [token - a + 1 for token in kept if max(a, done) <= token < b]
                windows[-1].append(_Window([first, *found.ids[a:b], last], own))
                done = b
        return windows

    def of_query(self, text: str) -> tuple[list[int], list[tuple[int, TokenWord]]]:
        """The ids of its first window, and which of them are kept, each with its word."""
        (found,) = self._encode([text])
        ((a, b), *_) = self._bounds(len(found.ids))
        kept = [(token + 1, word) for word in words_of(text, found) for token in word.tokens if token < b]
        first, last = self.special
        return [first, *found.ids[a:b], last], kept[:TOKENS_MAX]

    def starts(self, text: str) -> list[int]:
        """The place at which each token that is kept for late interaction begins."""
        (found,) = self._encode([text])
        starts = (found.offsets[token][0] for word in words_of(text, found) for token in word.tokens)
        return list(itertools.islice(starts, TOKENS_MAX))

    def pieces(self, texts: Sequence[str], prefix: str = "") -> list[list[str]]:
        """Each text's windows as pieces of the text, with room for a prefix of each; one that fits stays as it is."""
        pieces = []
        reserved = self.count([prefix])[0] if prefix else 0
        for text, found in zip(texts, self._encode(texts), strict=True):
            bounds = self._bounds(len(found.ids), reserved)
            spans = [(found.offsets[a][0], found.offsets[b - 1][1]) for a, b in bounds] if len(bounds) > 1 else []
            pieces.append([prefix + text[start:end] for start, end in spans] or [prefix + text])
        return pieces

    def _bounds(self, tokens: int, reserved: int = 0) -> list[tuple[int, int]]:
        return window_bounds(tokens, self.tokens_max, len(self.special) + reserved)

    def _encode(self, texts: Sequence[str]) -> list[Any]:
        return list(self._tokenizer.encode_batch(list(texts), add_special_tokens=False))


class _EmbeddingRun(NamedTuple):
    """Texts that are being embedded: the windows of each, the places of each run's windows, and the results of the
    runs: of each window its vector, and its token rows where they are kept."""

    windows: Sequence[Sequence[_Window]]
    runs: Sequence[Sequence[int]]
    found: Iterable[Sequence[tuple[Floats, Floats | None]]]


class _InstalledEmbedder(Embedder):
    """The parts that every embedder of an installed model has."""

    def __init__(self, manifest: ModelManifest) -> None:
        """Damaged when there is no tokenizer."""
        self.name, self.dimensions = manifest.name, manifest.dimensions
        self.space, self.tokens_max = name_space(manifest), manifest.tokens_max
        self.form = manifest.form
        self._query_prefix = manifest.query_prefix
        self._windows = _Windows(manifest)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._windows.count(texts)


class GraphEmbedder(_InstalledEmbedder):
    """A graph that `encoder_graph` built, run by onnxruntime. Texts of one token count go through together, unpadded;
    with fixed scales no text touches another (SPEC 2.3)."""

    def __init__(self, manifest: ModelManifest, projection: Projection | None = None) -> None:
        """Damaged when the files cannot be loaded, or give other vectors here than where they were built."""
        super().__init__(manifest)
        if (special := len(self._windows.special)) != 2:
            raise UnsupportedModel(f"{manifest.name} puts {special} special tokens around a text, not 2")
        self.late = projection.form(self.space) if projection is not None else None
        self._projection = projection
        self._session: encoder_graph.OnnxSession | None
        with encoder_graph.foreign_errors(DamagedModelError, f"{manifest.name} cannot be loaded"):
            if projection is None:
                self._session = encoder_graph.open_session(manifest.path())
            else:
                self._session, self._hidden = encoder_graph.open_with_tokens(manifest.path())
            (probe,) = self.encode_batch([PROBE_TEXT])
        self._check_probe(manifest, probe[0])

    def _check_probe(self, manifest: ModelManifest, vector: Floats) -> None:
        """Raises VectorMismatch where this processor computes other vectors than those of the manifest's space."""
        true_min = INT8_PROBE_COSINE_MIN if manifest.form == "int8" else encoder_graph.SAME_COSINE_MIN
        for probe, least in ((manifest.probe, true_min), (manifest.own_probe, encoder_graph.SAME_COSINE_MIN)):
            cosine = float(vector @ np.array(probe, np.float32)) if probe else 1.0
            if not cosine >= least:
                raise VectorMismatch(
                    f"{manifest.name} in {manifest.form} computes wrong vectors on this processor (cosine {cosine:.3f})"
                )

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        return [vectors for vectors, _ in self._encode(texts, run_all, keeps_tokens=False)]

    def encode_both(self, texts: Sequence[str], run_all: RunAll = map) -> tuple[list[Floats], list[Codes | None]]:
        found = list(self.encode_each(texts, run_all))
        return [vectors for vectors, _ in found], [codes for _, codes in found]

    def encode_each(self, texts: Sequence[str], run_all: RunAll = map) -> Iterator[tuple[Floats, Codes | None]]:
        return self._encode(texts, run_all, keeps_tokens=self._projection is not None)

    def encode_query(self, text: str) -> Floats:
        ((window, *_),) = self._windows.of_texts([self._query_prefix + text], keeps_tokens=False)
        return self._run_vectors([window])[0][0]

    def encode_query_tokens(self, text: str) -> QueryTokens:
        if self._projection is None:
            return super().encode_query_tokens(text)
        before = len(self._query_prefix)
        ids, kept = self._windows.of_query(self._query_prefix + text)
        kept = [(token, word) for token, word in kept if word.start >= before]
        ((vector, rows),) = self._run_with_tokens([_Window(ids, [token for token, _ in kept])])
        spans = tuple((word.start - before, word.end - before) for _, word in kept)
        return QueryTokens(vector, rows, tuple(text[start:end] for start, end in spans), spans)

    def token_starts(self, text: str) -> list[int]:
        return self._windows.starts(text) if self._projection is not None else []

    def pieces(self, text: str) -> list[str]:
        return self._windows.pieces([text])[0]

    def close(self) -> None:
        self._session = None

    def _encode(
        self, texts: Sequence[str], run_all: RunAll, *, keeps_tokens: bool
    ) -> Iterator[tuple[Floats, Codes | None]]:
        """The tokens to keep are chosen before a run, so that no run's whole output stays."""
        run = self._run_with_tokens if keeps_tokens else self._run_vectors
        begun: _EmbeddingRun | None = None
        for some in batched(texts, SLICE_TEXTS_MAX):
            windows = self._windows.of_texts(some, keeps_tokens=keeps_tokens)
            flat = [window for each in windows for window in each]
            runs = _grouped_runs([window.ids for window in flat])
            together = [[flat[place] for place in places] for places in runs]
            ahead = _EmbeddingRun(windows, runs, run_all(run, together))
            if begun is not None:  # only now, so that no thread is without work when a slice ends
                yield from _by_text(begun)
            begun = ahead
        if begun is not None:
            yield from _by_text(begun)

    def _run_vectors(self, windows: Sequence[_Window]) -> list[tuple[Floats, None]]:
        """The vectors of windows of one token count."""
        (vectors,) = self._ask([encoder_graph.VECTORS], windows)
        return [(vector, None) for vector in vectors]

    def _run_with_tokens(self, windows: Sequence[_Window]) -> list[tuple[Floats, Floats]]:
        """The same, and of each window the rows of the tokens that are kept."""
        assert self._projection is not None
        vectors, hidden = self._ask([encoder_graph.VECTORS, self._hidden], windows)
        # Each window's by itself: a product adds up in another order when it has more rows.
        rows = [self._projection.rows(each[window.kept]) for each, window in zip(hidden, windows, strict=True)]
        return list(zip(vectors, rows, strict=True))

    def _ask(self, outputs: list[str], windows: Sequence[_Window]) -> list[Floats]:
        session = self._session
        if session is None:
            raise MissingModelError(f"{self.name} has been closed")
        return session.run(outputs, {"ids": np.array([each.ids for each in windows], np.int32)})


def _by_text(begun: _EmbeddingRun) -> Iterator[tuple[Floats, Codes | None]]:
    """The vectors of each text's windows, and its token rows as they are kept; None where they are no numbers."""
    by_place: dict[int, tuple[Floats, Floats | None]] = {}
    for run, found in zip(begun.runs, begun.found, strict=True):
        by_place.update(zip(run, found, strict=True))
    places = itertools.count()
    for windows in begun.windows:
        own = [by_place[place] for place in itertools.islice(places, len(windows))]
        rows = [each for _, each in own if each is not None]
        together = np.concatenate(rows) if rows else None
        is_finite = together is not None and bool(np.isfinite(together).all())
        codes = late_interaction.quantize(together) if together is not None and is_finite else None
        yield np.stack([vector for vector, _ in own]), codes


def _grouped_runs(windows: Sequence[Sequence[int]]) -> list[list[int]]:
    """The rows of windows in runs: of one length each, at most RUN_TOKENS_MAX tokens, the longest first."""
    by_length: dict[int, list[int]] = {}
    for row, window in enumerate(windows):
        by_length.setdefault(len(window), []).append(row)
    runs: list[list[int]] = []
    for length, rows in sorted(by_length.items(), reverse=True):
        size = max(1, RUN_TOKENS_MAX // length)
        runs += batched(rows, size)
    return runs


class FastembedEmbedder(_InstalledEmbedder):
    """A model that fastembed runs, from a local folder. One window a run, through whatever thread asks: `run_all` is
    not used."""

    def __init__(self, manifest: ModelManifest) -> None:
        """Damaged when the folder holds no such model."""
        super().__init__(manifest)
        self._text_prefix = manifest.text_prefix
        with encoder_graph.foreign_errors(DamagedModelError, f"{manifest.name} cannot be loaded"):
            self._model: Any = fastembed_models.open_embedding(manifest)
            found = self.encode_query("").shape
        if found != (self.dimensions,):
            raise DamagedModelError(f"{self.name} gives {found} numbers, not the {self.dimensions} that it should")

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        del run_all
        run, windows = self._opened().embed, self._windows.pieces(texts, self._text_prefix)
        return [np.stack([_unit(*run(piece)) for piece in pieces]) for pieces in windows]

    def encode_query(self, text: str) -> Floats:
        return _unit(*self._opened().query_embed(self._windows.pieces([self._query_prefix + text])[0][0]))

    def close(self) -> None:
        self._model = None

    def _opened(self) -> Any:
        model = self._model
        if model is None:
            raise MissingModelError(f"{self.name} has been closed")
        return model


def _unit(found: NDArray[Any]) -> Floats:
    """The vector in unit length. A static model gives zeros for a text without a known word: it gets a vector, too."""
    vector = found.astype(np.float32)
    length = float(np.linalg.norm(vector))
    if length == 0:
        vector[0] = length = 1.0
    return vector / np.float32(length)


def spaces_of(catalogue: ModelCatalogue, *, late: bool = True) -> list[str]:
    """The spaces of every form of every installed embedding model: of vectors and, with `late`, of token rows."""
    found = []
    for listed in catalogue.listing():
        with contextlib.suppress(ModelError):
            manifest = catalogue.installed(listed.name) if listed.role == "embedding" else None
            if manifest is None:
                continue
            projection = find_projection(manifest) if late else None
            for space in map(name_space, manifest.forms()):
                found.append(space)
                if projection is not None:
                    found.append(projection.form(space).space)
    return found


class EmbeddingService:
    """Keeps the model in use loaded, and embeds with it: queries at once, texts in the background.

    Safe to use from any thread. An embedder that was current stays usable, so that queries can go on in the old space
    while vectors of the new one are computed (SPEC 4.4).
    """

    def __init__(
        self, catalogue: ModelCatalogue, name: str = DEFAULT_EMBEDDING, threads: int = 0, *, late: bool = True,
        yield_to_queries: Callable[[], None] = never_yield, numerics: Numerics = "auto",
    ) -> None:  # fmt: skip
        """Loads nothing yet: `refresh` does. threads: for background texts; 0: one a processor, at most THREADS_MAX.
        late: with token rows where there is a projection. yield_to_queries: called before each background run."""
        self.on_loaded: Callable[[], None] = lambda: None  # once a load has ended, well or ill
        self._catalogue = catalogue
        self._late = late
        self._numerics: Numerics = numerics
        self._yield_to_queries = yield_to_queries
        self._lock = threading.Lock()
        self._name = name
        self._current: Embedder | None = None
        self._load: Future[None] | ModelError | None = None  # of that model: under way, failed, or over; None at first
        self._queries: OrderedDict[tuple[str, bytes], Floats | QueryTokens] = OrderedDict()  # by space and text hash
        self._query_bytes = 0  # of these
        self._loader = ThreadPoolExecutor(1, "mnemo-model")
        workers = threads or min(os.cpu_count() or 1, THREADS_MAX)
        self._workers = ThreadPoolExecutor(workers, "mnemo-embed", initializer=lower_thread_priority)

    def status(self) -> ModelStatus:
        """The status of the model in use. A switch that failed leaves the old one ready, with the reason."""
        with self._lock:
            name, current, load = self._name, self._current, self._load
        failure = load if isinstance(load, ModelError) else None
        reason, hint = (str(failure), failure.hint) if failure else (None, None)
        if current is not None:
            return ModelStatus(current.name, "ready", current.dimensions, reason, hint, current.form or None)
        if isinstance(load, Future) or (load is None and self.manifest(name) is not None):  # it is loaded soon
            return ModelStatus(name, "loading")
        if failure is None or isinstance(failure, MissingModelError):
            return ModelStatus(name, "absent", None, f"{name} is not installed", MissingModelError.hint)
        return ModelStatus(name, "failed", None, reason, hint)

    def spaces(self) -> list[str]:
        """Of every embedding model that is installed: vectors of others are of no use here."""
        return spaces_of(self._catalogue, late=self._late)

    def manifest(self, name: str) -> ModelManifest | None:
        """Of an installed model; None where it is not, or not as it should be."""
        try:
            return self._catalogue.installed(name)
        except ModelError:
            return None

    def manifest_of(self, embedder: Embedder) -> ModelManifest | None:
        """Of the model in the form that the embedder has; None where that is not installed any more."""
        manifest = self.manifest(embedder.name)
        forms = manifest.forms() if manifest is not None else ()
        return next((each for each in forms if name_space(each) == embedder.space), None)

    def current(self) -> Embedder | None:
        """The embedder for new vectors; None while there is none."""
        return self._current

    def refresh(self) -> None:
        """Loads the model in use if it has been installed by now, and returns when that has succeeded or failed."""
        self._start_load(self._name).result()

    def use(self, name: str) -> None:
        """Begins to load another model, which becomes `current` once it is loaded; nothing changes if that fails.
        Raises as `usable` does, and changes nothing."""
        self._start_load(self.require_usable(name))

    def require_usable(self, name: str) -> str:
        """The model's own name. Raises UnknownModel, or, if that shows at once, MissingModelError, UnsupportedModel or
        DamagedModelError."""
        manifest = self._catalogue.require_installed(name)
        if manifest.role != "embedding":
            raise UnsupportedModel(f"{manifest.name} is {ROLES[manifest.role]}, not an embedding model")
        return manifest.name

    def encode_query(self, embedder: Embedder, text: str) -> Floats:
        """The query's unit vector, on the calling thread; recent queries are cached."""
        known = self._cached_query(embedder, text)
        if known is None:
            known = embedder.encode_query(text)
            self._cache_query(embedder, text, known)
        return known.vector if isinstance(known, QueryTokens) else known

    def encode_query_tokens(self, embedder: Embedder, text: str) -> QueryTokens:
        """The same with its tokens, all from one run of the model, and cached like it."""
        known = self._cached_query(embedder, text)
        if not isinstance(known, QueryTokens):
            known = embedder.encode_query_tokens(text)
            self._cache_query(embedder, text, known)
        return known

    def _cached_query(self, embedder: Embedder, text: str) -> Floats | QueryTokens | None:
        key = embedder.space, text_hash(text)
        with self._lock:
            known = self._queries.get(key)
            if known is not None:
                self._queries.move_to_end(key)
            return known

    def _cache_query(self, embedder: Embedder, text: str, found: Floats | QueryTokens) -> None:
        arrays = (found.vector, found.rows) if isinstance(found, QueryTokens) else (found,)
        for array in arrays:
            array.flags.writeable = False
        if not all(np.isfinite(array).all() for array in arrays):
            return  # the caller refuses it, and the model is run again the next time
        key = embedder.space, text_hash(text)
        with self._lock:
            known = self._queries.pop(key, None)
            self._query_bytes += _query_bytes(found) - (0 if known is None else _query_bytes(known))
            self._queries[key] = found
            while len(self._queries) > QUERIES_KEPT_MAX or self._query_bytes > QUERY_BYTES_MAX:
                _, gone = self._queries.popitem(last=False)
                self._query_bytes -= _query_bytes(gone)

    def clear_query_cache(self) -> None:
        """Empties the cache of queries, which may contain what was erased."""
        with self._lock:
            self._queries.clear()
            self._query_bytes = 0

    def encode_batch(self, embedder: Embedder, texts: Sequence[str]) -> list[Floats]:
        """Each text's unit vectors, (windows, dimensions), on the background threads."""
        return embedder.encode_batch(texts, self._workers.map)

    def encode_both(self, embedder: Embedder, texts: Sequence[str]) -> tuple[list[Floats], list[Codes | None]]:
        """The same with their token rows, where the model gives any; each text after the questions."""
        return embedder.encode_both(texts, self._after_queries(self._workers.map))

    def encode_each(
        self, embedder: Embedder, texts: Sequence[str], *, on_this_thread: bool
    ) -> Iterator[tuple[Floats, Codes | None]]:
        """The same text by text, in their order, the first while the rest is still computed."""
        return embedder.encode_each(texts, self._after_queries(map if on_this_thread else self._workers.map))

    def _after_queries(self, run_all: RunAll) -> RunAll:
        def run(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterable[Any]:
            def after_questions(item: Any) -> Any:
                self._yield_to_queries()
                return function(item)

            return run_all(after_questions, items)

        return run

    def count_tokens(self, embedder: Embedder, text: str) -> int:
        """The number of tokens of that model in the text."""
        return embedder.count_tokens([text])[0]

    def unload_if_idle(self) -> None:
        """Frees what the model in use has loaded beside it and not used for a while."""
        if isinstance(current := self.current(), MultilingualEmbedder):
            current.unload_if_idle()

    def close(self) -> None:
        """Ends the threads and lets the model go."""
        self._loader.shutdown(cancel_futures=True)
        self._workers.shutdown(cancel_futures=True)
        with self._lock:
            current, self._current = self._current, None
            self._queries.clear()
        if current is not None:
            current.close()

    def _start_load(self, name: str) -> Future[None]:
        """The load of that model, begun now or under way."""
        with self._lock:
            if not isinstance(self._load, Future) or self._name != name:
                self._name, self._load = name, self._loader.submit(self._load_and_switch, name)
            return self._load

    def _load_and_switch(self, name: str) -> None:
        """Loads the model and makes it the current one; on the one loading thread, in the order asked for."""
        embedder, failure = None, None
        try:
            embedder = self._open(name)
        except ModelError as error:
            failure = error
        except Exception as error:
            log.exception("%s cannot be loaded", name)
            failure = DamagedModelError(f"{name} cannot be loaded: {error!r}")
        with self._lock:
            self._current = embedder or self._current
            if self._name == name:  # otherwise another load was begun since, and the status is about that one
                self._load = failure
        self.on_loaded()

    def _open(self, name: str) -> Embedder:
        """The embedder of that name: the current one if it is that already."""
        manifest = self._catalogue.installed(name)
        if manifest is None:
            raise MissingModelError(f"{name} is not installed")
        current = self._current
        if current is not None and current.space in map(name_space, manifest.forms()):
            return current
        return load_embedder(manifest, late=self._late, numerics=self._numerics)


def _query_bytes(found: Floats | QueryTokens) -> int:
    """The bytes that a query takes in the cache: 200 for a word and its place, and up to 4 for each character of it."""
    if not isinstance(found, QueryTokens):
        return found.nbytes
    return found.vector.nbytes + found.rows.nbytes + sum(200 + 4 * len(word) for word in found.words)


def lower_thread_priority() -> None:
    """Lets others go before this thread. Linux can do that for one thread; elsewhere short runs have to do."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
