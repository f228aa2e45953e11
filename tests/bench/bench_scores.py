"""Reliability of the scores of `auto`: the share of right answers in bins, on sets on which nothing is fitted.

    python -m tests.bench.bench_scores [--stores 300] [--questions 400]

Small stores of 1 to 40 memories, three of ten without what answers (tests/support/small_store_recalls.py), and the
unseen conversations, each in a namespace of its own. A row a bin: how many first answers have such a score, their mean
score, and the share that answers. The error is the mean distance of the two, of the first answers and of the first ten.
"""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tests.bench import harness
from tests.bench.quality import questions, remember, the_projects_own
from tests.bench.tables import show
from tests.support import recall_sets, small_store_recalls
from tests.support.small_store_recalls import ShownScores

EDGES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0001)
TOP_K = 10
SEED = 11


def main(*, stores: int = 300, questions: int = 400) -> None:
    with harness.embedding_service() as embedding:
        show_bins("small stores", list(small_store_recalls.asked(stores, embedding)))
    show_bins("conversations", of_conversations(questions))


def of_conversations(count: int) -> list[ShownScores]:
    found = []
    conversations = recall_sets.conversations(recall_sets.UNSEEN)
    with harness.new_daemon() as (daemon, client):
        ids = {each.name: remember(client, each, each.name) for each in conversations}
        daemon.wait_for_vectors(7200)
        asked = questions(the_projects_own(), conversations, ids, pooled=False)
        for put in random.Random(SEED).sample(asked, min(count, len(asked))):
            answer = client.recall(put.text, top_k=TOP_K, token_budget=None, dry=True, namespace=put.namespace)
            scores = [memory.score for memory in answer.memories]
            found.append(ShownScores(0, scores, [memory.id in put.evidence for memory in answer.memories]))
    return found


def error(scores: Sequence[float], is_right: Sequence[bool]) -> float:
    """The mean over bins of how far the mean score is from the share that is right, each bin by how much is in it."""
    given, right = np.array(scores), np.array(is_right, np.float64)
    total = 0.0
    for low, high in pairwise(EDGES):
        inside = (given >= low) & (given < high)
        if inside.any():
            total += float(inside.mean()) * abs(float(given[inside].mean()) - float(right[inside].mean()))
    return total


def show_bins(title: str, answers: Sequence[ShownScores]) -> None:
    answered = [each for each in answers if each.scores]
    first = [each.scores[0] for each in answered]
    right = [each.is_right[0] for each in answered]
    rows: dict[str, list[object]] = {}
    for low, high in pairwise(EDGES):
        inside = [place for place, score in enumerate(first) if low <= score < high]
        if inside:
            scores = np.mean([first[place] for place in inside])
            rows[f"{low:.2f} to {min(high, 1):.2f}"] = [
                len(inside), f"{scores:.2f}", f"{np.mean([right[place] for place in inside]):.2f}"
            ]  # fmt: skip
    every = [score for each in answered for score in each.scores]
    all_right = [is_right for each in answered for is_right in each.is_right]
    show(f"{title}: {len(answered)} questions", ["first answers", "mean score", "right"], rows)
    print(f"error of the first {error(first, right):.3f}, of the first {TOP_K} {error(every, all_right):.3f}")


if __name__ == "__main__":
    harness.run(main)
