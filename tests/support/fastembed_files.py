"""Models that fastembed runs, in the files of real ones: MiniLM as an export, and one of words alone."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from mnemo_daemon.models.embedders import encoder_graph
from tests.support.cross_encoder_files import SPECIAL, WORDS

HIDDEN = "encoder.layer.5.normed"
STATIC = "minishlab/potion-base-8M"  # the name that a static model goes by
STATIC_DIMENSIONS = 256


def write_export(minilm_source: Path, folder: Path, *, place: str = "model.onnx", pools: bool = False) -> Path:
    """The folder of MiniLM as a person has it from a hub: the graph up to the token vectors, which fastembed pools.
    place: of the graph. pools: the graph gives one vector of a text, that of its first token."""
    model = onnx.load_from_string(encoder_graph.build_graph(encoder_graph.read_encoder(minilm_source)))
    graph = model.graph
    del graph.node[-2:]  # pooling and length
    del graph.output[1:]
    graph.node.insert(0, helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.INT32))
    graph.input[0].CopyFrom(helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"]))
    output, axes = HIDDEN, ["batch", "tokens"]
    if pools:
        graph.initializer.append(helper.make_tensor("first", TensorProto.INT64, [], [0]))
        graph.node.append(helper.make_node("Gather", [HIDDEN, "first"], ["pooled"], axis=1))
        output, axes = "pooled", ["batch"]
    graph.output[0].CopyFrom(helper.make_tensor_value_info(output, TensorProto.FLOAT, [*axes, 384]))
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / place)
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((minilm_source / name).read_bytes())
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 256, "pad_token": "[PAD]"}')
    return folder


def write_static(folder: Path) -> Path:
    """The folder of a static model: each of WORDS points another way; the vector of a text is the mean of its words."""
    folder.mkdir()
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    tokenizer: dict[str, object] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None,
        "decoder": None, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }  # fmt: skip
    rows = np.eye(len(vocabulary), STATIC_DIMENSIONS, dtype="<f4").tobytes()
    shape = {"dtype": "F32", "shape": [len(vocabulary), STATIC_DIMENSIONS], "data_offsets": [0, len(rows)]}
    header = json.dumps({"embeddings": shape}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + rows)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder
