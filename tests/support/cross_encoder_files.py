"""A cross-encoder whose scores can be worked out by hand, in the files of a real one: ONNX graph, tokenizer, JSON.

It counts the words that question and text have in common, each pair of equal tokens once: the logit is 2 for each, less
3. A word that is not in WORDS is unknown, and no other's equal. It reads 16 tokens of a pair at most.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WORDS = ("red", "blue", "house", "boat", "harbour", "key", "garden", "lies", "in", "the", "a", "is")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
TOKENS_MAX = 16


def score_of(common: int) -> float:
    """Of a text that has so many pairs of equal words with the question."""
    return 1 / (1 + math.exp(-(2 * common - 3)))


def write_cross_encoder(folder: Path, *, output: str = "logits", poison: str = "") -> Path:
    """The folder, as a person has it from a hub. output: `none` for a graph that gives no logit of a pair. poison: a
    word of a text that makes the logit no number."""
    (folder / "onnx").mkdir(parents=True)
    onnx.save(_graph(output, (*SPECIAL, *WORDS).index(poison) if poison else -1), folder / "onnx" / "model.onnx")
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *WORDS))}
    template = {
        "type": "TemplateProcessing",
        "single": [_special("[CLS]", 0), _text("A", 0), _special("[SEP]", 0)],
        "pair": [_special("[CLS]", 0), _text("A", 0), _special("[SEP]", 0), _text("B", 1), _special("[SEP]", 1)],
        "special_tokens": {
            name: {"id": name, "ids": [SPECIAL.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")
        },
    }
    tokenizer: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": template,
        "decoder": None, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }  # fmt: skip
    config = {"architectures": ["BertForSequenceClassification"], "model_type": "bert", "hidden_size": 8}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": TOKENS_MAX, "pad_token": "[PAD]"}))
    return folder


def _special(name: str, part: int) -> dict[str, object]:
    return {"SpecialToken": {"id": name, "type_id": part}}


def _text(name: str, part: int) -> dict[str, object]:
    return {"Sequence": {"id": name, "type_id": part}}


def _graph(output: str, poison: int) -> onnx.ModelProto:
    """Equal words are counted in a table of all tokens against all: rows of the question, columns of the text."""
    constants: dict[str, NDArray[Any]] = {
        "last_special": np.array(SPECIAL.index("[SEP]"), np.int64), "one": np.array(1, np.int64),
        "across": np.array([1], np.int64), "down": np.array([2], np.int64), "both": np.array([1, 2], np.int64),
        "two": np.array(2.0, np.float32), "three": np.array(3.0, np.float32),
        "poison": np.array(poison, np.int64), "nan": np.array(math.nan, np.float32), "zero": np.array(0.0, np.float32),
        "tokens": np.array([1], np.int64),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Greater", ["input_ids", "last_special"], ["is_word"]),
        node("Equal", ["token_type_ids", "one"], ["is_second"]),
        node("Equal", ["attention_mask", "one"], ["is_there"]),
        node("And", ["is_word", "is_there"], ["counts"]),
        node("Not", ["is_second"], ["is_first"]),
        node("And", ["counts", "is_first"], ["of_question"]),
        node("And", ["counts", "is_second"], ["of_text"]),
        node("Unsqueeze", ["input_ids", "down"], ["rows"]),
        node("Unsqueeze", ["input_ids", "across"], ["columns"]),
        node("Equal", ["rows", "columns"], ["is_equal"]),
        node("Unsqueeze", ["of_question", "down"], ["question_rows"]),
        node("Unsqueeze", ["of_text", "across"], ["text_columns"]),
        node("And", ["question_rows", "text_columns"], ["is_pair"]),
        node("And", ["is_equal", "is_pair"], ["is_common"]),
        node("Cast", ["is_common"], ["common"], to=TensorProto.FLOAT),
        node("ReduceSum", ["common", "both"], ["count"], keepdims=0),
        node("Mul", ["count", "two"], ["doubled"]),
        node("Sub", ["doubled", "three"], ["logit"]),
        node("Equal", ["input_ids", "poison"], ["is_poison"]),
        node("Where", ["is_poison", "nan", "zero"], ["poisoned"]),
        node("ReduceSum", ["poisoned", "tokens"], ["spoilt"], keepdims=0),
        node("Add", ["logit", "spoilt"], ["none"]),
        node("Unsqueeze", ["none", "tokens"], ["logits"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "overlap", inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
