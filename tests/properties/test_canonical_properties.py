"""Properties of the guard for any texts. SPEC 5.5"""

from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_core.ingest.attributes.attribute_claims import extract_claims
from mnemo_core.ingest.deduplication import Neighbour, find_relations
from mnemo_core.similarity.thresholds import Thresholds, text_jaccard
from mnemo_core.text.canonical import (
    SpecificDifference,
    difference,
    obviously_differ,
    unchanged_words,
)
from tests.support.samples import AT, sample_memory

ANY_TEXT = st.text(st.characters(), max_size=120)
WORDS = st.sampled_from(
    ["Anna", "pays", "the", "not", "is", "was", "3", "on", "off", "March", "may", "5", "pm", "%", "€", "at", "10:30",
     "'s", "one", "hundred", ".", "?", ",", "-", "v2", "三", "月", "日", "不", "have", "moved", "from", "to", "km", "½"]
)  # fmt: skip
SPICY_TEXT = st.lists(WORDS, max_size=14).map(" ".join) | st.lists(WORDS, max_size=10).map("".join)
NOTATIONS = (
    "{}",
    "{} %",
    "€{}",
    "{} km",
    "#{}",
    "port {}",
    "v{}",
    "1.{}",
    "{}th",
    "-{}",
    "{}x",
    "id-{}",
    "/a/{}",
    "{}个人",
)
SENTENCES = ("We counted {} there.", "Anna said {} yesterday, and Bob said 7.", "一共{}。", "{}", "On Monday {} is it.")


@given(ANY_TEXT | SPICY_TEXT, ANY_TEXT | SPICY_TEXT)
@settings(max_examples=400, deadline=None)
def test_a_difference_of_any_two_texts_is_symmetric(one: str, other: str) -> None:
    there, back = difference(one, other), difference(other, one)
    assert (there is None) == (back is None)
    if there is not None and back is not None:
        assert back == SpecificDifference(there.kind, there.other, there.one)
        assert there.one != there.other


@given(ANY_TEXT | SPICY_TEXT)
@settings(max_examples=300, deadline=None)
def test_no_text_differs_from_itself(text: str) -> None:
    assert difference(text, text) is None
    assert difference(f"  {text}\t", text) is None


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.sampled_from(NOTATIONS), st.sampled_from(SENTENCES))
@settings(max_examples=400, deadline=None)
def test_two_numbers_in_any_notation_differ(one: int, other: int, notation: str, sentence: str) -> None:
    first, second = (sentence.format(notation.format(number)) for number in (one, other))
    assert (difference(first, second) is None) == (one == other)


@given(ANY_TEXT | SPICY_TEXT, st.sampled_from(["", "Anna"]))
@settings(max_examples=300, deadline=None)
def test_any_text_can_be_read_for_claims(text: str, speaker: str) -> None:
    assert extract_claims(text, speaker) == extract_claims(text, speaker)


@given(SPICY_TEXT, SPICY_TEXT, st.none() | st.floats(-1.0, 1.0), st.integers(-1, 1))
@settings(max_examples=300, deadline=None)
def test_nothing_that_differs_is_judged_a_repetition(one: str, other: str, sim: float | None, later: int) -> None:
    near = Neighbour(sample_memory(1, other or "x"), sim)
    ties = find_relations(one, "", AT + later, [near], Thresholds())
    if difference(one, near.memory.content) is not None:
        assert "repeats" not in {tie.relation for tie in ties}
    if later <= 0:
        assert "updates" not in {tie.relation for tie in ties}


@given(ANY_TEXT | SPICY_TEXT, ANY_TEXT | SPICY_TEXT)
@settings(max_examples=200, deadline=None)
def test_the_overlap_of_words_is_a_share_and_symmetric(one: str, other: str) -> None:
    assert 0.0 <= text_jaccard(one, other) == text_jaccard(other, one) <= 1.0


# Said in two ways that the guard takes for one.
ALIKE = st.sampled_from(
    [("The", "the"), ("garden", "Garden"), ("flat", "apartment"), ("cannot", "can not"), ("won't", "will not"),
     ("twelve", "12"), ("daily", "every day"), ("12 kilometres", "12 km"), ("12 weeks", "12 wk"), ("pump", "pump"),
     ("favourite", "favorite"), ("the", ""), ("currently", ""), ("is working", "works"), ("has bought", "purchased"),
     ("got rid of", "removed")]
)  # fmt: skip


@given(st.lists(ALIKE, min_size=1, max_size=5))
@settings(max_examples=400, deadline=None)
def test_another_wording_is_no_plain_difference(ways: list[tuple[str, str]]) -> None:
    one, other = (" ".join(way[side] for way in ways) for side in (0, 1))
    if difference(one, other) is None:
        assert not obviously_differ(unchanged_words(one), unchanged_words(other))
