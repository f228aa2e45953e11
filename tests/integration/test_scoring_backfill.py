"""Scores and edges of note chunks, once their vectors are there. SPEC 5.3, 5.5, 6

Alone in its namespace a text is all new, so that it scores 0.6, and 0.4 times what it holds: a name 0.3, a number 0.2.
The model knows single letters. Texts of as many other words are all alike to it.
"""

import datetime as dt
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_core.ingest.write_plan import BACKFILL_CURSOR
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.notes.notes_service import NotesService
from mnemo_store.records import Edge, PutMeta, Usage
from mnemo_store.tables import EDGES, USAGE
from tests.integration.test_ingest_pipeline_vectors import PERSON, IngestSetup, models
from tests.support.erasure_services import wait_until
from tests.support.notes_folders import QUICK, WAIT_SECONDS, NotesFolder

pytestmark = pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning")

__all__ = ["models"]

CAT = "The cat sat on the mat."  # nothing to it: 0.6
ANNA = "Anna sat on the mat."  # a name: 0.6 + 0.4 · 0.3
PAID = "Anna paid 30 euros."  # a name and a number: 0.6 + 0.4 · 0.5


class Study(NotesFolder):
    """A folder of notes with doors, vectors, and what follows them."""

    def __init__(self, folder: Path, models: Path) -> None:
        self.models = models
        super().__init__(folder)

    def open(self) -> None:
        self.setup = IngestSetup(self.data, self.models)
        self.store = self.setup.store
        self.notes = NotesService(self.store, QUICK, on_error=self.errors.append)

    def close(self) -> None:
        self.notes.stop()
        self.setup.close()

    def settle(self) -> None:
        """Until all is read, embedded and looked at."""
        assert self.notes.wait_until_settled(WAIT_SECONDS)
        wait_until(lambda: not self.setup.indexing.waiting() and not self.setup.late.waiting())

    def save(self, path: str, text: str) -> None:
        """Writes a file and waits for what comes of it."""
        self.write(path, text)
        self.wait(lambda: self.files().get(path) is not None and self.is_read(path))
        self.settle()

    def is_read(self, path: str) -> bool:
        stat, file = (self.folder / path).stat(), self.files()[path]
        return (file.mtime_ns, file.size, file.inode) == (stat.st_mtime_ns, stat.st_size, stat.st_ino)

    def importance(self, memory_id: str) -> float:
        return round(self.memory(memory_id).importance, 6)

    def usage(self, memory_id: str) -> Usage:
        with self.store.snapshot() as snapshot:
            usage = snapshot.usage(memory_id)
        assert usage is not None
        return usage

    def edges(self, memory_id: str) -> list[tuple[str, str, str]]:
        """Source, target and relation of those at either end of it, but for links."""
        with self.store.snapshot() as snapshot:
            return [_named(edge) for edge in snapshot.edges(memory_id) if not edge.via]

    def links(self, memory_id: str) -> list[Edge]:
        with self.store.snapshot() as snapshot:
            return [edge for edge in snapshot.edges(memory_id) if edge.via]

    def history(self, memory_id: str) -> list[tuple[str, str]]:
        """The author and operation of each version."""
        with self.store.snapshot() as snapshot:
            entries = [snapshot.entry(stored.seq) for stored in snapshot.versions(memory_id)]
        return [(entry.by, entry.what) for entry in entries if entry is not None]

    def state(self) -> tuple[list[object], ...]:
        """All that is remembered, and how it is used and tied."""
        with self.store.snapshot() as snapshot:
            return [*snapshot.memories()], [*snapshot.scan(USAGE)], [*snapshot.scan(EDGES)]


def _named(edge: Edge) -> tuple[str, str, str]:
    return edge.source, edge.target, edge.relation


@pytest.fixture
def study(tmp_path: Path, models: Path) -> Iterator[Study]:
    study = Study(tmp_path, models)
    yield study
    study.close()
    assert study.errors == []


# Importance


def test_a_chunk_gets_the_score_of_its_text_which_is_no_version_of_it(study: Study) -> None:
    study.watch()
    study.save("a.md", PAID)
    [memory_id] = study.ids("a.md")
    assert study.importance(memory_id) == 0.8
    assert study.memory(memory_id).importance_source == "rule"
    assert study.usage(memory_id).strength == study.memory(memory_id).importance
    assert study.history(memory_id) == [("notes", "notes")]
    assert study.memory(memory_id).version == 1


def test_a_chunk_that_scores_no_more_than_a_half_has_no_second_version(study: Study) -> None:
    study.watch()
    study.save("a.md", f"# T\n\n{CAT}")
    study.save("b.md", f"# T\n\n{CAT}")  # right where all that is known is: nothing about it is new
    [memory_id] = study.ids("b.md")
    assert (study.importance(memory_id), study.memory(memory_id).version) == (0.5, 1)


def test_a_chunk_whose_text_stays_is_passed_over_where_others_are_scored(study: Study) -> None:
    study.watch()
    study.save("a.md", f"# T\n\n{CAT}")
    study.save("b.md", f"# T\n\n{CAT}")
    [memory_id] = study.ids("b.md")
    (study.folder / "a.md").unlink()
    study.wait(lambda: not study.texts("a.md"))
    study.settle()
    study.setup.next_work = lambda *_: False
    study.write("c.md", f"---\nnamespace: home\n---\n{ANNA}")
    study.wait_for("c.md", [ANNA])
    study.write("b.md", f"---\ntags: [pets]\n---\n# T\n\n{CAT}")  # a new text would score 0.6 here, alone as it is
    study.wait(lambda: study.memory(memory_id).tags == ("pets",))
    study.restart()
    study.settle()
    assert study.importance(study.ids("c.md")[0]) == 0.72
    assert (study.importance(memory_id), study.memory(memory_id).version) == (0.5, 2)


def test_another_text_is_scored_again_and_another_heading_or_tag_leaves_the_score(study: Study) -> None:
    study.watch()
    study.save("a.md", f"# One\n\n{CAT}")
    [memory_id] = study.ids("a.md")
    assert study.importance(memory_id) == 0.6
    study.save("a.md", f"# One\n\n{ANNA}")
    assert study.ids("a.md") == [memory_id]
    assert study.importance(memory_id) == 0.72
    assert study.usage(memory_id).strength == study.memory(memory_id).importance
    study.save("other.md", f"# One\n\n{PAID}")  # from here on another score would be another number
    study.save("a.md", f"---\ntags: [pets]\n---\n# Two\n\n{ANNA}")
    assert study.memory(memory_id).tags == ("pets",)
    assert study.importance(memory_id) == 0.72
    assert study.history(memory_id) == 3 * [("notes", "notes")], "as often as its file changed"


def test_an_importance_that_a_person_gave_a_chunk_stays(study: Study) -> None:
    study.watch()
    study.save("a.md", CAT)
    [memory_id] = study.ids("a.md")
    study.setup.memories.edit(memory_id, {"importance": 0.5, "importance_source": "user"}, None, PERSON).result()
    study.save("a.md", ANNA)
    study.save("a.md", f"---\nimportance: 0.9\n---\n{ANNA}")
    study.save("a.md", PAID)
    assert study.importance(memory_id) == 0.5
    assert study.history(memory_id)[-1] == ("notes", "notes")


def test_the_front_matter_wins_until_it_no_longer_names_the_field(study: Study) -> None:
    study.watch()
    study.save("a.md", f"---\nimportance: 0.5\n---\n{ANNA}")
    [memory_id] = study.ids("a.md")
    assert study.importance(memory_id) == 0.5
    assert study.history(memory_id) == [("notes", "notes")]
    study.save("a.md", f"---\nimportance: 0.9\n---\n{ANNA}")
    assert (study.importance(memory_id), study.usage(memory_id).strength) == (0.9, 0.9)
    study.save("a.md", ANNA)
    assert study.importance(memory_id) == 0.72
    assert study.usage(memory_id).strength == study.memory(memory_id).importance
    study.save("a.md", f"---\nimportance: 0.5\n---\n{ANNA}")
    study.restart()
    study.settle()
    assert study.importance(memory_id) == 0.5
    study.save("a.md", f"---\nimportance: 0.5\n---\n{PAID}")
    assert study.importance(memory_id) == 0.5


def write_without_score(study: Study) -> None:
    """A note whose passage has no score yet, as if there were no time for it before the end."""
    study.setup.next_work = lambda *_: False
    study.watch()
    study.write("a.md", ANNA)
    study.wait_for("a.md", [ANNA])


def test_a_store_of_before_keeps_what_it_has_until_it_changes(study: Study) -> None:
    write_without_score(study)
    study.put(PutMeta(name=BACKFILL_CURSOR, value=""))  # which nobody had written then
    [memory_id] = study.ids("a.md")
    seq = study.store.seq
    study.restart()
    study.settle()
    assert (study.store.seq, study.importance(memory_id)) == (seq, 0.5)
    study.save("a.md", "Anna sat on the mat for 30 minutes.")
    assert study.importance(memory_id) == 0.8


def test_a_memory_that_waits_for_its_score_counts_as_waiting(study: Study) -> None:
    write_without_score(study)
    assert study.setup.late.waiting() > 0
    study.restart()
    study.settle()
    assert study.importance(study.ids("a.md")[0]) == 0.72


# Edges


def test_a_copy_repeats_the_chunk_it_was_copied_from_and_is_counted_once(study: Study) -> None:
    study.watch()
    study.save("a.md", f"# T\n\n{PAID}")
    [first] = study.ids("a.md")
    shutil.copyfile(study.folder / "a.md", study.folder / "b.md")
    study.wait_for("b.md", [PAID])
    study.settle()
    [copy] = study.ids("b.md")
    assert study.edges(copy) == [(copy, first, "repeats")]
    assert (study.usage(first).repetition_count, study.usage(copy).repetition_count) == (1, 0)
    before = study.state()
    study.rescan()
    (study.folder / "b.md").touch()
    study.restart()
    study.settle()
    assert study.state() == before
    (study.folder / "b.md").unlink()
    study.wait(lambda: study.memory(copy).state == "trashed")
    study.save("b.md", f"# T\n\n{PAID}")
    assert study.usage(first).repetition_count == 1


def test_looking_at_it_all_once_more_changes_nothing(study: Study) -> None:
    study.watch()
    study.save("a.md", f"# T\n\n{PAID}")
    study.save("b.md", f"# T\n\n{PAID}\n\n## U\n\n{ANNA}")
    study.save("a.md", "# T\n\nAnna paid 20 euros.")
    before = study.state()
    assert before[2]
    study.setup.next_work = lambda *_: False
    study.put(PutMeta(name=BACKFILL_CURSOR, value="0"))
    study.restart()
    study.settle()
    assert study.state() == before


def test_a_chunk_can_repeat_a_text_of_another_entry_point(study: Study) -> None:
    (said,) = study.setup.take(PAID)
    study.watch()
    study.save("a.md", PAID)
    [memory_id] = study.ids("a.md")
    assert study.edges(memory_id) == [(memory_id, said.decision.memory.id, "repeats")]
    assert study.usage(said.decision.memory.id).repetition_count == 1


def test_chunks_of_a_file_are_not_tied_to_each_other_and_stand_in_nobodys_way(study: Study) -> None:
    study.watch()
    study.save("a.md", f"# T\n\n## S\n\n{PAID}")
    [first] = study.ids("a.md")
    study.save("b.md", "# T\n\n" + f"## S\n\n{PAID}\n\n" * 10)
    copies = study.ids("b.md")
    assert len(copies) == 10
    assert {edge for copy in copies for edge in study.edges(copy)} == {(copy, first, "repeats") for copy in copies}


def test_a_file_updates_nothing_that_a_person_wrote(study: Study) -> None:
    (reported,) = study.setup.take("Anna lives in Oslo.")
    study.watch()
    path = study.write("a.md", "Anna lives in Bern.")
    tomorrow = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).timestamp()
    os.utime(path, (tomorrow, tomorrow))
    study.wait_for("a.md", ["Anna lives in Bern."])
    study.settle()
    [memory_id] = study.ids("a.md")
    assert study.edges(memory_id) == [(memory_id, reported.decision.memory.id, "related")]


def test_another_text_loses_the_edges_of_the_former_one_and_keeps_its_links(study: Study) -> None:
    study.watch()
    study.save("target.md", "q w e r t y")
    study.save("a.md", f"# T\n\n{PAID}")
    study.save("b.md", f"# T\n\n{PAID}\n\n[[target]]")
    study.save("c.md", f"# T\n\n{PAID}\n\n[[target]]")
    [target], [first], [middle], [last] = (study.ids(f"{name}.md") for name in ("target", "a", "b", "c"))
    assert (last, middle, "repeats") in study.edges(middle)
    links = study.links(middle)
    assert [(edge.source, edge.target) for edge in links] == [(middle, target)]
    study.save("b.md", "# T\n\nAnna paid 30 dollars.\n\n[[target]]")
    assert study.ids("b.md") == [middle]
    assert study.edges(middle) == [(middle, first, "related"), (middle, last, "related")]
    assert study.links(middle) == links


def test_a_changed_text_is_tied_to_what_was_there_before_the_change(study: Study) -> None:
    study.watch()
    study.save("a.md", "# T\n\nAnna paid 20 euros.")
    study.save("b.md", f"# T\n\n{PAID}")
    [first], [later] = study.ids("a.md"), study.ids("b.md")
    assert study.edges(first) == [(later, first, "related")]
    study.save("a.md", f"# T\n\n{PAID}")
    assert study.ids("a.md") == [first]
    assert study.edges(first) == [(first, later, "repeats")]
    assert (study.usage(first).repetition_count, study.usage(later).repetition_count) == (0, 1)


def test_edges_stay_within_a_namespace_and_lead_to_nothing_that_is_hidden(study: Study) -> None:
    (secret,) = study.setup.take("The password: hunter2spring of Anna.")
    study.setup.memories.edit(secret.decision.memory.id, {"tags": ("sensitive",)}, None, Caller("cli")).result()
    study.watch()
    study.save("home.md", f"---\nnamespace: home\n---\n# T\n\n{PAID}")
    study.save("a.md", f"# T\n\n{PAID}")
    study.save("b.md", "The keyhole: hunter2spring of Anna.")
    assert study.edges(study.ids("home.md")[0]) == []
    assert study.edges(secret.decision.memory.id) == []
    assert study.edges(study.ids("b.md")[0]) == [(study.ids("b.md")[0], study.ids("a.md")[0], "related")]
