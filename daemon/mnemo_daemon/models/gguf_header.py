"""Reads what a GGUF file says of itself, without llama.cpp: parsers of this format have had security holes. SPEC 4.3

Nothing but the header is read, every count in it has a bound, and what it says of the file's size must hold.
"""

import os
import struct
from pathlib import Path
from typing import IO, Literal

import msgspec

Pooling = Literal["mean", "cls", "last"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)  # version 1 is of 2023 and has other lengths
PAIRS_MAX = 4096  # models have some 30
TENSORS_MAX = 65_536  # the largest have some 2,000
ITEMS_MAX = 4_000_000  # of an array: the vocabularies of 2026 have up to 300,000 words
STRING_BYTES_MAX = 16 << 20  # chat templates have up to 100 KB
NAME_BYTES_MAX = 256
DIMENSIONS_MAX = 4  # of a tensor, in ggml
ALIGNMENT_MAX = 1 << 20
STRING, ARRAY, BOOL = 8, 9, 7
SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", BOOL: "<?", 10: "<Q", 11: "<q", 12: "<d"}
# Bytes of 256 numbers, by ggml's number of the type. Of a type that is not here, only the place is checked.
TENSOR_BYTES = {0: 1024, 1: 512, 2: 144, 3: 160, 6: 176, 7: 192, 8: 272, 10: 84, 11: 110, 12: 144, 13: 176, 14: 210,
                20: 144, 30: 512}  # fmt: skip
POOLINGS: dict[object, Pooling] = {1: "mean", 2: "cls", 3: "last"}  # of llama.cpp; 0: none is given
RERANKING = 4
ENCODERS = ("bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "modern-bert", "neo-bert",
            "eurobert", "gemma-embedding")  # fmt: skip


class GgufHeader(msgspec.Struct, frozen=True):
    """The facts that a file states about its model."""

    architecture: str
    is_encoder: bool  # it gives vectors, not text
    pooling: Pooling
    dimensions: int  # of an encoder; else 0 where the file does not say it
    tokens_max: int  # that it was trained for; the same


def read_header(path: Path) -> GgufHeader:
    """The header of a whole file. ValueError for a file that is cut off, no GGUF file, or no model for this program."""
    with path.open("rb") as file:
        reader = _Reader(file)
        if reader.take(len(MAGIC)) != MAGIC:
            raise ValueError("it does not begin like one")
        version = reader.number("<I")
        if version not in VERSIONS:
            raise ValueError(f"its version is {version}, and versions 2 and 3 are known")
        tensors = reader.count("<Q", TENSORS_MAX, "tensors")
        pairs = reader.count("<Q", PAIRS_MAX, "pairs of metadata")
        values = {reader.string(STRING_BYTES_MAX): reader.value() for _ in range(pairs)}
        alignment = values.get("general.alignment", 32)
        if not (isinstance(alignment, int) and 0 < alignment <= ALIGNMENT_MAX):
            raise ValueError(f"its alignment is {alignment}")
        ends = [0]
        for _ in range(tensors):
            reader.string(NAME_BYTES_MAX)
            numbers = 1
            for _ in range(reader.count("<I", DIMENSIONS_MAX, "dimensions of a tensor")):
                numbers *= reader.number("<Q")
            kind = reader.number("<I")
            ends.append(reader.number("<Q") + numbers * TENSOR_BYTES.get(kind, 0) // 256)
        begin = -(-reader.place // alignment) * alignment
        if begin + max(ends) > reader.size:
            raise ValueError(f"it is cut off: it has {reader.size} bytes, and its tensors end at {begin + max(ends)}")
    architecture = str(values.get("general.architecture", ""))
    if not architecture:
        raise ValueError("it does not say which architecture it has")
    pooling = values.get(f"{architecture}.pooling_type")
    if pooling == RERANKING:
        raise ValueError("it is a cross-encoder, and those are used as ONNX files alone")
    is_encoder = architecture in ENCODERS or pooling in POOLINGS
    sizes = [values.get(f"{architecture}.{name}") for name in ("embedding_length", "context_length")]
    dimensions, tokens = (size if isinstance(size, int) and 0 < size < 1 << 24 else 0 for size in sizes)
    if is_encoder and not (dimensions and tokens):
        raise ValueError("it does not say how many numbers a vector has, or how many tokens it takes")
    return GgufHeader(architecture, is_encoder, POOLINGS.get(pooling, "mean"), dimensions, tokens)


class _Reader:
    """Reads values from a file; none may be longer than the rest of the file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = os.fstat(file.fileno()).st_size
        self.place = 0

    def take(self, length: int) -> bytes:
        data = self._file.read(length)
        if len(data) < length:
            raise ValueError("it is cut off in its header")
        self.place += length
        return data

    def number(self, form: str) -> int:
        (number,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(number)

    def count(self, form: str, largest: int, what: str) -> int:
        count = self.number(form)
        if count > largest:
            raise ValueError(f"it announces {count} {what}")
        return count

    def string(self, bytes_max: int) -> str:
        return self.take(self.count("<Q", bytes_max, "bytes of a text")).decode(errors="replace")

    def value(self) -> object:
        """A value of the metadata; None for an array, which is passed over."""
        kind = self.number("<I")
        if kind == STRING:
            return self.string(STRING_BYTES_MAX)
        if kind == ARRAY:
            inner = self.number("<I")
            count = self.count("<Q", ITEMS_MAX, "values of an array")
            if inner == STRING:
                for _ in range(count):
                    self.take(self.count("<Q", STRING_BYTES_MAX, "bytes of a text"))
            else:
                self.take(count * struct.calcsize(self._form(inner)))
            return None
        (value,) = struct.unpack(self._form(kind), self.take(struct.calcsize(self._form(kind))))
        return value

    def _form(self, kind: int) -> str:
        if kind not in SCALARS:
            raise ValueError(f"it has a value of the kind {kind}, which there is not")
        return SCALARS[kind]
