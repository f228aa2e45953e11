"""The figures, files and output of `mnemo bench`. SPEC 14"""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.bench import quality, speed
from mnemo_client.bench.datasets import DatasetQuestion, load
from mnemo_client.bench.quality import Bootstrap, Mean, percentile, score
from mnemo_client.cli.terminal import TextStyle, cell_width
from mnemo_client.errors import MnemoError, NotFoundError, UsageError
from tests.support import recall_sets

# Metrics


def row(ranked: str, evidence: str) -> dict[str, float]:
    """Of answers and evidence with a letter each."""
    return score(list(ranked), list(evidence))


def test_a_question_with_one_right_answer_in_the_first_place_has_everything() -> None:
    assert set(row("abcdefghijkl", "a").values()) == {1.0}


def test_a_question_that_is_not_answered_has_nothing() -> None:
    assert set(row("abc", "z").values()) == set(row("", "z").values()) == {0.0}


def test_every_metric_of_two_right_answers_in_the_third_and_eleventh_place() -> None:
    found = row("__a_______b", "ab")
    assert (found["R@1"], found["R@5"], found["R@10"], found["R@50"]) == (0.0, 0.5, 0.5, 1.0)
    assert (found["all@10"], found["MRR"]) == (0.0, 1 / 3)
    # gained: 1/log2(4) = 0.5 of the third; ideal: 1/log2(2) + 1/log2(3) = 1 + 0.630930
    assert found["nDCG@10"] == pytest.approx(0.5 / 1.6309297535714573)


def test_all_at_ten_wants_every_one_of_them_among_ten() -> None:
    assert row("a________b", "ab")["all@10"] == 1.0
    assert row("a_________b", "ab")["all@10"] == 0.0


def test_more_evidence_than_ten_can_still_gain_everything_in_ten() -> None:
    assert row("abcdefghij", "abcdefghijkl")["nDCG@10"] == pytest.approx(1.0)


def test_an_interval_holds_the_middle_95_percent_of_the_resampled_means() -> None:
    """Of 400 ones and zeros in equal parts the mean has a standard error of 0.5 / 20 = 0.025."""
    found = Bootstrap(400).mean([0.0, 1.0] * 200)
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.005)
    assert found.high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.005)


def test_resampling_is_the_same_in_every_run_and_for_every_ranker() -> None:
    chance = random.Random(3)
    values = [chance.random() for _ in range(50)]
    assert Bootstrap(50).mean(values) == Bootstrap(50).mean(values)
    shifted = Bootstrap(50).mean([each + 1 for each in values])
    assert shifted.low - Bootstrap(50).mean(values).low == pytest.approx(1.0)


def test_values_that_are_all_equal_and_a_single_one_have_no_spread() -> None:
    assert Bootstrap(3).mean([0.5] * 3) == Mean(0.5, 0.5, 0.5)
    assert Bootstrap(1).mean([0.25]) == Mean(0.25, 0.25, 0.25)


def test_a_percentile_is_interpolated_between_two_values() -> None:
    assert percentile([4, 1, 3, 2], 0.5) == 2.5
    assert percentile([0, 10], 0.95) == 9.5
    assert percentile([7], 0.99) == 7


# Data


SPOKEN = {"1": "1:56 pm on 8 May, 2023", "2": "12:05 am on 17 December, 2022"}


def raw(**fields: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "sample": "c", "speakers": ["A"], "dates": SPOKEN,
        "turns": [{"id": "D1:1", "s": 1, "sp": "A", "t": "one"}, {"id": "D2:1", "s": 2, "sp": "B", "t": "two"},
                  {"id": "D2:2", "s": 2, "sp": "A", "t": "three", "cap": "a boat"}],
        "qa": [{"n": 1, "q": "what?", "cat": 1, "ev": ["D1:1", "D2:2"], "a": "x"}, {"q": "who?", "cat": 5, "ev": []}],
    }  # fmt: skip
    return {**whole, **fields}


def write(folder: Path, *conversations: dict[str, Any]) -> Path:
    (folder / "data.json").write_text(json.dumps(list(conversations)))
    return folder


def test_conversations_in_json_are_read_with_their_sessions_times_and_pictures(tmp_path: Path) -> None:
    (tmp_path / "data.json.gz").write_bytes(gzip.compress(json.dumps([raw()]).encode()))
    (found,) = load(tmp_path)
    assert [(turn.id, turn.session, turn.speaker, turn.text, turn.at) for turn in found.turns] == [
        ("D1:1", "1", "A", "one", "2023-05-08T13:56:00"),
        ("D2:1", "2", "B", "two", "2022-12-17T00:05:00"),
        ("D2:2", "2", "A", "three [shares image: a boat]", "2022-12-17T00:06:00"),
    ]
    assert found.questions == [DatasetQuestion("what?", "multi-hop", ("D1:1", "D2:2"))]


def test_a_category_may_be_a_word_and_a_date_iso_text(tmp_path: Path) -> None:
    question = {"q": "what?", "cat": "hard", "ev": ["D1:1"]}
    (found,) = load(write(tmp_path, raw(dates={"1": "2023-05-08T13:56", "2": "2023-05-09"}, qa=[question])))
    assert found.questions[0].category == "hard"
    assert [turn.at for turn in found.turns][:2] == ["2023-05-08T13:56:00", "2023-05-09T00:00:00"]


def test_the_projects_own_conversations_are_read_as_its_tests_read_them() -> None:
    found = load(recall_sets.FOLDER)
    own = [each for each in recall_sets.conversations() if not each.is_dense]  # these are in a folder of their own
    assert [each.name for each in found] == [each.name for each in own]
    for one, other in zip(found, own, strict=True):
        assert [(turn.id, turn.speaker, turn.text, turn.at) for turn in one.turns] == [
            (turn.id, turn.speaker, turn.text, turn.at.isoformat()) for turn in other.turns
        ]
        assert [tuple(each) for each in one.questions] == [tuple(each) for each in other.questions if each.evidence]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"turns": [{"id": "D1:1", "s": 1, "sp": "A"}]}, "`t`"),
        ({"sample": 3}, "$[0].sample"),
        ({"dates": {"1": "yesterday", "2": "2023-05-09"}}, "c, session 1: 'yesterday' is not a date"),
        ({"dates": {"1": "1:56 pm on 8 Mai, 2023"}}, "'1:56 pm on 8 Mai, 2023' is not a date"),
        ({"dates": {"1": "2023-05-08"}}, "turn D2:1 is in session 2, which has no date"),
        ({"qa": [{"q": "what?", "ev": ["D9:9"]}]}, "there is no turn D9:9, which should answer 'what?'"),
        ({"turns": raw()["turns"] * 2}, "turn D1:1 occurs twice"),
    ],
)
def test_json_that_does_not_fit_is_refused_by_what_is_wrong(tmp_path: Path, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(write(tmp_path, raw(**fields)))
    assert said in refused.value.message
    assert "data.json" in refused.value.message


@pytest.mark.parametrize("content", [b"not json", b"\x1f\x8bnot gzip", b'{"sample": "c"}', b"\xff"])
def test_files_that_are_no_such_json_are_refused_with_what_is_expected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.json").write_bytes(content)
    with pytest.raises(UsageError, match=r"data\.json has another format") as refused:
        load(tmp_path)
    assert "sample, dates, turns, qa" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.1 Ines: Hello.", "a.txt:1: session 1 has not begun"),
        ("# T\n\n## 1 soon", "a.txt:3: 'soon' is not a date"),
        ("# T\nInes said hello.", "a.txt:2 is not a session, turn or question: 'Ines said hello.'"),
        ("## 1 2026-03-13T10:20\n1.1 Ines: Hi.\n? easy [1.2] Who?", "a.txt: there is no turn 1.2"),
    ],
)
def test_text_that_does_not_fit_is_refused_by_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(UsageError) as refused:
        load(tmp_path)
    assert said in refused.value.message


def test_a_folder_that_is_none_or_holds_nothing_to_ask_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        load(tmp_path / "gone")
    with pytest.raises(NotFoundError, match=r"no \*\.json, \*\.json\.gz or \*\.txt file is in") as refused:
        load(tmp_path)
    assert "sample, dates, turns, qa" in refused.value.hint
    (tmp_path / "a.txt").write_text("## 1 2026-03-13T10:20\n1.1 Ines: Hi.\n? easy [] Who?\n")
    with pytest.raises(NotFoundError, match="no conversation that has a question with evidence"):
        load(tmp_path)


# What is reported, and how it looks


def put(category: str) -> quality.PlacedQuestion:
    return quality.PlacedQuestion(DatasetQuestion("?", category, ("1",)), "1", ("a",))


def found(place: int, *, is_other: bool = False) -> quality.RankerAnswer:
    """A right answer at this place (1 is the first), after so many milliseconds."""
    return quality.RankerAnswer(score(["_"] * (place - 1) + ["a"], ["a"]), float(place), is_other)


def test_a_report_has_every_ranker_overall_by_category_and_compared_with_the_first() -> None:
    puts = [put("easy"), put("easy"), put("hard")]
    answers = {"auto": [found(1), found(2), found(1)], "words": [found(1), found(20), found(60, is_other=True)]}
    report = quality.build_report(puts, answers)
    assert report["categories"] == {"easy": 2, "hard": 1}
    auto, words = report["rankers"]["auto"], report["rankers"]["words"]
    assert (auto["R@1"]["mean"], auto["R@10"]["mean"], words["R@10"]["mean"]) == (66.67, 100.0, 33.33)
    assert (words["R@50"]["mean"], words["MRR"]["mean"]) == (66.67, 35.56)  # (1 + 1/20 + 1/60) / 3
    assert words["by_category"]["easy"]["R@10"]["mean"] == 50.0
    assert words["by_category"]["hard"]["R@10"] == {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert words["behind_auto"]["mean"] == 66.67
    assert "behind_auto" not in auto
    assert (auto["ms"], words["ms"]["p50"]) == ({"p50": 1.0, "p95": 1.9}, 20.0)
    assert (auto["answered_by_other"], words["answered_by_other"]) == (0, 1)


MACHINE = quality.Machine("0.1.0", "mini", "Linux 6.1", "3.11.7", "Some CPU", 2)


def test_the_tables_fit_a_terminal_of_eighty_columns_and_say_what_was_measured_where() -> None:
    sorts = ["multi-hop", "temporal", "open-domain", "single-hop", "adversarial"]
    puts = [put(sort) for sort in sorts for _ in range(40)]
    chance = random.Random(5)
    names = ("auto", "words", "deterministic")
    answers = {name: [found(chance.choice([1, 2, 4, 8, 30, 60])) for _ in puts] for name in names}
    measured = {"conversations": 5, "memories": 2960, "questions": 1018, "pooled": True,
                "machine": MACHINE._asdict(), **quality.build_report(puts, answers)}  # fmt: skip
    lines = list(quality.quality_lines(measured, TextStyle()))
    assert lines[:2] == [
        "5 conversations, 2,960 memories, 1,018 questions; all in one namespace",
        "mini · mnemo 0.1.0 · Python 3.11.7 · Linux 6.1 · Some CPU, 2 cores",
    ]
    tables = [line for line in lines[2:] if line]
    assert max(map(cell_width, tables)) <= 80
    assert tables[0].split() == ["%", *quality.METRICS, "ms"]
    assert [line.split()[0] for line in tables if line.startswith("auto")] == ["auto", "auto"]
    assert tables[7].split() == ["R@10", *sorted(sorts)]
    assert tables[8].split() == ["questions", *["40"] * 5]
    assert [line for line in lines if line.startswith("R@10: auto ")]


def test_an_interval_is_rounded_outward() -> None:
    assert quality.interval({"low": 44.12, "high": 49.01}) == "44-50"
    assert quality.interval({"low": 0.0, "high": 100.0}) == "0-100"


def test_answers_of_another_ranker_are_reported() -> None:
    report = quality.build_report([put("easy")], {"cosine": [found(1, is_other=True)]})
    machine = MACHINE._replace(model="")
    measured = {"conversations": 1, "memories": 3, "questions": 1, "pooled": False, "machine": machine._asdict()}
    lines = list(quality.quality_lines({**measured, **report}, TextStyle()))
    assert lines[0] == "1 conversation, 3 memories, 1 question"
    assert lines[1].startswith("no model, by words only · ")
    assert lines[-1] == "cosine: 1 question answered by another ranker or without vectors"


@pytest.mark.parametrize("text", ["0", "a", "10,", "1.5", "-3", "99999999999"])
def test_sizes_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(MnemoError, match="--sizes must be whole numbers from 1 to"):
        speed.numbers(text, (1,), 1000, "--sizes")


def test_sizes_come_in_order_and_once() -> None:
    assert speed.numbers("500, 20,500,1_000", (1,), 1000, "--sizes") == [20, 500, 1000]
    assert speed.numbers(None, (1, 8), 64, "--clients") == [1, 8]
