"""The graph that is built computes what the weights say: compared with a forward pass written in numpy from the paper
(Devlin et al. 2018), which shares nothing with it."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, find_known
from mnemo_daemon.models.embedders import encoder_graph
from tests.integration.conftest import write_safetensors

Floats = NDArray[np.float64]
EVERYDAY = (
    "Maria prefers oat milk in her coffee and never takes sugar.",
    "Die Sicherung läuft jede Nacht um halb drei und wird zwei Wochen aufgehoben.",
    "我们决定把数据库迁移到法兰克福",
    "for name in sorted(names):\n    print(f'{name}: {len(names[name])}')",
    "| host | port |\n|---|---|\n| db1 | 5432 |",
    "ok",
)


def forward(encoder: encoder_graph.Encoder, ids: list[int], pooling: str = "mean") -> Floats:
    """The sentence vector in float64, by the definition."""
    w = {name: weight.astype(np.float64) for name, weight in encoder.weights.items()}
    heads, epsilon = encoder.shape.heads, encoder.shape.epsilon

    def linear(x: Floats, name: str) -> Floats:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: Floats, name: str) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
        scaled: Floats = centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]
        return scaled

    def split(x: Floats) -> Floats:
        return x.reshape(len(ids), heads, -1).transpose(1, 0, 2)

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(encoder.shape.layers):
        name = f"encoder.layer.{layer}"
        query, key, value = (split(linear(x, f"{name}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        context = (weights @ value).transpose(1, 0, 2).reshape(len(ids), -1)
        attended = norm(x + linear(context, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        inner = linear(attended, f"{name}.intermediate.dense")
        inner *= 0.5 * (1 + np.vectorize(math.erf)(inner / math.sqrt(2)))
        x = norm(attended + linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    vector: Floats = x.mean(axis=0) if pooling == "mean" else x[0]
    return vector / np.linalg.norm(vector)


def run(graph: bytes, ids: list[int]) -> NDArray[np.float32]:
    (vectors,) = encoder_graph.open_session(graph).run([encoder_graph.VECTORS], {"ids": np.array([ids], np.int32)})
    assert vectors.shape[0] == 1
    return vectors.reshape(vectors.shape[1])  # two axes, or it raises


@pytest.fixture(scope="module")
def encoder(minilm_source: Path) -> encoder_graph.Encoder:
    return encoder_graph.read_encoder(minilm_source)


def test_the_golden_numbers_of_the_catalogue_are_what_the_weights_say(
    encoder: encoder_graph.Encoder, minilm_source: Path
) -> None:
    model = find_known(DEFAULT_EMBEDDING)
    assert model is not None
    tokenizer = encoder_graph.open_tokenizer(minilm_source / "tokenizer.json")
    for golden in model.golden:
        true = forward(encoder, tokenizer.encode(golden.text).ids)
        assert np.abs(true[: len(golden.numbers)] - golden.numbers).max() < 1e-5


def test_float32_is_the_definition_and_int8_is_close_to_it(encoder: encoder_graph.Encoder, minilm_source: Path) -> None:
    tokenizer = encoder_graph.open_tokenizer(minilm_source / "tokenizer.json")
    prepared = encoder_graph.prepare(encoder, minilm_source / "tokenizer.json", EVERYDAY)
    exact = encoder_graph.open_session(encoder_graph.build_graph(encoder))
    quick = encoder_graph.open_session(prepared.graph)
    processor = Path("/proc/cpuinfo")
    if processor.exists() and "vnni" in processor.read_text():  # others may overflow, and then get float32
        assert prepared.form == "int8"
    for text, reported in zip(EVERYDAY, prepared.vectors, strict=True):
        ids = tokenizer.encode(text).ids
        true = forward(encoder, ids)
        (vector,) = exact.run([encoder_graph.VECTORS], {"ids": np.array([ids], np.int32)})[0]
        assert np.abs(vector - true).max() < 1e-5
        assert np.array_equal(vector, reported)
        assert quick.run([encoder_graph.VECTORS], {"ids": np.array([ids], np.int32)})[0][0] @ true > 0.98


def test_the_scales_come_out_the_same_every_time(tiny_source: Path) -> None:
    encoder = encoder_graph.read_encoder(tiny_source)
    texts = [[2, *range(4, 20), 3], [2, 3]]
    first, second = (encoder_graph.digest_scales(encoder_graph.measure_scales(encoder, texts)) for _ in range(2))
    assert first == second != encoder_graph.digest_scales(encoder_graph.measure_scales(encoder, texts[1:]))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_both_kinds_of_pooling_follow_the_definition(tiny_source: Path, pooling: str) -> None:
    if pooling == "cls":
        (tiny_source / "1_Pooling").mkdir()
        (tiny_source / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    encoder = encoder_graph.read_encoder(tiny_source)
    ids = [2, 4, 9, 9, 25, 3]
    assert np.abs(run(encoder_graph.build_graph(encoder), ids) - forward(encoder, ids, pooling)).max() < 1e-5


def test_a_processor_whose_int8_is_off_gets_float32(tiny_source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_graph, "INT8_COSINE_MIN", 1.1)  # no processor is that good
    prepared = encoder_graph.prepare(encoder_graph.read_encoder(tiny_source), tiny_source / "tokenizer.json", ["a b"])
    assert (prepared.form, prepared.numerics) == ("float32", "float32-1.")
    assert np.array_equal(run(prepared.graph, [2, 4, 5, 3]), prepared.vectors[0])


def test_the_tokenizer_neither_cuts_off_nor_pads(tiny_source: Path, minilm_source: Path) -> None:
    tiny = encoder_graph.open_tokenizer(tiny_source / "tokenizer.json")  # its file says: at most 8 tokens
    assert tiny.encode("a b c d e f g h i j").ids == [2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 3]
    # Its file says 128 for both; "hello", "world" and the two special tokens make four.
    assert len(encoder_graph.open_tokenizer(minilm_source / "tokenizer.json").encode("hello world").ids) == 4


def test_half_precision_weights_and_a_prefix_are_understood(tiny_source: Path) -> None:
    encoder = encoder_graph.read_encoder(tiny_source)
    prefixed = {f"bert.{name}": weight for name, weight in encoder.weights.items()}
    write_safetensors(tiny_source / "model.safetensors", prefixed, "F16")
    again = encoder_graph.read_encoder(tiny_source)
    for name, weight in encoder.weights.items():
        assert np.array_equal(again.weights[name], weight.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (lambda data: data[:-10], "the weights end in the middle of"),
        (lambda data: data[:4000], "cut off"),
        (lambda data: b"", "empty"),
        (lambda data: b"\xff" * 8 + data, "cut off or not a safetensors file"),
        (lambda data: data.replace(b"layer.1.output.dense.bias", b"layer.1.output.dense.bies"), "has no encoder"),
    ],
)
def test_damaged_weights_are_refused(tiny_source: Path, damage: object, reported: str) -> None:
    path = tiny_source / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(ValueError, match=reported):
        encoder_graph.read_encoder(tiny_source)


@pytest.mark.parametrize(("key", "value"), [("model_type", "gpt2"), ("hidden_act", "relu")])
def test_another_kind_of_model_is_refused_by_name(tiny_source: Path, key: str, value: str) -> None:
    path = tiny_source / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(ValueError, match=f"config.json says {key} = '{value}'"):
        encoder_graph.read_encoder(tiny_source)
