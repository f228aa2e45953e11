"""Fit the model of what a prompt is about to labelled prompts, and measure it on those of others.

    python -m tests.bench.fit_prompts            # fit, and measure on the held-out half
    python -m tests.bench.fit_prompts --write    # and write the weights

A prompt is about the person's own life or work (1), or not (0). Each is fitted with its vector and without.
"""

from pathlib import Path

import numpy as np

from mnemo_core.ingest.memory_role import PROMPT_ROWS, vector_signs
from tests.bench import harness
from tests.bench.fit_kinds import LABELLED, WEIGHTS, table_of, write_weights
from tests.bench.fit_roles import vectors_of

PENALTY = 0.3
HEAD = "Weights of what a prompt is about (ingest/memory_role), written by tests/bench/fit_prompts.py."


def labelled(path: Path) -> tuple[list[str], list[int]]:
    rows = [line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    return [text for _, text in rows], [int(label) for label, _ in rows]


def main(*, write: bool = False) -> None:
    from scipy.sparse import csr_matrix, hstack, vstack
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    (texts, labels), (held, held_labels) = (labelled(LABELLED / f"prompts{half}.tsv") for half in ("", "_heldout"))
    words, held_words = table_of(texts, PROMPT_ROWS), table_of(held, PROMPT_ROWS)
    signs, held_signs = (csr_matrix([vector_signs(each) for each in vectors_of(some)]) for some in (texts, held))
    table = vstack([hstack([words, signs]), hstack([words, 0 * signs])])
    model = LogisticRegression(C=PENALTY, max_iter=3000).fit(table.tocsr(), [*labels, *labels])
    for name, some in (("with vectors", held_signs), ("without", 0 * held_signs)):
        found = model.decision_function(hstack([held_words, some]).tocsr())
        right = sum((each > 0) == label for each, label in zip(found, held_labels, strict=True))
        print(f"{name}: {right} of {len(held)}, area under the curve {roc_auc_score(held_labels, found):.3f}")
    if write:
        weights = model.coef_.T
        path = WEIGHTS.with_name("prompts.txt")
        write_weights(
            path, HEAD, weights[:PROMPT_ROWS], model.intercept_, signs=weights[PROMPT_ROWS:].astype(np.float16)
        )


if __name__ == "__main__":
    harness.run(main)
