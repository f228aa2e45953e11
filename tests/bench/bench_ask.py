"""Answers of `ask` to questions with known evidence: by quotes, and by the language model.

    python -m tests.bench.bench_ask --data FOLDER [--llm 60]

FOLDER is one that `mnemo bench quality` reads. A row a category: the share of questions that are answered, of those
whose citations hold some and all of the evidence, the share of the citations that are evidence, and the time. To
adversarial questions the conversation has no answer, so there the first column should be small. With --llm that many
questions, spread over all, are asked again with the installed language model, whatever its grade, and with the grade
heeded; a question whose answer it did not write is counted by its reason.
"""

import argparse
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from mnemo_client.bench.datasets import Conversation, load
from mnemo_client.client import Client
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.primitives import FailureAnswer
from mnemo_client.protocol.retrieval import AskAnswer
from tests.bench.tables import percentiles, share, show
from tests.running import running

VECTORS_SECONDS = 3600.0
BATCH = 500
COLUMNS = ("n", "answered", "some evidence", "all evidence", "of citations", "p50 p95")


class AskedQuestion(NamedTuple):
    """A question, where it is asked, and the ids of the memories that answer it."""

    text: str
    category: str
    namespace: str
    evidence: frozenset[str]


def store_turns(client: Client, conversations: Sequence[Conversation]) -> list[AskedQuestion]:
    """Store every turn as a memory, and return the questions."""
    asked = []
    for number, conversation in enumerate(conversations, start=1):
        memories = [
            NewMemory(
                content=turn.text, speaker=turn.speaker, session_id=f"{number}-{turn.session}", event_at=turn.at,
                namespace=str(number), key=f"{number}/{turn.id}",
            )
            for turn in conversation.turns
        ]  # fmt: skip
        ids: dict[str, str] = {}
        for start in range(0, len(memories), BATCH):
            results = client.remember_many(memories[start : start + BATCH])
            for turn, result in zip(conversation.turns[start:], results, strict=False):
                assert not isinstance(result, FailureAnswer), result
                ids[turn.id] = result.memory.id
        asked += [
            AskedQuestion(each.text, each.category, str(number), frozenset(ids[turn] for turn in each.evidence))
            for each in conversation.questions
        ]
    return asked


def measure(client: Client, title: str, questions: Sequence[AskedQuestion]) -> None:
    """Ask every question, and print a row a category and why quotes answered."""
    found: dict[str, list[tuple[AskedQuestion, AskAnswer, float]]] = defaultdict(list)
    methods: Counter[str] = Counter()
    for question in questions:
        began = time.perf_counter()
        answer = client.ask(question.text, namespace=question.namespace)
        row = question, answer, 1000 * (time.perf_counter() - began)
        found[question.category].append(row)
        methods[_method(answer)] += 1
        if question.category != "adversarial":
            found["all but adversarial"].append(row)
    rows = {category: _row(asked) for category, asked in sorted(found.items())}
    show(title, COLUMNS, rows)
    print("\n" + "\n".join(f"{count:5} {how}" for how, count in methods.most_common()))


def _method(answer: AskAnswer) -> str:
    return "written by the language model" if answer.method == "llm" else f"quoted: {answer.reason}"


def _row(asked: Sequence[tuple[AskedQuestion, AskAnswer, float]]) -> list[str]:
    cited = [(question.evidence, {each.id for each in answer.citations}) for question, answer, _ in asked]
    precisions = [len(ids & evidence) / len(ids) for evidence, ids in cited if ids]
    return [
        str(len(asked)),
        str(share([not answer.abstained for _, answer, _ in asked])),
        str(share([bool(evidence & ids) for evidence, ids in cited])),
        str(share([evidence <= ids for evidence, ids in cited])),
        f"{100 * statistics.fmean(precisions):.1f}" if precisions else "",
        percentiles([took for _, _, took in asked]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--llm", type=int, default=0, help="questions to ask of the language model")
    options = parser.parse_args()
    conversations = load(options.data)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        with running(folder, {"MNEMO_LLM_LEVEL": "off"}) as daemon, daemon.client() as client:
            questions = store_turns(client, conversations)
            daemon.wait_for_vectors(VECTORS_SECONDS)
            measure(client, "Quotes", questions)
        if options.llm:
            sample = questions[:: max(1, len(questions) // options.llm)]
            for title, heeds in (("Language model", "false"), ("Language model if its grade allows it", "true")):
                with running(folder, {"MNEMO_LLM_PROBE": heeds}) as daemon, daemon.client() as client:
                    daemon.wait_for_vectors(VECTORS_SECONDS)
                    measure(client, title, sample)


if __name__ == "__main__":
    main()
