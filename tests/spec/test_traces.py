"""The display of a trace, of the reasons for an answer, and of changes. SPEC 7.7, 14"""

from typing import Any

import pytest

from mnemo_client.cli.commands import changes
from mnemo_client.cli.format import records, traces
from mnemo_client.cli.format.state import job_lines
from mnemo_client.cli.terminal import TextStyle, cell_width
from mnemo_client.protocol.changes import DifferenceView, HistoryAnswer, VersionView
from mnemo_client.protocol.retrieval import (
    CandidateTrace,
    ChannelRank,
    ChannelTrace,
    FailedFilter,
    FilterCount,
    RecallTrace,
    WhyAnswer,
)
from mnemo_client.protocol.status import JobsAnswer, JobStatus
from tests.support.stub_daemon import NOON, CommandLineUser, StubDaemon, note, recall_answer, recalled

pytestmark = pytest.mark.usefixtures("utc")

ID = "01936f2e-7c00-7000-8000-0000c0ffee0{}"
PLAIN = TextStyle()
COLOURED = TextStyle(colour=True, width=80)


def candidate(number: int, **fields: Any) -> CandidateTrace:
    whole: dict[str, Any] = {
        "id": ID.format(number), "rank": number, "score": 0.5, "relevance": 0.4, "similarity": 0.6, "words": 3.0,
        "importance": 0.5, "channels": ["words"], "features": {}, "adds": {}, "holds": [], "why": ["has key"],
    }  # fmt: skip
    return CandidateTrace(**{**whole, **fields})


def trace(*candidates: CandidateTrace, **fields: Any) -> RecallTrace:
    whole: dict[str, Any] = {
        "memories": 1200, "left_out": [FilterCount(reason="kinds", count=3, wants="procedural")], "in_question": 1197,
        "words": ["spare", "key"], "channels": [ChannelTrace(name="words", found=2, hits=[]),
                                                ChannelTrace(name="vectors", found=64, hits=[])],
        "candidates": list(candidates), "dropped": {"beyond_top_k": 60, "near_copy": 1},
        "stages_ms": {"filter": 0.021, "embed": 2.4, "fetch": 0.11},
    }  # fmt: skip
    return RecallTrace(**{**whole, **fields})


def test_a_trace_shows_each_candidate_with_its_reasons_and_what_became_of_the_others() -> None:
    shown = trace(
        candidate(1, score=0.931, channels=["words", "vectors"], answer=1, why=["has key", "close in meaning (0.62)"]),
        candidate(2, score=0.4, channels=["neighbours", "core"], dropped="near_copy"),
        candidate(3, rank=None, score=0.0, dropped="below_sim_threshold", why=[]),
    )
    assert list(traces.trace_lines(shown, TextStyle())) == [
        "rank  score  by    memory    why",
        "   1   0.93  wv---  c0ffee01  has key; close in meaning (0.62)",
        "not answered:",
        "   2   0.40  --nc-  c0ffee02  a near copy; has key",
        "   -   0.00  w----  c0ffee03  below the ranker's minimum similarity; no strong reason",
        "",
        "searched  1,197 of 1,200 memories; words: spare, key",
        "filtered  3 by kinds: required is procedural",
        "found     2 by words · 64 by vectors",
        "dropped   60 further down · 1 a near copy",
        "ms        filter 0.02 · embed 2.40 · fetch 0.11",
        "by: w words, v vectors, n next to the best in session or note, c core, f facts",
    ]


def test_a_trace_keeps_to_eighty_columns_with_and_without_colour() -> None:
    long = ["has " + ", ".join(f"word{number}" for number in range(40)), "close in meaning (0.62)"]
    shown = trace(
        candidate(1, answer=1, why=long), candidate(2, dropped="over_budget", why=long), words=["word"] * 60,
        stages_ms={f"stage{number}": 1.0 for number in range(20)},
        dropped={f"reason_{number}": 5 for number in range(9)},
    )  # fmt: skip
    for style in (TextStyle(width=80), TextStyle(colour=True, width=80)):
        lines = list(traces.trace_lines(shown, style))
        assert max(map(cell_width, lines)) <= 80
        assert any("…" in line for line in lines)


def test_answers_come_in_their_own_order_and_only_some_of_the_others_are_shown() -> None:
    others = [candidate(number % 10, rank=number, dropped="beyond_top_k") for number in range(3, 30)]
    shown = trace(candidate(1, answer=2), candidate(2, answer=1), *others)
    lines = list(traces.trace_lines(shown, TextStyle()))
    assert [line.split()[0] for line in lines[1:3]] == ["2", "1"]
    assert sum("further down; has key" in line for line in lines) == traces.OTHERS_SHOWN


def test_a_trace_of_nothing_says_what_was_left_out() -> None:
    lines = list(traces.trace_lines(trace(in_question=0, dropped={}, words=[]), TextStyle()))
    assert lines[:3] == [
        "", "searched  0 of 1,200 memories", "filtered  3 by kinds: required is procedural"
    ]  # fmt: skip
    assert not any("dropped" in line for line in lines)


def test_no_stored_text_drives_the_terminal() -> None:
    shown = trace(candidate(1, answer=1, why=["has \x1b[31mred"]), words=["\x1b[2J"],
                  left_out=[FilterCount(reason="source", count=1, wants="\x07bell")])  # fmt: skip
    assert not any("\x1b" in line or "\x07" in line for line in traces.trace_lines(shown, TextStyle()))


def test_a_small_score_has_a_digit_more() -> None:
    assert [traces.score_text(candidate(1, score=score)) for score in (0.0, 0.0043, 0.1, 0.931)] == [
        "0.00", "0.004", "0.10", "0.93"
    ]  # fmt: skip


def test_recall_with_explain_shows_the_trace_below_the_hits(person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    stub_daemon.say("POST /v1/recall", recall_answer(recalled(), trace=trace(candidate(1, answer=1))))
    assert person.give("recall", "--explain", "spare", "key") == 0
    lines = person.out.splitlines()
    assert lines[0].startswith("1  0.82  c0ffee01")
    assert lines[3] == "rank  score  by    memory    why"
    assert lines[-1].startswith("1 of 12 · ")
    assert stub_daemon.asked[0].body == {
        "query": "spare key", "highlight": True, "explain": True, "cut": "gap", "min_score": 0.005
    }  # fmt: skip


# Why


def told(**fields: Any) -> WhyAnswer:
    whole: dict[str, Any] = {
        "id": ID.format(7), "verdict": "further_down", "reason": "beyond_top_k", "sentence": "It stands in place 7.",
        "hurdles": [], "holds": ["key"], "missing": ["boat"],
        "channels": [ChannelRank(name="words", found=True, score=3.2, rank=7, looked_at=12),
                     ChannelRank(name="vectors", found=False, score=None, rank=None, looked_at=64)],
    }  # fmt: skip
    return WhyAnswer(**{**whole, **fields})


def test_why_is_a_sentence_and_then_what_it_rests_on() -> None:
    own = candidate(7, rank=7, score=0.31, adds={"cosine": 0.1, "recency": 0.2, "importance": 0.01})
    last = candidate(5, rank=5, score=0.44, adds={"cosine": 0.4, "recency": 0.03, "importance": 0.01})
    assert list(traces.why_lines(told(candidate=own, last=last), TextStyle())) == [
        "It stands in place 7.",
        "",
        "words       has key · lacks boat",
        "by words    score 3.20, number 7, 12 found",
        "by vectors  no vector yet",
        "for it      has key",
        "",
        "            this one  last answer",
        "score       0.31      0.44",
        "place       7         5",
        "cosine      +0.100    +0.400",
        "recency     +0.200    +0.030",
        "importance  +0.010    +0.010",
    ]


def test_why_of_a_filter_names_it_with_both_values() -> None:
    hurdle = FailedFilter(reason="kinds", wanted="procedural", has="semantic")
    shown = told(verdict="filtered", reason="kinds", hurdles=[hurdle], holds=[], missing=[], channels=[])
    assert list(traces.why_lines(shown, TextStyle()))[2:] == ["filter  kinds: required is procedural, it has semantic"]


def test_why_names_the_answer_that_stands_in_its_place() -> None:
    shown = told(verdict="held_back", reason="near_copy", instead=ID.format(1), holds=[], missing=[], channels=[])
    assert list(traces.why_lines(shown, TextStyle()))[2:] == ["instead  c0ffee01"]


@pytest.mark.parametrize("colour", [True, False])
def test_why_keeps_to_eighty_columns(colour: bool) -> None:
    shown = told(sentence="It was found. " * 20, missing=[f"word{number}" for number in range(60)])
    assert max(map(cell_width, traces.why_lines(shown, TextStyle(colour=colour, width=80)))) <= 80


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
def test_removed_and_added_words_are_marked(before: str, after: str, shown: str) -> None:
    assert records.word_diff(before, after, PLAIN) == shown


def test_on_a_colour_terminal_words_are_coloured_instead() -> None:
    assert records.word_diff("with Ines.", "with Otto.", COLOURED) == "with \x1b[31mInes\x1b[0m\x1b[32mOtto\x1b[0m."


def test_only_the_unchanged_words_next_to_a_change_are_shown() -> None:
    same = "word " * 100
    shown = records.word_diff(f"{same}old {same}", f"{same}new {same}", PLAIN)
    assert shown == "… word word word word word word [-old-]{+new+} word word word word word word …"
    middle = records.word_diff(f"old {same}old", f"new {same}new", PLAIN)
    assert middle.startswith("[-old-]{+new+} word word")
    assert " … " in middle


def test_a_long_text_that_is_wholly_another_is_compared_in_no_time() -> None:
    before = " ".join(f"a{number} the of" for number in range(1300))
    after = " ".join(f"b{number} the of" for number in range(1300))
    assert len(before) > 8000
    assert records.word_diff(before, after, PLAIN)


@pytest.mark.parametrize(("is_dated", "shown"), [(True, ["event_at"]), (False, [])])
def test_the_time_of_a_file_is_no_change_of_its_passages(is_dated: bool, shown: list[str]) -> None:
    made = [recalled(event_at=NOON + at, note=note(dated=is_dated)) for at in (60_000, 0)]
    versions = [VersionView(seq=2 - place, at=NOON, by="notes", what="notes", memory=made[place]) for place in (0, 1)]
    history = [*changes.version_lines(HistoryAnswer(versions=versions), PLAIN)]
    assert [line.split(":")[0].strip() for line in history[1:-2]] == shown
    row = DifferenceView(
        how="changed", id=ID.format(1), seq=2, at=NOON, by="notes", what="notes", memory=made[0], fields=["event_at"],
        before={"event_at": NOON}, after={"event_at": NOON + 60_000},
    )  # fmt: skip
    assert [line.split(":")[0].strip() for line in [*changes.diff_lines([row], PLAIN)][1:]] == shown


def test_a_passage_of_a_note_is_named_by_its_headings_and_not_by_its_lines() -> None:
    before = recalled(note=note(lines=(1, 2)))
    after = recalled(note=note(lines=(8, 9), headings=["Deploy", "Undo"]))
    versions = HistoryAnswer(versions=[
        VersionView(seq=2, at=NOON, by="notes", what="notes", memory=after),
        VersionView(seq=1, at=NOON, by="notes", what="notes", memory=before),
    ])  # fmt: skip
    assert (
        list(changes.version_lines(versions, PLAIN))[1] == "  note: Deploy › Deploy › Rollback → Deploy › Deploy › Undo"
    )


# Jobs


def test_the_list_of_jobs_fits_eighty_columns() -> None:
    jobs = [
        JobStatus(
            name="trash_retention", summary="word " * 40, state="waiting", reason=reason, slice="1 piece", heavy=False,
            runs=0, slices=0, started_at=NOON, finished_at=NOON,
        )
        for reason in (None, "cause " * 40)
    ]  # fmt: skip
    assert max(map(cell_width, job_lines(JobsAnswer(jobs=jobs), COLOURED))) <= 80
