"""Answers say so while a folder of notes is being read. SPEC 6, 7.1"""

from pathlib import Path

from mnemo_daemon.retrieval.recall import Recall
from tests.desk import desk_in


def test_an_answer_says_that_notes_are_still_being_read(tmp_path: Path) -> None:
    with desk_in(tmp_path) as desk:
        desk.add("The spare key is with Ines.")
        assert "notes" not in desk.recall("spare key").degraded
        desk.recalling.close()
        desk.recalling = Recall(desk.store, desk.views, desk.indexing, desk.embedding, is_reading_notes=lambda: True)
        assert desk.recall("spare key").degraded == ("vectors", "notes")
