"""Models that fastembed runs: those of its list, and other ONNX files with their tokenizer in the same layout.

fastembed is imported when the first of them is loaded: that takes a second, and the default model does without. It is
given a local folder and no name to look up (adr/0008-privacy.md). The caller has one text or pair run at a time:
nothing is padded, and a model with dynamic int8 inside gives no text a vector that depends on its company (SPEC 2.3).
"""

import importlib
import socket
import threading
from typing import Any

from mnemo_daemon.models.catalogue import ModelManifest

OF_SESSION: dict[str, Any] = {"threads": 1, "providers": ["CPUExecutionProvider"], "enable_cpu_mem_arena": False}
"""As those of encoder_graph: each run uses the calling thread alone, and keeps no memory. A model without a graph takes
none of them."""

_LOCK = threading.Lock()  # of the import, and of fastembed's table of models


def open_embedding(manifest: ModelManifest) -> Any:
    """A `fastembed.TextEmbedding` of the installed model. Raises whatever the libraries raise where it is none."""
    fastembed = _import("fastembed")
    pooling = "cls" if manifest.pooling == "cls" else "mean"
    model = _open(fastembed.TextEmbedding, manifest, pooling)
    session = getattr(model.model, "model", None)
    is_pooled = session is not None and len(session.get_outputs()[0].shape) == 2
    if is_pooled and type(model.model).__name__.startswith("Custom"):  # by the graph itself
        model = _open(fastembed.TextEmbedding, manifest, "disabled")
    return model


def open_cross_encoder(manifest: ModelManifest) -> Any:
    """A `fastembed.rerank.cross_encoder.TextCrossEncoder` of the installed model; raises as `open_embedding` does."""
    return _open(_import("fastembed.rerank.cross_encoder").TextCrossEncoder, manifest)


def _open(kind: Any, manifest: ModelManifest, pooling: str = "") -> Any:
    """The model, as fastembed knows it by its name; one that it does not know, or with another file, is added first."""
    descriptions = _import("fastembed.common.model_description")
    with _LOCK:
        listed = {each["model"].lower(): each["model_file"] for each in kind.list_supported_models()}
        name = manifest.name
        if listed.get(name.lower()) != manifest.weights_file:
            name = f"mnemo/{manifest.files_folder}-{pooling}"
            if name not in listed:
                about: dict[str, Any] = {"model": name, "model_file": manifest.weights_file}
                about["sources"] = descriptions.ModelSource(hf=name)  # has to be named; nobody asks it
                if pooling:
                    about |= {"pooling": descriptions.PoolingType(pooling.upper()), "normalization": True}
                    about["dim"] = manifest.dimensions
                kind.add_custom_model(**about)
    options = OF_SESSION if manifest.weights_file.endswith(".onnx") else {}
    folder = str(manifest.path("tokenizer.json").parent)
    return kind(name, cache_dir=manifest.folder, specific_model_path=folder, local_files_only=True, **options)


def _import(name: str) -> Any:
    """A module of fastembed. When it is imported, urllib3 opens an IPv6 socket, unless Python says that it has none."""
    with _LOCK:
        has_ipv6, socket.has_ipv6 = socket.has_ipv6, False
        try:
            # Errors alone, as encoder_graph has it.
            importlib.import_module("onnxruntime").set_default_logger_severity(3)
            return importlib.import_module(name)
        finally:
            socket.has_ipv6 = has_ipv6
