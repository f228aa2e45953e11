"""Models that come as a finished ONNX file with its tokenizer, in the layout of exports and of fastembed.

The folder holds the graph, `tokenizer.json`, `tokenizer_config.json` and `config.json`. The graph takes `input_ids`
and, where it wants them, `attention_mask` and `token_type_ids`. One text or pair is run at a time: nothing is padded,
and a model with dynamic int8 inside gives no text a vector that depends on its company (SPEC 2.3).
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mnemo_daemon.models.catalogue import ModelManifest
from mnemo_daemon.models.embedders import encoder_graph

POOLED_BY_FIRST_TOKEN = {
    "BAAI/bge-base-en": "model_optimized.onnx",
    "BAAI/bge-base-en-v1.5": "model_optimized.onnx",
    "BAAI/bge-large-en-v1.5": "model.onnx",
    "BAAI/bge-small-en": "model_optimized.onnx",
    "BAAI/bge-small-en-v1.5": "model_optimized.onnx",
    "BAAI/bge-small-zh-v1.5": "model_optimized.onnx",
    "Qdrant/constella-zero": "model.onnx",
    "Qdrant/stella-en-400M-v5-doc-onnx": "model.onnx",
}
"""Models whose export does not say how they pool, with the file of that export. Source: fastembed 0.9.1, which knows
them by these names. A store whose vectors were made by fastembed keeps its vectors."""

Floats = NDArray[np.float32]


class TokenizerConfig(msgspec.Struct):
    """The file tokenizer_config.json, as far as it matters here."""

    model_max_length: float = 512.0  # some exports write 1e30 for "no limit"
    truncation_side: str = "right"


class OnnxModel:
    """A loaded graph with its tokenizer. Safe to use from several threads."""

    def __init__(self, manifest: ModelManifest) -> None:
        """Raises whatever the libraries raise where the files are no such model."""
        path = manifest.path("tokenizer_config.json")
        config = msgspec.json.decode(path.read_bytes(), type=TokenizerConfig)
        self._tokenizer = encoder_graph.open_tokenizer(manifest.path("tokenizer.json"))
        longest = int(min(config.model_max_length, 1 << 20))
        self._tokenizer.enable_truncation(longest, direction=config.truncation_side)
        self._session = encoder_graph.open_session(manifest.path(), is_foreign=True)
        self._inputs = {each.name for each in self._session.get_inputs()}
        known = POOLED_BY_FIRST_TOKEN.get(manifest.name) == manifest.weights_file
        self._takes_first = known or manifest.pooling == "cls"

    def embed(self, text: str) -> Floats:
        """The unit vector of a text: that of the first token, or the mean of all, or what the graph itself pools."""
        (found,) = self._run(self._tokenizer.encode(text))
        if found.ndim == 2:
            found = found[0] if self._takes_first else found.mean(axis=0, dtype=np.float64)
        vector = found.astype(np.float32).reshape(-1)
        unit: Floats = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return unit

    def score(self, query: str, text: str) -> float:
        """The graph's score of a pair: its first number."""
        (found,) = self._run(self._tokenizer.encode(query, text))
        return float(found[0])

    def _run(self, encoded: Any) -> NDArray[np.float32]:
        """The graph's first output for one text or pair, a batch of one."""
        given = {
            "input_ids": encoded.ids, "attention_mask": encoded.attention_mask, "token_type_ids": encoded.type_ids
        }  # fmt: skip
        wanted = self._inputs & given.keys() | {"input_ids"}
        return self._session.run(None, {name: np.array([given[name]], np.int64) for name in wanted})[0]
