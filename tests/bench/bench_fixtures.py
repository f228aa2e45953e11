"""The project's own labelled sets, found or not: texts in other languages, and a folder of somebody's notes.

    python -m tests.bench.bench_fixtures [--languages] [--notes] [--rankers auto,words]

Without a choice both are measured. `auto` was fitted on them, so of it they say too much. The texts of all languages
lie in one namespace, and each is asked for in its own language and in English. The notes are a folder that the daemon
watches; right is the chunk that says what answers.
"""

import shutil
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from mnemo_client.client import Client
from mnemo_client.protocol.choices import Ranker
from mnemo_client.protocol.memories import NewMemory
from tests.bench import harness
from tests.bench.bench_documents import PAGE, wait_for_notes
from tests.bench.tables import hits, rankers_named, share, show, show_hits
from tests.support import recall_sets
from tests.support.running_daemon import RunningDaemon

TOP_K = 50
ENGLISH_BEGINS = frozenset({
    "what", "what's", "when", "where", "where's", "which", "who", "whose", "why", "how", "is", "are", "do", "does",
    "did", "can", "could", "should", "in", "on", "at", "from", "by", "to", "the", "my", "has", "have", "will",
})  # fmt: skip


class FixtureProbe(NamedTuple):
    """A question, which group it counts in, and the ids of what answers it."""

    group: str
    text: str
    right: Collection[str]


def main(*, languages: bool = False, notes: bool = False, rankers: str = "all") -> None:
    named = rankers_named(rankers)
    neither = not languages and not notes
    with harness.new_daemon() as (daemon, client):
        if languages or neither:
            show_languages(ask_all(client, put_languages(daemon, client), named, "languages"))
        if notes or neither:
            found = ask_all(client, put_notes(daemon, client, daemon.folder.parent / "notes"), named, "notes")
            show_hits("notes", {ranker: [row for _, row in answers] for ranker, answers in found.items()})


def put_languages(daemon: RunningDaemon, client: Client) -> list[FixtureProbe]:
    sets = recall_sets.language_sets()
    ids: dict[str, str] = {}
    for each in sets:
        for name, text in each.texts.items():
            ids[name] = client.remember(NewMemory(content=text, namespace="languages")).memory.id
    daemon.wait_for_vectors()
    return [
        FixtureProbe(f"{each.language}, in English" if is_english(question.text) else each.language, question.text,
            [ids[name] for name in question.answers])
        for each in sets for question in each.questions
    ]  # fmt: skip


def is_english(question: str) -> bool:
    return question.isascii() and question.lower().split()[0] in ENGLISH_BEGINS


def put_notes(daemon: RunningDaemon, client: Client, folder: Path) -> list[FixtureProbe]:
    shutil.copytree(recall_sets.NOTES, folder)
    client.add_root(folder, namespace="notes")
    wait_for_notes(client, sum(1 for path in folder.iterdir() if path.is_file()))
    daemon.wait_for_vectors()
    page = client.list_memories(limit=PAGE, namespace="notes")
    assert page.cursor is None, "more chunks than a page holds"
    puts = []
    for question in recall_sets.note_questions():
        right = [
            memory.id
            for memory in page.memories
            if memory.note is not None and Path(memory.note.path).name == question.file
            and question.says in memory.content
        ]  # fmt: skip
        assert right, f"no chunk of {question.file} says {question.says!r}"
        puts.append(FixtureProbe("notes", question.text, right))
    return puts


def ask_all(
    client: Client, puts: Sequence[FixtureProbe], rankers: Sequence[Ranker], namespace: str
) -> dict[Ranker, list[tuple[str, dict[str, float]]]]:
    """The group and the hits of every question."""
    found: dict[Ranker, list[tuple[str, dict[str, float]]]] = defaultdict(list)
    for put in puts:
        for ranker in rankers:
            answer = client.recall(
                put.text, top_k=TOP_K, token_budget=None, dry=True, ranker=ranker, namespace=namespace
            )
            found[ranker].append((put.group, hits([memory.id for memory in answer.memories], put.right)))
    return found


def show_languages(found: dict[Ranker, list[tuple[str, dict[str, float]]]]) -> None:
    show_hits("all languages", {ranker: [row for _, row in answers] for ranker, answers in found.items()})
    groups = sorted({group for group, _ in next(iter(found.values()))})
    counts = [f"{name} ({sum(group == name for group, _ in next(iter(found.values())))})" for name in groups]
    for metric in ("hit@1", "hit@5", "hit@10"):
        rows: dict[str, list[object]] = {
            ranker: [share([row[metric] for group, row in answers if group == name]) for name in groups]
            for ranker, answers in found.items()
        }
        show(f"{metric} by language (questions)", counts, rows)


if __name__ == "__main__":
    harness.run(main)
