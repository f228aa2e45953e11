"""Whole notes in the order of `auto`, `group_by`, and the namespace that is asked. SPEC 7.3, 7.5"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import RecalledMemory
from tests.support import recall_sets
from tests.support.running_daemon import RunningDaemon, running

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / name
    for name in (
        "README.md",
        "clients/docs/memories.md",
        "clients/docs/operation.md",
        "store/docs/format.md",
        "store/docs/guarantees.md",
    )
]

HWCLOCK = """# tidewatch

tidewatch reads and sets the hardware clock of the ship.

It is run once at start, and from then on each hour by the scheduler.

## Options

`--show` prints the time. `--set` takes a time in ISO 8601, and needs the rights of the mate.

## Files

The drift is kept in /var/lib/tidewatch, one line a day.
"""
OTHER = """# galley

galley keeps the menus of the week and the list of what has to be bought in the next port.

## Meals

Breakfast is at seven. Who has the night watch eats at nine, and finds bread and soup on the stove.

## Time

To read and set the hardware clock of the ship, ask the mate for the key of the wheelhouse.

## Stores

Flour, rice and beans are in the dry locker, and are counted on Sundays.
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, minilm_folder: Path) -> Iterator[RunningDaemon]:
    """The project's own notes in `default`, the facts of projects in namespaces of their own, and a manual."""
    folder = tmp_path_factory.mktemp("pages")
    manual = folder / "manual"
    manual.mkdir()
    (manual / "tidewatch.md").write_text(HWCLOCK)
    (manual / "galley.md").write_text(OTHER)
    with running(folder / "data", {"MNEMO_MODELS_FOLDER": str(minilm_folder)}) as started, started.client() as client:
        client.add_root(recall_sets.NOTES, "default")
        client.add_root(manual, "manual")
        documents = folder / "documents"  # technical prose in `default`, that has the words of the questions
        documents.mkdir()
        for page in PAGES:
            shutil.copy(page, documents / page.name)
        client.add_root(documents, "default")
        client.remember_many(
            [
                NewMemory(content=each.text, namespace=each.namespace, dedup="off")
                for each in recall_sets.project_facts()
            ]
        )
        wait_for_notes(client, len(list(recall_sets.NOTES.iterdir())) + len(PAGES) + 2)
        started.wait_for_vectors()
        yield started


def wait_for_notes(client: Client, files: int) -> None:
    while sum(root.files for root in client.notes_status().roots if not root.waiting) < files:
        time.sleep(0.05)


def names(memories: list[RecalledMemory]) -> list[str]:
    return [Path(each.note.path).name if each.note is not None else "" for each in memories]


def test_the_page_that_is_about_it_comes_before_one_that_mentions_it(daemon: RunningDaemon) -> None:
    with daemon.client("manual") as client:
        found = client.recall("read and set the hardware clock", top_k=20, token_budget=None, dry=True, explain=True)
    assert names(found.memories)[0] == "tidewatch.md"
    assert found.trace is not None
    added = {memory.id: name for memory, name in zip(found.memories, names(found.memories), strict=True)}
    terms: dict[str, set[float]] = {}
    for each in found.trace.candidates:
        if each.id in added:
            terms.setdefault(added[each.id], set()).add(each.adds["page_lead"])
    assert terms["tidewatch.md"] == {0.0}, "the best page adds nothing, every other one less"
    assert len(terms["galley.md"]) == 1
    assert max(terms["galley.md"]) < 0


def test_one_hit_a_note_is_its_best_passage_and_the_others_are_counted(daemon: RunningDaemon) -> None:
    query = "how is the database restored"
    with daemon.client("tern") as client:
        every = client.recall(query, top_k=100, token_budget=None, dry=True)
        grouped = client.recall(query, top_k=100, token_budget=None, dry=True, group_by="note")
    files = names(every.memories)
    first = [
        memory.id
        for place, memory in enumerate(every.memories)
        if not files[place] or files[place] not in files[:place]
    ]
    assert [memory.id for memory in grouped.memories][: len(first)] == first
    assert grouped.total < every.total == sum(1 + memory.others for memory in grouped.memories)
    assert all(memory.others == 0 for memory in grouped.memories if memory.note is None)


def test_pages_of_grouped_hits_continue_each_other(daemon: RunningDaemon) -> None:
    query = "what do we do about the labels"
    with daemon.client() as client:
        whole = client.recall(query, top_k=12, token_budget=None, dry=True, group_by="note")
        pages = [
            client.recall(query, top_k=4, offset=offset, token_budget=None, dry=True, group_by="note")
            for offset in (0, 4, 8)
        ]
    assert [memory.id for page in pages for memory in page.memories] == [memory.id for memory in whole.memories]


def test_a_longer_answer_begins_as_a_shorter_one_does(daemon: RunningDaemon) -> None:
    queries = [each.text for each in recall_sets.note_questions()[::7]]
    queries += [each.question for each in recall_sets.project_facts()[::5]]
    with daemon.client("tern") as client:
        for query in queries:
            answers = [
                [memory.id for memory in client.recall(query, top_k=top_k, token_budget=None, dry=True).memories]
                for top_k in (100, 50, 10, 5)
            ]
            for shorter in answers[1:]:
                assert answers[0][: len(shorter)] == shorter, query


def test_a_project_finds_what_was_said_in_it_before_the_notes_of_everybody(daemon: RunningDaemon) -> None:
    facts, first = recall_sets.project_facts(), 0
    for fact in facts:
        with daemon.client(fact.namespace) as client:
            found = client.recall(fact.question, top_k=5, token_budget=None, dry=True)
        first += found.memories[0].content == fact.text
    assert first >= 0.8 * len(facts)


def test_notes_are_still_found_from_within_a_project(daemon: RunningDaemon) -> None:
    asked, found = recall_sets.note_questions(), 0
    with daemon.client("tern") as client:
        for each in asked:
            answer = client.recall(each.text, top_k=5, token_budget=None, dry=True)
            found += any(each.says in memory.content for memory in answer.memories)
    assert found >= 0.85 * len(asked)
