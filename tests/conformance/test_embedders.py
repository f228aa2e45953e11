"""Requirements of every embedder (SPEC 2.3, 4.1), whatever library it uses."""

import random
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mnemo_daemon.errors import UnsupportedModel
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue, ModelManifest, find_known
from mnemo_daemon.models.embedders import encoder_graph
from mnemo_daemon.models.embedders.embedder import Embedder
from mnemo_daemon.models.embedders.embedding import SLICE_TEXTS_MAX, load_embedder, spaces_of
from mnemo_daemon.models.embedders.token_rows import Projection
from mnemo_daemon.settings import Numerics
from tests.support.cross_encoder_files import SPECIAL
from tests.support.cross_encoder_files import WORDS as STATIC_WORDS
from tests.support.fastembed_files import STATIC, STATIC_DIMENSIONS, write_export, write_static
from tests.support.gguf_files import write_bert
from tests.support.running_daemon import printed

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


@pytest.fixture(scope="module", params=["graph", "graph in float32", "fastembed", "gguf"])
def embedder(
    request: pytest.FixtureRequest, minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Embedder]:
    numerics: Numerics = "float32" if request.param == "graph in float32" else "auto"
    if request.param in ("fastembed", "gguf"):
        source, name = request.getfixturevalue(f"{request.param}_source"), f"made/minilm-{request.param}"
        models = tmp_path_factory.mktemp("models")
        manifest = installation.import_path(source, models, name=name, allow_unverified=True)
    else:
        installed = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
        assert installed is not None
        manifest = installed
    loaded = load_embedder(manifest, numerics=numerics)
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
    model = find_known(DEFAULT_EMBEDDING)
    assert model is not None
    for golden in model.golden:
        (vector,) = embedder.encode_batch([golden.text])
        # A cosine of 0.98 or more leaves two unit vectors at most sqrt(2 - 2 * 0.98) = 0.2 apart, all numbers together.
        assert np.linalg.norm(vector[0, : len(golden.numbers)] - np.array(golden.numbers)) < 0.05


def test_a_text_alone_has_the_same_vector_as_in_any_batch(embedder: Embedder) -> None:
    chance = random.Random(3)
    texts = [*MIXED, *(" ".join(tokens(count, count)) for count in (1, 3, 3, 40, 40, 41, 120, 254, 255, 600))]
    alone = [embedder.encode_batch([text])[0] for text in texts]
    order = chance.sample(range(len(texts)), len(texts)) + chance.choices(range(len(texts)), k=5)
    for place, vector in zip(order, embedder.encode_batch([texts[i] for i in order]), strict=True):
        assert np.array_equal(vector, alone[place])


def test_texts_are_handed_over_in_order_while_the_rest_is_computed(embedder: Embedder) -> None:
    texts = [" ".join(tokens(3 + seed % 9, seed)) for seed in range(2 * SLICE_TEXTS_MAX + 5)]
    begun: list[int] = []

    def counted(run: Callable[[Any], Any], runs: Iterable[Any]) -> Iterator[Any]:
        for each in runs:
            begun.append(len(each))
            yield run(each)

    expected = embedder.encode_batch(texts)
    handed = list[Any]()
    for vectors, codes in embedder.encode_each(texts, counted):
        handed.append(vectors)
        assert len(handed) > SLICE_TEXTS_MAX or sum(begun) <= SLICE_TEXTS_MAX, "those behind the first are not begun"
        assert codes is None or len(codes)
    assert all(map(np.array_equal, handed, expected))
    assert len(handed) == len(texts)
    assert list(embedder.encode_each([])) == []


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


def test_texts_of_the_same_meaning_are_closer_than_others(embedder: Embedder) -> None:
    query = embedder.encode_query("Where is the spare key of the shed?")
    near, far = embedder.encode_batch(["The shed's second key hangs behind the kitchen door.", "Tea is best at 80 °C."])
    assert near[0] @ query > far[0] @ query + 0.2


def test_tokens_are_counted_without_the_special_ones(embedder: Embedder) -> None:
    assert embedder.count_tokens(["", "hello world", " ".join(tokens(300)), "Hello, world!"]) == [0, 2, 300, 4]


def test_the_space_is_the_same_at_every_load(embedder: Embedder, minilm_folder: Path) -> None:
    manifest = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    again = load_embedder(manifest, numerics="float32" if embedder.form == "float32" else "auto")
    assert (again.space == embedder.space) == (embedder.name == DEFAULT_EMBEDDING)
    again.close()


def test_an_export_that_does_not_say_how_it_pools_is_pooled_as_its_name_says(
    fastembed_source: Path, tmp_path: Path
) -> None:
    """fastembed did so, and the vectors of stores that it filled must stay comparable."""
    source = Path(shutil.copytree(fastembed_source, tmp_path / "source"))
    (source / "model.onnx").rename(source / "model_optimized.onnx")
    known, other = (
        load_embedder(installation.import_path(source, tmp_path / "models", name=name, allow_unverified=True))
        for name in ("BAAI/bge-small-en-v1.5", "made/other")
    )
    first = load_embedder(
        installation.import_path(
            with_pooling(source, "cls"), tmp_path / "models", name="made/first", allow_unverified=True
        )
    )
    text = "The key to the cellar hangs behind the kitchen door."
    assert np.array_equal(known.encode_batch([text])[0], first.encode_batch([text])[0])
    assert not np.allclose(known.encode_batch([text])[0], other.encode_batch([text])[0], atol=0.01)


def install(source: Path, models: Path, name: str) -> ModelManifest:
    return installation.import_path(source, models, name=name, allow_unverified=True)


def test_a_model_of_fastembeds_list_is_pooled_as_that_list_says(minilm_source: Path, tmp_path: Path) -> None:
    source = write_export(minilm_source, tmp_path / "source", place="onnx/model.onnx")
    listed = install(source, tmp_path / "models", "Snowflake/snowflake-arctic-embed-xs")
    first = install(with_pooling(source, "cls"), tmp_path / "models", "made/first")
    assert (listed.name, listed.weights_file) == ("snowflake/snowflake-arctic-embed-xs", "onnx/model.onnx")
    assert (listed.tokens_max, listed.dimensions, listed.licence) == (512, 384, "Apache-2.0")
    text = "The key to the cellar hangs behind the kitchen door."
    one, other = (load_embedder(each).encode_batch([text])[0] for each in (listed, first))
    assert np.array_equal(one, other)


def test_a_graph_that_pools_by_itself_is_taken_as_it_is(
    fastembed_source: Path, minilm_source: Path, tmp_path: Path
) -> None:
    first = with_pooling(Path(shutil.copytree(fastembed_source, tmp_path / "first")), "cls")
    itself = write_export(minilm_source, tmp_path / "itself", pools=True)
    one, other = (
        load_embedder(install(source, tmp_path / "models", f"made/{source.name}")).encode_query("the garden")
        for source in (first, itself)
    )
    assert np.allclose(one, other, atol=1e-6)


def test_a_static_model_gives_the_mean_of_its_words(tmp_path: Path) -> None:
    manifest = install(write_static(tmp_path / "source"), tmp_path / "models", STATIC)
    embedder = load_embedder(manifest)
    assert (manifest.form, embedder.dimensions) == ("fastembed", STATIC_DIMENSIONS)
    (vector,) = embedder.encode_batch(["The red, red boat"])
    place = (*SPECIAL, *STATIC_WORDS).index
    expected = np.zeros(STATIC_DIMENSIONS, np.float32)
    expected[[place("the"), place("red"), place("boat")]] = np.array([1, 2, 1]) / np.sqrt(6)
    assert np.allclose(vector[0], expected, atol=1e-6)
    assert np.linalg.norm(embedder.encode_query("nobody knows")) == 1, "a text without a known word has a vector, too"


def test_a_prefix_of_texts_is_part_of_each_window_and_of_the_space(fastembed_source: Path, tmp_path: Path) -> None:
    manifest = install(fastembed_source, tmp_path / "models", "made/plain")
    plain = load_embedder(manifest)
    prefixed = load_embedder(msgspec.structs.replace(manifest, text_prefix="passage: ", numerics="fastembed passage:"))
    (short,) = prefixed.encode_batch(["the garden"])
    assert np.array_equal(short, plain.encode_batch(["passage: the garden"])[0])
    assert np.array_equal(prefixed.encode_query("the garden"), plain.encode_query("the garden"))
    words = tokens(300)  # "passage" and the colon take two of the 254 tokens of a window
    assert [len(windows) for windows in prefixed.encode_batch([" ".join(words[:252]), " ".join(words[:253])])] == [1, 2]
    (windows,) = prefixed.encode_batch([" ".join(words)])
    assert len(windows) == 2
    assert np.array_equal(windows[0], plain.encode_batch(["passage: " + " ".join(words[:252])])[0][0])
    assert np.array_equal(windows[1], plain.encode_batch(["passage: " + " ".join(words[192:])])[0][0])
    assert prefixed.space != plain.space


def test_the_prefix_of_a_model_of_the_list_makes_a_space_of_its_own(minilm_source: Path, tmp_path: Path) -> None:
    source = write_export(minilm_source, tmp_path / "source")
    model = find_known("intfloat/multilingual-e5-large")
    assert model is not None
    assert (model.query_prefix, model.text_prefix) == ("query: ", "passage: ")
    with pytest.raises(UnsupportedModel, match=r"gives \(384,\) numbers, not the 1024 that it should"):
        install(source, tmp_path / "models", model.name)


def test_an_export_without_a_limit_of_tokens_gets_one(fastembed_source: Path, tmp_path: Path) -> None:
    """Some write 1e30 for none, as a float or as a whole number."""
    source = Path(shutil.copytree(fastembed_source, tmp_path / "source"))
    for number, limit in enumerate(("1e30", "1000000000000000019884624838656", "0")):
        (source / "tokenizer_config.json").write_text(f'{{"model_max_length": {limit}, "pad_token": "[PAD]"}}')
        manifest = install(source, tmp_path / "models", f"made/{number}")
        assert manifest.tokens_max == 512
        assert len(load_embedder(manifest).encode_batch([" ".join(tokens(200))])[0]) == 1


def test_fastembed_is_loaded_without_a_socket_and_writes_no_file(fastembed_source: Path, tmp_path: Path) -> None:
    manifest = install(fastembed_source, tmp_path / "models", "made/quiet")
    program = f"""
import os, sys
seen = []
def note(event, arguments):
    if event.startswith("socket.") or event == "subprocess.Popen":
        seen.append(event)
    if event == "os.mkdir" and not os.path.isdir(arguments[0]):  # it makes sure that the model's own folder is there
        seen.append(arguments[0])
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.append(arguments[0])
sys.dont_write_bytecode = True
sys.modules["trio"] = None  # the browser tests bring it; no installation has it, and its import runs a program
sys.addaudithook(note)
import pathlib, socket
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import load_embedder
before = socket.has_ipv6
embedder = load_embedder(ModelCatalogue(pathlib.Path({str(tmp_path / "models")!r})).installed({manifest.name!r}))
embedder.encode_batch(["a text"])
print("fastembed" in sys.modules, socket.has_ipv6 == before, seen)
"""
    assert printed(program).strip() == "True True []"


def with_pooling(source: Path, mode: str) -> Path:
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text(f'{{"pooling_mode_{mode}_token": true}}')
    return source


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


# Token rows


def test_vectors_are_the_same_to_the_byte_with_token_rows_and_without(embedder: Embedder) -> None:
    texts = [*MIXED, *(" ".join(tokens(count, count)) for count in (3, 40, 254, 255, 600))]
    vectors, codes = embedder.encode_both(texts)
    assert [each.tobytes() for each in vectors] == [each.tobytes() for each in embedder.encode_batch(texts)]
    assert len(codes) == len(texts)
    assert embedder.encode_both([]) == ([], [])
    for text in texts:
        assert embedder.encode_query_tokens(text).vector.tobytes() == embedder.encode_query(text).tobytes()


def test_only_a_model_with_a_projection_has_late_interaction(embedder: Embedder) -> None:
    (codes,) = embedder.encode_both(["the garden"])[1]
    query = embedder.encode_query_tokens("the garden")
    if embedder.name == DEFAULT_EMBEDDING:
        assert embedder.late is not None
        assert (embedder.late.dimensions, embedder.late.tokens_max) == (64, 64)
        assert codes is not None
        assert codes.dtype == np.int8
        assert codes.shape == query.rows.shape == (1, 64)
    else:
        assert embedder.late is None
        assert codes is None
        assert (len(query.rows), query.words, query.spans) == (0, (), ())


@pytest.fixture(scope="module", params=["auto", "float32"])
def graph(minilm_folder: Path, request: pytest.FixtureRequest) -> Iterator[Embedder]:
    manifest = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    loaded = load_embedder(manifest, numerics=request.param)
    yield loaded
    loaded.close()


def rows_of(embedder: Embedder, text: str) -> np.ndarray:
    (codes,) = embedder.encode_both([text])[1]
    assert codes is not None
    return codes


# `O’Brien` is two tokens and `paragliding` three; a Chinese character is a word.
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Where did Tom's dog go?", ["Tom's", "dog", "go"]),
        ("I'm sure they don't: it isn't, we'll see!", ["sure", "see"]),
        ("O\u2019Brien paragliding", ["O\u2019Brien", "O\u2019Brien", "paragliding", "paragliding", "paragliding"]),
        ("co-op at 14:30", ["co", "op", "14", "30"]),
        ("我们的 cat", ["我", "们", "的", "cat"]),
        ("the of and who", []),
        ("... !? 😀 --", []),
        ("", []),
        ("RIVER Río", ["RIVER", "Río"]),
    ],
)
def test_the_tokens_of_words_that_say_something_are_kept(graph: Embedder, text: str, words: list[str]) -> None:
    query = graph.encode_query_tokens(text)
    assert list(query.words) == words
    assert [text[start:end] for start, end in query.spans] == words
    assert len(query.rows) == len(rows_of(graph, text)) == len(words)


def test_rows_of_a_query_are_those_of_its_text_of_unit_length(graph: Embedder) -> None:
    for text in (MIXED[0], " ".join(tokens(30))):
        query = graph.encode_query_tokens(text).rows
        assert query.dtype == np.float32
        assert np.allclose(np.linalg.norm(query, axis=1), 1, atol=1e-5)
        assert np.array_equal(np.rint(query * 127).astype(np.int8), rows_of(graph, text))


def test_a_text_alone_has_the_same_token_rows_as_in_any_batch(graph: Embedder) -> None:
    texts = [*MIXED, *(" ".join(tokens(count, count)) for count in (1, 3, 3, 40, 41, 120, 254, 255, 600))]
    alone = [rows_of(graph, text).tobytes() for text in texts]
    with ThreadPoolExecutor(2) as threads:
        together = graph.encode_both([*texts, *reversed(texts)], threads.map)[1]
    assert [each.tobytes() for each in together if each is not None] == [*alone, *reversed(alone)]


def test_a_word_has_the_rows_of_where_it_stands(graph: Embedder) -> None:
    """The projection keeps who is near to whom: the bank of a river is nearer to a river than to money."""
    (bank,) = graph.encode_query_tokens("bank").rows
    near = graph.encode_query_tokens("we sat on the bank of the river")
    far = graph.encode_query_tokens("the bank raised its interest on my savings account")
    assert near.words[0] == "sat"
    river = graph.encode_query_tokens("river shore").rows[0]
    sims = [float(each.rows[each.words.index("bank")] @ river) for each in (near, far)]
    assert sims[0] > sims[1] + 0.1
    assert float(bank @ near.rows[1]) > 0.3


def test_at_most_64_tokens_are_kept_the_first_ones(graph: Embedder) -> None:
    words = tokens(100)
    assert rows_of(graph, " ".join(words)).shape == (64, 64)
    assert graph.encode_query_tokens(" ".join(words)).words == tuple(words[:64])


def test_of_a_long_text_each_token_is_kept_once_from_the_first_window_that_has_it(graph: Embedder) -> None:
    """300 stop words with a word now and then: the windows are of tokens 0 to 253 and 192 to 299."""
    words = ["the"] * 300
    for place, word in ((10, "red"), (200, "green"), (260, "blue")):
        words[place] = word
    first, second = (rows_of(graph, " ".join(words[start:end])) for start, end in ((0, 254), (192, 300)))
    assert (len(first), len(second)) == (2, 2)
    assert np.array_equal(rows_of(graph, " ".join(words)), np.stack([*first, second[1]]))


def test_a_files_output_of_tokens_is_what_the_vector_is_made_of_and_changes_no_vector(
    minilm_source: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.onnx").write_bytes(encoder_graph.build_graph(encoder_graph.read_encoder(minilm_source)))
    session, name = encoder_graph.open_with_tokens(tmp_path / "model.onnx")
    assert name == "encoder.layer.5.normed"
    for count in (2, 17, 200):
        ids = {"ids": np.random.default_rng(count).integers(1000, 20000, (2, count)).astype(np.int32)}
        (alone,) = session.run(["vectors"], ids)
        vectors, rows = session.run(["vectors", name], ids)
        assert vectors.tobytes() == alone.tobytes()
        assert rows.shape == (2, count, 384)
        pooled = rows.sum(axis=1)
        assert np.allclose(pooled / np.linalg.norm(pooled, axis=1, keepdims=True), vectors, atol=1e-5)


def test_a_file_that_was_not_written_here_has_no_tokens(tmp_path: Path) -> None:
    ids = helper.make_tensor_value_info("ids", TensorProto.INT32, ["batch", "tokens"])
    out = helper.make_tensor_value_info("vectors", TensorProto.INT32, ["batch", "tokens"])
    node = helper.make_node("Identity", ["ids"], ["vectors"])
    opsets = [helper.make_opsetid("", encoder_graph.OPSET)]
    graph = helper.make_graph([node], "other", [ids], [out])
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, ir_version=encoder_graph.IR_VERSION), tmp_path / "model.onnx"
    )
    with pytest.raises(ValueError, match=r"model\.onnx was not written here"):
        encoder_graph.open_with_tokens(tmp_path / "model.onnx")


def test_switched_off_there_are_no_token_rows_and_the_vectors_space_stays(minilm_folder: Path, graph: Embedder) -> None:
    manifest = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    numerics: Numerics = "float32" if graph.form == "float32" else "int8"
    plain = load_embedder(manifest, late=False, numerics=numerics)
    assert plain.late is None
    assert plain.space == graph.space
    assert plain.encode_both(["the garden"])[1] == [None]
    assert graph.late is not None
    spaces = spaces_of(ModelCatalogue(minilm_folder))
    assert spaces[spaces.index(graph.space) + 1] == graph.late.space
    assert spaces_of(ModelCatalogue(minilm_folder), late=False) == spaces[::2]
    assert len(spaces) == 2 * len(manifest.forms())
    plain.close()


def test_another_projection_is_another_space() -> None:
    one, other = (Projection(np.eye(384, 128, number, dtype=np.float16)) for number in (0, 1))
    assert one.form("vectors") == Projection(np.eye(384, 128, dtype=np.float16)).form("vectors")
    spaces = {one.form("vectors").space, one.form("others").space, other.form("vectors").space, "vectors"}
    assert len(spaces) == 4


@pytest.fixture(scope="session")
def gguf_source(minilm_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MiniLM as a GGUF file."""
    encoder = encoder_graph.read_encoder(minilm_source)
    ids = encoder_graph.open_tokenizer(minilm_source / "tokenizer.json").get_vocab()
    return write_bert(
        tmp_path_factory.mktemp("gguf") / "minilm.gguf", sorted(ids, key=ids.__getitem__), encoder.weights,
        heads=12, tokens_max=256,
    )  # fmt: skip


@pytest.fixture(scope="session")
def fastembed_source(minilm_source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_export(minilm_source, tmp_path_factory.mktemp("fastembed"))
