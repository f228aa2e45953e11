"""Share of excerpts that show the answer, and the weights of `mnemo_core/retrieval/excerpts.py`.

`python -m tests.bench.fit_excerpts` prints how many of each set and half show it, in int8 and in float32: before (the
one sentence with the most words of the question), by words and kind of answer alone, and now. `--fit` also fits the
weights on the even lines of both sets.
"""

import os
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mnemo_client.paths import models_folder
from mnemo_core.retrieval import excerpts
from mnemo_core.retrieval.excerpts import TokenRows
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.embedders.embedding import load_embedder
from mnemo_daemon.settings import Numerics
from tests.bench import harness
from tests.support.labelled_passages import TERMS, LabelledPassage, made, notes, shown, token_rows

STEPS, RATE, DECAY = 4000, 0.3, 0.3
SCALES = np.array([10, 10, 1, 1, 1, 1], np.float64)  # the columns made about equally wide
HALVES = ("held out", "tuning")  # of the places, counted from 1: odd, even
FORMS: tuple[Numerics, ...] = ("int8", "float32")

Examples = list[tuple[NDArray[np.float64], NDArray[np.bool_]]]


def examples(items: Sequence[LabelledPassage], rows: Sequence[TokenRows | None]) -> Examples:
    """Of each passage the features of its sentences, and which of them answer."""
    found: Examples = []
    for item, own in zip(items, rows, strict=True):
        text = item.text
        places = [(a, b) for a, b in excerpts.sentence_spans(text) if not excerpts.is_markup(text[a:b])]
        is_right = np.array([item.is_in(text[a:b]) for a, b in places])
        if is_right.any():
            marks = TERMS.highlight_spans(text, item.question)
            found.append((excerpts.features(text, item.question, places, marks, own) * SCALES, is_right))
    return found


def fit(table: Examples) -> NDArray[np.float64]:
    """The weights under which the sentence that answers is the likeliest, by gradient ascent with a penalty."""
    weights = np.zeros(len(SCALES))
    for _ in range(STEPS):
        slope = -DECAY * weights
        for values, is_right in table:
            chances = np.exp(values @ weights - (values @ weights).max())
            chances /= chances.sum()
            right = chances * is_right / (chances * is_right).sum()
            slope += values.T @ (right - chances)
        weights += RATE / len(table) * slope
    return weights * SCALES


def main(*, fit_: bool = False) -> None:
    manifest = ModelCatalogue(models_folder(os.environ)).installed(DEFAULT_EMBEDDING)
    assert manifest is not None, "install the embedding model first"
    tuning: Examples = []
    for numerics in FORMS:
        embedder = load_embedder(manifest, numerics=numerics)
        for name, items in (("made", made()), ("notes", notes())):
            rows = token_rows(embedder, items)
            if numerics == "int8":
                tuning += examples(items[1::2], rows[1::2])
            started = time.thread_time()
            texts = [shown(item, own) for item, own in zip(items, rows, strict=True)]
            took = (time.thread_time() - started) / len(items) * 1000
            by_words = [shown(item, None) for item in items]
            before = [_by_most_words(item) for item in items]
            for half, label in enumerate(HALVES):
                some = items[half::2]
                counts = [
                    sum(item.is_in(text) for item, text in zip(some, each[half::2], strict=True))
                    for each in (before, by_words, texts)
                ]
                print(
                    f"{numerics} {name} {label}: of {len(some)} "
                    f"before {counts[0]}, by words {counts[1]}, now {counts[2]}"
                )
            print(f"{numerics} {name}: {took:.2f} ms of CPU each")
    if fit_:
        print("weights", fit(tuning).round(2))


def _by_most_words(item: LabelledPassage) -> str:
    start, end = excerpts.best_sentence(item.text, TERMS.highlight_spans(item.text, item.question))
    return item.text[start:end]


if __name__ == "__main__":
    harness.run(main)
