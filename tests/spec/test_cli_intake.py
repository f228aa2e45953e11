"""Commands that ingest texts and conversations, and explain answers, as a person sees them. SPEC 5, 14."""

import json
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.protocol.ingestion import (
    IngestAnswer,
    IngestExplanation,
    NeighbourView,
    PieceAnswer,
    ReclassificationView,
    ReclassifyAnswer,
    RememberAnswer,
    ScoresView,
    StatementView,
)
from mnemo_client.protocol.memories import TrashPage, TrashView
from tests.canned import ID, CannedDaemon, CannedPerson, recalled

pytestmark = pytest.mark.usefixtures("utc")

OTHER = "01890000-0000-7000-8000-0000000000bb"


def taken(outcome: Any = "stored", content: str = "Ines has the key.", **fields: Any) -> PieceAnswer:
    return PieceAnswer(outcome=outcome, memory=recalled(content=content), **fields)


def explained() -> IngestExplanation:
    near = [NeighbourView(id=OTHER, relation="updates", sim=0.8312, why="Lisbon, then Porto", tied=True),
            NeighbourView(id=ID, relation="related", sim=None, why="the words", tied=False)]  # fmt: skip
    return IngestExplanation(
        profile="own", route="a statement: Ines, has, the key", found={"entity": "Ines"}, near=near
    )


def test_add_shows_what_was_decided_and_why(person: CannedPerson, canned: CannedDaemon) -> None:
    scores = ScoresView(importance=0.66, novelty=0.9, salience=0.3)
    answer = RememberAnswer(
        outcome="stored", memory=recalled(content="Ines has the key.", importance=0.66), updates=[OTHER], scores=scores,
        explained=explained(), statements=[StatementView(text="Ines has it.", triple=("Ines", "has", "it"))],
    )  # fmt: skip
    canned.say("POST /v1/memories", answer, 201)
    assert person.give("add", "Ines has the key.", "--explain", "--infer", "--dedup", "off") == 0
    assert canned.asked[0].body == {"content": "Ines has the key.", "infer": True, "dedup": "off", "explain": True}
    first, *lines = person.out.splitlines()
    assert first.endswith("· newer than 000000bb")
    assert lines == [
        "  kind        semantic · fact: a statement: Ines, has, the key",
        "  importance  0.66 = 0.6 x novelty 0.90 + 0.4 x salience 0.30",
        "  salience    entity 'Ines'",
        "  near        000000bb  0.831  updates: Lisbon, then Porto",
        f"  near        {ID.replace('-', '')[-8:]}    -    (related): the words",
        "  statement   Ines has it.  [Ines | has | it]",
    ]


def test_an_importance_that_was_given_is_told_beside_the_score(person: CannedPerson, canned: CannedDaemon) -> None:
    answer = RememberAnswer(
        outcome="stored", memory=recalled(importance=0.5), explained=explained(),
        scores=ScoresView(importance=0.2, novelty=0.2, salience=0.2),
    )  # fmt: skip
    canned.say("POST /v1/memories", answer, 201)
    person.give("add", "x", "--explain")
    assert "0.50, although scored 0.20 = 0.6 x novelty 0.20 + 0.4 x salience 0.20" in person.out


def test_ingest_takes_each_file_and_says_what_was_set_aside(
    person: CannedPerson, canned: CannedDaemon, tmp_path: Path
) -> None:
    file = tmp_path / "talk.rst"
    file.write_text("Ines has the key.\n\nok then")
    results = [taken(), taken("discarded", "ok then", reason="low_importance")]
    counts = {"stored": 1, "discarded": 1}
    canned.say("POST /v1/ingest", IngestAnswer(results=[*results], counts=counts, group="g1"))
    assert person.give("ingest", str(file), "--tag", "home") == 0
    assert canned.asked[0].body == {
        "text": "Ines has the key.\n\nok then", "source": "talk.rst", "tags": ["home"], "evidence": [str(file)],
    }  # fmt: skip
    short = ID.replace("-", "")[-8:]
    assert person.out.splitlines()[:2] == [
        f"{file}: 1 stored, 1 rejected · namespace default",
        f"  rejected  {short}  ok then (unimportant)",
    ]
    assert person.err == "undo this with: mnemo undo --group g1\n"


def test_a_text_of_which_every_piece_is_refused_is_a_failure(person: CannedPerson, canned: CannedDaemon) -> None:
    refused = {"error": {"code": "bad_value", "message": "the text holds a NUL at character 3"}}
    canned.say("POST /v1/ingest", {"results": [refused], "counts": {}, "namespace": "default", "degraded": []})
    assert person.give("ingest", typed="one") == 1
    assert person.err == "refused: the text holds a NUL at character 3\n"


def test_ingest_names_a_file_that_cannot_be_read(person: CannedPerson, tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    assert person.give("ingest", str(tmp_path / "none.txt")) == 2
    assert "none.txt cannot be read: No such file or directory" in person.err
    assert person.give("ingest", str(tmp_path / "photo.jpg")) == 2
    assert "photo.jpg is not UTF-8 text (byte 0)" in person.err


def test_turns_are_read_from_json_lines(person: CannedPerson, canned: CannedDaemon, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "Where is the key?"}\n\n{"role": "agent", "content": "With Ines."}\n')
    answer = IngestAnswer(results=[taken(), taken("repeats", repeats=[OTHER])],
                                  counts={"stored": 1, "repeats": 1})  # fmt: skip
    canned.say("POST /v1/turns", answer)
    assert person.give("turns", str(file), "--session", "s1") == 0
    assert canned.asked[0].body == {
        "session_id": "s1",
        "turns": [{"role": "user", "content": "Where is the key?"}, {"role": "agent", "content": "With Ines."}],
    }
    assert person.out.startswith(
        f"{file}: 1 stored, 1 stored although already known in other words · namespace default"
    )


def test_a_turn_that_is_none_is_named_by_its_line(person: CannedPerson, canned: CannedDaemon, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "a"}\n{"role": "judge", "content": "b"}\n')
    assert person.give("turns", str(file), "--session", "s1") == 2
    assert f"{file}:2: `role` must be one of " in person.err
    assert '"user"' in person.err
    assert person.err.count(', not "judge"') == 1
    assert canned.asked == []


@pytest.mark.parametrize("dry", [True, False])
def test_reclassify_shows_what_changes(person: CannedPerson, canned: CannedDaemon, dry: bool) -> None:
    row = ReclassificationView(id=ID, content="I prefer tea.", before={"kind": "semantic", "importance": 0.5},
                                after={"kind": "procedural", "importance": 0.764}, why="a preference")  # fmt: skip
    answer = ReclassifyAnswer(looked_at=1200, changed=1, left=3, changes=[row], dry_run=dry,
                                       group=None if dry else "g2")  # fmt: skip
    canned.say("POST /v1/reclassify", answer)
    assert person.give("reclassify", *(["--dry-run"] if dry else [])) == 0
    assert canned.asked[0].body == ({} if dry else {"dry_run": False})
    assert person.out.splitlines() == [
        f"{ID.replace('-', '')[-8:]}  I prefer tea.",
        "          kind semantic -> procedural, importance 0.50 -> 0.76 (a preference)",
        f"1,200 checked, 1 {'would be changed' if dry else 'changed'}, 3 kept as a person set them",
    ]
    assert person.err == ("" if dry else "undo this with: mnemo undo --group g2\n")


def test_what_was_set_aside_is_listed_with_the_reason(person: CannedPerson, canned: CannedDaemon) -> None:
    aside = recalled(content="ok then", state="discarded")
    entry = TrashView(memory=aside, at=aside.modified_at, why="low_importance")
    canned.say("GET /v1/trash", TrashPage(memories=[aside], entries=[entry]))
    assert person.give("trash", "--set-aside") == 0
    assert canned.asked[0].query["set_aside"] == ["true"]
    assert person.out.split("  ", 1)[1] == "2025-12-01  unimportant  ok then\n"
    assert person.err == "restore one with: mnemo trash restore ID; rejected texts are erased after 30 days\n"
    assert person.give("trash", "--set-aside", "--json") == 0
    assert json.loads(person.out)["memories"][0]["state"] == "discarded"
