"""Vectors of texts that are not English, in the space of the default model. SPEC 4.1

The default model knows English alone: a German question and the English sentence that answers it are strangers to it,
and two German sentences are near each other because both are German. The Universal Sentence Encoder, multilingual,
version 3 (Yang et al., 2020: embeddings of pieces of words, convolutions over two, three and five of them, a mean, a
small network) reads sixteen languages; a linear map, fitted by tests/bench/fit_multilingual.py to English texts alone,
takes its vectors into the space of the default model. Texts in English keep their vectors, and all token rows.
"""

import io
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_core.retrieval.ranking.late_interaction import Codes
from mnemo_core.text.languages import is_foreign
from mnemo_daemon.errors import DamagedModelError, UnsupportedModel
from mnemo_daemon.models.catalogue import ModelManifest, verify
from mnemo_daemon.models.embedders import encoder_graph
from mnemo_daemon.models.embedders.embedder import Embedder, Floats, QueryTokens, RunAll

PIECES: Final = "sp.model"  # of the package: the pieces of words, in the format of SentencePiece
LAYERS: Final = "layers.npz"  # what is made of its weights: all but the table of the pieces,
TABLE: Final = "table.npy"  # which is read a row at a time
TOKENIZER: Final = "tokenizer.json"
MAP: Final = "all-MiniLM-L6-v2.multilingual.npz"
CHUNKS: Final = 17  # of the table: a piece's row is scaled by the chunk of its number
ORDERS: Final = ((2, 0), (3, 1), (5, 2))  # of the convolutions: pieces in all, pieces before
WIDTH: Final = 256  # of each convolution
TOKENS_MAX: Final = 512  # of a text; what goes beyond does not count
IDLE_SECONDS: Final = 600.0
BEGIN, END = 1, 2  # the pieces around a text


class _OpenedFiles(NamedTuple):
    tokenizer: Any
    table: NDArray[np.uint8]
    layers: dict[str, Floats]
    to_default: Floats  # (513, 384): of a vector with a 1 behind it


class MultilingualEncoder:
    """The encoder, which takes 130 MB from its first text on until it has not been used for IDLE_SECONDS. Safe to use
    from several threads; one text a run, so that no text touches another."""

    def __init__(self, manifest: ModelManifest, now: Callable[[], float] = time.monotonic) -> None:
        """Damaged when the files are not what was installed. now: seconds."""
        verify(manifest)
        self.manifest = manifest
        self._now, self._used_at = now, 0.0
        self._lock = threading.Lock()
        self._opened: _OpenedFiles | None = None

    @property
    def is_loaded(self) -> bool:
        return self._opened is not None

    def unload_if_idle(self) -> None:
        """Free its memory after IDLE_SECONDS without a text; the next one waits for it to load."""
        with self._lock:
            if self._now() - self._used_at >= IDLE_SECONDS:
                self._opened = None

    def _files(self) -> _OpenedFiles:
        with self._lock:
            self._used_at = self._now()
            if self._opened is None:
                with encoder_graph.foreign_errors(DamagedModelError, f"{self.manifest.name} cannot be loaded"):
                    with np.load(self.manifest.path(LAYERS), allow_pickle=False) as stored:
                        layers = {name: stored[name] for name in stored.files}
                    content = (resources.files("mnemo_daemon") / "projections" / MAP).read_bytes()
                    with np.load(io.BytesIO(content), allow_pickle=False) as fitted:
                        to_default = fitted["map"].astype(np.float32)
                    self._opened = _OpenedFiles(
                        encoder_graph.open_tokenizer(self.manifest.path(TOKENIZER)),
                        np.load(self.manifest.path(TABLE), mmap_mode="r", allow_pickle=False), layers, to_default,
                    )  # fmt: skip
            return self._opened

    def encode(self, text: str) -> Floats:
        """The unit vector of a text in the space of the default model, (384,)."""
        found = np.append(self.encode_unmapped(text), np.float32(1)) @ self._files().to_default
        return found / np.linalg.norm(found)

    def encode_unmapped(self, text: str) -> Floats:
        """The unit vector of a text in the encoder's own space, (512,)."""
        tokenizer, table, layers, _ = self._files()
        pieces = np.array([BEGIN, *tokenizer.encode(text, add_special_tokens=False).ids[:TOKENS_MAX], END])
        chunk = pieces % CHUNKS
        embedded = table[pieces] * layers["scale"][chunk, None] + layers["lo"][chunk, None]
        projected = embedded @ layers["projection"] + layers["projection_bias"]
        projected = _normalised(projected, layers["projection_gain"], layers["projection_shift"], layers["eps"])
        features = [embedded]
        for (order, before), own in zip(ORDERS, np.split(projected, len(ORDERS), axis=1), strict=True):
            for layer in ("w1", "w2"):
                padded = np.pad(own, ((before, order - 1 - before), (0, 0)))
                around = np.lib.stride_tricks.sliding_window_view(padded, (order, WIDTH)).reshape(len(pieces), -1)
                own = own + np.maximum(around @ layers[f"{layer}_{order}"] + layers[f"b{layer[1]}_{order}"], 0)
            features.append(own)
        together = np.concatenate(features, axis=1)
        together = _normalised(together, layers["ln_g"], layers["ln_b"], layers["eps"])
        mean = (together @ layers["cnn_W"] + layers["cnn_b"]).sum(axis=0) / np.sqrt(np.float32(len(pieces)))
        first = np.maximum(mean @ layers["d0"], 0)
        second = np.maximum(mean @ layers["p1"] + first @ layers["d1"], 0)
        third = np.maximum(second @ layers["d2"], 0)
        found: Floats = np.tanh(second @ layers["p3"] + third @ layers["d3"])
        return found / np.linalg.norm(found)


def _normalised(rows: Floats, gain: Floats, shift: Floats, eps: Floats) -> Floats:
    """The rows with mean 0 and variance 1, scaled and shifted."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    found: Floats = centred / np.sqrt(centred.var(axis=1, keepdims=True) + eps) * gain + shift
    return found


class MultilingualEmbedder(Embedder):
    """The default embedder, with vectors of the multilingual encoder for texts that are not English."""

    def __init__(self, base: Embedder, encoder: MultilingualEncoder) -> None:
        self.name, self.dimensions, self.tokens_max = base.name, base.dimensions, base.tokens_max
        self.late, self.form, self.space = base.late, base.form, base.space
        self._base, self._encoder = base, encoder

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        return [self._vectors(text, rows) for text, rows in
                zip(texts, self._base.encode_batch(texts, run_all), strict=True)]  # fmt: skip

    def encode_both(self, texts: Sequence[str], run_all: RunAll = map) -> tuple[list[Floats], list[Codes | None]]:
        found = list(self.encode_each(texts, run_all))
        return [vectors for vectors, _ in found], [codes for _, codes in found]

    def encode_each(self, texts: Sequence[str], run_all: RunAll = map) -> Iterator[tuple[Floats, Codes | None]]:
        for text, (rows, codes) in zip(texts, self._base.encode_each(texts, run_all), strict=True):
            yield self._vectors(text, rows), codes

    def encode_query(self, text: str) -> Floats:
        return self._encoder.encode(text) if is_foreign(text) else self._base.encode_query(text)

    def encode_query_tokens(self, text: str) -> QueryTokens:
        if is_foreign(text):  # by its tokens, every text in its own language would be nearer than the answer
            return QueryTokens(self._encoder.encode(text), np.empty((0, 0), np.float32), (), ())
        return self._base.encode_query_tokens(text)

    def token_starts(self, text: str) -> list[int]:
        return self._base.token_starts(text)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._base.count_tokens(texts)

    def unload_if_idle(self) -> None:
        """Free the encoder's memory where it has not been used for a while."""
        self._encoder.unload_if_idle()

    def close(self) -> None:
        self._base.close()

    def _vectors(self, text: str, rows: Floats) -> Floats:
        """The vectors of a text, of each window by the language that it is in."""
        pieces = self._base.pieces(text) if len(rows) > 1 else [text]
        if not any(map(is_foreign, pieces)):
            return rows
        return np.stack([
            self._encoder.encode(piece) if is_foreign(piece) else row for piece, row in zip(pieces, rows, strict=True)
        ])  # fmt: skip


def prepare(manifest: ModelManifest, files: Path, ready: Path) -> ModelManifest:
    """Make of the package's files those that the encoder reads. Raises UnsupportedModel."""
    try:
        with np.load(files / manifest.weights_file, allow_pickle=False) as stored:
            layers = {name: stored[name] for name in stored.files}
        table = np.empty((len(layers["q1"]) * CHUNKS, layers["q1"].shape[1]), np.uint8)
        for chunk in range(CHUNKS):
            table[chunk::CHUNKS] = layers.pop(f"q{chunk + 1}")
        for name, parts in (("projection", "proj"), ("projection_bias", "proj_b"), ("projection_gain", "ln_g"),
                            ("projection_shift", "ln_b")):  # fmt: skip
            layers[name] = np.concatenate([layers.pop(f"{parts}{order}") for order, _ in ORDERS], axis=-1)
        layers = {name: np.asarray(layer, np.float32) for name, layer in layers.items() if name != "bits"}
        tokenizer = _read_sentencepiece((files / PIECES).read_bytes())
    except (OSError, ValueError, KeyError, struct.error) as error:
        raise UnsupportedModel(f"{files} does not hold {manifest.name}: {error}") from error
    np.save(ready / TABLE, table)
    np.savez(ready / LAYERS, **layers)
    tokenizer.save(str(ready / TOKENIZER))
    return msgspec.structs.replace(manifest, numerics="multilingual 1", weights_file=LAYERS)


def _read_sentencepiece(content: bytes) -> Any:
    """The tokenizer of a SentencePiece model: pieces with their scores, and the table of the normaliser."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers  # loaded once a model is

    pieces: list[tuple[str, float]] = []
    normaliser = b""
    for field, value in _fields(content):
        if field == 1:
            parts = dict(_fields(value))
            pieces.append((parts[1].decode(), *struct.unpack("<f", parts[2])))
        elif field == 3:
            normaliser = dict(_fields(value))[2]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(normaliser), normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " "),
    ])  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    return tokenizer


def _fields(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protocol buffer's message, with their numbers; numbers among them as no bytes."""
    at = 0

    def number() -> int:
        nonlocal at
        found = shift = 0
        while True:
            byte = content[at]
            at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    while at < len(content):
        tag = number()
        kind, value = tag & 7, b""
        if kind == 0:
            number()
        else:
            length = number() if kind == 2 else 4 if kind == 5 else 8
            value, at = content[at : at + length], at + length
        yield tag >> 3, value
