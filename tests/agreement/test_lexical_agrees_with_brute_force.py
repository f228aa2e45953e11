"""The word view against BM25 worked out in plain Python over a dict, through any sequence of writes. SPEC 7.2, 17.2"""

import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mnemo_store.disk import Disk
from mnemo_store.indexes.lexical import (
    K1,
    B,
    LexicalFields,
    LexicalIndex,
    LexicalMatches,
    QueryPostings,
)
from mnemo_store.indexes.tokenizer import Tokenizer, chunks
from tests.support.examples import examples

NUMBERS = st.integers(0, 12)
WORDS = st.sampled_from(["cat", "dogs", "wordView", "the", "is", "東京都", "京", "3.11.2", "C++", "run", "running"])
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)
MARKS = ["cat", "the", "I home", "sam home", "run"]  # words too: a mark is none
FIELDS = st.builds(
    LexicalFields, TEXTS, speaker=TEXTS, tags=st.tuples(TEXTS), headings=st.lists(TEXTS, max_size=2).map(tuple),
    marks=st.lists(st.sampled_from(MARKS), max_size=3).map(tuple),
)  # fmt: skip
QUERIES = ["cat", "dog cat word_view", "the", "is the", "東京 cat", "都", "3.11", "c++ runs", "nothing"]


ALL_NUMBERS = np.arange(-1, 16)


def reported(matches: LexicalMatches) -> list[bytes]:
    return [array.tobytes() for array in (matches.weights, matches.holds, matches.parts)]


def counted(tokenizer: Tokenizer, fields: LexicalFields) -> tuple[dict[str, int], int]:
    """Weighted occurrences by term, and length in words."""
    counts: dict[str, int] = {}
    length = 0
    weighted = [(fields.content, 1), (fields.speaker, 1), *((t, 2) for t in fields.tags + fields.headings)]
    for text, weight in weighted:
        for piece in (piece for chunk in chunks(text) for piece in tokenizer.pieces(chunk)):
            counts[piece.term] = counts.get(piece.term, 0) + weight
            length += piece.kind == "word"
    return counts, length


def holding(memories: dict[int, LexicalFields], term: str, numbers: list[int]) -> list[bool]:
    tokenizer = Tokenizer()
    return [number in memories and term in counted(tokenizer, memories[number])[0] for number in numbers]


def bm25(memories: dict[int, LexicalFields], query: str) -> dict[int, float]:
    tokenizer = Tokenizer()
    held = {number: counted(tokenizer, fields) for number, fields in memories.items()}
    mean = sum(length for _, length in held.values()) / max(1, len(held)) or 1.0
    scores: dict[int, float] = {}
    for term in tokenizer.query_terms(query):
        df = sum(term in counts for counts, _ in held.values())
        idf = math.log(1 + (len(held) - df + 0.5) / (df + 0.5))
        for number, (counts, length) in held.items():
            if f := counts.get(term, 0):
                part = idf * f * (K1 + 1) / (f + K1 * (1 - B + B * length / mean))
                scores[number] = scores.get(number, 0.0) + part
    return scores


class WordsAndBruteForce(RuleBasedStateMachine):
    """Everything put, dropped, saved and loaded in any order is found as if it had just been written."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.view = LexicalIndex()
        self.memories: dict[int, LexicalFields] = {}
        self.moments: list[tuple[QueryPostings, list[bytes]]] = []

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(number=NUMBERS, fields=FIELDS)
    def put(self, number: int, fields: LexicalFields) -> None:
        self.view.put(number, fields)
        self.memories[number] = fields

    @rule(number=NUMBERS)
    def drop(self, number: int) -> None:
        self.view.drop(number)
        self.memories.pop(number, None)

    @rule()
    def save(self) -> None:
        self.view.save(Path(self.folder.name) / "words.view", {}, Disk())

    @rule()
    def save_and_load(self) -> None:
        self.save()
        self.view, _ = LexicalIndex.load(Path(self.folder.name) / "words.view")
        self.moments.clear()  # those of another view

    @rule(query=TEXTS, k=st.integers(1, 5), allowed=st.lists(st.booleans(), max_size=14))
    def search_some(self, query: str, k: int, allowed: list[bool]) -> None:
        scores = {n: s for n, s in bm25(self.memories, query).items() if n < len(allowed) and allowed[n]}
        hits = self.view.search(query, k, np.array(allowed, np.bool_))
        assert sorted(hits.scores, reverse=True) == pytest.approx(sorted(scores.values(), reverse=True)[:k], rel=1e-5)
        assert [scores[int(number)] for number in hits.numbers] == pytest.approx(hits.scores.tolist(), rel=1e-5)

    @rule(query=TEXTS, numbers=st.lists(st.integers(-2, 40), max_size=9))
    def match_some(self, query: str, numbers: list[int]) -> None:
        hits, sought = self.view.search_with_postings(query, 40)
        matches = self.view.matches(query, np.array(numbers, np.int32))
        expected = bm25(self.memories, query)
        assert sorted(matches.terms) == sorted(Tokenizer().query_terms(query))
        assert matches.scores.tolist() == pytest.approx([expected.get(number, 0.0) for number in numbers], rel=1e-5)
        for row, term in enumerate(matches.terms):
            assert matches.holds[row].tolist() == holding(self.memories, term, numbers)
            df = sum(holding(self.memories, term, list(self.memories)))
            idf = math.log(1 + (len(self.memories) - df + 0.5) / (df + 0.5))
            assert float(matches.weights[row]) == pytest.approx(idf, rel=1e-6)
        assert ((matches.parts > 0) == matches.holds).all()
        assert self.view.matches(sought, hits.numbers).scores.tobytes() == hits.scores.tobytes()
        self.moments.append((sought, reported(self.view.matches(sought, ALL_NUMBERS))))

    @rule()
    def look_back(self) -> None:
        """A query's earlier result stays the same, whatever was written since."""
        for sought, was in self.moments:
            assert reported(self.view.matches(sought, ALL_NUMBERS)) == was

    @rule()
    def begin_anew(self) -> None:
        """Fresh slots for all, as put_many gives."""
        self.view.put_many(self.memories.items())

    @invariant()
    def every_query_agrees(self) -> None:
        assert len(self.view) == len(self.memories)
        assert {number for number in range(14) if number in self.view} == set(self.memories)
        for query in QUERIES:
            expected = bm25(self.memories, query)
            hits = self.view.search(query, 100)
            assert dict(zip(hits.numbers.tolist(), hits.scores.tolist(), strict=True)) == pytest.approx(
                expected, rel=1e-5
            )
            order = sorted(zip((-hits.scores).tolist(), hits.numbers.tolist(), strict=True))
            assert [number for _, number in order] == hits.numbers.tolist()
        for marks in ([each] for each in MARKS):
            holding = [number for number, fields in self.memories.items() if set(marks) & set(fields.marks)]
            assert self.view.numbers_with_marks(marks).tolist() == sorted(holding)
            assert self.view.numbers_with_marks([*marks, "run"], np.ones(6, np.bool_)).tolist() == [
                number
                for number in range(6)
                if number in self.memories and {*marks, "run"} & set(self.memories[number].marks)
            ]


TestWordsAndBruteForce = WordsAndBruteForce.TestCase
TestWordsAndBruteForce.settings = settings(max_examples=examples(12), stateful_step_count=20, deadline=None)
