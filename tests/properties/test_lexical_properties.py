"""Properties of the lexical index and of terms for any text. SPEC 7.2, 17.2, 17.8"""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_store.disk import Disk
from mnemo_store.indexes.lexical import LexicalFields, LexicalIndex
from mnemo_store.indexes.tokenizer import Tokenizer, chunks
from tests.support.samples import quick_folder

ENGLISH = Tokenizer()
tokens, query_terms, highlight_spans = ENGLISH.tokens, ENGLISH.query_terms, ENGLISH.highlight_spans
ANY_TEXT = st.text(st.characters(), max_size=200)
SPICY_TEXT = st.text(
    st.sampled_from("aAbB1 2._-'’/:+#@,~é\u0301ﬁ京都ｶﾞ한\u1112\u1161\u11ab🎉\u200b\u00ad\ud800\x00\x01İßำ"), max_size=40
)
TEXTS = st.lists(st.sampled_from(["cat", "dog", "bird", "wordView", "the", "東京都", "京", "C++"]), max_size=7).map(
    " ".join
)
WRITES = st.lists(st.tuples(st.integers(0, 9), st.none() | TEXTS | SPICY_TEXT), max_size=30)
QUERIES = ["cat dog bird run", "the is", "東京都", "京", "word c++ nothing", "a b 1 2"]


def answers(view: LexicalIndex, queries: list[str]) -> list[tuple[bytes, bytes]]:
    return [(hits.numbers.tobytes(), hits.scores.tobytes()) for hits in (view.search(q, 20) for q in queries)]


def written(writes: list[tuple[int, str | None]]) -> tuple[LexicalIndex, dict[int, str]]:
    view = LexicalIndex()
    texts: dict[int, str] = {}
    for number, text in writes:
        if text is None:
            view.drop(number)
            texts.pop(number, None)
        else:
            view.put(number, LexicalFields(text, tags=(text[:3],)))
            texts[number] = text
    return view, texts


@given(WRITES, WRITES, SPICY_TEXT)
@settings(max_examples=120, deadline=None)
def test_scores_after_any_writes_equal_those_of_a_new_index_to_the_byte(
    first: list[tuple[int, str | None]], second: list[tuple[int, str | None]], query: str
) -> None:
    queries = [*QUERIES, query]
    view, texts = written([*first, *second])
    fresh, _ = written(sorted(texts.items(), reverse=True))
    assert answers(view, queries) == answers(fresh, queries)
    together = LexicalIndex()
    together.put_many((number, LexicalFields(text, tags=(text[:3],))) for number, text in texts.items())
    assert answers(together, queries) == answers(fresh, queries)

    with quick_folder() as folder:
        path = folder / "words.view"
        begun, _ = written(first)
        begun.save(path, {}, Disk())
        for merged in (begun, LexicalIndex.load(path)[0]):
            for number, text in second:
                if text is None:
                    merged.drop(number)
                else:
                    merged.put(number, LexicalFields(text, tags=(text[:3],)))
            assert answers(merged, queries) == answers(fresh, queries)
        merged.save(path, {}, Disk())
        assert answers(LexicalIndex.load(path)[0], queries) == answers(fresh, queries)


@given(ANY_TEXT | SPICY_TEXT, ANY_TEXT | SPICY_TEXT)
def test_tokens_stand_inside_the_text_and_marks_are_apart_and_in_order(text: str, query: str) -> None:
    for token in tokens(text, keep_stops=True):
        assert 0 <= token.start < token.end <= len(text)
        assert token.term
        assert token.term.encode()
        assert not any(character.isspace() for character in text[token.start : token.end])
    spans = highlight_spans(text, query)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans))


@given(ANY_TEXT | SPICY_TEXT)
def test_whatever_has_terms_is_found_and_marked_by_its_own_text(text: str) -> None:
    view = LexicalIndex()
    view.put(3, LexicalFields(text))
    asked = query_terms(text)
    assert view.search(text, 5).numbers.tolist() == ([3] if asked else [])
    assert bool(highlight_spans(text, text)) == bool(asked)


@given(ANY_TEXT | SPICY_TEXT)
def test_a_text_has_the_terms_of_its_chunks_whatever_stands_between_them(text: str) -> None:
    apart = " ; ".join(chunks(text))
    assert [token.term for token in tokens(apart)] == [token.term for token in tokens(text)]


@given(st.text(st.sampled_from("東京都日本語カナ한국어"), min_size=1, max_size=12), st.data())
def test_every_stretch_of_text_without_spaces_finds_it(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    view = LexicalIndex()
    view.put(0, LexicalFields(f"intro {text} outro"))
    assert view.search(text[start:end], 1).numbers.tolist() == [0]
