"""Answers say so while a folder of notes is being read. SPEC 6, 7.1"""

from pathlib import Path

from mnemo_daemon.retrieval.recall import Recall
from tests.support.store_services import services_in


def test_an_answer_says_that_notes_are_still_being_read(tmp_path: Path) -> None:
    with services_in(tmp_path) as services:
        services.add("The spare key is with Ines.")
        assert "notes" not in services.recall("spare key").degraded
        services.recalling.close()
        services.recalling = Recall(
            services.store, services.views, services.indexing, services.embedding, is_reading_notes=lambda: True
        )
        assert services.recall("spare key").degraded == ("vectors", "notes")
