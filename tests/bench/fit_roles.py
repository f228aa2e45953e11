"""Fit the roles of memories to labelled texts, and measure them.

python -m tests.bench.fit_roles                # cross-validation
python -m tests.bench.fit_roles --write        # and write the weights
python -m tests.bench.fit_roles --judge FILE   # the weights in use on the lines of a life (see bench_month) or a JSONL

Each text is fitted with its vector and without, so that the words alone decide where there is none. Some
prompts are questions among them: what is asked for once is no instruction.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.memory_role import ROLE_ROWS, ROLES, read_role, role_signs
from tests.bench import harness
from tests.bench.fit_kinds import LABELLED, WEIGHTS, table_of, write_weights

FOLDS = 5
PENALTY = 0.5
BATCH = 64
PROMPTS_STEP = 3  # of every third one: with all, texts that ask nothing are read as questions
HEAD = "Weights of the roles of memories (ingest/memory_role), written by tests/bench/fit_roles.py."

Row = tuple[str, str]  # text, role
Floats = NDArray[np.float32]


def labelled(path: Path = LABELLED / "roles.jsonl") -> list[Row]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["text"], row["role"]) for row in rows]


def vectors_of(texts: Sequence[str]) -> list[Floats]:
    """The first vector of each text, by the installed default model."""
    embedder = harness.default_embedder()
    found: list[Floats] = []
    for start in range(0, len(texts), BATCH):
        found += [
            np.atleast_2d(each)[0].astype(np.float32) for each in embedder.encode_batch(texts[start : start + BATCH])
        ]
    embedder.close()
    return found


def features(texts: Sequence[str], vectors: Sequence[Floats | None]) -> Any:
    from scipy.sparse import csr_matrix, hstack

    signs = np.array([role_signs(text, vector) for text, vector in zip(texts, vectors, strict=True)])
    return hstack([table_of(texts, ROLE_ROWS), csr_matrix(signs)]).tocsr()


def fitted(rows: Sequence[Row], vectors: Sequence[Floats]) -> Any:
    from sklearn.linear_model import LogisticRegression

    texts, roles = [text for text, _ in rows], [ROLES.index(role) for _, role in rows]
    table = features([*texts, *texts], [*vectors, *[None] * len(texts)])
    return LogisticRegression(C=PENALTY, max_iter=2000).fit(table, [*roles, *roles])


def report(pairs: Sequence[tuple[str, str]]) -> None:
    """Print how many of the (label, found) pairs agree, and of each label how many are found and found rightly."""
    print(f"{sum(one == other for one, other in pairs)} of {len(pairs)}")
    for role in sorted({label for label, _ in pairs} | set(ROLES)):
        there, found = sum(one == role for one, _ in pairs), sum(other == role for _, other in pairs)
        both = sum(one == other == role for one, other in pairs)
        wrong = Counter(other for one, other in pairs if one == role != other).most_common(3)
        print(f"  {role}: {both} of {there}, {both} of {found} found; {wrong}")


def main(*, write: bool = False, judge: Path | None = None) -> None:
    if judge:
        lines = (line.split("\t") for line in judge.read_text(encoding="utf-8").splitlines() if line.strip())
        rows = labelled(judge) if judge.suffix == ".jsonl" else [(line[-1], line[-2]) for line in lines]
        vectors = vectors_of([text for text, _ in rows])
        report([(role, read_role(text, each).name) for (text, role), each in zip(rows, vectors, strict=True)])
        return
    prompts = (LABELLED / "prompts.tsv").read_text(encoding="utf-8").splitlines()[::PROMPTS_STEP]
    rows = [*labelled(), *((line.split("\t", 1)[1], "question") for line in prompts)]
    vectors = vectors_of([text for text, _ in rows])
    folds = np.random.default_rng(1).integers(0, FOLDS, len(rows))
    pairs: list[tuple[str, str]] = []
    bare = 0
    for fold in range(FOLDS):
        kept, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        model = fitted([rows[at] for at in kept], [vectors[at] for at in kept])
        texts = [rows[at][0] for at in held]
        found = model.predict(features(texts, [vectors[at] for at in held]))
        pairs += [(rows[at][1], ROLES[each]) for at, each in zip(held, found, strict=True)]
        found = model.predict(features(texts, [None] * len(held)))
        bare += sum(rows[at][1] == ROLES[each] for at, each in zip(held, found, strict=True))
    report(pairs)
    print(f"without vectors {bare}")
    if write:
        model = fitted(rows, vectors)
        words, signs = model.coef_.T[:ROLE_ROWS], model.coef_.T[ROLE_ROWS:].astype(np.float16)
        write_weights(WEIGHTS.with_name("roles.txt"), HEAD, words, model.intercept_, signs=signs)


if __name__ == "__main__":
    harness.run(main)
