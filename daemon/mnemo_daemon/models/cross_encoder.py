"""Models that read a question and a text together: the cross-encoder of the ranker `rerank`, and the reader of answers.
SPEC 7.3, 11 [L21]

They are loaded when they are first needed, and unloaded when they have not been used for a while. Nothing leaves this
machine, and none of the texts is stored.
"""

import io
import logging
import threading
import time
from collections.abc import Callable, Sequence
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.errors import DamagedModelError, ModelError, UnsupportedModel
from mnemo_daemon.models.catalogue import PROBE_TEXT, ROLES, ModelCatalogue, ModelManifest, find_known, verify
from mnemo_daemon.models.embedders import encoder_graph, fastembed_models
from mnemo_daemon.models.embedders.token_rows import PROJECTIONS
from mnemo_daemon.settings import DEFAULT_RERANKER

IDLE_SECONDS = 600.0  # as the language model's: it is as large as the embedding model, and few ask for it
LOGIT_MAX = 15.0  # what is farther from 0 counts as this, so that no score is 0, which would be no answer
QUESTION_TOKENS = 40  # of a question that the reader of answers reads
PAIR_TOKENS = 96  # of a question and a text
READER = "all-MiniLM-L6-v2.answers.npz"  # fitted to the weights of that model by tests/bench/fit_answer_reader.py

Floats = NDArray[np.float32]

log = logging.getLogger("mnemo.reranking")


class CrossEncoder:
    """A loaded model, from a local folder. Safe to use from several threads."""

    def __init__(self, manifest: ModelManifest) -> None:
        """Damaged when the files are not what was installed, or cannot be used; Unsupported of another model."""
        if manifest.role != "reranker":
            raise UnsupportedModel(f"{manifest.name} is {ROLES[manifest.role]}, not {ROLES['reranker']}")
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
        return _chances(self.manifest, found)


class AnswerReader(CrossEncoder):
    """The default embedding model with other weights, by which it reads a question and a text together: the score of a
    text is the chance that it answers. In float32 on every machine."""

    def __init__(self, manifest: ModelManifest) -> None:
        """Damaged when the files are not what was installed, or cannot be used; Unsupported of another model."""
        exact = manifest.exact()
        if manifest.weights_sha256 not in PROJECTIONS or exact is None:
            raise UnsupportedModel(f"the reader of answers is not fitted to the weights of {manifest.name}")
        verify(exact)
        self.manifest = manifest
        with encoder_graph.foreign_errors(DamagedModelError, f"{manifest.name} cannot be loaded"):
            weights = np.load(io.BytesIO((resources.files("mnemo_daemon") / "projections" / READER).read_bytes()))
            changes = {name: weights[name].astype(np.float32) for name in weights.files}
            self._head, self._bias = changes.pop("head"), float(changes.pop("bias"))
            self._tokenizer = encoder_graph.open_tokenizer(manifest.path("tokenizer.json"))
            self._session, self._hidden = encoder_graph.open_with_tokens(
                encoder_graph.adapt_graph(exact.path(), changes)
            )

    def scores(self, query: str, texts: Sequence[str]) -> Floats:
        asked, found = self._tokenizer.encode(query).ids[:QUESTION_TOKENS], []
        with encoder_graph.foreign_errors(DamagedModelError, f"{self.manifest.name} cannot be used"):
            for text in texts:
                ids = [*asked, *self._tokenizer.encode(text).ids[1:]][:PAIR_TOKENS]
                ((hidden,),) = self._session.run([self._hidden], {"ids": np.array([ids], np.int32)})
                found.append(self._bias + float(self._head @ np.concatenate([hidden[0], hidden.mean(axis=0)])))
        return _chances(self.manifest, found)


def _chances(manifest: ModelManifest, found: Sequence[float]) -> Floats:
    logits = np.array(found, np.float64).clip(-LOGIT_MAX, LOGIT_MAX)
    if np.isnan(logits).any():
        raise DamagedModelError(f"{manifest.name} gives what is no number")
    chances: Floats = (1 / (1 + np.exp(-logits))).astype(np.float32)
    return chances


class CrossEncoderService:
    """Keeps the model of that name loaded while it is in use. Safe to use from any thread."""

    def __init__(
        self, catalogue: ModelCatalogue, name: str = DEFAULT_RERANKER, now: Callable[[], float] = time.monotonic,
        load: Callable[[ModelManifest], CrossEncoder] = CrossEncoder,
    ) -> None:  # fmt: skip
        """Loads nothing yet. name: empty for none. now: seconds."""
        known = find_known(name)
        self.name = known.name if known else name
        self.failure = ""  # why the installed model is not used; empty where there is none, or it works
        self._catalogue = catalogue
        self._now = now
        self._lock = threading.Lock()
        self._load = load
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
                    self._encoder, self.failure = self._load(manifest), ""
            except ModelError as error:
                log.warning("%s cannot read texts with a question: %s", self.name, error)
                self._encoder, self._refused, self.failure = None, manifest, str(error)
            return self._encoder

    def scores(self, encoder: CrossEncoder, query: str, texts: Sequence[str]) -> Floats | None:
        """The score of each text, above 0 and below 1: the sigmoid of what the model gives. Damaged when it fails."""
        try:
            scores = encoder.scores(query, texts)
        except DamagedModelError as error:
            log.warning("%s cannot read texts with a question: %s", self.name, error)
            self.failure = str(error)
            return None
        self.failure = ""
        return scores

    def unload_if_idle(self) -> None:
        """Frees the model's memory after IDLE_SECONDS without use; the next use waits for it to load."""
        with self._lock:
            if self._encoder is not None and self._now() - self._used_at >= IDLE_SECONDS:
                self._encoder = None
