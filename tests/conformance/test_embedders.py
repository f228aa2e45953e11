"""What every embedder must keep (SPEC 2.3, 4.1), whatever library it rests on."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mnemo_daemon import installation, minilm
from mnemo_daemon.embedding import Embedder, load_embedder
from mnemo_daemon.models import DEFAULT_EMBEDDING, Catalogue, find

# Each is one token of the vocabulary.
WORDS = (
    *("red", "green", "blue", "house", "river", "dog", "cat", "table", "letter", "train", "morning", "winter"),
    *("music", "paper", "stone", "bridge", "garden", "window", "market", "doctor"),
)
MIXED = (
    "Where did we decide to move the database?",
    "ok",
    "",
    "We decided to move the database to Frankfurt because the office there has the better line.",
    "我们决定把数据库迁移到法兰克福",
    "def add(a, b):\n    return a + b",
    "😀😀 see you tomorrow!",
    "Die Sicherung läuft jede Nacht um halb drei.",
    "ok then",
    "| host | port |\n|---|---|\n| db1 | 5432 |",
)


def tokens(count: int, seed: int = 1) -> list[str]:
    chance = random.Random(seed)
    return [chance.choice(WORDS) for _ in range(count)]


@pytest.fixture(scope="module", params=["graph", "fastembed"])
def embedder(
    request: pytest.FixtureRequest, minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Embedder]:
    if request.param == "graph":
        manifest = Catalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
        assert manifest is not None
    else:
        source = request.getfixturevalue("fastembed_source")
        manifest = installation.import_path(
            source, tmp_path_factory.mktemp("models"), name="made/minilm-onnx", allow_unverified=True
        )
    loaded = load_embedder(manifest)
    yield loaded
    loaded.close()


def test_vectors_are_float32_of_unit_length_and_finite(embedder: Embedder) -> None:
    vectors = embedder.encode_batch(MIXED)
    assert len(vectors) == len(MIXED)
    for vector in vectors:
        assert vector.shape == (1, 384)
        assert vector.dtype == np.float32
        assert np.isfinite(vector).all()
        assert abs(float(np.linalg.norm(vector[0])) - 1) < 1e-5


def test_an_empty_batch_gives_an_empty_list(embedder: Embedder) -> None:
    assert embedder.encode_batch([]) == []


def test_vectors_are_those_of_the_model(embedder: Embedder) -> None:
    model = find(DEFAULT_EMBEDDING)
    assert model is not None
    for golden in model.golden:
        (vector,) = embedder.encode_batch([golden.text])
        # A cosine of 0.98 or more leaves two unit vectors at most sqrt(2 - 2 * 0.98) = 0.2 apart, all numbers together.
        assert np.linalg.norm(vector[0, : len(golden.numbers)] - np.array(golden.numbers)) < 0.05


def test_a_text_alone_has_the_same_vector_as_in_any_batch(embedder: Embedder) -> None:
    chance = random.Random(3)
    texts = [*MIXED, *(" ".join(tokens(count, count)) for count in (1, 3, 3, 40, 40, 41, 120, 254, 255, 600))]
    alone = [embedder.encode_batch([text])[0] for text in texts]
    for _ in range(3):
        order = chance.sample(range(len(texts)), len(texts)) + chance.choices(range(len(texts)), k=5)
        for place, vector in zip(order, embedder.encode_batch([texts[i] for i in order]), strict=True):
            assert np.array_equal(vector, alone[place])


def test_a_text_has_the_same_vector_on_any_thread(embedder: Embedder) -> None:
    texts = [" ".join(tokens(12, seed)) for seed in range(24)]
    expected = embedder.encode_batch(texts)
    start = threading.Barrier(4, timeout=30)

    def encode(_: int) -> bool:
        start.wait()
        return all(map(np.array_equal, embedder.encode_batch(texts), expected))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(encode, range(4)))
        assert all(map(np.array_equal, embedder.encode_batch(texts, threads.map), expected))


# 256 tokens with the two special ones leave 254 words a window; the next one begins 192 words later.
@pytest.mark.parametrize(("words", "windows"), [(1, 1), (254, 1), (255, 2), (446, 2), (447, 3), (1000, 5)])
def test_a_long_text_has_as_many_windows_as_it_needs(embedder: Embedder, words: int, windows: int) -> None:
    assert embedder.tokens_max == 256
    (vectors,) = embedder.encode_batch([" ".join(tokens(words))])
    assert vectors.shape == (windows, 384)


def test_windows_overlap_by_62_tokens(embedder: Embedder) -> None:
    words = tokens(500)
    (vectors,) = embedder.encode_batch([" ".join(words)])
    pieces = [" ".join(words[start : start + 254]) for start in (0, 192, 384)]
    for vector, piece in zip(vectors, pieces, strict=True):
        (alone,) = embedder.encode_batch([piece])
        assert np.array_equal(vector, alone[0])


def test_a_query_has_the_vector_of_its_text(embedder: Embedder) -> None:
    for text in (MIXED[0], " ".join(tokens(400))):
        query = embedder.encode_query(text)
        assert query.shape == (384,)
        assert np.array_equal(query, embedder.encode_batch([text])[0][0])


def test_what_means_the_same_is_nearer_than_what_does_not(embedder: Embedder) -> None:
    query = embedder.encode_query("Where is the spare key of the shed?")
    near, far = embedder.encode_batch(["The shed's second key hangs behind the kitchen door.", "Tea is best at 80 °C."])
    assert near[0] @ query > far[0] @ query + 0.2


def test_tokens_are_counted_without_the_special_ones(embedder: Embedder) -> None:
    assert embedder.count_tokens(["", "hello world", " ".join(tokens(300)), "Hello, world!"]) == [0, 2, 300, 4]


def test_the_space_is_the_same_at_every_load(embedder: Embedder, minilm_folder: Path) -> None:
    manifest = Catalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    again = load_embedder(manifest)
    assert (again.space == embedder.space) == (embedder.name == DEFAULT_EMBEDDING)
    again.close()


def test_a_query_prefix_goes_in_front_of_queries_alone(fastembed_source: Path, tmp_path: Path) -> None:
    manifest = installation.import_path(
        fastembed_source, tmp_path, name="BAAI/bge-small-en-v1.5", allow_unverified=True
    )
    embedder = load_embedder(manifest)
    assert (embedder.name, embedder.tokens_max) == ("BAAI/bge-small-en-v1.5", 512)
    prefix = "Represent this sentence for searching relevant passages: "
    (prefixed,), (plain,) = embedder.encode_batch([prefix + MIXED[0], MIXED[0]])
    query = embedder.encode_query(MIXED[0])
    assert np.array_equal(query, prefixed)
    assert not np.allclose(query, plain, atol=1e-2)


@pytest.fixture(scope="session")
def fastembed_source(minilm_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as fastembed reads it, made from MiniLM: the graph up to the token vectors, which fastembed pools."""
    model = onnx.load_from_string(minilm.build_graph(minilm.read_encoder(minilm_source)))
    graph = model.graph
    del graph.node[-2:]  # pooling and length
    graph.node.insert(0, helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.INT32))
    graph.input[0].CopyFrom(helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"]))
    hidden = "encoder.layer.5.normed"
    graph.output[0].CopyFrom(helper.make_tensor_value_info(hidden, TensorProto.FLOAT, ["batch", "tokens", 384]))
    folder = tmp_path_factory.mktemp("fastembed")
    onnx.save(model, folder / "model.onnx")
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_bytes((minilm_source / name).read_bytes())
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 256, "pad_token": "[PAD]"}')
    return folder
