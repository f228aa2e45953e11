"""SPEC 4.3: what a GGUF file says of itself is read without llama.cpp, and a file that is not whole is refused."""

import random
import struct
from pathlib import Path

import numpy as np
import pytest

from mnemo_daemon.models.gguf_header import ITEMS_MAX, PAIRS_MAX, STRING_BYTES_MAX, TENSORS_MAX, GgufHeader, read_header
from tests.support.gguf_files import HEADS, WIDTH, Value, random_bert, write_bert, write_gguf, write_llama

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "##c")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "bert.gguf"
    return write_bert(path, VOCABULARY, random_bert(len(VOCABULARY)), heads=HEADS, tokens_max=64, pooling="cls")


def metadata(architecture: str, **own: Value) -> dict[str, Value]:
    named: dict[str, Value] = {f"{architecture}.{name}": value for name, value in own.items()}
    sizes: dict[str, Value] = {f"{architecture}.embedding_length": 384, f"{architecture}.context_length": 2048}
    return {"general.architecture": architecture, **sizes, **named}


def test_models_for_vectors_and_for_text_are_told_apart(tmp_path: Path, bert: Path) -> None:
    assert read_header(bert) == GgufHeader("bert", True, "cls", WIDTH, 64)
    assert read_header(write_llama(tmp_path / "llama.gguf")) == GgufHeader("llama", False, "mean", WIDTH, 4096)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (metadata("nomic-bert", pooling_type=1), ("nomic-bert", True, "mean")),
        (metadata("qwen3", pooling_type=3), ("qwen3", True, "last")),  # an embedding model made of one for text
        (metadata("qwen3"), ("qwen3", False, "mean")),
        (metadata("bert", pooling_type=0), ("bert", True, "mean")),
        (metadata("llama", pooling_type=0), ("llama", False, "mean")),
        ({"general.alignment": 64, **metadata("bert")}, ("bert", True, "mean")),
    ],
)
def test_the_pooling_of_the_file_makes_a_model_for_vectors(
    tmp_path: Path, values: dict[str, Value], expected: tuple[str, bool, str]
) -> None:
    header = read_header(write_gguf(tmp_path / "model.gguf", values, {}))
    assert (header.architecture, header.is_encoder, header.pooling) == expected
    assert (header.dimensions, header.tokens_max) == (384, 2048)


@pytest.mark.parametrize(
    ("values", "reported"),
    [
        ({}, "does not say which architecture"),
        ({"general.architecture": "bert"}, "how many numbers a vector has, or how many tokens"),
        (metadata("bert", embedding_length=0), "how many numbers"),
        (metadata("bert", context_length="many"), "how many tokens"),
        (metadata("bert", pooling_type=4), "a cross-encoder, and those are used as ONNX files alone"),
        ({**metadata("bert"), "general.alignment": 0}, "alignment is 0"),
    ],
)
def test_a_file_that_does_not_say_enough_is_refused(tmp_path: Path, values: dict[str, Value], reported: str) -> None:
    path = write_gguf(tmp_path / "model.gguf", values, {"weights": np.zeros((4, 4), np.float32)})
    with pytest.raises(ValueError, match=reported):
        read_header(path)


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, bert: Path) -> None:
    whole = bert.read_bytes()
    cut = tmp_path / "cut.gguf"
    places = {*range(0, len(whole), 1009), *range(300), len(whole) - 32 - 4 * WIDTH}
    for place in sorted(places):
        cut.write_bytes(whole[:place])
        with pytest.raises(ValueError, match="cut off"):
            read_header(cut)


@pytest.mark.parametrize(
    "start", [b"", b"GGUF", b"PK\3\4 a zip file", b"GGUF\x01\0\0\0" + bytes(64), b"GGUF" + b"\xff" * 64]
)
def test_what_is_no_file_of_this_format_is_refused(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(start)
    with pytest.raises(ValueError, match=r"cut off|begin|version"):
        read_header(path)


def string(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        (struct.pack("<QQ", TENSORS_MAX + 1, 0), "announces 65537 tensors"),
        (struct.pack("<QQ", 0, PAIRS_MAX + 1), "announces 4097 pairs"),
        (struct.pack("<QQ", 0, 1) + string(b"", STRING_BYTES_MAX + 1), "bytes of a text"),
        (struct.pack("<QQ", 0, 1) + string(b"a") + struct.pack("<I", 99), "a value of the kind 99"),
        (struct.pack("<QQ", 0, 1) + string(b"a") + struct.pack("<IIQ", 9, 9, 1), "a value of the kind 9"),
        (struct.pack("<QQ", 0, 1) + string(b"a") + struct.pack("<IIQ", 9, 4, ITEMS_MAX + 1), "values of an array"),
        (struct.pack("<QQ", 1, 0) + string(b"t") + struct.pack("<I", 5), "announces 5 dimensions"),
        (struct.pack("<QQ", 1, 0) + string(b"t") + struct.pack("<IQIQ", 1, 2**63, 0, 2**63), "cut off"),
    ],
)
def test_no_number_in_the_file_is_believed(tmp_path: Path, body: bytes, reported: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + body)
    with pytest.raises(ValueError, match=reported):
        read_header(path)


def test_damage_gives_a_header_or_an_error_that_is_expected(tmp_path: Path, bert: Path) -> None:
    whole = bert.read_bytes()
    chance, damaged = random.Random(5), tmp_path / "damaged.gguf"
    outcomes = set[type]()
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(1500)] = chance.randrange(256)
        damaged.write_bytes(data)
        try:
            outcomes.add(type(read_header(damaged)))
        except ValueError:
            outcomes.add(ValueError)
    assert outcomes == {GgufHeader, ValueError}
