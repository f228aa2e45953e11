"""Cutoff and abstention: `cut: gap` on sets of beliefs, and the cost of abstaining.

    python -m tests.bench.bench_cut [FOLDER] [--top-k 10] [--untold] [--fit]

FOLDER (tests/fixtures/recall) holds beliefs-*.jsonl, itself or in its folder `cut`, lines of {"id", "text", "kind",
"at", "replaces"?, "scope"?} and of {"question", "answers", "scope"?}, and absent.jsonl, lines of {"question"} about
what was never stored. Each set is a user of its own, a scope a namespace. The ranking is not fitted on those in `cut`:
what it was fitted on it ranks too well to tell where a list ends. What replaces another supersedes it, unless --untold
leaves that to be noticed. --fit prints the table of mnemo_core/retrieval/abstention.py,
fitted on all sets; every figure of a fit is of
a set it has not seen.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mnemo_client.client import Client
from mnemo_client.protocol.choices import Cut, Ranker
from mnemo_core.retrieval import abstention
from mnemo_core.retrieval.abstention import FEATURES, NAMES, Basis, CutoffModel
from mnemo_core.similarity.thresholds import DEFAULT_MODEL
from tests.bench import fit_cutoff, harness

FIXTURES = Path(__file__).parents[1] / "fixtures" / "recall"
RANKERS: tuple[Ranker, ...] = ("auto", "cosine", "words")  # of each basis the first that rests on it
LOOKED_AT = 50  # candidates a question
COVERAGES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


class CutQuestion(NamedTuple):
    """A question to a set, and the ids of the memories that answer it. absent: about what was never stored."""

    user: str
    question: str
    namespace: str
    answers: frozenset[str]
    absent: bool = False


class Answers(NamedTuple):
    """Results of the API with the cut and without it: mean precision and recall, and the share without an answer."""

    precision: float
    recall: float
    returned: float
    abstained: float


def main(folder: Path = FIXTURES, *, top_k: int = 10, untold: bool = False, fit: bool = False) -> None:
    with harness.new_daemon() as (daemon, client):
        questions = [*stored(client, folder, reported=not untold)]
        daemon.wait_for_vectors()
        questions += absent(folder, sorted({each.user for each in questions}))
        examples = evidence(client, questions)
        answered = {how: answers(client, questions, how, top_k) for how in ("none", "gap")}
    for how, figures in answered.items():
        print(f"cut: {how:5} precision {figures.precision:.3f}  recall {figures.recall:.3f}  "
              f"returned {figures.returned:.1f}  no answer {figures.abstained:.3f}")  # fmt: skip
    for basis, found in examples.items():
        show_fits(basis, found, questions, top_k)
    basis = next(iter(examples))
    show_abstaining(basis, examples[basis], questions)
    if fit:
        for basis, found in examples.items():
            print(f'"{basis}": {fitted(found, basis, questions, top_k)},')


def stored(client: Client, folder: Path, *, reported: bool) -> Iterator[CutQuestion]:
    """Remembers every set, and gives its questions."""
    for path in sorted([*folder.glob("beliefs-*.jsonl"), *folder.glob("cut/beliefs-*.jsonl")]):
        ids: dict[str, str] = {}
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            if "text" in line:
                replaced = [ids[line["replaces"]]] if reported and "replaces" in line else []
                kept = client.remember(
                    line["text"], kind=line["kind"], event_at=line["at"], user_id=path.stem, supersedes=replaced,
                    namespace=line.get("scope") or "default",
                )  # fmt: skip
                ids[line["id"]] = kept.memory.id
            else:
                right = frozenset(ids[each] for each in line["answers"])
                yield CutQuestion(path.stem, line["question"], line.get("scope") or "*", right)


def absent(folder: Path, users: Sequence[str]) -> list[CutQuestion]:
    """Questions about what was never stored, to one set after the other."""
    there = folder / "absent.jsonl"
    lines = (there if there.exists() else FIXTURES / there.name).read_text(encoding="utf-8").splitlines()
    asked = [json.loads(line)["question"] for line in lines]
    return [CutQuestion(users[n % len(users)], each, "*", frozenset(), True) for n, each in enumerate(asked)]


def evidence(client: Client, questions: Sequence[CutQuestion]) -> dict[Basis, list[fit_cutoff.CutoffExample]]:
    """The values of the candidates of each question, by their basis."""
    found: dict[Basis, list[fit_cutoff.CutoffExample]] = {}
    for ranker in RANKERS:
        rows = [traced(client, each, ranker) for each in questions]
        basis: Basis = next(name for name, columns in FEATURES.items() if _names(columns) == _known(rows))
        found.setdefault(basis, [example(each, row, basis) for each, row in zip(questions, rows, strict=True)])
    return found


def traced(client: Client, asked: CutQuestion, ranker: Ranker) -> list[dict[str, Any]]:
    answer = client.recall(
        asked.question, ranker=ranker, user_id=asked.user, namespace=asked.namespace, top_k=LOOKED_AT,
        token_budget=None, expand=False, explain=True, dry=True,
    )  # fmt: skip
    assert answer.trace is not None
    return [{"id": each.id, "cut": each.cut} for each in answer.trace.candidates if each.cut]


def example(asked: CutQuestion, rows: Sequence[Mapping[str, Any]], basis: Basis) -> fit_cutoff.CutoffExample:
    names = [NAMES[each] for each in FEATURES[basis]]
    features = np.array([[row["cut"][name] for name in names] for row in rows], np.float64).reshape(-1, len(names))
    is_right = np.array([row["id"] in asked.answers for row in rows], np.bool_)
    return fit_cutoff.CutoffExample(features, is_right, len(asked.answers))


def answers(client: Client, questions: Sequence[CutQuestion], how: Cut, top_k: int) -> Answers:
    """Results of the API for the questions that have an answer; older values count like any."""
    rows = []
    for each in questions:
        if each.answers:
            answer = client.recall(
                each.question, user_id=each.user, namespace=each.namespace, top_k=top_k, cut=how, dry=True
            )
            ids = [memory.id for memory in answer.memories]
            right = len(each.answers.intersection(ids))
            rows.append((right / len(ids) if ids else 0.0, right / len(each.answers), len(ids), not ids))
    return Answers(*(float(mean) for mean in np.mean(rows, axis=0)))


def fitted(
    examples: Sequence[fit_cutoff.CutoffExample],
    basis: Basis,
    questions: Sequence[CutQuestion],
    top_k: int,
    without: str = "",
) -> CutoffModel:
    """Fitted on the questions of all sets, but for one; what was never stored only measures."""
    seen = [each for each, asked in zip(examples, questions, strict=True) if asked.user != without and not asked.absent]
    return fit_cutoff.fit(seen, basis, top_k)


def show_fits(
    basis: Basis, examples: Sequence[fit_cutoff.CutoffExample], questions: Sequence[CutQuestion], top_k: int
) -> None:
    by_set: dict[str, list[fit_cutoff.CutoffExample]] = defaultdict(list)
    for each, asked in zip(examples, questions, strict=True):
        if each.answers:
            by_set[asked.user].append(each)
    print(f"\n{basis}: fitted without the set it is measured on, and as shipped")
    print(f"{'':12}{'asked':>6}{'precision':>11}{'recall':>8}{'none':>7}{'precision':>14}{'recall':>8}{'none':>7}")
    rows = []
    for name, own in by_set.items():
        without = fit_cutoff.evaluate_cutoff(own, fitted(examples, basis, questions, top_k, name), basis, top_k)
        shipped = fit_cutoff.evaluate_cutoff(own, abstention.of_model(DEFAULT_MODEL)[basis], basis, top_k)
        rows.append((len(own), *without, *shipped))
        _show_row(name, rows[-1])
    weights = [row[0] for row in rows]
    _show_row("all", (sum(weights), *np.average([row[1:] for row in rows], axis=0, weights=weights)))


def show_abstaining(
    basis: Basis, examples: Sequence[fit_cutoff.CutoffExample], questions: Sequence[CutQuestion]
) -> None:
    """The risk-coverage curve: of the questions that something is nearest to, how many have no right answer first."""
    place = abstention.of_model(DEFAULT_MODEL)[basis]
    best = np.array(
        [float(abstention.standalone_strengths(each.features, basis).max(initial=0.0)) for each in examples]
    )
    wrong = np.array([not (len(each.is_right) and each.is_right[0]) for each in examples])
    answerable = np.array([bool(asked.answers) for asked in questions])
    never = np.array([asked.absent for asked in questions])
    for name, of in (("with an answer", answerable), ("near to what is stored without one", ~answerable & ~never),
                     ("about what was never stored", never)):  # fmt: skip
        print(f"no answer given to {(best[of] < place.floor).mean():.3f} of {of.sum()} questions {name}")
    order = np.argsort(-best, kind="stable")
    risks = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    print("coverage  risk  floor     (all questions; wrong: the first answer is not right)")
    for coverage in COVERAGES:
        last = max(1, round(coverage * len(order))) - 1
        print(f"{coverage:8.2f}{risks[last]:6.3f}{best[order[last]]:7.3f}")
    print(f"area under the curve {risks.mean():.3f}")


def _show_row(name: str, row: Sequence[float]) -> None:
    count, *rest = row
    print(
        f"{name:12}{int(count):6}{rest[0]:11.3f}{rest[1]:8.3f}{rest[2]:7.3f}{rest[3]:14.3f}{rest[4]:8.3f}{rest[5]:7.3f}"
    )


def _names(columns: Sequence[int]) -> set[str]:
    return {NAMES[each] for each in columns} | {"strength"}


def _known(rows: Sequence[Sequence[Mapping[str, Any]]]) -> set[str]:
    return set(next(row[0]["cut"] for row in rows if row))


if __name__ == "__main__":
    harness.run(main)
