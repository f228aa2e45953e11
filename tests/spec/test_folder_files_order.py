"""The order in which the files of a new folder are read. SPEC 6"""

from typing import NamedTuple

from mnemo_core.documents.folder_files import BULK_FILES, SMALL_BYTES, machine_made, reading_order

SECOND = 1_000_000_000


class File(NamedTuple):
    path: str
    mtime_ns: int
    size: int = 1_000


def order(*files: File) -> list[str]:
    return [seen.path for seen in reading_order(files, machine_made(files))]


def test_small_files_come_before_huge_ones_and_the_newest_first() -> None:
    old, new, huge = File("old.md", 1 * SECOND), File("new.md", 9 * SECOND), File("huge.md", 99 * SECOND, 1 << 20)
    assert order(huge, old, new) == ["new.md", "old.md", "huge.md"]
    assert order(File("a.md", 1, SMALL_BYTES), File("b.md", 2, 1)) == ["b.md", "a.md"]


def test_what_programs_wrote_comes_after_everything_that_a_person_wrote() -> None:
    huge, vendored = File("own/huge.md", 1 * SECOND, 1 << 20), File("code/Vendor/readme.md", 99 * SECOND)
    assert order(vendored, huge) == ["own/huge.md", "code/Vendor/readme.md"]
    assert machine_made([File("vendor.md", 1)]) == frozenset(), "the name of a file says nothing"


def test_files_written_one_right_after_the_other_are_a_programs() -> None:
    checkout = [File(f"page-{number}.md", number * SECOND) for number in range(BULK_FILES)]
    saved = File("mine.md", (BULK_FILES + 2) * SECOND)
    assert machine_made([saved, *checkout]) == {seen.path for seen in checkout}
    assert machine_made([saved, *checkout[1:]]) == frozenset(), "one fewer is nothing unusual"
    apart = [seen._replace(mtime_ns=seen.mtime_ns * 2) for seen in checkout]
    assert machine_made(apart) == frozenset()
