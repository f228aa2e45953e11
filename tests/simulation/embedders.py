"""Embedding models that compute in no time, and that are slow, wrong or gone on demand."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.errors import MissingModelError
from mnemo_daemon.models.catalogue import (
    DEFAULT_EMBEDDING,
    MANIFEST_FORMAT,
    ModelCatalogue,
    ModelListing,
    ModelManifest,
)
from mnemo_daemon.models.embedders.embedder import Embedder, RunAll, name_space
from mnemo_daemon.models.embedders.embedding import EmbeddingService

OTHER = "other-model"
DIMENSIONS = {DEFAULT_EMBEDDING: 16, OTHER: 24}
WINDOW_WORDS = 60  # of which a longer text has several

Floats = NDArray[np.float32]


class SimulatedCatalogue(ModelCatalogue):
    """Models are there when they are said to be."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))
        self.there: set[str] = set()

    def installed(self, name: str) -> ModelManifest | None:
        if name not in self.there:
            return None
        return ModelManifest(
            format=MANIFEST_FORMAT, name=name, role="embedding", form="int8", numerics="1", weights_sha256="",
            verified=True, source="", weights_file="", files_folder="", files={}, dimensions=DIMENSIONS[name],
        )  # fmt: skip

    def listing(self) -> list[ModelListing]:
        return [
            ModelListing(
                name=name, role="embedding", state="installed", bytes=1, licence="", summary="", sha256="", sources=()
            )
            for name in sorted(self.there)
        ]


class ModelFaults:
    """The number of times, from now on, that a model raises, or gives what is no number."""

    def __init__(self) -> None:
        self.raises = 0
        self.gives_nan = 0
        self.is_slow = False  # nothing of the background work gets done

    def is_well(self) -> bool:
        return not (self.raises or self.gives_nan or self.is_slow)

    def heal(self) -> None:
        self.raises, self.gives_nan, self.is_slow = 0, 0, False

    def upset(self, vectors: Floats) -> Floats:
        if self.raises:
            self.raises -= 1
            raise RuntimeError("the model ran out of memory")
        if self.gives_nan:
            self.gives_nan -= 1
            return np.full_like(vectors, np.nan)
        return vectors


class SimulatedEmbedder(Embedder):
    """Texts that share words have vectors that are near."""

    tokens_max = 256

    def __init__(self, manifest: ModelManifest, faults: ModelFaults) -> None:
        self.name, self.dimensions, self.space = manifest.name, manifest.dimensions, name_space(manifest)
        self._mood = faults

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        del run_all
        return [self._mood.upset(self._windows(text)) for text in texts]

    def encode_query(self, text: str) -> Floats:
        vector: Floats = self._mood.upset(self._windows(text))[0].copy()
        return vector

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def close(self) -> None:
        """There is nothing to free."""

    def _windows(self, text: str) -> Floats:
        words = text.split() or [""]
        parts = [words[start : start + WINDOW_WORDS] for start in range(0, len(words), WINDOW_WORDS)]
        return np.stack([self._vector(part) for part in parts])

    def _vector(self, words: Sequence[str]) -> Floats:
        total = np.zeros(self.dimensions, np.float32)
        for word in words:
            digest = hashlib.blake2b(f"{self.name} {word}".encode(), digest_size=self.dimensions).digest()
            total += np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5
        vector: Floats = total / np.float32(np.linalg.norm(total))
        return vector


class SimulatedModels(EmbeddingService):
    """The real service, with other files behind it."""

    def __init__(self, catalogue: SimulatedCatalogue, faults: ModelFaults) -> None:
        super().__init__(catalogue, threads=1)
        self._installed = catalogue
        self._mood = faults

    def _open(self, name: str) -> Embedder:
        manifest = self._installed.installed(name)
        if manifest is None:
            raise MissingModelError(f"{name} is not installed")
        current = self.current()
        return current if current is not None and current.name == name else SimulatedEmbedder(manifest, self._mood)
