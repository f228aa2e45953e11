"""The integrity check of a database file that is not open. SPEC 3.4, store/docs/format.md."""

import os
import shutil
from pathlib import Path

from mnemo_store.database.integrity import boot_mark, has_all_pages, is_intact
from tests.support.samples import opened, remember


def database(folder: Path) -> Path:
    with opened(folder) as store:
        for number in range(20):
            remember(store, number, "x" * 4000)
    return folder / "db" / "data.mdb"


def test_an_intact_database_has_all_pages_and_verifies(tmp_path: Path) -> None:
    data = database(tmp_path)
    assert has_all_pages(data)
    assert is_intact(data.parent)


def test_one_page_less_is_noticed_without_a_walk(tmp_path: Path) -> None:
    data = database(tmp_path)
    for size in (data.stat().st_size - 4096, 8192, 4096, 100, 0):
        os.truncate(data, size)
        assert not has_all_pages(data)


def test_a_file_that_is_no_database_is_too_short_whatever_its_length(tmp_path: Path) -> None:
    for content in (b"\0" * 100_000, b"x" * 100_000):
        (tmp_path / "data.mdb").write_bytes(content)
        assert not has_all_pages(tmp_path / "data.mdb")
        assert not is_intact(tmp_path)


def test_a_torn_page_is_found_by_the_walk(tmp_path: Path) -> None:
    data = database(tmp_path)
    content = bytearray(data.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = bytes(64)
    data.write_bytes(content)
    assert has_all_pages(data)
    assert not is_intact(data.parent)


def test_a_file_keeps_its_mark_and_a_copy_has_another(tmp_path: Path) -> None:
    data = database(tmp_path / "store")
    mark = boot_mark(data)
    assert mark == boot_mark(data)
    shutil.copy(data, tmp_path / "copy")
    assert not mark or boot_mark(tmp_path / "copy") != mark
    assert boot_mark(tmp_path / "nothing") == ""
