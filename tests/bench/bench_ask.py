"""Answers of `ask` to questions with known evidence: by quotes, and by the language model.

    python -m tests.bench.bench_ask --data FOLDER [--llm 60 [--rerank]]
    python -m tests.bench.bench_ask --made

FOLDER is one that `mnemo bench quality` reads. A row a category: the share of questions that are answered, of those
whose citations hold some and all of the evidence, the share of the citations that are evidence, and the time. To
adversarial questions the conversation has no answer, so there the first column should be small. With --llm that many
questions, spread over all, are asked again with the installed language model, whatever its grade, and with the grade
heeded; with --rerank it also scores the memories first. A question whose answer it did not write is counted by its
reason. --made asks the project's own questions (tests/fixtures/recall/asked.jsonl) about 42 memories. These answer 46
of them; of the 34 others, 18 ask something else of somebody or something that the memories know.
"""

import statistics
import sys
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
from tests.bench import harness
from tests.bench.tables import percentiles, share, show
from tests.support import recall_sets
from tests.support.running_daemon import running

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


def store_made(client: Client) -> list[AskedQuestion]:
    """Store the project's own memories for this, and return the questions."""
    made = recall_sets.asked_set()
    ids = {
        each.id: client.remember(each.text, event_at=round(each.at.timestamp() * 1000)).memory.id
        for each in made.beliefs
    }
    return [
        AskedQuestion(
            each.text, "answered" if each.answers else "no answer", "default",
            frozenset(ids[one] for one in each.answers),
        )
        for each in made.questions
    ]  # fmt: skip


def measure(client: Client, title: str, questions: Sequence[AskedQuestion], *, rerank: bool = False) -> None:
    """Ask every question, and print a row a category and why quotes answered."""
    found: dict[str, list[tuple[AskedQuestion, AskAnswer, float]]] = defaultdict(list)
    methods: Counter[str] = Counter()
    for question in questions:
        began = time.perf_counter()
        answer = client.ask(question.text, namespace=question.namespace, rerank=rerank)
        row = question, answer, 1000 * (time.perf_counter() - began)
        found[question.category].append(row)
        methods[_method(answer)] += 1
        if question.evidence and question.category != "adversarial":
            found["all with an answer"].append(row)
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


def main(*, data: Path | None = None, made: bool = False, llm: int = 0, rerank: bool = False) -> None:
    if made == (data is not None):
        sys.exit("give --data FOLDER, or --made")
    conversations = load(data) if data else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        with running(folder, {"MNEMO_LLM_LEVEL": "off"}) as daemon, daemon.client() as client:
            questions = store_made(client) if made else store_turns(client, conversations)
            daemon.wait_for_vectors(VECTORS_SECONDS)
            measure(client, "Quotes", questions)
        if llm:
            sample = questions[:: max(1, len(questions) // llm)]
            for title, heeds in (("Language model", "false"), ("Language model if its grade allows it", "true")):
                with running(folder, {"MNEMO_LLM_PROBE": heeds}) as daemon, daemon.client() as client:
                    daemon.wait_for_vectors(VECTORS_SECONDS)
                    measure(client, title, sample, rerank=rerank)


if __name__ == "__main__":
    harness.run(main)
