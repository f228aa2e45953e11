"""Fit the judge of changes to the labelled pairs, measure it on those of others, and write its weights.

    python -m tests.bench.fit_changes                  # fit, and show what cross-validation gives on the tuning half
    python -m tests.bench.fit_changes --write          # and write the weights, fitted to the tuning half too
    python -m tests.bench.fit_changes --judge FOLDER   # what the weights in use give on a half (tuning, heldout)
    python -m tests.bench.fit_changes --judge FOLDER --show   # and which pairs are wrong: never of the held-out half

A pair of two texts that have nothing to do with each other is what a memory sees most. So each labelled text is also
paired with its nearest among the others, as `none`: without these, most ties in a stream are false. Those that a first
fit takes for changes are left out, since some are. Turns of conversations are paired with their nearest too: without
these, one of twelve was taken for a later value of another.
"""

import base64
import collections
import json
import os
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.paths import models_folder
from mnemo_core.ingest.changes import (
    CLIPPED,
    RELATIONS,
    WORD_ROWS,
    ChangeJudge,
    is_doubtful,
    is_excluded,
    pair_features,
    word_features,
    word_row,
)
from mnemo_core.ingest.deduplication import JUDGED_CHARS_MAX
from mnemo_core.text.statement_reading import FILLER, read_statement
from mnemo_daemon.ingest.neighbour_search import CHANGE_WEIGHTS
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from tests.bench import harness
from tests.support import recall_sets

LABELLED = Path(__file__).parents[1] / "fixtures" / "readings"
OTHERS_EACH = 3  # unrelated pairs for each labelled one
NEIGHBOURS, BY_WORDS = 8, 4  # of a text in a stream that are judged, as in a store
TURNS_EACH = 3  # of a turn of a conversation
TAKEN_FOR_CHANGE = 0.4  # an unrelated pair with a higher probability may be related after all
NETWORKS, UNITS, PENALTY, WORD_PENALTY = 6, 32, 0.3, 0.05
FOLDS = 3
UNSEEN_EACH = 7  # of so many pairs, one is given without a cosine, as where there is no model
# Shares of labelled pairs that are no change, or no repetition: hard ones, a few of which are labelled wrong. What is
# only likely costs an order: on conversations, where hardly anything is replaced, as many as here lower no measure.
WRONG_ALLOWED = {"certain": 0.01, "likely": 0.15, "same": 0.001}

Floats = NDArray[np.float64]


class StatementPair(NamedTuple):
    """Two texts and the relation of the later one to the earlier one."""

    old: str
    new: str
    relation: str


class TextVectorCache:
    """Vectors of texts by MiniLM, each computed once."""

    def __init__(self) -> None:
        self._known: dict[str, NDArray[np.float32]] = {}
        self._embedding = EmbeddingService(ModelCatalogue(models_folder(os.environ)))
        self._embedding.refresh()
        while (embedder := self._embedding.current()) is None:
            time.sleep(0.05)
        self._embedder = embedder

    def of(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors (texts, dimensions)."""
        new = sorted(set(texts) - self._known.keys())
        for start in range(0, len(new), 64):
            some = new[start : start + 64]
            for text, rows, _ in zip(some, *self._embedding.encode_both(self._embedder, some), strict=True):
                self._known[text] = rows[0].astype(np.float32)
        return np.stack([self._known[text] for text in texts])

    def sims(self, pairs: Sequence[StatementPair]) -> list[float]:
        old, new = (self.of([each[place] for each in pairs]) for place in (0, 1))
        return [float(each) for each in (old * new).sum(axis=1)]

    def close(self) -> None:
        self._embedding.close()


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def labelled_pairs(path: Path) -> list[StatementPair]:
    return [StatementPair(row["earlier"], row["later"], row["relation"]) for row in rows_of(path)]


def stream_pairs(path: Path, vectors: TextVectorCache) -> list[StatementPair]:
    """Each text of a stream with its neighbours among the earlier ones that still hold."""
    rows = rows_of(path)
    matrix = vectors.of([row["text"] for row in rows])
    content = [set(read_statement(row["text"]).content) for row in rows]
    ended: set[str] = set()
    found: list[StatementPair] = []
    for at, row in enumerate(rows):
        near = _nearest(matrix, at, NEIGHBOURS)
        shared = np.array([len(content[at] & each) for each in content[:at]])
        near += [
            each for each in np.argsort(-shared, kind="stable")[:BY_WORDS].tolist() if shared[each] and each not in near
        ]
        for each in near:
            earlier = rows[each]
            if earlier["id"] not in ended:
                relation = (
                    "certain"
                    if earlier["id"] in row["replaces"]
                    else "same"
                    if earlier["id"] in row["repeats"]
                    else "none"
                )
                found.append(StatementPair(earlier["text"], row["text"], relation))
        ended.update(row["replaces"])
    return found


def belief_pairs(beliefs: recall_sets.BeliefSet, vectors: TextVectorCache) -> list[StatementPair]:
    """Each belief with its neighbours among the earlier ones that still hold, and with what it replaces."""
    places = {each.id: at for at, each in enumerate(beliefs.beliefs)}
    texts = [each.text for each in beliefs.beliefs]
    matrix = vectors.of(texts)
    ended: set[int] = set()
    found: list[StatementPair] = []
    for at, each in enumerate(beliefs.beliefs):
        replaced = places.get(each.replaces)
        near = dict.fromkeys([*_nearest(matrix, at, NEIGHBOURS), *(() if replaced is None else (replaced,))])
        found += [
            StatementPair(texts[other], each.text, "certain" if other == replaced else "none")
            for other in near
            if other not in ended
        ]
        ended |= set() if replaced is None else {replaced}
    return found


def conversation_pairs(texts: Sequence[str], vectors: TextVectorCache) -> list[StatementPair]:
    """Every second turn of a conversation with its nearest among the earlier ones: hardly one is a change."""
    texts = [text for text in texts if len(text) <= JUDGED_CHARS_MAX]
    matrix = vectors.of(texts)
    return [
        StatementPair(texts[other], texts[at], "none")
        for at in range(1, len(texts), 2)
        for other in _nearest(matrix, at, TURNS_EACH)
    ]


def _nearest(matrix: NDArray[np.float32], at: int, count: int) -> list[int]:
    """The rows before one that are nearest to it."""
    return [int(each) for each in np.argsort(-(matrix[:at] @ matrix[at]), kind="stable")[:count]]


def unrelated_pairs(
    pairs: Sequence[StatementPair], others: Sequence[str], vectors: TextVectorCache
) -> list[StatementPair]:
    """Each text with its nearest by vector and by words, away from its own pair; in random order."""
    texts = [text for pair in pairs for text in pair[:2]] + list(others)
    places = np.array(
        [at // 6 for at in range(len(pairs)) for _ in range(2)] + [10**6 + 2 * at for at in range(len(others))]
    )
    matrix = vectors.of(texts)
    content = [{word for word in read_statement(text).content if len(word) > 2} for text in texts]
    holding: dict[str, list[int]] = collections.defaultdict(list)
    for at, words in enumerate(content):
        for word in words:
            holding[word].append(at)
    found: set[tuple[int, int]] = set()
    for at in range(len(texts)):
        sims = np.where(np.abs(places - places[at]) <= 1, -1.0, matrix @ matrix[at])
        shared = collections.Counter(each for word in content[at] if len(holding[word]) < 200 for each in holding[word])
        near = [each for each, _ in shared.most_common(12) if abs(places[each] - places[at]) > 1]
        found |= {(each, at) for each in [*np.argpartition(-sims, 5)[:5].tolist(), *near[:3]]}
    order = np.random.RandomState(1).permutation(len(found))
    ordered = sorted(found)
    return [
        StatementPair(texts[old], texts[new], "none")
        for old, new in (ordered[at] for at in order)
        if texts[old] != texts[new]
    ]


def plain_pairs(pairs: Sequence[StatementPair]) -> list[StatementPair]:
    """Texts with one number, or that say who something is, said again with another: as they are, with a sign of change,
    and in ways that replace nothing. Who writes varied pairs writes none of the plainest ones."""
    found: list[StatementPair] = []
    for old in dict.fromkeys(pair.old for pair in pairs if pair.relation == "certain"):
        numbers = [*_NUMBER.finditer(old)]
        words = old[: numbers[0].start()].lower().split() if len(numbers) == 1 else []
        if not words or (words[-1] not in FILLER and words[-1][-1] != ":") or not old[0].isupper():
            continue
        number = numbers[0]
        other = f"{(int(number[1]) + 3) % 24:02d}{number[2]}" if number[2] else str(int(number[1]) * 2 + 1)
        new = (old[: number.start()] + other + old[number.end() :]).rstrip(".")
        said = new[0].lower() + new[1:] if not new.startswith(("I ", "I'")) else new
        given = [f"{new}.", f"{new} now.", f"As of today {said}."]
        left = [f"In 2015 {said}.", f"{new} on Sundays.", f"Perhaps {said}."]
        place = len(found)
        found += [StatementPair(old, given[place % 3], "certain"), StatementPair(old, left[place // 2 % 3], "none")]
    named = [match for pair in pairs for text in dict.fromkeys(pair[:2]) if (match := _IS_NAMED.fullmatch(text))]
    for place, (match, next_one) in enumerate(zip(named, [*named[7:], *named[:7]], strict=True)):
        owner, noun, verb, other = match[1], match[2], match[3], next_one[4]
        if other == match[4]:
            continue
        given = [
            f"{owner} {noun} {verb} {other}.",
            f"{owner} {noun} is now {other}.",
            f"{owner} new {noun} is {other}.",
        ]
        left = [f"Anna's {noun} is {other}.", f"The other {noun} is {other}.", f"The former {noun} was {other}."]
        found += [
            StatementPair(match[0], given[place % 3], "certain"),
            StatementPair(match[0], left[place // 2 % 3], "none"),
        ]
    return found


_IS_NAMED = re.compile(
    r"(The|My|Our|Der|Die|Das|Mein|Meine|Unser|Unsere) ([\w -]{3,40}?) (is|ist|heißt|is called) "
    r"((?:(?:Mr|Mrs|Ms|Dr|Herr|Frau)\.? )?[A-Z][\w-]+(?: [A-Z][\w-]+)?)\.?"
)
_NUMBER = re.compile(r"(?<![\w.,:-])(\d{1,4})(:\d\d)?(?![\w.,:%-]*\d)")


class FittedJudge:
    """The linear model of words and the networks behind it; `weights` gives them in the form of the judge."""

    def __init__(self, pairs: Sequence[StatementPair], sims: Sequence[float]) -> None:
        from sklearn.linear_model import LogisticRegression
        from sklearn.neural_network import MLPClassifier

        labels = np.array([RELATIONS.index(each.relation) for each in pairs])
        words = [[*word_features(each.old, each.new)] for each in pairs]
        rows = _hashed(words)
        # Scores for the networks to learn from: of pairs that the linear model did not see.
        scores = np.zeros((len(pairs), len(RELATIONS)))
        part = np.arange(len(pairs)) // 10 % 4
        for each in range(4):
            fitted = LogisticRegression(C=WORD_PENALTY, max_iter=300).fit(rows[part != each], labels[part != each])
            scores[part == each] = fitted.decision_function(rows[part == each])
        linear = LogisticRegression(C=WORD_PENALTY, max_iter=300).fit(rows, labels)
        self.word_weights, self.word_bias = linear.coef_.T, linear.intercept_
        some = [None if at % UNSEEN_EACH == 0 else sim for at, sim in enumerate(sims)]
        features = np.hstack([_pair_matrix(pairs, some), scores])
        self.mean, self.scale = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-3)
        features = np.clip((features - self.mean) / self.scale, -CLIPPED, CLIPPED)
        self.networks = []
        for seed in range(NETWORKS):
            network = MLPClassifier(
                (UNITS,), alpha=PENALTY, random_state=seed, max_iter=60, learning_rate_init=2e-3, batch_size=128
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it has not converged: it is stopped early
                network.fit(features, labels)
            self.networks.append((network.coefs_[0], network.intercepts_[0], network.coefs_[1], network.intercepts_[1]))

    def weights(self, bars: dict[str, float]) -> dict[str, Any]:
        scale = float(np.abs(self.word_weights).max() / 127)
        return {
            "bars": bars,
            "mean": _short(self.mean), "scale": _short(self.scale),
            "networks": [[_short(part) for part in network] for network in self.networks],
            "word_scale": float(f"{scale:.6g}"), "word_bias": _short(self.word_bias),
            "word_weights": base64.b64encode(np.round(self.word_weights / scale).astype(np.int8).tobytes()).decode(),
        }  # fmt: skip

    def judge(self) -> ChangeJudge:
        return ChangeJudge(self.weights({"certain": 1.0, "likely": 1.0, "same": 1.0}))


def _hashed(words: Sequence[Sequence[str]]) -> Any:
    from scipy.sparse import csr_matrix

    cells = [(row, word_row(word)) for row, each in enumerate(words) for word in each]
    rows, columns = zip(*cells, strict=True)
    return csr_matrix((np.ones(len(cells)), (rows, columns)), shape=(len(words), WORD_ROWS))


def _pair_matrix(pairs: Sequence[StatementPair], sims: Sequence[float | None]) -> Floats:
    return np.array([pair_features(each.old, each.new, sim) for each, sim in zip(pairs, sims, strict=True)])


def _short(values: NDArray[Any]) -> Any:
    """The values with three significant digits."""
    return [_short(each) for each in values] if values.ndim > 1 else [float(f"{each:.3g}") for each in values]


def probabilities(judge: ChangeJudge, pairs: Sequence[StatementPair], sims: Sequence[float]) -> Floats:
    """The probabilities (pairs, relations); of what is excluded, `none`."""
    found = np.zeros((len(pairs), len(RELATIONS)))
    for at, (each, sim) in enumerate(zip(pairs, sims, strict=True)):
        old, new = read_statement(each.old), read_statement(each.new)
        found[at] = [0, 0, 0, 1] if is_excluded(old, new) else judge.probabilities(each.old, each.new, sim)
        if is_doubtful(old, new):
            found[at] = [0, found[at, 0] + found[at, 1], *found[at, 2:]]
    return found


def without_changes(
    pairs: Sequence[StatementPair], base: Sequence[StatementPair], vectors: TextVectorCache
) -> list[StatementPair]:
    """The unrelated pairs without those that a fit to the labelled ones takes for changes or repetitions."""
    pairs = pairs[: OTHERS_EACH * len(base)]
    sims = vectors.sims(pairs)
    first = FittedJudge([*base, *pairs], [*vectors.sims(base), *sims]).judge()
    taken = probabilities(first, pairs, sims)
    return [each for each, row in zip(pairs, taken, strict=True) if row[0] + row[2] < TAKEN_FOR_CHANGE]


def bars_of(labels: Sequence[str], found: Floats) -> dict[str, float]:
    """The lowest probabilities at which not more than WRONG_ALLOWED of the pairs are wrong."""
    relation = np.array(labels)
    scores = {"certain": found[:, 0], "likely": found[:, 0] + found[:, 1], "same": found[:, 2]}
    wrong = {
        "certain": np.isin(relation, ("none", "same")), "likely": np.isin(relation, ("none", "same")),
        "same": relation != "same",
    }  # fmt: skip
    bars = {}
    for name, score in scores.items():
        order = np.argsort(-score)
        errors = np.cumsum(wrong[name][order])
        last = int((errors <= WRONG_ALLOWED[name] * wrong[name].sum()).sum()) - 1
        bars[name] = round(float(score[order[max(last, 0)]]) + 1e-4, 4)
    return bars


def shown_counts(name: str, labels: Sequence[str], found: Floats, bars: dict[str, float]) -> str:
    """A line of what is found at the bars."""
    relation = np.array(labels)
    certain = found[:, 0] >= bars["certain"]
    same = ~certain & (found[:, 2] >= bars["same"])
    likely = (
        ~certain & ~same & (found[:, 0] + found[:, 1] >= bars["likely"]) & (found[:, 0] + found[:, 1] > found[:, 2])
    )
    changed, none = relation == "certain", np.isin(relation, ("none", "same"))
    return (
        f"{name}: of {changed.sum()} changes {(changed & certain).sum()} certain, {(changed & likely).sum()} likely; "
        f"of {none.sum()} others {(none & certain).sum()} certain, {(none & likely).sum()} likely; "
        f"of {(relation == 'same').sum()} repetitions {((relation == 'same') & same).sum()}, "
        f"with {((relation != 'same') & same).sum()} false"
    )


def sets_of(folder: Path, vectors: TextVectorCache) -> Iterator[tuple[str, list[StatementPair]]]:
    yield "pairs", labelled_pairs(folder / "pairs.jsonl")
    yield "stream", stream_pairs(folder / "stream.jsonl", vectors)


def measure(folder: Path, vectors: TextVectorCache, *, shows: bool) -> None:
    """Print what the weights in use give on a half."""
    judge = ChangeJudge(json.loads(CHANGE_WEIGHTS.read_text(encoding="utf-8")))
    for name, pairs in sets_of(folder, vectors):
        found = probabilities(judge, pairs, vectors.sims(pairs))
        print(shown_counts(name, [each.relation for each in pairs], found, judge.bars._asdict()))
        for each, row in zip(pairs, found, strict=True) if shows else ():
            is_change = row[0] >= judge.bars.certain
            if is_change != (each.relation == "certain"):
                print(f"  {each.relation} {row[0]:.2f}: {each.old} || {each.new}")


def fit(vectors: TextVectorCache, *, writes: bool) -> None:
    """Cross-validate on the labelled pairs and the tuning half, and fit to everything but the held-out half."""
    pairs = labelled_pairs(LABELLED / "pairs.jsonl")
    base: list[StatementPair] = []
    statements = [row["text"] for row in rows_of(LABELLED / "kinds.jsonl")]
    base += [each for path in sorted((LABELLED / "streams").glob("*.jsonl")) for each in stream_pairs(path, vectors)]
    base += plain_pairs(pairs)
    base += [each for beliefs in recall_sets.belief_sets() for each in belief_pairs(beliefs, vectors)]
    for each in recall_sets.conversations():
        base += conversation_pairs([turn.text for turn in each.turns], vectors)
    others = without_changes(unrelated_pairs(pairs, statements, vectors), pairs, vectors)
    tuning = {"fitted": pairs} | dict(sets_of(LABELLED / "tuning", vectors))
    found = {name: np.zeros((len(some), len(RELATIONS))) for name, some in tuning.items()}
    for fold in range(FOLDS):
        given, places = [*base, *others], dict[str, list[int]]()
        for name, some_pairs in tuning.items():
            part = [at * FOLDS // len(some_pairs) for at in range(len(some_pairs))]
            given += [each for each, of in zip(some_pairs, part, strict=True) if of != fold]
            places[name] = [at for at, of in enumerate(part) if of == fold]
        judge = FittedJudge(given, vectors.sims(given)).judge()
        for name, some in places.items():
            left_out = [tuning[name][at] for at in some]
            found[name][some] = probabilities(judge, left_out, vectors.sims(left_out))
    hard = ("fitted", "pairs")
    bars = bars_of([each.relation for name in hard for each in tuning[name]], np.vstack([found[name] for name in hard]))
    print("bars", bars)
    for name, some_pairs in tuning.items():
        print(shown_counts(name, [each.relation for each in some_pairs], found[name], bars))
    if writes:
        whole = [*base, *others, *(each for some_pairs in tuning.values() for each in some_pairs)]
        weights = FittedJudge(whole, vectors.sims(whole)).weights(bars)
        CHANGE_WEIGHTS.write_text(as_json(weights), encoding="utf-8")
        print(f"wrote {CHANGE_WEIGHTS.name}, {CHANGE_WEIGHTS.stat().st_size // 1024} KB")


def as_json(weights: dict[str, Any]) -> str:
    """One line for each part."""
    parts = (
        f"{json.dumps(name)}: {json.dumps(part, ensure_ascii=False, separators=(',', ':'))}"
        for name, part in weights.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(*, write: bool = False, judge: Path | None = None, show: bool = False) -> None:
    vectors = TextVectorCache()
    if judge:
        measure(judge, vectors, shows=show)
    else:
        fit(vectors, writes=write)
    vectors.close()


if __name__ == "__main__":
    harness.run(main)
