"""The lexical index, checked with figures worked out by hand. SPEC 3.1, 7.2"""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file
from mnemo_store.indexes.lexical import (
    COUNT_MAX,
    KIND,
    MANY_POSTINGS,
    RECENT_SLOTS_MIN,
    LexicalFields,
    LexicalIndex,
)
from mnemo_store.indexes.tokenizer import Tokenizer


def view_of(*texts: str) -> LexicalIndex:
    view = LexicalIndex()
    for number, text in enumerate(texts):
        view.put(number, LexicalFields(text))
    return view


def found(view: LexicalIndex, query: str, k: int = 10) -> list[int]:
    return [int(number) for number in view.search(query, k).numbers]


def test_scores_are_bm25_with_k1_0_9_and_b_0_4() -> None:
    view = view_of("cat", "cat dog dog")  # N = 2, lengths 1 and 3, mean 2
    hits = view.search("dogs", 10)  # df 1: ln(1 + 1.5/1.5) = ln 2; 2·1.9 / (2 + 0.9·(0.6 + 0.4·3/2)) = 3.8 / 3.08
    assert hits.numbers.tolist() == [1]
    assert hits.scores.tolist() == pytest.approx([0.693147 * 3.8 / 3.08], rel=1e-5)
    hits = view.search("cat", 10)  # df 2: ln(1 + 0.5/2.5) = ln 1.2; dampings 0.9·0.8 and 0.9·1.2
    assert hits.numbers.tolist() == [0, 1]
    assert hits.scores.tolist() == pytest.approx([0.182322 * 1.9 / 1.72, 0.182322 * 1.9 / 2.08], rel=1e-5)
    hits = view.search("cat dog", 10)  # the sum over terms
    assert hits.numbers.tolist() == [1, 0]
    assert hits.scores[0] == pytest.approx(0.855182 + 0.166544, rel=1e-5)
    assert hits.numbers.dtype == np.uint32
    assert hits.scores.dtype == np.float32


def test_length_counts_words_and_neither_stop_words_nor_wholes() -> None:
    assert view_of("the cat is on the mat").mean_length == 2
    assert view_of("wordView").mean_length == 2
    assert view_of("東京都").mean_length == 2
    assert LexicalIndex().mean_length == 0


def test_tags_and_headings_count_twice_and_speakers_once() -> None:
    view = LexicalIndex()
    view.put(0, LexicalFields("rust pad", tags=("pad",)))
    view.put(1, LexicalFields("pad pad", tags=("rust",)))
    view.put(2, LexicalFields("pad pad", headings=("Rust",)))
    view.put(3, LexicalFields("pad pad", speaker="Rust"))
    hits = view.search("rust", 10)
    assert hits.numbers.tolist() == [1, 2, 0, 3]
    # Equal lengths of 3 and df 4 of 4: ln(1 + 0.5/4.5); one occurrence 1.9/1.9, two 3.8/2.9.
    assert hits.scores.tolist() == pytest.approx([0.105361 * 3.8 / 2.9] * 2 + [0.105361] * 2, rel=1e-5)


def test_a_memory_is_found_as_soon_as_it_is_put_and_not_once_it_is_dropped() -> None:
    view = LexicalIndex()
    assert found(view, "cat") == []
    view.put(7, LexicalFields("a cat"))
    assert found(view, "cat") == [7]
    assert (7 in view, 6 in view, -1 in view, 99999 in view, len(view)) == (True, False, False, False, 1)
    view.drop(7)
    assert found(view, "cat") == []
    assert (7 in view, len(view)) == (False, 0)
    view.drop(7)
    view.drop(12345)
    assert len(view) == 0


def test_putting_again_replaces_every_word() -> None:
    view = view_of("cat", "dog")
    view.put(0, LexicalFields("bird"))
    assert found(view, "cat") == []
    assert found(view, "bird") == [0]
    assert len(view) == 2
    assert (view.document_frequency("cat"), view.document_frequency("bird")) == (0, 1)


def test_equal_scores_are_ordered_by_number() -> None:
    view = LexicalIndex()
    for number in (5, 3, 9, 1):
        view.put(number, LexicalFields("same words"))
    assert found(view, "words") == [1, 3, 5, 9]
    assert found(view, "words", k=2) == [1, 3]
    view.put(3, LexicalFields("same words"))
    assert found(view, "words", k=3) == [1, 3, 5]


@pytest.mark.parametrize("k", [0, -1])
def test_none_wanted_is_none_found(k: int) -> None:
    assert found(view_of("cat"), "cat", k) == []


def test_allowed_narrows_the_answer_and_changes_no_score() -> None:
    view = view_of("cat", "cat cat", "cat cat cat", "dog")
    everything = view.search("cat", 10)
    assert everything.numbers.tolist() == [2, 1, 0]
    hits = view.search("cat", 1, np.array([True, True, False, True]))
    assert hits.numbers.tolist() == [1]
    assert hits.scores[0] == everything.scores[1]
    assert view.search("cat", 10, np.array([True])).numbers.tolist() == [0]
    assert view.search("cat", 10, np.zeros(0, np.bool_)).numbers.tolist() == []


def test_stop_words_find_something_when_there_is_nothing_else() -> None:
    view = view_of("To be, or not to be", "who is it?", "cats")
    assert found(view, "to be or not to be") == [0]
    assert found(view, "who is it") == [1]
    assert found(view, "who has cats") == [2]


def test_chinese_japanese_and_korean_are_found_by_one_two_and_more_characters() -> None:
    view = view_of("私は東京都に住んでいます", "京都の秋", "나는 한국어를 공부한다", "plain text")
    assert found(view, "東京") == [0]
    assert found(view, "京都") == [1, 0]  # also inside 東京都, in a longer text
    assert found(view, "秋") == [1]
    assert found(view, "都") == [1, 0]
    assert found(view, "한국어") == [2]
    assert found(view, "語") == []


@pytest.mark.parametrize(
    "query",
    [
        "",
        " ",
        "*",
        "what's \"up",
        "C++ OR",
        "a-b",
        "foo:bar",
        "AND",
        "NEAR(",
        "(((",
        "\x00",
        "\ud800",
        "%s{}[",
        "'",
        "\\",
        "🎉",
        "-cat",
        "cat" * 5000,
        "/" * 9000,
    ],
)
def test_any_text_is_a_query(query: str) -> None:
    view = view_of("cat", query)
    assert set(found(view, query)) <= {0, 1}


def test_a_word_repeated_beyond_measure_counts_as_often_as_can_be_kept() -> None:
    view = view_of("cat " * 300, "cat " * 290)  # both 255 times, so the shorter is ahead
    assert COUNT_MAX == 255
    assert found(view, "cat") == [1, 0]


def test_merging_into_the_base_changes_no_score() -> None:
    count = RECENT_SLOTS_MIN + 10
    view = LexicalIndex()
    for number in range(count):
        view.put(number, LexicalFields(f"common w{number % 97}x"))
        if number == 200:
            before = view.document_frequency("common")
    assert before == 201
    view.drop(3)
    assert view.document_frequency("common") == count - 1
    assert found(view, "w96x", k=2) == [96, 193]
    assert found(view, "w3x", k=1) == [100]
    assert len(view) == count - 1


def test_putting_many_is_putting_each() -> None:
    memories = [(number % 50, LexicalFields(f"cat w{number % 7}x")) for number in range(60)] + [
        (99, LexicalFields("Ann", tags=("cat",)))
    ]
    one_by_one, together = view_of("bird", "bird cat"), view_of("bird", "bird cat")
    for number, fields in memories:
        one_by_one.put(number, fields)
    together.put_many(iter(memories))
    assert len(together) == len(one_by_one) == 51
    for query in ("cat", "w3x ann", "bird", "cat w1x"):
        expected, hits = one_by_one.search(query, 99), together.search(query, 99)
        assert (hits.numbers.tobytes(), hits.scores.tobytes()) == (
            expected.numbers.tobytes(),
            expected.scores.tobytes(),
        )
    together.drop(99)
    assert found(together, "ann") == []


def test_a_saved_index_is_loaded_with_its_meta_and_can_be_written_to(tmp_path: Path) -> None:
    path = tmp_path / "words.view"
    view = view_of("cat", "dog", "cat dog")
    view.drop(1)
    view.save(path, {"seq": 12}, Disk())
    loaded, meta = LexicalIndex.load(path)
    assert meta == {"seq": 12}
    assert found(loaded, "dog") == [2]
    loaded.put(0, LexicalFields("dog"))
    loaded.put(9, LexicalFields("bird"))
    assert found(loaded, "dog") == [0, 2]
    assert found(loaded, "cat") == [2]
    assert found(loaded, "bird") == [9]
    loaded.save(path, {"seq": 14}, Disk())  # over the file it is mapped from
    assert found(loaded, "dog") == [0, 2]
    assert found(LexicalIndex.load(path)[0], "dog") == [0, 2]


def test_an_empty_index_is_saved_and_loaded(tmp_path: Path) -> None:
    LexicalIndex().save(tmp_path / "words.view", {}, Disk())
    loaded, meta = LexicalIndex.load(tmp_path / "words.view")
    assert (len(loaded), meta, found(loaded, "cat")) == (0, {}, [])


def test_a_file_that_is_missing_or_made_with_other_rules_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.view"
    with pytest.raises(IndexMismatch):
        LexicalIndex.load(path)
    view_of("cat").save(path, {}, Disk())
    with pytest.raises(IndexMismatch, match="other tokenizer rules"):
        LexicalIndex.load(path, "german")
    signature = Tokenizer().signature
    index_file.save(path, KIND, {"terms": signature, "owner": {}}, {"keys": np.zeros(1, np.uint64)}, Disk())
    with pytest.raises(IndexMismatch, match="do not fit"):
        LexicalIndex.load(path)


def test_a_memory_is_found_by_its_marks_as_long_as_it_is_in_the_index(tmp_path: Path) -> None:
    view = LexicalIndex()
    assert view.numbers_with_marks(["home"]).tolist() == []
    view.put(4, LexicalFields("cat", marks=("home", "sam home")))
    view.put(2, LexicalFields("dog", marks=("home",)))
    view.put_many([(9, LexicalFields("bird", marks=("work",)))])
    assert view.numbers_with_marks(["home"]).tolist() == [2, 4]
    assert view.numbers_with_marks(["sam home", "work", "nothing"]).tolist() == [4, 9]
    assert view.numbers_with_marks(["home", "sam home"]).tolist() == [2, 4], "each once"
    assert view.numbers_with_marks([]).tolist() == []
    assert view.numbers_with_marks(["home", "work"], np.array([True] * 4)).tolist() == [2]
    view.put(4, LexicalFields("cat"))
    assert view.numbers_with_marks(["home", "sam home"]).tolist() == [2]
    view.save(tmp_path / "words.view", {}, Disk())
    loaded, _ = LexicalIndex.load(tmp_path / "words.view")
    assert loaded.numbers_with_marks(["home", "work"]).tolist() == [2, 9]
    loaded.drop(2)
    assert loaded.numbers_with_marks(["home", "work"]).tolist() == [9]


def test_no_query_finds_a_mark_and_no_score_feels_one() -> None:
    plain, marked = LexicalIndex(), LexicalIndex()
    for number, text in enumerate(("cat", "cat dog dog", "a home for birds")):
        plain.put(number, LexicalFields(text))
        marked.put(number, LexicalFields(text, marks=("home", "cat", "dog", "a b")))
    assert marked.mean_length == plain.mean_length
    for query in ("cat", "dog cat", "home", " home", "a b", "a", "birds"):
        expected, hits = plain.search(query, 9), marked.search(query, 9)
        assert hits.numbers.tolist() == expected.numbers.tolist()
        assert hits.scores.tobytes() == expected.scores.tobytes()
    assert marked.document_frequency("home") == 1
    assert marked.numbers_with_marks(["birds"]).tolist() == [], "a word is no mark"


def test_a_search_never_sees_half_a_write() -> None:
    """One memory is replaced and dropped over and over during searches: each finds it complete and once, or not at
    all."""
    view = view_of("cat apple", "other")
    whole = view.search("cat apple pear", 5).scores.tolist()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            view.put(0, LexicalFields("cat pear"))
            view.put(0, LexicalFields("cat apple"))
            view.drop(0)
            view.put(0, LexicalFields("apple cat"))

    writer = threading.Thread(target=write)
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that the threads alternate within every write
    writer.start()
    try:
        answers = [view.search("cat apple pear", 5).scores.tolist() for _ in range(3000)]
    finally:
        stop.set()
        writer.join()
        sys.setswitchinterval(switch_interval)
    assert whole in answers
    assert [answer for answer in answers if answer not in (whole, [])] == []


def test_texts_outside_the_index_are_scored_by_its_counts() -> None:
    view = view_of("cat", "cat dog dog")  # N = 2, mean length 2
    scores = view.score_texts(
        "dog bird", [LexicalFields("a bird and a dog"), LexicalFields("fish"), LexicalFields("birds", tags=("dog",))]
    )
    # dog: df 1, ln 2; bird: df 0, ln(1 + 2.5/0.5) = ln 6; both texts have length 2: f·1.9 / (f + 0.9)
    first = (0.693147 + 1.791759) * 1.9 / 1.9
    third = 0.693147 * 2 * 1.9 / 2.9 + 1.791759 * 1.9 / 1.9
    assert scores.tolist() == pytest.approx([first, 0.0, third], rel=1e-5)
    assert scores.dtype == np.float32
    assert view.score_texts("the", [LexicalFields("cat")]).tolist() == [0.0]
    assert view.score_texts("cat", []).tolist() == []
    # An empty view counts a mean length of 1: ln(1 + 0.5/0.5) · 1.9 / 1.9
    assert LexicalIndex().score_texts("cat", [LexicalFields("cat")]).tolist() == pytest.approx([0.693147], rel=1e-5)


def test_a_text_has_the_same_score_outside_the_index_to_the_byte() -> None:
    texts = [
        LexicalFields("the cat saw 3.11.2 running", "Ines", ("home", "cat"), ("House", "Keys")),
        LexicalFields("dog " * 300),
    ]
    view = LexicalIndex()
    for number, fields in enumerate([*texts, LexicalFields("a dog runs home"), LexicalFields("gone cat")]):
        view.put(number, fields)
    view.drop(3)
    for query in ("cat", "dog home runs", "ines 3.11 keys house cat run"):
        hits = view.search(query, 10)
        within = np.zeros(4, np.float32)
        within[hits.numbers] = hits.scores
        assert view.score_texts(query, texts).tobytes() == within[:2].tobytes()


def test_the_contributions_of_all_terms_add_up_to_the_score() -> None:
    view = view_of("cat", "cat dog dog", "bird")  # N = 3, lengths 1, 3 and 1, mean 5/3
    matches = view.matches("cat dogs fish", np.array([1, 0, 2]))
    rows = {term: row for row, term in enumerate(matches.terms)}
    assert sorted(rows) == ["cat", "dog", "fish"]
    order = [rows["cat"], rows["dog"], rows["fish"]]
    assert matches.holds[order].tolist() == [[True, True, False], [True, False, False], [False, False, False]]
    # df 2, 1 and 0: ln(1 + 1.5/2.5), ln(1 + 2.5/1.5), ln(1 + 3.5/0.5)
    assert matches.weights[order].tolist() == pytest.approx([0.470004, 0.980829, 2.079442], rel=1e-5)
    # Dampings 0.9·(0.6 + 0.4·3/(5/3)) = 1.188 and 0.9·(0.6 + 0.4·1/(5/3)) = 0.756.
    assert matches.parts[order].ravel().tolist() == pytest.approx(
        [0.470004 * 1.9 / 2.188, 0.470004 * 1.9 / 1.756, 0, 0.980829 * 3.8 / 3.188, 0, 0, 0, 0, 0], rel=1e-5
    )
    hits = view.search("cat dogs fish", 10)
    assert matches.scores[:2].tobytes() == hits.scores.tobytes()
    assert [array.dtype.name for array in matches[1:]] == ["float32", "bool", "float32", "float32"]


def test_the_best_of_many_that_hold_common_words_are_those_of_all() -> None:
    """Every text holds `all`, every second one `half`, every 20th `few`; each is long in its own way."""
    view = LexicalIndex()
    texts = [
        " ".join(["all"] + ["half"] * (number % 2) + ["few"] * (number % 20 == 3) + ["filler"] * (number % 7))
        for number in range(MANY_POSTINGS)
    ]
    view.put_many((number, LexicalFields(text)) for number, text in enumerate(texts))
    for number in range(5, MANY_POSTINGS, 11):
        view.drop(number)
    odd = np.arange(MANY_POSTINGS) % 3 == 1
    for query in ("half few all", "few all", "all half"):
        for allowed in (None, odd, np.arange(MANY_POSTINGS) < 40):
            every = view.search(query, MANY_POSTINGS, allowed)
            for k in (1, 20, 300):
                hits, sought = view.search_with_postings(query, k, allowed)
                assert hits.numbers.tolist() == every.numbers[:k].tolist()
                assert hits.scores.tobytes() == every.scores[:k].tobytes()
            asked = np.array([3, 1, 0, 43, 99_999])
            assert view.scores_of(sought, asked).tobytes() == view.matches(query, asked).scores.tobytes()


def test_a_number_that_is_not_there_matches_nothing() -> None:
    view = view_of("cat", "cat")
    view.drop(1)
    for numbers in (np.array([-1, 1, 2, 99_999]), np.array([2**32 - 1, 1, 2, 99_999], np.uint32)):
        assert not view.matches("cat dog", numbers).holds.any()
    assert view.matches("cat", np.empty(0, np.uint32)).parts.shape == (1, 0)
    assert view.matches("", np.array([0])).parts.shape == (0, 1)
    empty = LexicalIndex().matches("cat", np.array([0]))
    assert (empty.terms, empty.holds.tolist(), empty.parts.tolist()) == (["cat"], [[False]], [[0.0]])


def test_a_memory_that_is_put_after_the_search_has_no_score_in_it() -> None:
    view = view_of("a kettle", "a lamp")
    _, sought = view.search_with_postings("kettle", 10)
    view.put(2, LexicalFields("another kettle"))
    assert view.scores_of(sought, np.array([0, 2])).tolist() == [view.scores_of(sought, np.array([0]))[0], 0.0]


def test_the_candidates_of_a_query_are_unaffected_by_later_writes() -> None:
    view = view_of("cat", "cat dog", "dog", "bird")
    hits, sought = view.search_with_postings("cat", 10)
    before = view.matches(sought, np.array([0, 1, 2, 3, 4]))
    assert before.holds.tolist() == [[True, True, False, False, False]]
    view.drop(0)
    assert view.matches(sought, np.array([0, 1, 2, 3, 4])).parts.tobytes() == before.parts.tobytes()
    view.put(0, LexicalFields("dog"))
    view.put(2, LexicalFields("cat cat"))
    view.drop(1)
    view.put(4, LexicalFields("cat"))
    after = view.matches(sought, np.array([0, 1, 2, 3, 4]))
    assert after.holds.tolist() == before.holds.tolist()
    assert after.parts.tobytes() == before.parts.tobytes()
    view.put_many([(5, LexicalFields("cat"))])  # gives every memory another slot
    view.put(1, LexicalFields("bird"))
    assert view.matches(sought, hits.numbers).scores.tobytes() == hits.scores.tobytes()
    assert view.matches("cat", np.array([0, 1, 2, 3, 4, 5])).holds.tolist() == [[False, False, True, False, True, True]]
