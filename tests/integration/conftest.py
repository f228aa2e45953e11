"""A daemon that the tests of one module share, and a tiny model's files, to import and to take apart."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_client.client import Client
from tests.support.running_daemon import PrestartedDaemons, RunningDaemon
from tests.support.samples import quick_folder

TINY_CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
    "layer_norm_eps": 1e-12,
}
TINY_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(chr(letter) for letter in range(ord("a"), ord("z") + 1))]


@contextlib.contextmanager
def new_in_memory() -> Iterator[RunningDaemon]:
    with quick_folder() as scratch:
        yield RunningDaemon(scratch / "data", {"XDG_CACHE_HOME": str(scratch / "cache")})


@contextlib.contextmanager
def new_on_a_disk() -> Iterator[RunningDaemon]:
    with tempfile.TemporaryDirectory(prefix="m") as scratch:
        yield RunningDaemon(Path(scratch) / "data", {"MNEMO_MODELS_FOLDER": f"{scratch}/models"})


@pytest.fixture(scope="session")
def in_memory() -> Iterator[PrestartedDaemons]:
    with contextlib.closing(PrestartedDaemons(new_in_memory)) as ahead:
        yield ahead


@pytest.fixture(scope="session")
def on_a_disk() -> Iterator[PrestartedDaemons]:
    with contextlib.closing(PrestartedDaemons(new_on_a_disk)) as ahead:
        yield ahead


@pytest.fixture(scope="module")
def daemon(in_memory: PrestartedDaemons) -> Iterator[RunningDaemon]:
    """Without a model: words alone, which is what a first start has."""
    with in_memory.taken() as taken:
        yield taken


@contextlib.contextmanager
def ahead_with_model(models: Path, numerics: str) -> Iterator[PrestartedDaemons]:
    @contextlib.contextmanager
    def new_with_model() -> Iterator[RunningDaemon]:
        with quick_folder() as scratch:
            environ = {
                "MNEMO_MODELS_FOLDER": str(models), "MNEMO_MODELS_NUMERICS": numerics, "MNEMO_LLM_LEVEL": "off",
            }  # fmt: skip
            yield RunningDaemon(scratch / "data", environ)

    with contextlib.closing(PrestartedDaemons(new_with_model)) as ahead:
        yield ahead


@pytest.fixture(scope="session")
def in_the_form_of_the_processor(minilm_folder: Path) -> Iterator[PrestartedDaemons]:
    with ahead_with_model(minilm_folder, "auto") as ahead:
        yield ahead


@pytest.fixture(scope="session")
def in_float32(minilm_folder: Path) -> Iterator[PrestartedDaemons]:
    with ahead_with_model(minilm_folder, "float32") as ahead:
        yield ahead


@pytest.fixture(scope="module", params=["in_the_form_of_the_processor", "in_float32"])
def daemon_of_each_form(request: pytest.FixtureRequest) -> Iterator[RunningDaemon]:
    """With the real embedding model, loaded: in int8 where the processor computes it well, and in float32. For what is
    about the order of hits."""
    ahead: PrestartedDaemons = request.getfixturevalue(request.param)
    with ahead.taken() as taken:
        taken.wait_for_vectors()
        yield taken


@pytest.fixture(scope="module")
def model_daemon(in_the_form_of_the_processor: PrestartedDaemons) -> Iterator[RunningDaemon]:
    """With the real embedding model, loaded, in the form that the processor computes best."""
    with in_the_form_of_the_processor.taken() as taken:
        taken.wait_for_vectors()
        yield taken


@pytest.fixture
def scratch_daemon(short_folder: Path) -> Iterator[RunningDaemon]:
    """A daemon that the test starts and ends as it likes, without a model; whose log never shows a traceback."""
    daemon = RunningDaemon(short_folder / "data", {"MNEMO_MODELS_FOLDER": str(short_folder / "models")})
    yield daemon
    if daemon.process is not None:
        daemon.stop()
        assert "Traceback" not in daemon.log.read_text()


@pytest.fixture
def started_daemon(on_a_disk: PrestartedDaemons) -> Iterator[RunningDaemon]:
    """The test's own, without a model and without a memory: a scratch daemon that answers already."""
    with on_a_disk.taken() as taken:
        yield taken


@pytest.fixture
def client(daemon: RunningDaemon) -> Iterator[Client]:
    with daemon.client() as open_client:
        yield open_client


@pytest.fixture
def tiny_source(tmp_path: Path) -> Path:
    """A BERT encoder of 32 dimensions with weights by chance, which knows the letters a to z as words."""
    folder = tmp_path / "tiny-letters"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY_CONFIG))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (folder / "tokenizer.json").write_text(json.dumps(_letters_tokenizer()))
    write_safetensors(folder / "model.safetensors", _tiny_weights(np.random.default_rng(7)))
    return folder


def write_safetensors(path: Path, tensors: dict[str, NDArray[np.float32]], dtype: str = "F32") -> None:
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.astype("<f4" if dtype == "F32" else "<f2").tobytes()
        header[name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": (len(data), len(data) + len(raw))}
        data += raw
    head = json.dumps(header).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def _tiny_weights(chance: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    shapes = {"word": (len(TINY_WORDS), 32), "position": (64, 32), "token_type": (2, 32)}
    parts = {"attention.self.query": (32, 32), "attention.self.key": (32, 32), "attention.self.value": (32, 32)}
    parts |= {"attention.output.dense": (32, 32), "intermediate.dense": (64, 32), "output.dense": (32, 64)}
    weights = {f"embeddings.{name}_embeddings.weight": chance.normal(0, 0.5, shape) for name, shape in shapes.items()}
    norms = ["embeddings.LayerNorm"]
    for layer in range(2):
        for part, shape in parts.items():
            weights[f"encoder.layer.{layer}.{part}.weight"] = chance.normal(0, 0.2, shape)
            weights[f"encoder.layer.{layer}.{part}.bias"] = chance.normal(0, 0.1, shape[0])
        norms += [f"encoder.layer.{layer}.{part}.LayerNorm" for part in ("attention.output", "output")]
    for norm in norms:
        weights[f"{norm}.weight"], weights[f"{norm}.bias"] = chance.normal(1, 0.1, 32), chance.normal(0, 0.1, 32)
    return {name: weight.astype(np.float32) for name, weight in weights.items()}


def _letters_tokenizer() -> dict[str, object]:
    special = [
        {"id": number, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for number, word in enumerate(TINY_WORDS[:4])
    ]  # fmt: skip
    around = [{"SpecialToken": {"id": word, "type_id": 0}} for word in ("[CLS]", "[SEP]")]
    return {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [around[0], {"Sequence": {"id": "A", "type_id": 0}}, around[1]],
            "pair": [around[0], {"Sequence": {"id": "A", "type_id": 0}}, around[1]],
            "special_tokens": {
                word: {"id": word, "ids": [TINY_WORDS.index(word)], "tokens": [word]} for word in ("[CLS]", "[SEP]")
            },
        },
        "decoder": None,
        "model": {
            "type": "WordLevel", "vocab": {word: number for number, word in enumerate(TINY_WORDS)}, "unk_token": "[UNK]"
        },
    }  # fmt: skip
