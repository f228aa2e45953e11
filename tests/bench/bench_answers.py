"""Answers of `ask` without a language model, over the texts of a life. SPEC 11

    python -m tests.bench.bench_answers FOLDER [--show]

FOLDER holds life.jsonl ({"id", "at", "text"}) and ask.jsonl ({"question", "answers"}; no answers: the texts do not tell
it). An answer is right where its first sentence has one of the answers, and, of a question without an answer, where
there is none. --show prints what went wrong, which nobody does with a held-out half.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET

from mnemo_client.client import Client
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import AskAnswer
from tests.bench import harness
from tests.bench.tables import show

WAIT_SECONDS = 600.0
BATCH = 100
LANGUAGE_MODEL_OFF = {"MNEMO_LLM_LEVEL": "off"}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def store(client: Client, life: Sequence[Mapping[str, str]]) -> None:
    for start in range(0, len(life), BATCH):
        some = life[start : start + BATCH]
        client.remember_many([NewMemory(content=each["text"], event_at=each.get("at") or UNSET) for each in some])


def verdict(asked: Mapping[str, Any], answer: AskAnswer) -> str:
    """Return `right`, `wrong`, `abstained`, or, of a question without an answer, `rightly abstained` or `made up`."""
    if not asked["answers"]:
        return "rightly abstained" if answer.abstained else "made up"
    if answer.abstained:
        return "abstained"
    first = answer.sentences[0].text.casefold()
    return "right" if any(each.casefold() in first for each in asked["answers"]) else "wrong"


def main(folder: Path, *, show_: bool = False) -> None:
    life, asked = lines(folder / "life.jsonl"), lines(folder / "ask.jsonl")
    found: Counter[str] = Counter()
    with harness.new_daemon(LANGUAGE_MODEL_OFF) as (daemon, client):
        daemon.wait_for_vectors(WAIT_SECONDS)
        store(client, life)
        daemon.wait_for_vectors(WAIT_SECONDS)
        for each in asked:
            answer = client.ask(each["question"])
            said = verdict(each, answer)
            found[said] += 1
            if show_ and said in ("wrong", "abstained", "made up"):
                print(f"{said}: {each['question']} {each['answers']}\n    {answer.answer[:160]}")
    answered = sum(bool(each["answers"]) for each in asked)
    show(
        f"{len(asked)} questions, {answered} with an answer",
        ("count",),
        {name: [str(found[name])] for name in ("right", "wrong", "abstained", "rightly abstained", "made up")},
    )


if __name__ == "__main__":
    harness.run(main)
