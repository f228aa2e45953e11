"""Fits the projection of a model's token vectors on texts of the project's own, and says what it gives.

    python -m tests.bench.fit_projection [--write [--codebook]] [--dimensions 64] [--compare]

The directions in which the kept tokens of these texts differ most from nothing: the first right singular vectors of
their token vectors, each of unit length, not centred, since what is wanted back is their products. `--write` replaces
the shipped projection and the codebook of its rows; the same model on the same machine gives the same files.
`--compare` measures late interaction alone, in several widths, on the questions of the conversations: no words, no
sentence vectors, nothing around it.
"""

import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import mnemo_daemon
from mnemo_client.paths import models_folder
from mnemo_core.retrieval.ranking import late_interaction
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue, ModelManifest
from mnemo_daemon.models.embedders import token_rows
from mnemo_daemon.models.embedders.embedding import GraphEmbedder
from mnemo_daemon.models.embedders.token_rows import ENTRIES, Codebook, Projection, part_widths
from tests.bench import harness
from tests.bench.tables import show
from tests.support import recall_sets

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(mnemo_daemon.__file__).parent / "projections"
DOCUMENTS = ("README.md", "clients/docs/*.md", "daemon/docs/*.md", "daemon/docs/adr/*.md", "store/docs/*.md")
WIDTHS = (32, 48, 64, 96, 128)
TURNS_EVERY = 3  # of the turns for the codebook: enough tokens for its entries
ROUNDS = 15  # of k-means
SEED = 5

Floats = NDArray[np.float32]


class Whole(NamedTuple):
    """The hidden rows of a text's kept tokens, and the word of each."""

    rows: Floats  # (tokens, width of the model), unit
    words: tuple[str, ...]


class Set(NamedTuple):
    """A store, and the questions that are asked of it, each with the places of what answers."""

    texts: list[Whole]
    questions: list[tuple[Whole, set[int]]]


class Hidden(GraphEmbedder):
    """The model with nothing projected."""

    def __init__(self, manifest: ModelManifest) -> None:
        super().__init__(manifest, Projection(np.eye(manifest.dimensions, dtype=np.float16)))

    def whole(self, text: str) -> Whole:
        found = self.encode_query_tokens(text)
        return Whole(found.rows, found.words)


def texts_to_fit() -> Iterator[str]:
    """Turns, notes, beliefs and other languages; what was asked of them; and the paragraphs of the project's pages."""
    for conversation in recall_sets.conversations():
        yield from (turn.text for turn in conversation.turns)
        yield from (question.text for question in conversation.questions)
    for beliefs in recall_sets.belief_sets():
        yield from (belief.text for belief in beliefs.beliefs)
        yield from (asked.text for asked in beliefs.questions)
    for languages in recall_sets.language_sets():
        yield from languages.texts.values()
        yield from (asked.text for asked in languages.questions)
    pages = sorted(path for pattern in DOCUMENTS for path in ROOT.glob(pattern))
    for page in [*sorted(recall_sets.NOTES.rglob("*.md")), *pages]:
        yield from (paragraph for paragraph in page.read_text("utf-8").split("\n\n") if paragraph.strip())


def fit(embedder: Hidden, dimensions: int) -> NDArray[np.float16]:
    """(width of the model, dimensions)"""
    products = np.zeros((embedder.dimensions, embedder.dimensions))
    tokens = 0
    for text in dict.fromkeys(texts_to_fit()):
        rows = embedder.whole(text).rows.astype(np.float64)
        products += rows.T @ rows
        tokens += len(rows)
    values, vectors = np.linalg.eigh(products)
    vectors = vectors[:, ::-1][:, :dimensions]
    vectors *= np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(dimensions)])  # either sign would do
    kept = values[::-1][:dimensions].sum() / values.sum()
    print(f"{tokens} tokens; {dimensions} dimensions hold {kept:.1%} of their squared length")
    return vectors.astype(np.float16)


def fit_codebook(embedder: Hidden, matrix: NDArray[np.float16]) -> NDArray[np.int8]:
    """(ENTRIES, dimensions): for each part the middles of the groups into which that part of the rows falls."""
    turns = [turn.text for conversation in recall_sets.conversations() for turn in conversation.turns]
    return codebook_of(np.concatenate([_projected(embedder.whole(text).rows, matrix) for text in turns[::TURNS_EVERY]]))


def codebook_of(rows: Floats) -> NDArray[np.int8]:
    chance = np.random.default_rng(SEED)
    ends = np.cumsum(part_widths(rows.shape[1]))
    parts = np.split(rows, ends[:-1], axis=1)
    codes = late_interaction.quantize(
        np.concatenate([_middles(np.ascontiguousarray(p), chance) for p in parts], axis=1)
    )
    kept = Codebook(codes)
    back = kept.unpack(kept.pack(late_interaction.quantize(rows))) / np.float32(late_interaction.CODE_OF_ONE)
    cosine = (back * rows).sum(axis=1).mean()
    print(f"{len(rows)} tokens; {len(parts)} bytes give a row back with a mean cosine of {cosine:.3f}")
    return codes


def _middles(rows: Floats, chance: np.random.Generator) -> Floats:
    """(ENTRIES, width): k-means, from rows drawn by chance."""
    middles = rows[chance.choice(len(rows), ENTRIES, replace=False)]
    for _ in range(ROUNDS):
        nearest = (middles @ middles.T).diagonal() / 2 - rows @ middles.T
        group = nearest.argmin(axis=1)
        counts = np.bincount(group, minlength=ENTRIES)
        sums = np.stack([np.bincount(group, column, ENTRIES) for column in rows.T], axis=1)
        middles = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], middles).astype(np.float32)
    return middles


def sets(embedder: Hidden) -> tuple[list[Set], Set]:
    """Each conversation as a store of its own, and all in one."""
    apart, together = [], Set([], [])
    for conversation in recall_sets.conversations():
        places = {turn.id: place for place, turn in enumerate(conversation.turns)}
        texts = [embedder.whole(turn.text) for turn in conversation.turns]
        questions = [
            (embedder.whole(each.text), {places[name] for name in each.evidence})
            for each in conversation.questions if each.evidence
        ]  # fmt: skip
        apart.append(Set(texts, questions))
        start = len(together.texts)
        together.texts.extend(texts)
        together.questions.extend((asked, {start + place for place in right}) for asked, right in questions)
    return apart, together


def measure(some: Sequence[Set], matrix: NDArray[np.float16] | None, *, is_coded: bool) -> dict[str, float]:
    """Means over the questions, in percent: an answer comes first; the answers that are among the first ten."""
    first, ten = [], []
    for each in some:
        rows = _projected(np.concatenate([text.rows for text in each.texts]), matrix)
        if is_coded:
            rows = late_interaction.quantize(rows).astype(np.float32) / np.float32(late_interaction.CODE_OF_ONE)
        lengths = np.array([len(text.rows) for text in each.texts])
        has_rows = np.flatnonzero(lengths)
        starts = (np.cumsum(lengths) - lengths)[has_rows]
        rarity = _rarity(each.texts)
        for asked, right in each.questions:
            weights = np.array([rarity.get(word.lower(), rarity[""]) for word in asked.words], np.float32)
            scores = np.zeros(len(each.texts), np.float32)
            scores[has_rows] = weights @ np.maximum.reduceat(_projected(asked.rows, matrix) @ rows.T, starts, axis=1)
            best = np.argsort(-scores, kind="stable")[:10].tolist()
            first.append(best[0] in right)
            ten.append(len(right.intersection(best)) / len(right))
    return {"R@1": 100 * float(np.mean(first)), "R@10": 100 * float(np.mean(ten))}


def _projected(rows: Floats, matrix: NDArray[np.float16] | None) -> Floats:
    return rows if matrix is None else Projection(matrix).rows(rows)


def _rarity(texts: Sequence[Whole]) -> dict[str, float]:
    """The weight of a word: the inverse document frequency of BM25; under "" that of a word that no text has."""
    held = Counter(word for text in texts for word in {word.lower() for word in text.words})
    held[""] = 0
    return {word: math.log(1 + (len(texts) - count + 0.5) / (count + 0.5)) for word, count in held.items()}


def compare(embedder: Hidden, widths: Sequence[int]) -> None:
    whole = fit(embedder, max(widths))
    apart, together = sets(embedder)
    kept = np.array([len(text.rows) for text in together.texts])
    print(f"{len(together.texts)} turns with {kept.mean():.1f} kept tokens, {len(together.questions)} questions")
    rows: dict[str, list[object]] = {}
    for width in (None, *widths):
        matrix = None if width is None else whole[:, :width]
        for is_coded in (False, True):
            one, pooled = measure(apart, matrix, is_coded=is_coded), measure([together], matrix, is_coded=is_coded)
            size = (1 if is_coded else 4) * (width or embedder.dimensions) * kept.mean()
            figures = [f"{each[name]:.1f}" for each in (one, pooled) for name in ("R@1", "R@10")]
            rows[f"{width or embedder.dimensions}, {'int8' if is_coded else 'float32'}"] = [*figures, f"{size:,.0f}"]
    show("Late interaction alone", ("R@1", "R@10", "in one store, R@1", "R@10", "bytes a turn"), rows)


def main(*, write: bool = False, codebook: bool = False, dimensions: int = 64, compare_: bool = False) -> None:
    manifest = ModelCatalogue(models_folder(os.environ)).installed(DEFAULT_EMBEDDING)
    if manifest is None:
        raise SystemExit(f"{DEFAULT_EMBEDDING} is not installed: `mnemo models pull`")
    embedder = Hidden(manifest)
    if compare_:
        compare(embedder, WIDTHS)
    if write:
        name = token_rows.PROJECTIONS[manifest.weights_sha256]
        matrix = np.load(FOLDER / f"{name}.npy") if codebook else fit(embedder, dimensions)
        np.save(FOLDER / f"{name}.npy", matrix)
        np.save(FOLDER / f"{name}.codebook.npy", fit_codebook(embedder, matrix))


if __name__ == "__main__":
    harness.run(main)
