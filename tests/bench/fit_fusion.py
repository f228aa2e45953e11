"""Fits the weights of `auto` on the project's own conversations, notes, beliefs and languages, and says what they give.

    python -m tests.bench.fit_fusion [--write] [--folds 6] [--keep FOLDER]

A store is filled through a daemon as a user would fill it, twice: each set in a namespace of its own, and everything in
one. Every question is asked of the daemon's own code, which computes the features that the weights are fitted on, so
that what is fitted is what is served. The second look is fitted on what the first look puts before it, and the trees
(LightGBM's, `pip install -e .[fit]`) on what the second sum leaves to be said.

Of beliefs those are there too that others took the place of, so that the latest of what is alike is learned.

Each fold leaves some sets out, and is measured on these. `--write` replaces the shipped weights. `--keep` leaves the
stores in a folder, for the next time. Nothing but the project's texts is read.
"""

import importlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mnemo_client.paths import models_folder
from mnemo_client.protocol.memories import NewMemory
from mnemo_core.retrieval.ranking import learned_ranker
from mnemo_core.retrieval.ranking.learned_ranker import LearnedRanker, LinearModel, TreeEnsemble
from mnemo_core.retrieval.ranking.ranking_features import FeatureTable
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.retrieval.candidates.learned_ranking import WEIGHTS_FILE
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import MemoryFilter
from tests.bench import harness
from tests.support import recall_sets
from tests.support.running_daemon import RunningDaemon, running
from tests.support.store_services import StoreServices, services_in

BATCH = 500
TOP_KS = (5, 50)  # asked for by turns: the features are relative to the candidates, of which there are more or fewer
SHRINKAGE = 0.1  # of the squared standard weights, against the mean loss of a question; by the folds, from 0.003 to 1
GROUP_WEIGHTS = {  # of a question
    "talk": 1.0, "assistant": 0.4, "dense": 0.25, "notes": 3.0, "beliefs": 3.0, "languages": 3.0,
}  # fmt: skip
POOLED_WEIGHT = 0.5  # the same where everything is in one namespace, at most
POOLED = "pooled "
STEPS_MAX = 30
TREES = 100
BOOSTING = {  # by the folds; twice or half of any differs by less than chance, which is 0.4 at one
    "objective": "binary", "num_leaves": 15, "learning_rate": 0.1, "min_data_in_leaf": 2000, "lambda_l2": 20,
    "feature_fraction": 0.3, "bagging_fraction": 0.7, "bagging_freq": 1,
    "seed": 1, "deterministic": True, "force_row_wise": True, "verbose": -1,
}  # fmt: skip
METRICS = ("R@1", "R@5", "R@10", "R@50", "all@10", "nDCG@10")

Floats = NDArray[np.float64]


class FittedQuestion(NamedTuple):
    """A question of a set. right: ids of the memories that answer it."""

    group: str
    name: str  # of the set, which is in one fold
    namespace: str
    query: str
    right: frozenset[str]


class TrainingExample(NamedTuple):
    """The candidates of a question: features of the first look; the rows of the second, and its features."""

    asked: FittedQuestion
    first: NDArray[np.float32]
    rows: NDArray[np.intp]
    second: NDArray[np.float32]
    is_right: NDArray[np.bool_]


class Features(NamedTuple):
    first: tuple[str, ...]
    second: tuple[str, ...]


def fill(daemon: RunningDaemon, namespace_of: Callable[[str], str]) -> list[FittedQuestion]:
    """Everything stored, and every question that has an answer."""
    with daemon.client() as client:
        asked: list[FittedQuestion] = []
        client.add_root(recall_sets.NOTES, namespace_of("notes"))
        for conversation in recall_sets.conversations():
            name = conversation.name
            turns = [
                NewMemory(content=turn.text, speaker=turn.speaker, session_id=f"{name}-{turn.session}",
                          event_at=turn.at.isoformat(), namespace=namespace_of(name), key=f"{name}/{turn.id}")
                for turn in conversation.turns
            ]  # fmt: skip
            ids = dict(zip([turn.id for turn in conversation.turns], _remember(client, turns), strict=True))
            asked += [
                FittedQuestion(_group(conversation), name, namespace_of(name), each.text,
                      frozenset(ids[turn] for turn in each.evidence))
                for each in conversation.questions if each.evidence
            ]  # fmt: skip
        for group, name, texts, questions in _small_sets():
            memories = [NewMemory(content=text, namespace=namespace_of(name), key=f"{name}/{key}", **more)
                        for key, text, more in texts]  # fmt: skip
            ids = dict(zip([key for key, _, _ in texts], _remember(client, memories), strict=True))
            asked += [
                FittedQuestion(group, name, namespace_of(name), each.text, frozenset(ids[key] for key in each.answers))
                for each in questions if each.answers
            ]  # fmt: skip
        daemon.wait_for_vectors(900)
        return asked + list(_of_notes(client, namespace_of("notes")))


def _group(conversation: recall_sets.LabelledConversation) -> str:
    if conversation.is_dense:
        return "dense"
    return "assistant" if "assistant" in conversation.speakers else "talk"


def examples(services: StoreServices, asked: Sequence[FittedQuestion]) -> tuple[Features, list[TrainingExample]]:
    """The features that the daemon's own code computes for every question."""
    found, names = [], None
    for place, each in enumerate(asked):
        wanted = MemoryFilter(
            namespaces=(each.namespace, "default"), user_id="local", now=services.at
        )  # as the API looks
        question = Question(each.query, wanted, top_k=TOP_KS[place % len(TOP_KS)], token_budget=None, expand="false")
        context = services.recalling.run(question)
        numbers, looked = context.found.numbers, context.learned
        if looked is None or looked.second is None:
            raise SystemExit("the questions are answered without vectors or without late interaction")
        with services.store.snapshot() as snapshot:
            right = {snapshot.number(memory_id) for memory_id in each.right}
        names = names or Features(looked.first.names, looked.second.names)
        is_right = np.array([int(number) in right for number in numbers], np.bool_)
        found.append(TrainingExample(each, looked.first.values, looked.rows, looked.second.values, is_right))
    assert names is not None
    return names, found


def looked_at(
    place: Path, asked: Sequence[FittedQuestion], embedding: EmbeddingService
) -> tuple[Features, list[TrainingExample]]:
    """The same, of a store that no daemon has open."""
    with services_in(place, embedding) as services:
        services.indexing.start()
        while services.indexing.serving() is None or services.indexing.waiting():
            time.sleep(0.1)
        return examples(services, asked)


def fit(names: Features, found: Sequence[TrainingExample]) -> LearnedRanker:
    """Both looks. The rows of the second are those that the weights in use put before it."""
    first = _linear(names.first, _Rows.of((each.first, each.is_right, each.asked) for each in found))
    again = _Rows.of((each.second, each.is_right[each.rows], each.asked) for each in found)
    second = _linear(names.second, again)
    return LearnedRanker(first, second, _trees(second, again))


class _Rows(NamedTuple):
    """The candidates of all questions of which some is right."""

    values: NDArray[np.float32]
    right: NDArray[np.float32]
    counts: NDArray[np.float32]  # what each counts: those of one question together its weight; all questions 1

    @classmethod
    def of(cls, questions: Iterable[tuple[NDArray[np.float32], NDArray[np.bool_], FittedQuestion]]) -> "_Rows":
        parts = [each for each in questions if each[1].any()]
        weights = np.array([_weight(asked.group) for _, _, asked in parts])
        counts = np.repeat(weights, [len(values) for values, _, _ in parts]) / weights.sum()
        right = np.concatenate([is_right for _, is_right, _ in parts]).astype(np.float32)
        return cls(np.concatenate([values for values, _, _ in parts]), right, counts.astype(np.float32))


def _linear(names: tuple[str, ...], rows: _Rows) -> LinearModel:
    """Logistic weights by Newton's method: the mean over questions of the summed loss of their candidates, shrunk."""
    values, right, counts = rows
    means, spreads = values.mean(axis=0), values.std(axis=0)
    spreads[spreads < 1e-6] = 1.0
    design = np.clip((values - means) / spreads, -learned_ranker.DEVIATIONS_MAX, learned_ranker.DEVIATIONS_MAX)
    design = np.c_[design, np.ones(len(design), np.float32)].astype(np.float32)
    ridge = np.r_[np.full(len(names), 2 * SHRINKAGE), 1e-9]
    weights = np.zeros(len(names) + 1)
    for _ in range(STEPS_MAX):
        chances = 1 / (1 + np.exp(-np.clip(design @ weights.astype(np.float32), -30, 30)))
        slope = design.T @ (counts * (chances - right)) + ridge * weights
        curve = (design * (counts * chances * (1 - chances))[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(curve.astype(np.float64), slope.astype(np.float64))
        weights -= step
        if np.abs(step).max() < 1e-5:
            break
    return LinearModel(names, means, spreads, weights[:-1].astype(np.float32), float(weights[-1]))


def _trees(second: LinearModel, rows: _Rows) -> TreeEnsemble:
    """Boosted on the log-odds of the sum."""
    try:
        lightgbm = importlib.import_module("lightgbm")
    except ImportError:
        raise SystemExit("the trees are fitted by LightGBM: `pip install -e .[fit]`") from None
    odds = second.odds(FeatureTable(second.names, rows.values))
    counts = rows.counts / rows.counts.mean()
    data = lightgbm.Dataset(rows.values, rows.right, weight=counts, init_score=odds, feature_name=[*second.names])
    found = lightgbm.train(BOOSTING, data, TREES).dump_model()
    trees = [preorder(each["tree_structure"]) for each in found["tree_info"]]
    return TreeEnsemble.read({"features": second.names, "trees": trees})


def preorder(node: dict[str, Any], place: int = 0) -> list[list[float]]:
    """A branch of LightGBM's that begins at that place, as TreeEnsemble.read takes it."""
    if "split_feature" not in node:
        return [[float(node["leaf_value"])]]
    left = preorder(node["left_child"], place + 1)
    behind = place + 1 + len(left)
    split = [node["split_feature"], node["threshold"], behind, node["internal_value"]]
    return [split, *left, *preorder(node["right_child"], behind)]


def _weight(group: str) -> float:
    own = GROUP_WEIGHTS[group.removeprefix(POOLED)]
    return POOLED_WEIGHT * min(1.0, own) if group.startswith(POOLED) else own


def order(names: Features, found: LearnedRanker, each: TrainingExample) -> NDArray[np.intp]:
    odds = found.first.odds(FeatureTable(names.first, each.first))
    again = found.second_odds(FeatureTable(names.second, each.second))
    return np.lexsort((np.arange(len(odds)), -learned_ranker.merge_odds(odds, each.rows, again)))


def scores(each: TrainingExample, ranked: NDArray[np.intp]) -> list[float]:
    """METRICS of one question."""
    is_right, count = each.is_right[ranked], len(each.asked.right)
    gains = is_right[:10] / np.log2(np.arange(len(is_right[:10])) + 2)
    ideal = sum(1 / np.log2(place + 2) for place in range(min(10, count)))
    shares = [float(is_right[:k].sum()) / count for k in (1, 5, 10, 50)]
    return [*shares, float(is_right[:10].sum() == count), float(gains.sum()) / ideal]


def show(title: str, rows: dict[str, list[list[float]]]) -> None:
    print(f"{title:24}{'n':>6}" + "".join(f"{metric:>9}" for metric in METRICS))
    for name, found in rows.items():
        print(f"{name:24}{len(found):6}" + "".join(f"{100 * value:9.1f}" for value in np.mean(found, axis=0)))


def document(found: LearnedRanker) -> dict[str, Any]:
    def linear(each: LinearModel) -> dict[str, Any]:
        columns = zip(each.names, each.means.tolist(), each.spreads.tolist(), each.weights.tolist(), strict=True)
        return {
            "bias": round(each.bias, 5),
            "features": {name: [float(f"{value:.5g}") for value in values] for name, *values in columns},
        }

    def nodes(tree: Any) -> list[list[float]]:
        rows = zip(tree.features, tree.thresholds, tree.rights, tree.values, strict=True)
        return [[f, t, r, float(f"{v:.4g}")] if f >= 0 else [float(f"{v:.4g}")] for f, t, r, v in rows]

    trees = {"features": found.trees.names, "trees": [nodes(tree) for tree in found.trees.trees]}
    return {"first": linear(found.first), "second": linear(found.second), "trees": trees}


def written(found: LearnedRanker) -> str:
    """The document, a weight a line and a tree a line."""
    parts = document(found)
    trees = parts.pop("trees")
    lines = ",\n".join(f"  {json.dumps(tree, separators=(',', ':'))}" for tree in trees["trees"])
    sums = json.dumps(parts, indent=1).removesuffix("\n}")
    return f'{sums},\n "trees": {{"features": {json.dumps(trees["features"])}, "trees": [\n{lines}\n ]}}\n}}\n'


def _remember(client: Any, memories: Sequence[NewMemory]) -> list[str]:
    found = []
    for start in range(0, len(memories), BATCH):
        found += [each.memory.id for each in client.remember_many(memories[start : start + BATCH])]
    return found


def _small_sets() -> Iterable[tuple[str, str, list[tuple[str, str, dict[str, Any]]], list[recall_sets.BeliefQuestion]]]:
    for beliefs in recall_sets.belief_sets():
        texts = [(each.id, each.text, {"kind": each.kind, "event_at": each.at.isoformat()})
                 for each in beliefs.beliefs]  # fmt: skip
        yield "beliefs", beliefs.name, texts, beliefs.questions
    for language in recall_sets.language_sets():
        every = [(key, text, dict[str, Any]()) for key, text in language.texts.items()]
        yield "languages", f"language-{language.language}", every, language.questions


def _of_notes(client: Any, namespace: str) -> Iterable[FittedQuestion]:
    chunks: dict[str, list[tuple[str, str]]] = {}
    cursor: str | None = ""
    while cursor is not None:
        page = client.list_memories(namespace=namespace, limit=500, cursor=cursor or None)
        for memory in page.memories:
            if memory.note is not None:
                chunks.setdefault(Path(memory.note.path).name, []).append((memory.id, memory.content))
        cursor = page.cursor
    for each in recall_sets.note_questions():
        right = frozenset(memory_id for memory_id, text in chunks.get(each.file, []) if each.says in text)
        if right:
            yield FittedQuestion("notes", f"notes-{each.file}", namespace, each.text, right)


def own_examples(folder: Path, embedding: EmbeddingService) -> tuple[Features, list[TrainingExample]]:
    """Of the project's own sets. Their stores are filled in `folder`, where they are not there yet."""
    found: list[TrainingExample] = []
    for pooled in (False, True):
        place = folder / ("pooled" if pooled else "apart")
        listed = place / "asked.json"
        if not listed.exists():
            with running(place) as daemon:
                asked = fill(daemon, (lambda _: "all") if pooled else (lambda name: name))
            listed.write_text(json.dumps([[*each[:4], sorted(each.right)] for each in asked]))
        asked = [FittedQuestion(group, name, namespace, query, frozenset(right))
                 for group, name, namespace, query, right in json.loads(listed.read_text())]  # fmt: skip
        names, some = looked_at(place, asked, embedding)
        found += (
            [each._replace(asked=each.asked._replace(group=f"{POOLED}{each.asked.group}")) for each in some]
            if pooled
            else some
        )
    return names, found


def loaded() -> EmbeddingService:
    embedding = EmbeddingService(ModelCatalogue(models_folder(os.environ)))
    embedding.refresh()
    return embedding


def main(*, write: bool = False, folds: int = 6, keep: Path | None = None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        names, found = own_examples(keep or Path(scratch), loaded())
        sets = sorted({each.asked.name for each in found})
        shipped = LearnedRanker.read(json.loads(WEIGHTS_FILE.read_text()))
        held: dict[str, list[list[float]]] = {}
        for fold in range(folds):
            out = set(sets[fold::folds])
            fitted = fit(names, [each for each in found if each.asked.name not in out])
            for each in found:
                if each.asked.name in out:
                    held.setdefault(each.asked.group, []).append(scores(each, order(names, fitted, each)))
        show("left out of the fit", held)
        in_use: dict[str, list[list[float]]] = {}
        for each in found:
            if shipped.first.names == names.first and shipped.second.names == names.second:
                in_use.setdefault(each.asked.group, []).append(scores(each, order(names, shipped, each)))
        if in_use:
            show("shipped weights", in_use)
        if write:
            WEIGHTS_FILE.write_text(written(fit(names, found)))
            print(f"wrote {WEIGHTS_FILE.name}")


if __name__ == "__main__":
    harness.run(main)
