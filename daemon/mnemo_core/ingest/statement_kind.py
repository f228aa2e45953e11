"""The kind of a statement by its words: a state, an event, an instruction, a moment, or a question. SPEC 5.4

A linear model of words, pairs of words, endings and the signs of a reading, which other labels of a text use as well.
Its weights are fitted to labelled statements (`tests/bench/fit_kinds.py`) and kept in a table that features are hashed
into, so that no list of words is needed.
"""

import base64
import functools
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_core.text import lexicon
from mnemo_core.text.languages import UNSPACED_CHARACTER
from mnemo_core.text.lexicon import listed
from mnemo_core.text.statement_reading import STATEMENT_CHARACTERS, read_statement
from mnemo_core.text.syntax.english import BASE_OF_PAST, BASE_OF_THIRD
from mnemo_core.text.text_cache import TextCache

KINDS: Final = ("state", "event", "instruction", "moment", "question")  # in the order of the probabilities
ROWS: Final = 1 << 14  # of the table of weights
_FIRST_WORDS = 4  # one of them that ends in -ed is a sign of the past tense
_VERB_WITHIN = 8  # words
_BE = listed("is are was were be been being am it's i'm get gets got")
_HAVE = listed("has have had i've we've they've hasn't haven't")
_BASES = frozenset(BASE_OF_THIRD.values())
_LONG = 15.0  # words of a statement of ordinary length


class StatementKind(NamedTuple):
    """The most probable label of a text, and the probabilities of all, in the order of the labels."""

    name: str
    probabilities: tuple[float, ...]


class LinearTextModel:
    """A linear model of the features of a text, whose weights stand in a lexicon."""

    def __init__(self, weights: str, labels: Sequence[str], rows: int) -> None:
        """weights: the name of the lexicon; rows: of its table."""
        self._name, self._labels, self._rows = weights, labels, rows

    def __call__(self, text: str) -> StatementKind:
        scores = self.scores(text)
        odds = np.exp(scores - scores.max())
        probabilities = tuple((odds / odds.sum()).tolist())
        return StatementKind(self._labels[int(np.argmax(scores))], probabilities)

    def scores(self, text: str, signs: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """The log-odds of each label, but for a constant. signs: further features, of a model that has weights of
        them."""
        weights, bias = self._weights
        found = dict(kind_features(text))
        rows = [feature_row(name, self._rows) for name in found]
        scores: NDArray[np.float32] = np.array([*found.values()], np.float32) @ weights[rows] + bias
        return scores if signs is None else scores + signs @ self._sign_weights

    @functools.cached_property
    def _weights(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The table (rows, labels) and the bias (labels)."""
        scale, *bias = (float(each) for each in lexicon.lines(self._name, "scale and bias")[0].split())
        table = np.frombuffer(base64.b64decode("".join(lexicon.lines(self._name, "weights"))), np.int8)
        table = table.reshape(self._rows, len(self._labels))
        return table.astype(np.float32) * np.float32(scale), np.array(bias, np.float32)

    @functools.cached_property
    def _sign_weights(self) -> NDArray[np.float32]:
        """The weights of further features (signs, labels)."""
        table = np.frombuffer(base64.b64decode("".join(lexicon.lines(self._name, "signs"))), np.float16)
        return table.reshape(-1, len(self._labels)).astype(np.float32)


# The kind of a text of a sentence or two.
statement_kind = TextCache(LinearTextModel("kinds", KINDS, ROWS), STATEMENT_CHARACTERS)


def feature_row(name: str, rows: int = ROWS) -> int:
    """The row of a table of so many that a feature has, which it may share with others."""
    return zlib.crc32(name.encode()) % rows


def kind_features(text: str) -> Iterator[tuple[str, float]]:
    """The features of a text by name. One that comes twice counts once."""
    read = read_statement(text)
    words = read.plain
    for word in words:
        yield f"w:{word}", 1.0
        if len(word) > 4:
            yield f"s:{word[-3:]}", 1.0
            yield f"s2:{word[-2:]}", 1.0
    for one, two in zip(("^", *words), (*words, "$"), strict=True):
        yield f"b:{one}_{two}", 1.0
    if words:
        yield f"first:{words[0]}", 1.0
        yield f"first2:{'_'.join(words[:2])}", 1.0
    yield "words", min(len(words), 30) / _LONG
    yield f"person:{read.person}", 1.0
    yield from ((f"sign:{sign}", 1.0) for sign in read.signs)
    yield from ((f"has:{kind}", 1.0) for kind, values in read.values.items() if values)
    for date in read.values["date"]:
        form = "time" if date[0] == "T" else "weekday" if date.startswith("week") else "day" if "-" in date else date
        yield f"date:{form}", 1.0
    yield "colon", float(":" in text)
    yield "ing", float(any(word.endswith("ing") for word in words))
    yield "ed", float(any(word.endswith("ed") for word in words[:_FIRST_WORDS]))
    yield "asks", float(read.is_question)
    yield from _tense(words)
    if UNSPACED_CHARACTER.search(text):
        yield from ((f"z:{text[at : at + length]}", 1.0) for length in (1, 2) for at in range(len(text) - length + 1))


def _tense(words: Sequence[str]) -> Iterator[tuple[str, float]]:
    """The form of the first English verb, and whether the statement begins with one."""
    for at, word in enumerate(words[:_VERB_WITHIN]):
        if word in BASE_OF_PAST or word.endswith("ed"):
            before = words[at - 1] if at else "^"
            form = "participle" if before in _BE else "perfect" if before in _HAVE else "past"
            yield f"verb:{form}", 1.0
            yield f"verb:{form} of {BASE_OF_PAST.get(word, '')}", 1.0
            return
        if word in BASE_OF_THIRD:
            yield "verb:present", 1.0
            return
    if words and words[0] in _BASES:
        yield "verb:base first", 1.0
