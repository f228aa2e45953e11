"""Requests and output of `mnemo history`, `mnemo diff` and `mnemo undo`. SPEC 14"""

from typing import Any

import pytest

from mnemo_client.cli.commands import changes
from mnemo_client.cli.terminal import TextStyle
from mnemo_client.protocol.memories import MemoryView
from mnemo_client.protocol.retrieval import SearchAnswer
from mnemo_client.protocol.versions import DiffAnswer, DifferenceView, HistoryAnswer, UndoAnswer, VersionView
from tests.canned import ID, NOON, CannedDaemon, CannedPerson, note, recall_answer, recalled, status

pytestmark = pytest.mark.usefixtures("utc")

PLAIN = TextStyle()
COLOURED = TextStyle(colour=True, width=80)


def memory(**fields: Any) -> MemoryView:
    return recalled(**fields)


def version(seq: int, what: str, by: str = "cli", group: str | None = None, **fields: Any) -> VersionView:
    return VersionView(seq=seq, at=NOON + 1000 * seq, by=by, what=what, group=group, memory=memory(**fields))


VERSIONS = HistoryAnswer(
    versions=[
        version(9, "undo:7", version=4, content="The key is with Otto.", tags=["house"], strength=0.9),
        version(7, "rm", "mcp:planner", version=3, content="The key is with Otto.", tags=["house"], state="trashed"),
        version(5, "edit", version=2, content="The key is with Otto.", tags=["house"], group="g1"),
        version(2, "add", version=1, tags=["home", "keys"]),
    ]
)


def test_history_prints_who_did_what_when_and_what_that_changed(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("GET /v1/memories/c0ffee01/history", VERSIONS)
    assert person.give("history", "c0ffee01", "-k", "9") == 0
    assert person.out == (
        "change 9 · 2025-12-01 12:00:09 · cli · undo of change 7 · version 4\n"
        "  state: trashed → active\n"
        "change 7 · 2025-12-01 12:00:07 · mcp:planner · delete · version 3\n"
        "  state: active → trashed\n"
        "change 5 · 2025-12-01 12:00:05 · cli · edit · group g1 · version 2\n"
        "  content: The key is with [-Ines-]{+Otto+}.\n"
        "  tags: home, keys → house\n"
        "change 2 · 2025-12-01 12:00:02 · cli · add · version 1\n"
        "  The key is with Ines.\n"
    )
    assert person.err == "undo a change with: mnemo undo CHANGE\n"
    assert canned.asked[0].query == {"limit": ["9"]}


def test_history_says_where_versions_are_missing(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say(f"GET /v1/memories/{ID}/history", HistoryAnswer(versions=VERSIONS.versions[:2]))
    person.give("history", ID)
    assert "earlier versions were not kept\n" in person.err
    canned.say(f"GET /v1/memories/{ID}/history", HistoryAnswer(versions=VERSIONS.versions[:2], cursor="7"))
    person.give("history", ID)
    assert "there are earlier versions; show them with: mnemo history ID --top 500\n" in person.err


def test_history_as_json_is_the_daemons_own_answer(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say(f"GET /v1/memories/{ID}/history", {"versions": [], "cursor": None, "new": 1})
    assert person.give("history", ID, "--json") == 0
    assert person.out == '{"versions": [], "cursor": null, "new": 1}\n'


def difference(how: Any, seq: int, what: str, **fields: Any) -> DifferenceView:
    whole: dict[str, Any] = {"id": ID, "at": NOON, "by": "cli", "memory": memory()}
    return DifferenceView(how=how, seq=seq, what=what, **{**whole, **fields})


def test_diff_prints_what_was_added_changed_and_removed(person: CannedPerson, canned: CannedDaemon) -> None:
    gone = "01936f2e-7c00-7000-8000-0000deadbeef"
    answer = DiffAnswer(
        since_seq=3, until_seq=12, namespace="default",
        added=[difference("added", 12, "add"), difference("restored", 11, "restore")],
        changed=[difference("changed", 9, "edit", fields=["content", "pinned", "expires_at", "importance"],
                            before={"content": "one two three", "pinned": False, "expires_at": None, "importance": 0.5},
                            after={"content": "one 2 three", "pinned": True, "expires_at": NOON,
                                   "importance": 0.627911113})],
        removed=[difference("trashed", 8, "rm"), difference("dropped", 7, "purge", id=gone, memory=None)],
    )  # fmt: skip
    canned.say("GET /v1/diff", answer)
    assert person.give("diff", "2h", "--until", "seq:12") == 0
    assert person.out == (
        "+ c0ffee01  change 12  2025-12-01 12:00  cli  add      The key is with Ines.\n"
        "+ c0ffee01  change 11  2025-12-01 12:00  cli  restore  The key is with Ines.\n"
        "~ c0ffee01  change 9   2025-12-01 12:00  cli  edit     The key is with Ines.\n"
        "    content: one [-two-]{+2+} three\n"
        "    pinned: no → yes\n"
        "    expires_at: none → 2025-12-01 12:00:00\n"
        "    importance: 0.5 → 0.628\n"
        "- c0ffee01  change 8   2025-12-01 12:00  cli  delete   The key is with Ines.\n"
        "- deadbeef  change 7   2025-12-01 12:00  cli  purge    erased\n"
        "2 added · 1 changed · 2 removed · since change 3 · namespace default\n"
    )
    assert canned.asked[0].query == {"since": ["2h"], "until": ["seq:12"]}


def test_counts_of_a_part_are_not_told_as_those_of_the_whole(person: CannedPerson, canned: CannedDaemon) -> None:
    answer = DiffAnswer(since_seq=3, until_seq=12, namespace="default", cursor="3.12.x", changed=[],
                                 removed=[], added=[difference("added", 12, "add")])  # fmt: skip
    canned.say("GET /v1/diff", answer)
    assert person.give("diff", "2h", "--top", "1") == 0
    assert person.out.endswith("\nshown: 1 added · 0 changed · 0 removed · since change 3 · namespace default\n")
    assert person.err == "there is more; show it with: mnemo diff 2h --top 500, or narrow it with --until\n"


def test_a_diff_without_changes_says_so(person: CannedPerson, canned: CannedDaemon) -> None:
    answer = DiffAnswer(since_seq=3, until_seq=3, added=[], changed=[], removed=[], namespace="boat")
    canned.say("GET /v1/diff", answer)
    canned.say("GET /v1/status", status(namespaces={"boat": 1}))
    assert person.give("diff", "1700000000000", "-n", "boat") == 0
    assert (person.out, person.err) == ("", "nothing changed in namespace boat\n")
    assert canned.asked[-1].query == {"since": ["1700000000000"]}
    assert canned.asked[-1].headers["x-namespace"] == "boat"
    assert person.give("diff") == 2


@pytest.mark.parametrize("words", [("3",), ("1234567890",), ("2h", "--until", "12")])
def test_a_bare_number_is_not_taken_for_a_time_of_long_ago(person: CannedPerson, words: tuple[str, ...]) -> None:
    assert person.give("diff", *words) == 2
    assert f"for a change write: seq:{words[-1]}\n" in person.err


def test_a_year_is_a_time(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("GET /v1/diff", DiffAnswer(since_seq=3, until_seq=3, added=[], changed=[], removed=[],
                                                    namespace="default"))  # fmt: skip
    assert person.give("diff", "2025") == 0
    assert canned.asked[0].query == {"since": ["2025"]}


def test_what_was_known_then_is_asked_for_by_a_time(person: CannedPerson, canned: CannedDaemon) -> None:
    canned.say("POST /v1/recall", recall_answer(recalled()))
    canned.say("GET /v1/search", SearchAnswer(memories=[recalled()], total=1))
    canned.say(f"GET /v1/memories/{ID}", memory())
    assert person.give("recall", "key", "--as-of", "2026-05-01") == 0
    assert person.give("search", "key", "--as-of", "3d") == 0
    assert person.give("show", ID, "--as-of", "1700000000000") == 0
    recall, search, show = canned.asked
    assert recall.body["as_of"] == "2026-05-01"
    assert search.query["as_of"] == ["3d"]
    assert show.query == {"as_of": ["1700000000000"]}


def test_undo_says_of_many_how_many(person: CannedPerson, canned: CannedDaemon) -> None:
    ids = [f"01890000-0000-7000-8000-0000c0ffee{number:02}" for number in range(11)]
    canned.say("POST /v1/undo", UndoAnswer(seq=9, what="import", ids=ids, total=3000, seqs=[9], undo_seq=12))
    assert person.give("undo", "--group", "g1") == 0
    ten = ", ".join(f"c0ffee{number:02}" for number in range(10))
    assert person.out == f"undone: import (change 9, 3000 memories: {ten} …)\n"


def test_undo_takes_a_change_by_its_number_or_a_group(person: CannedPerson, canned: CannedDaemon) -> None:
    undone = UndoAnswer(seq=9, what="import", ids=[ID], total=1, seqs=[5, 7, 9], undo_seq=12)
    canned.say("POST /v1/undo", undone)
    assert person.give("undo", "--group", "g1") == 0
    assert person.out == "undone: import (changes 5 to 9: c0ffee01)\n"
    assert person.give("undo", "--seq", "9", "--dry-run") == 0
    assert person.give("undo", "9") == 0
    assert [asked.body for asked in canned.asked] == [{"group": "g1"}, {"seq": 9, "dry_run": True}, {"seq": 9}]
    assert person.give("undo", "9", "--group", "g1") == 2
    assert "give one change or one group" in person.err


# How texts differ


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("The key is with Ines.", "The key is with Otto.", "The key is with [-Ines-]{+Otto+}."),
        ("tea", "tea, please", "tea{+, please+}"),
        ("one two three", "three", "[-one two-] three"),
        ("a b c", "a  b\nc", "only white space"),
        ("鍵は東京にある", "鍵は京都にある", "鍵は[-東-]京{+都+}にある"),
        ("", "new", "{+new+}"),
        ("a\x1b[31mb", "a\x1b[31mc", "a�[[-31mb-]{+31mc+}"),
    ],
)  # fmt: skip
def test_the_words_that_went_and_came_are_marked(before: str, after: str, shown: str) -> None:
    assert changes.word_diff(before, after, PLAIN) == shown


def test_where_there_are_colours_words_are_coloured_instead() -> None:
    assert changes.word_diff("with Ines.", "with Otto.", COLOURED) == "with \x1b[31mInes\x1b[0m\x1b[32mOtto\x1b[0m."


def test_of_what_stayed_only_the_words_beside_a_change_are_shown() -> None:
    same = "word " * 100
    shown = changes.word_diff(f"{same}old {same}", f"{same}new {same}", PLAIN)
    assert shown == "… word word word word word word [-old-]{+new+} word word word word word word …"
    middle = changes.word_diff(f"old {same}old", f"new {same}new", PLAIN)
    assert middle.startswith("[-old-]{+new+} word word")
    assert " … " in middle


def test_a_long_text_that_is_wholly_another_is_compared_in_no_time() -> None:
    before = " ".join(f"a{number} the of" for number in range(1300))
    after = " ".join(f"b{number} the of" for number in range(1300))
    assert len(before) > 8000
    assert changes.word_diff(before, after, PLAIN)


def test_a_passage_of_a_note_is_told_by_its_headings_and_not_by_its_lines() -> None:
    before = memory(note=note(lines=(1, 2)))
    after = memory(note=note(lines=(8, 9), headings=["Deploy", "Undo"]))
    versions = HistoryAnswer(versions=[
        VersionView(seq=2, at=NOON, by="notes", what="notes", memory=after),
        VersionView(seq=1, at=NOON, by="notes", what="notes", memory=before),
    ])  # fmt: skip
    assert (
        list(changes.version_lines(versions, PLAIN))[1] == "  note: Deploy › Deploy › Rollback → Deploy › Deploy › Undo"
    )
