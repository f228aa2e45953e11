"""The folder in which core memories and topics are kept as Markdown. SPEC 6"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_core.documents.front_matter import read_front_matter
from mnemo_core.transfer.markdown_export import ExportedTopic
from mnemo_daemon.transfer.store_export import CORE_FILE, TOPICS_FILE, MarkdownExport, NamespaceTopic
from mnemo_store.disk import Disk
from tests.support.samples import sample_memory
from tests.support.store_services import StoreServices, put, services_in

TOPICS = [("default", ExportedTopic("kb2", "boats", 5, 0)), ("default", ExportedTopic("kb3", "kayaks", 3, 1))]


@pytest.fixture
def services(tmp_path: Path) -> Iterator[StoreServices]:
    with services_in(tmp_path / "data") as made:
        yield made


def export(services: StoreServices, folder: Path | str, topics: list[NamespaceTopic] = TOPICS) -> MarkdownExport:
    return MarkdownExport(services.store, services.views, lambda: topics, lambda: str(folder), Disk())


def core(services: StoreServices, number: int, content: str, **fields: Any) -> None:
    put(services, sample_memory(number, content, layer="core", **fields))


def test_the_pages_have_core_memories_and_topics_and_are_never_read_back(
    services: StoreServices, tmp_path: Path
) -> None:
    folder = tmp_path / "notes" / "mnemo"
    core(services, 1, "Ines never eats peanuts.\nNor almonds.")
    core(services, 2, "A kayak wants dry storage.", namespace="boat")
    core(services, 3, "The pin is 4711.", tags=("sensitive",))
    core(services, 4, "Somebody else's.", user_id="other")
    put(services, sample_memory(5, "In the buffer."))
    export(services, folder).run_slice()
    page = (folder / CORE_FILE).read_text()
    assert page.split("overwritten.\n\n")[1] == (
        "## boat\n\n- 2023-11-14: A kayak wants dry storage.\n\n"
        "## default\n\n- 2023-11-14: Ines never eats peanuts.\n  Nor almonds.\n"
    )
    topics = (folder / TOPICS_FILE).read_text()
    assert topics.endswith("## default\n\n- boats (5, kb2)\n  - kayaks (3, kb3)\n")
    assert not any(read_front_matter(text.split("\n"))[0].memory for text in (page, topics))


def test_pages_are_written_again_only_when_they_change_or_are_gone(services: StoreServices, tmp_path: Path) -> None:
    core(services, 1, "Ines never eats peanuts.")
    exporting = export(services, tmp_path)
    exporting.run_slice()
    before = (tmp_path / CORE_FILE).stat().st_ino
    put(services, sample_memory(5, "In the buffer."))
    exporting.run_slice()
    assert (tmp_path / CORE_FILE).stat().st_ino == before
    core(services, 2, "Nor almonds.")
    exporting.run_slice()
    assert "Nor almonds." in (tmp_path / CORE_FILE).read_text()
    (tmp_path / CORE_FILE).unlink()
    exporting.run_slice()
    assert (tmp_path / CORE_FILE).exists()


def test_a_file_of_somebody_else_is_neither_replaced_nor_removed(services: StoreServices, tmp_path: Path) -> None:
    (tmp_path / CORE_FILE).write_text("my own\n")
    exporting = export(services, tmp_path)
    with pytest.raises(FileExistsError, match="was not written by mnemod"):
        exporting.run_slice()
    exporting.remove()
    assert (tmp_path / CORE_FILE).read_text() == "my own\n"


def test_an_erasure_removes_the_pages(services: StoreServices, tmp_path: Path) -> None:
    core(services, 1, "Ines never eats peanuts.")
    exporting = export(services, tmp_path)
    exporting.run_slice()
    exporting.remove()
    assert not any((tmp_path / name).exists() for name in (CORE_FILE, TOPICS_FILE))
    exporting.run_slice()
    assert (tmp_path / CORE_FILE).exists()


def test_a_relative_folder_is_refused(services: StoreServices) -> None:
    with pytest.raises(NotADirectoryError, match="must be an absolute path, not 'notes'"):
        export(services, "notes").run_slice()


def test_without_a_folder_nothing_is_due(services: StoreServices) -> None:
    assert not export(services, "").is_enabled()
