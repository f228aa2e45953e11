"""Word lists are read from their files, and each is one."""

import re
from importlib import resources

import pytest

from mnemo_core.text import lexicon


def test_a_list_holds_the_words_of_its_section_alone() -> None:
    assert {"please", "bitte", "vous"} <= lexicon.words("classification", "ask")
    assert not lexicon.words("classification", "ask") & lexicon.words("classification", "imperatives")


@pytest.mark.parametrize(("topic", "section"), [("classification", "nothing"), ("entities", "ask")])
def test_a_list_that_is_not_there_is_an_error(topic: str, section: str) -> None:
    with pytest.raises(KeyError, match=section):
        lexicon.words(topic, section)


def test_no_list_is_empty_or_written_twice() -> None:
    files = [each for each in resources.files(lexicon).iterdir() if each.name.endswith(".txt")]
    assert files
    for each in files:
        heads = [line for line in each.read_text("utf-8").splitlines() if line.startswith("[")]
        assert len(set(heads)) == len(heads), each.name
        assert all(lexicon.words(each.name.removesuffix(".txt"), head.strip("[]")) for head in heads), each.name


def test_names_in_patterns_stand_for_macros_and_for_what_the_caller_gives() -> None:
    unknown = re.compile(r"\{[A-Z_]+\}")
    calendar = (
        "MONTHS MONTHS_DE MONTHS_ES ALL_MONTHS DAY_NAMES FULL_DAYS FR_DAYS ALL_DAYS DAYS_ES NTH_DAYS ORDINALS SEASONS "
        "PARTS_OF_SPAN STRETCHES UNITS_CJK COUNT HOLIDAYS HOLIDAYS_CJK HOLIDAY_OF_DAY TIME FUTURE_VERBS PAST_VERBS "
        "NOT_PAST COMING BOUND_WORDS"
    )
    given = dict.fromkeys(f"HAN KATAKANA UNSPACED LETTER PLAIN SPOKEN SPOKEN_ANY {calendar}".split(), "x")
    for each in (file for file in resources.files(lexicon).iterdir() if file.name.endswith(".txt")):
        topic, text = each.name.removesuffix(".txt"), each.read_text("utf-8")
        for section in re.findall(r"^\[(\w+)\]$", text, re.MULTILINE):
            found = lexicon.patterns(topic, section, **given)
            assert section == "macros" or not any(map(unknown.search, found)), (topic, section)
    assert any(map(unknown.search, lexicon.patterns("claim_frames", "frames")))
    assert lexicon.patterns("entities", "asian_named", HAN="h")[1].startswith("(?:[小老阿])[王李张")
