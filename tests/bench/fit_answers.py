"""Fit the judge of answers to lives, single texts, beliefs and conversations, and measure it on what it did not see.

    python -m tests.bench.fit_answers            # what the judge gives on sources that it was not fitted to
    python -m tests.bench.fit_answers --write    # and write the weights, fitted to all of them

Every source is stored and its questions are recalled. The quote of the first hit is right where it has the words that
answer or, in beliefs and conversations, is of a text that answers. The reader of answers (`fit_answer_reader`) was
fitted to single texts, which count only for the weights without it. `bench_answers` measures the whole of `ask`.
"""

import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mnemo_client.client import Client
from mnemo_client.paths import models_folder
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import RecalledMemory
from mnemo_core.llm.question_answer import best_sentence, quote_answer, quoted_text, unmet_by_sources
from mnemo_core.llm.tasks import RecalledSource, TaskInputs
from mnemo_core.retrieval.answer_judge import CLIPPED, HITS_MAX, AnswerCandidate, AnswerJudge, answer_features
from mnemo_daemon.assistance.question_answering import ANSWER_WEIGHTS
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.cross_encoder import AnswerReader
from tests.bench import harness, quality
from tests.bench.bench_answers import LANGUAGE_MODEL_OFF, WAIT_SECONDS, lines, store
from tests.bench.fit_changes import as_json
from tests.bench.tables import show
from tests.support import recall_sets
from tests.support.running_daemon import running

READINGS = Path(__file__).parents[1] / "fixtures" / "readings"
PENALTY = 0.1
TEXTS_TOGETHER = 150  # single texts that are stored together, each with a question that it answers and near misses
FIRST_DAY = 15  # texts of a life, which is asked about with so few too
CONVERSATIONS_EACH = 3  # of so many conversations, one is asked about
# The least chance of an answer: a wrong one costs half of what a right one is worth, since what comes closest is shown
# in any case.
BARS = {"read": 0.18, "unread": 0.15}


KINDS: dict[str, Callable[[str], bool]] = {
    "lives": lambda source: source.startswith("life") or source == "tuning",
    "single texts": lambda source: source.startswith("texts"),
    "beliefs": lambda source: source.startswith("beliefs"),
    "conversations": lambda source: not source.startswith(("life", "texts", "beliefs", "tuning")),
}


class JudgedQuestion(NamedTuple):
    """The features of a question about a source, with the reading and without, whether its first quote is right, and
    whether the source answers."""

    source: str
    features: Mapping[str, Mapping[str, float]]
    is_right: bool
    has_answer: bool
    is_met: bool  # what is quoted has the specifics of the question


def lives() -> dict[str, tuple[Path, Path]]:
    """The texts and the questions of each life, by its name."""
    found = {path.stem: (path, path.with_stem(path.stem.replace("life", "ask"))) for path in
             sorted((READINGS / "lives").glob("life*.jsonl"))}  # fmt: skip
    return found | {"tuning": (READINGS / "tuning" / "life.jsonl", READINGS / "tuning" / "ask.jsonl")}


@functools.cache
def reader() -> AnswerReader:
    manifest = ModelCatalogue(models_folder(dict(os.environ))).installed(DEFAULT_EMBEDDING)
    if manifest is None:
        raise SystemExit("mnemo models pull all-MiniLM-L6-v2 first")
    return AnswerReader(manifest)


def quote_of(hit: RecalledMemory, question: str) -> str:
    sentence = best_sentence(hit.best.text if hit.best else hit.content, question)
    return quoted_text(hit.content, sentence)


def judged(
    client: Client, source: str, question: str, *, has_answer: bool, is_right: Callable[[RecalledMemory, str], bool]
) -> Iterator[JudgedQuestion]:
    """The question with the features of what was recalled for it, where anything was."""
    hits = [hit for hit in client.recall(question, top_k=HITS_MAX, dry=True, highlight=True).memories if not hit.was]
    candidates = [AnswerCandidate(hit.content, quote_of(hit, question), hit.score, hit.speaker or "") for hit in hits]
    if candidates:
        features = {"unread": answer_features(question, candidates)}
        if not source.startswith("texts"):
            reading = float(reader().scores(question, [candidates[0].said])[0])
            features["read"] = answer_features(question, candidates, reading)
        recalled = tuple(RecalledSource("", each.quote, each.score, speaker=each.speaker) for each in candidates)
        inputs = TaskInputs(tuple(each.text for each in candidates), question, recalled)
        is_met = not unmet_by_sources(quote_answer(inputs), inputs)
        is_right_one = has_answer and is_right(hits[0], candidates[0].quote)
        yield JudgedQuestion(source, features, is_right_one, has_answer, is_met)


def judged_life(client: Client, life: str, asked: Sequence[Mapping[str, Any]]) -> Iterator[JudgedQuestion]:
    """The questions of a life, of which a quote is right that has the words that answer."""
    for each in asked:
        answers = each.get("answers") or [answer for answer in [each.get("answer")] if answer]

        def is_right(_: RecalledMemory, quote: str, answers: Sequence[str] = answers) -> bool:
            return any(answer.casefold() in quote.casefold() for answer in answers)

        yield from judged(client, life, each["question"], has_answer=bool(answers), is_right=is_right)


def judged_texts(
    client: Client, source: str, texts: Mapping[str, str], questions: Mapping[str, Sequence[str]]
) -> Iterator[JudgedQuestion]:
    """Questions with the ids of the texts that answer. texts: by memory id, the id of the text."""
    for question, evidence in questions.items():

        def is_right(hit: RecalledMemory, _: str, evidence: Sequence[str] = evidence) -> bool:
            return texts[hit.id] in evidence

        yield from judged(client, source, question, has_answer=bool(evidence), is_right=is_right)


def all_judged() -> list[JudgedQuestion]:
    found: list[JudgedQuestion] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, (life, questions) in lives().items():
            told, asked = lines(life), lines(questions)
            with running(Path(scratch) / name, LANGUAGE_MODEL_OFF) as daemon:
                daemon.wait_for_vectors(WAIT_SECONDS)
                for some in (told, told[:FIRST_DAY], told[-FIRST_DAY:]):
                    ids = {each["id"] for each in some}
                    with daemon.client(f"{name}-{some[0]['id']}-{len(some)}") as client:
                        store(client, some)
                        daemon.wait_for_vectors(WAIT_SECONDS)
                        known = [each for each in asked if ids.issuperset(each["evidence"])]
                        found += judged_life(client, name, known)
        with running(Path(scratch) / "recall", LANGUAGE_MODEL_OFF) as daemon:
            daemon.wait_for_vectors(WAIT_SECONDS)
            rows = lines(READINGS / "questions.jsonl")
            for start in range(0, len(rows), TEXTS_TOGETHER):
                name, some = f"texts-{start // TEXTS_TOGETHER}", rows[start : start + TEXTS_TOGETHER]
                with daemon.client(name) as client:
                    store(client, some)
                    daemon.wait_for_vectors(WAIT_SECONDS)
                    asked = [{"question": each["question"], "answer": each["answer"]} for each in some]
                    asked += [{"question": question} for each in some for question in each["not_answered"]]
                    found += judged_life(client, name, asked)
            for talk in recall_sets.conversations()[::CONVERSATIONS_EACH]:
                with daemon.client(talk.name) as client:
                    texts = {memory: turn for turn, memory in quality.remember(client, talk, talk.name).items()}
                    daemon.wait_for_vectors(WAIT_SECONDS)
                    evidence = {each.text: each.evidence for each in talk.questions}
                    found += judged_texts(client, talk.name, texts, evidence)
            for number, beliefs in enumerate(recall_sets.belief_sets()):
                with daemon.client(f"beliefs-{number}") as client:
                    new = [NewMemory(content=each.text, event_at=each.at.isoformat()) for each in beliefs.beliefs]
                    results = zip(client.remember_many(new), beliefs.beliefs, strict=True)
                    texts = {result.memory.id: each.id for result, each in results}  # type: ignore[union-attr]
                    daemon.wait_for_vectors(WAIT_SECONDS)
                    evidence = {each.text: each.answers for each in beliefs.questions}
                    evidence |= dict.fromkeys(recall_sets.absent(), ()) if number % 2 == 0 else {}
                    found += judged_texts(client, f"beliefs-{number}", texts, evidence)
    return found


def fitted(questions: Sequence[JudgedQuestion]) -> dict[str, Any]:
    """The weights in the form of the judge."""
    return {name: _fitted(questions, name) for name in BARS}


def _fitted(questions: Sequence[JudgedQuestion], name: str) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    questions = [each for each in questions if name in each.features]
    features = np.array([[*each.features[name].values()] for each in questions])
    right = np.array([each.is_right for each in questions])
    mean, scale = features.mean(axis=0), np.maximum(features.std(axis=0), 1e-3)
    scaled = np.clip((features - mean) / scale, -CLIPPED, CLIPPED)
    model = LogisticRegression(C=PENALTY, max_iter=1000).fit(scaled, right)
    columns = np.stack([mean, scale, model.coef_[0]], axis=1)
    return {
        "bar": BARS[name],
        "bias": _short(model.intercept_[0]),
        "features": {
            feature: [*map(_short, row)] for feature, row in zip(questions[0].features[name], columns, strict=True)
        },
    }


def _short(value: float) -> float:
    """The value with three significant digits."""
    return float(f"{value:.3g}")


def main(*, write: bool = False) -> None:
    questions = all_judged()
    names = [*dict.fromkeys(each.source for each in questions)]
    judges = {name: AnswerJudge(fitted([each for each in questions if each.source != name])) for name in names}
    for kind, way in itertools.product(KINDS, BARS):
        some = [
            (each, judges[each.source].chance_of(each.features[way]))
            for each in questions if KINDS[kind](each.source) and way in each.features
        ]  # fmt: skip
        rows = {}
        bars = [(bar, needs_specifics) for bar in (0.0, 0.15, 0.2, 0.3, 0.4, 0.5) for needs_specifics in (False, True)]
        for bar, needs_specifics in bars:
            shown = [each for each, chance in some if chance >= bar and (each.is_met or not needs_specifics)]
            right = sum(each.is_right for each in shown)
            wrong = sum(each.has_answer for each in shown) - right
            title = f"chance {bar:.2f} and more{', specifics met' if needs_specifics else ''}"
            rows[title] = [str(right), str(wrong), str(len(shown) - right - wrong)]
        answered = sum(each.has_answer for each, _ in some)
        show(f"{kind}, {way}: {len(some)} questions, {answered} with an answer", ("right", "wrong", "made up"), rows)
    if write:
        ANSWER_WEIGHTS.write_text(as_json(fitted(questions)), encoding="utf-8")


if __name__ == "__main__":
    harness.run(main)
