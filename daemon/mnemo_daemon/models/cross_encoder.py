"""The cross-encoder of the ranker `rerank`: a model that reads a question and a text together. SPEC 7.3 [L21]

It is loaded when it is first needed, and unloaded when it has not been used for a while. Nothing leaves this machine,
and none of the texts is stored.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.errors import DamagedModelError, ModelError, UnsupportedModel
from mnemo_daemon.models.catalogue import PROBE_TEXT, ROLES, ModelCatalogue, ModelManifest, find_known, verify
from mnemo_daemon.models.embedders import encoder_graph, fastembed_models
from mnemo_daemon.settings import DEFAULT_RERANKER

IDLE_SECONDS = 600.0  # as the language model's: it is as large as the embedding model, and few ask for it
LOGIT_MAX = 15.0  # what is farther from 0 counts as this, so that no score is 0, which would be no answer

Floats = NDArray[np.float32]

log = logging.getLogger("mnemo.reranking")


class CrossEncoder:
    """A loaded model, from a local folder. Safe to use from several threads."""

    def __init__(self, manifest: ModelManifest) -> None:
        """Damaged when the files are not what was installed, or cannot be used."""
        verify(manifest)
        self.manifest = manifest
        with encoder_graph.foreign_errors(DamagedModelError, f"{manifest.name} cannot be loaded"):
            self._model = fastembed_models.open_cross_encoder(manifest)
        self.scores(PROBE_TEXT, [PROBE_TEXT])

    def scores(self, query: str, texts: Sequence[str]) -> Floats:
        """The score of each text, above 0 and below 1: the sigmoid of what the model gives. Damaged when it fails. One
        pair a run: no text's score may depend on its company. What is longer than the model reads is cut."""
        with encoder_graph.foreign_errors(DamagedModelError, f"{self.manifest.name} cannot be used"):
            found = [score for text in texts for score in self._model.rerank(query, [text])]
        logits = np.array(found, np.float64).clip(-LOGIT_MAX, LOGIT_MAX)
        if np.isnan(logits).any():
            raise DamagedModelError(f"{self.manifest.name} gives what is no number")
        scores: Floats = (1 / (1 + np.exp(-logits))).astype(np.float32)
        return scores


class CrossEncoderService:
    """Keeps the model of that name loaded while it is in use. Safe to use from any thread."""

    def __init__(
        self, catalogue: ModelCatalogue, name: str = DEFAULT_RERANKER, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Loads nothing yet. name: empty for none. now: seconds."""
        known = find_known(name)
        self.name = known.name if known else name
        self.failure = ""  # why the installed model is not used; empty where there is none, or it works
        self._catalogue = catalogue
        self._now = now
        self._lock = threading.Lock()
        self._encoder: CrossEncoder | None = None
        self._refused: ModelManifest | None = None  # is not tried again before another is installed
        self._used_at = 0.0

    def encoder(self) -> CrossEncoder | None:
        """The model, loaded by now; None where it is not installed, or out of order."""
        with self._lock:
            self._used_at = self._now()
            manifest: ModelManifest | None = None
            try:
                manifest = self._catalogue.installed(self.name) if self.name else None
                if manifest is None:
                    self._encoder, self._refused, self.failure = None, None, ""
                elif manifest != self._refused and (self._encoder is None or self._encoder.manifest != manifest):
                    if manifest.role != "reranker":
                        raise UnsupportedModel(f"{manifest.name} is {ROLES[manifest.role]}, not {ROLES['reranker']}")
                    self._encoder, self.failure = CrossEncoder(manifest), ""
            except ModelError as error:
                log.warning("texts are not reranked by the cross-encoder: %s", error)
                self._encoder, self._refused, self.failure = None, manifest, str(error)
            return self._encoder

    def scores(self, encoder: CrossEncoder, query: str, texts: Sequence[str]) -> Floats | None:
        """The score of each text, above 0 and below 1: the sigmoid of what the model gives. Damaged when it fails."""
        try:
            scores = encoder.scores(query, texts)
        except DamagedModelError as error:
            log.warning("texts are not reranked by the cross-encoder: %s", error)
            self.failure = str(error)
            return None
        self.failure = ""
        return scores

    def unload_if_idle(self) -> None:
        """Frees the model's memory after IDLE_SECONDS without use; the next use waits for it to load."""
        with self._lock:
            if self._encoder is not None and self._now() - self._used_at >= IDLE_SECONDS:
                self._encoder = None
