"""Models for llama.cpp that tests write themselves, in the GGUF format, version 3: random ones, and BERT encoders."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Value = bool | int | float | str | Sequence[int] | Sequence[float] | Sequence[str]  # of the metadata
Weights = Mapping[str, NDArray[Any]]  # float32 or float16, each (out, in)

MAGIC, VERSION = b"GGUF", 3
ALIGNMENT = 32  # of each tensor's data
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
TENSOR_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float16): 1}
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # kinds of tokens
SPACE = "\u2581"  # how a sentencepiece vocabulary writes a space, and llama.cpp the beginning of a word
HEADS = 2
WIDTH = 32
POOLINGS = {"none": 0, "mean": 1, "cls": 2, "last": 3}


def write_gguf(path: Path, metadata: Mapping[str, Value], weights: Weights) -> Path:
    """Write a GGUF file and return its path."""
    head = [MAGIC, struct.pack("<IQQ", VERSION, len(weights), len(metadata))]
    head += [_string(key) + _typed(value) for key, value in metadata.items()]
    place = 0
    for name, values in weights.items():
        shape = values.shape[::-1]  # the innermost dimension first
        head.append(_string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        head.append(struct.pack("<IQ", TENSOR_TYPES[values.dtype], place))
        place += _aligned(values.nbytes)
    with path.open("wb") as file:
        file.write(b"".join(head))
        for values in weights.values():
            file.write(bytes(_aligned(file.tell()) - file.tell()))
            file.write(np.ascontiguousarray(values).tobytes())
        file.write(bytes(_aligned(file.tell()) - file.tell()))
    return path


def write_llama(
    path: Path, vocabulary: Sequence[str] = (), *, chat_template: str = "", context: int = 4096, layers: int = 1,
    seed: int = 0,
) -> Path:  # fmt: skip
    """Write a language model with random weights: it writes any token after any text, those of the vocabulary, each
    ASCII character, and each byte; return its path."""
    own = dict.fromkeys([SPACE, *(chr(code) for code in range(33, 127)), *(w.replace(" ", SPACE) for w in vocabulary)])
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{code:02X}>" for code in range(256)), *own]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(own)]
    metadata: dict[str, Value] = {
        "general.architecture": "llama",
        "llama.vocab_size": len(tokens),
        "llama.context_length": context,
        "llama.embedding_length": WIDTH,
        "llama.block_count": layers,
        "llama.feed_forward_length": 2 * WIDTH,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_space_prefix": False,
    }
    if chat_template:
        metadata["tokenizer.chat_template"] = chat_template
    chance = np.random.default_rng(seed)
    weights = {"token_embd.weight": _random(chance, len(tokens), WIDTH), "output_norm.weight": _ones(WIDTH)}
    weights["output.weight"] = _random(chance, len(tokens), WIDTH)
    for layer in range(layers):
        block = f"blk.{layer}"
        weights |= {f"{block}.{name}.weight": _ones(WIDTH) for name in ("attn_norm", "ffn_norm")}
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights[f"{block}.{name}.weight"] = _random(chance, WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            weights[f"{block}.{name}.weight"] = _random(chance, 2 * WIDTH, WIDTH)
        weights[f"{block}.ffn_down.weight"] = _random(chance, WIDTH, 2 * WIDTH)
    return write_gguf(path, metadata, weights)


BERT_NAMES = {  # in a BERT's safetensors, of a layer → in a GGUF file
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def write_bert(
    path: Path, vocabulary: Sequence[str], weights: Weights, *, heads: int, tokens_max: int, pooling: str = "mean"
) -> Path:
    """Write a BERT encoder, whose weights have the names of its safetensors, and return its path.

    The vocabulary is WordPiece's, with `##` before what continues a word.
    """
    layers = len([name for name in weights if name.endswith(".attention.self.query.weight")])
    width = weights["embeddings.word_embeddings.weight"].shape[1]
    inner = weights["encoder.layer.0.intermediate.dense.weight"].shape[0]
    metadata: dict[str, Value] = {
        "general.architecture": "bert",
        "bert.context_length": tokens_max,
        "bert.embedding_length": width,
        "bert.block_count": layers,
        "bert.feed_forward_length": inner,
        "bert.attention.head_count": heads,
        "bert.attention.layer_norm_epsilon": 1e-12,
        "bert.attention.causal": False,
        "bert.pooling_type": POOLINGS[pooling],
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": [_wordpiece(token) for token in vocabulary],
        "tokenizer.ggml.token_type": [CONTROL if token[:1] == "[" and token[1:] else NORMAL for token in vocabulary],
        "tokenizer.ggml.token_type_count": 2,
        "tokenizer.ggml.unknown_token_id": vocabulary.index("[UNK]"),
        "tokenizer.ggml.padding_token_id": vocabulary.index("[PAD]"),
        "tokenizer.ggml.bos_token_id": vocabulary.index("[CLS]"),
        "tokenizer.ggml.cls_token_id": vocabulary.index("[CLS]"),
        "tokenizer.ggml.seperator_token_id": vocabulary.index("[SEP]"),  # the format's own spelling
    }
    named = {
        "token_embd.weight": weights["embeddings.word_embeddings.weight"],
        "token_types.weight": weights["embeddings.token_type_embeddings.weight"],
        "position_embd.weight": weights["embeddings.position_embeddings.weight"][:tokens_max],
        "token_embd_norm.weight": weights["embeddings.LayerNorm.weight"],
        "token_embd_norm.bias": weights["embeddings.LayerNorm.bias"],
    }
    for layer in range(layers):
        for name, own in BERT_NAMES.items():
            for part in ("weight", "bias"):
                named[f"blk.{layer}.{own}.{part}"] = weights[f"encoder.layer.{layer}.{name}.{part}"]
    return write_gguf(path, metadata, {name: np.asarray(each, np.float32) for name, each in named.items()})


def random_bert(words: int, *, layers: int = 1, tokens_max: int = 64, seed: int = 0) -> Weights:
    """Random weights of a BERT encoder for a vocabulary of that many words, for `write_bert` with HEADS heads."""
    chance = np.random.default_rng(seed)
    weights = {
        "embeddings.word_embeddings.weight": _random(chance, words, WIDTH),
        "embeddings.token_type_embeddings.weight": _random(chance, 2, WIDTH),
        "embeddings.position_embeddings.weight": _random(chance, tokens_max, WIDTH),
        "embeddings.LayerNorm.weight": _ones(WIDTH),
        "embeddings.LayerNorm.bias": np.zeros(WIDTH, np.float32),
    }
    for layer in range(layers):
        for name in BERT_NAMES:
            out, inner = {"intermediate.dense": (2, 1), "output.dense": (1, 2)}.get(name, (1, 1))
            is_norm = name.endswith("LayerNorm")
            weights[f"encoder.layer.{layer}.{name}.weight"] = (
                _ones(WIDTH) if is_norm else _random(chance, out * WIDTH, inner * WIDTH)
            )
            weights[f"encoder.layer.{layer}.{name}.bias"] = np.zeros(out * WIDTH, np.float32)
    return weights


def _wordpiece(token: str) -> str:
    """The token as a GGUF file has it: marked where it begins a word, not where it continues one."""
    if token[:1] == "[" and token[1:]:
        return token
    return token.removeprefix("##") if token.startswith("##") else SPACE + token


def _random(chance: np.random.Generator, out: int, inner: int) -> NDArray[np.float32]:
    return chance.normal(0.0, inner**-0.5, (out, inner)).astype(np.float32)


def _ones(width: int) -> NDArray[np.float32]:
    return np.ones(width, np.float32)


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _typed(value: Value) -> bytes:
    kind = _kind(value)
    if kind != ARRAY:
        return struct.pack("<I", kind) + _plain(kind, value)
    assert not isinstance(value, bool | int | float | str)
    kind = _kind(value[0])
    inner = INT32 if kind == UINT32 else kind  # which is what llama.cpp reads token types as
    return struct.pack("<IIQ", ARRAY, inner, len(value)) + b"".join(_plain(inner, each) for each in value)


def _kind(value: Value) -> int:
    match value:
        case bool():
            return BOOL
        case int():
            return UINT32
        case float():
            return FLOAT32
        case str():
            return STRING
        case _:
            return ARRAY


def _plain(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _string(value)
    return struct.pack({BOOL: "<?", FLOAT32: "<f"}.get(kind, "<I"), value)
