"""Recall of statements in a project's namespace, next to much external documentation in `default`. SPEC 7.3

    python -m tests.bench.bench_projects FOLDER [--files 0] [--sentences 300] [--rankers auto,words]

FOLDER is one of bench_documents. Its files are notes in `default`; each of the facts of
tests/fixtures/recall/projects.jsonl stands in the namespace of its project, where its question is asked. Sentences that
were taken out of the documentation are asked from those namespaces too: what documents are asked for has to be found
from there as before.
"""

import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from mnemo_client.client import Client
from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import NewMemory
from tests.bench import bench_documents, harness
from tests.bench.tables import hits, rankers_named, show_hits
from tests.support import recall_sets
from tests.support.running_daemon import RunningDaemon, running

TOP_K = 10


def main(folder: Path, *, files: int = 0, sentences: int = 300, rankers: str = "auto,words,cosine") -> None:
    chance = random.Random(bench_documents.SEED)
    documents = list(bench_documents.sources(folder, files, chance))
    asked = bench_documents.take_sentences(documents, sentences, chance, [])
    named = rankers_named(rankers)
    with tempfile.TemporaryDirectory() as scratch:
        notes = Path(scratch) / "notes"
        bench_documents.write(documents, folder, notes)
        with running(Path(scratch) / "data") as daemon, daemon.client() as client:
            client.add_root(notes)
            bench_documents.wait_for_notes(client, len(documents))
            chunks = bench_documents.chunks_of(client, notes)
            facts = recall_sets.project_facts()
            ids = remember(client, facts)
            daemon.wait_for_vectors(7200)
            print(f"{len(facts)} facts beside {sum(map(len, chunks.values()))} passages of {folder.name}")
            questions = [(each.namespace, each.question, {ids[each.text]}) for each in facts]
            show_hits("what was said in the project", ask_all(daemon, questions, named))
            spaces = sorted({each.namespace for each in facts})
            from_there = [
                (spaces[number % len(spaces)], place.text, bench_documents.right_of(place, chunks))
                for number, place in enumerate(asked)
            ]
            if from_there:
                show_hits("sentence -> its paragraph, asked from a project", ask_all(daemon, from_there, named))


def remember(client: Client, facts: Sequence[recall_sets.ProjectFact]) -> dict[str, str]:
    """The memory id of each fact, by its text."""
    found = {}
    for fact in facts:
        (result,) = client.remember_many([NewMemory(content=fact.text, namespace=fact.namespace, dedup="off")])
        assert isinstance(result, RememberAnswer), result
        found[fact.text] = result.memory.id
    return found


def ask_all(
    daemon: RunningDaemon, questions: Sequence[tuple[str, str, set[str]]], rankers: Sequence[Ranker]
) -> dict[Ranker, list[dict[str, float]]]:
    """questions: the namespace, the text, and the ids that answer."""
    found: dict[Ranker, list[dict[str, float]]] = defaultdict(list)
    for namespace, text, right in questions:
        with daemon.client(namespace) as client:
            for ranker in rankers:
                answer = client.recall(text, top_k=TOP_K, token_budget=None, dry=True, ranker=ranker)
                found[ranker].append(hits([memory.id for memory in answer.memories], right))
    return found


if __name__ == "__main__":
    harness.run(main)
