"""The questions of `make run` about the project's own documents have an answer worth seeing."""

from pathlib import Path
from types import ModuleType

import pytest

from mnemo_client.protocol.retrieval import RecallRequest
from tests.support.packaging_scripts import load_script
from tests.support.running_daemon import RunningDaemon

ROOT = Path(__file__).resolve().parent.parent.parent
ANSWERS = {
    "does anything leave my machine": "Nothing leaves the machine",
    "are passwords masked": "is masked",
    "how do I keep projects apart": "**Namespaces** keep projects apart",
}
AMONG = 3  # of the answers by words alone; with vectors it is the first


@pytest.fixture(scope="module")
def demonstration() -> ModuleType:
    return load_script("demonstration")


def test_every_question_of_the_demonstration_has_its_answer(
    demonstration: ModuleType, daemon: RunningDaemon, short_folder: Path
) -> None:
    assert set(demonstration.QUESTIONS) == ANSWERS.keys()
    notes = short_folder / "notes"
    assert demonstration.copy_notes(ROOT, notes) > 10
    with daemon.client() as client:
        client.add_root(notes)
        demonstration.wait_until_read(client)
        for question, answer in ANSWERS.items():
            found = client.recall(RecallRequest(query=question, top_k=AMONG, ranker="words", dry=True)).memories
            assert any(answer in memory.content for memory in found), f"{question}: {[each.content for each in found]}"


def test_a_copy_follows_what_it_is_copied_from(demonstration: ModuleType, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("kept.md", "gone.md", "picture.png"):
        (source / name).write_text(name)
    assert demonstration.copy_notes(source, target) == 2
    (source / "gone.md").unlink()
    assert demonstration.copy_notes(source, target) == 1
    assert [path.name for path in target.iterdir()] == ["kept.md"]
