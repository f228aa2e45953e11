"""The index file: complete and of the right kind, or not used at all. SPEC 3.1, 3.5."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file

ARRAYS: dict[str, NDArray[Any]] = {
    "ids": np.arange(5, dtype=np.uint32),
    "rows": np.linspace(0, 1, 12, dtype=np.float16).reshape(3, 4),
    "none": np.zeros((0, 7), np.int64),
}


def save(path: Path) -> bytes:
    index_file.save(path, "sample-1", {"store": "s", "seq": 9}, ARRAYS, Disk())
    return path.read_bytes()


@pytest.mark.parametrize("mapped", [False, True])
def test_arrays_and_meta_come_back_as_they_were(tmp_path: Path, mapped: bool) -> None:
    save(tmp_path / "a.view")
    meta, arrays = index_file.load(tmp_path / "a.view", "sample-1", mapped=mapped)
    assert meta == {"store": "s", "seq": 9}
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].flags.writeable is not mapped


def test_the_file_is_laid_out_as_the_format_says(tmp_path: Path) -> None:
    data = save(tmp_path / "a.view")
    assert data[:16] == b"mnemo-view-2\n\0\0\0"
    assert struct.unpack("<Q", data[16:24]) == (zlib.crc32(data[24:]),)
    (length,) = struct.unpack("<Q", data[24:32])
    assert data[32 : 32 + length].startswith(
        b'{"kind":"sample-1","meta":{"store":"s","seq":9},"arrays":{"ids":["<u4",[5],0]'
    )
    start = -(-(32 + length) // 64) * 64
    assert np.frombuffer(data, "<u4", 5, start).tolist() == [0, 1, 2, 3, 4]
    assert np.frombuffer(data, "<f2", 12, start + 64).tolist() == ARRAYS["rows"].ravel().tolist()
    assert len(data) == start + 128


def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    data = save(tmp_path / "a.view")
    for place in range(0, len(data), 7):
        (tmp_path / "b.view").write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(IndexMismatch):
            index_file.load(tmp_path / "b.view", "sample-1")


def test_a_file_cut_short_at_any_length_is_not_used(tmp_path: Path) -> None:
    data = save(tmp_path / "a.view")
    for length in range(0, len(data), 11):
        (tmp_path / "b.view").write_bytes(data[:length])
        with pytest.raises(IndexMismatch):
            index_file.load(tmp_path / "b.view", "sample-1")


def test_a_file_of_another_kind_or_none_is_not_used(tmp_path: Path) -> None:
    save(tmp_path / "a.view")
    with pytest.raises(IndexMismatch, match="kind sample-2"):
        index_file.load(tmp_path / "a.view", "sample-2")
    with pytest.raises(IndexMismatch, match=r"b\.view"):
        index_file.load(tmp_path / "b.view", "sample-1")


def test_a_reader_of_the_old_file_keeps_it_while_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.view"
    save(path)
    _, old = index_file.load(path, "sample-1", mapped=True)
    index_file.save(path, "sample-1", {}, {"ids": np.full(5, 8, np.uint32)}, Disk())
    _, new = index_file.load(path, "sample-1")
    assert old["ids"].tolist() == [0, 1, 2, 3, 4]
    assert new["ids"].tolist() == [8, 8, 8, 8, 8]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["a.view"]
