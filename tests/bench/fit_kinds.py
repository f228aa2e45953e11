"""Fit the kinds of statements to labelled ones, and measure them on those of others.

python -m tests.bench.fit_kinds                # fit, and measure on the tuning half
python -m tests.bench.fit_kinds --write        # and write the weights, fitted to the tuning half too
python -m tests.bench.fit_kinds --judge FOLDER # what ingestion gives with the weights in use, on a half
"""

import base64
import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mnemo_core.ingest.classification import classify
from mnemo_core.ingest.statement_kind import KINDS, ROWS, feature_row, kind_features, statement_kind
from mnemo_core.text import lexicon
from tests.bench import harness

LABELLED = Path(__file__).parents[1] / "fixtures" / "readings"
WEIGHTS = Path(lexicon.__file__).with_name("kinds.txt")
NAMES = {
    "semantic": "state",
    "episodic": "event",
    "procedural": "instruction",
    "working": "moment",
    "question": "question",
}
PENALTY = 2.0
HEAD = "Weights of the kinds of statements (ingest/statement_kind), written by tests/bench/fit_kinds.py."


def labelled(path: Path) -> list[tuple[str, str]]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["text"], NAMES[row["kind"]]) for row in rows]


def table_of(texts: Sequence[str], size: int = ROWS) -> Any:
    from scipy.sparse import csr_matrix

    cells = [
        (at, feature_row(name, size), value)
        for at, text in enumerate(texts)
        for name, value in dict(kind_features(text)).items()
    ]
    rows, columns, values = zip(*cells, strict=True)
    return csr_matrix((values, (rows, columns)), shape=(len(texts), size))


def fitted(rows: Sequence[tuple[str, str]]) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=PENALTY, max_iter=1000).fit(
        table_of([text for text, _ in rows]), [KINDS.index(kind) for _, kind in rows]
    )


def write_weights(path: Path, head: str, weights: Any, bias: Any, **tables: Any) -> None:
    """Write the weights of words (rows, labels) as bytes, where one step is a 127th of the largest, and further tables
    as they are."""
    scale = float(np.abs(weights).max() / 127)
    sections = {
        "scale and bias": [" ".join(f"{each:.6g}" for each in (scale, *bias))],
        "weights": _packed(np.round(weights / scale).astype(np.int8)),
        **{name: _packed(table) for name, table in tables.items()},
    }
    lines = [line for name, some in sections.items() for line in ("", f"[{name}]", *some)]
    path.write_text("\n".join([f"# {head}", *lines, ""]), encoding="utf-8")
    print(f"wrote {path.name}, {path.stat().st_size // 1024} KB")


def _packed(table: Any) -> list[str]:
    return textwrap.wrap(base64.b64encode(table.tobytes()).decode(), 120)


def measure(folder: Path) -> None:
    """By the words alone, and as ingestion decides, where a question is a request and a moment has a session."""
    rows = labelled(folder / "sentences.jsonl")
    of_words = sum(statement_kind(text).name == kind for text, kind in rows)
    confused: Counter[tuple[str, str]] = Counter()
    for text, kind in rows:
        is_asked = classify(text, role="user").category == "request"
        decided = classify(text, session_id="s").kind
        confused[kind, "question" if is_asked and decided == "episodic" else NAMES[decided]] += 1
    right = sum(count for (kind, found), count in confused.items() if kind == found)
    print(f"by the words {of_words} of {len(rows)}; as ingested {right}")
    for (kind, found), count in confused.most_common():
        if kind != found:
            print(f"  {count} {kind} as {found}")


def main(*, write: bool = False, judge: Path | None = None) -> None:
    if judge:
        measure(judge)
        return
    rows, tuning = labelled(LABELLED / "kinds.jsonl"), labelled(LABELLED / "tuning" / "sentences.jsonl")
    found = fitted(rows).predict(table_of([text for text, _ in tuning]))
    right = sum(KINDS[each] == kind for each, (_, kind) in zip(found, tuning, strict=True))
    print(f"tuning half: {right} of {len(tuning)}")
    if write:
        model = fitted([*rows, *tuning])
        write_weights(WEIGHTS, HEAD, model.coef_.T, model.intercept_)


if __name__ == "__main__":
    harness.run(main)
