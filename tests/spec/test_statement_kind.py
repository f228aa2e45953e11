"""The kind of a statement by its words. SPEC 5.4"""

import pytest

from mnemo_core.ingest.classification import classify
from mnemo_core.ingest.statement_kind import KINDS, statement_kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("My name is Ines Carvalho and I live in Porto.", "semantic"),
        ("Redis caches the rates for 15 minutes.", "semantic"),
        ("Tomasz is responsible for the data platform.", "semantic"),
        ("The backup is kept for 30 days.", "semantic"),
        ("Der Wasserzähler hängt im Keller.", "semantic"),
        ("Yesterday I rode 74 km along the river.", "episodic"),
        ("The backup was deleted yesterday.", "episodic"),
        ("We met Nadia at the station on Saturday.", "episodic"),
        ("Gestern habe ich zwei neue Reifen gekauft.", "episodic"),
        ("Always answer in metric units.", "procedural"),
        ("Please use British spelling in anything you write for me.", "procedural"),
    ],
)
def test_states_events_and_instructions(text: str, kind: str) -> None:
    assert classify(text).kind == kind


def test_a_moment_is_a_matter_of_the_session_where_there_is_one() -> None:
    text = "I'm just reading the logs of the proxy."
    assert classify(text, session_id="s1").kind == "working"
    assert classify(text).kind == "episodic"
    assert classify(text, session_id="s1", from_note=True).kind == "episodic"


def test_probabilities_are_of_all_kinds() -> None:
    found = statement_kind("Tea is made of leaves.")
    assert len(found.probabilities) == len(KINDS)
    assert sum(found.probabilities) == pytest.approx(1.0)
    assert found.name == "state"
    assert sum(statement_kind("").probabilities) == pytest.approx(1.0)
