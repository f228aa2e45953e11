"""As of any time, through any history: what the journal up to then makes, and what comparing every memory finds.
SPEC 3.3, 7.1 `as_of`"""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemo_core.retrieval.ranking.rankers import words_held
from mnemo_daemon.indexing.commit_indexes import fields_of
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.indexes.lexical import K1, B, LexicalFields
from mnemo_store.indexes.tokenizer import Tokenizer, chunks
from mnemo_store.journal.line_codec import unseal_json
from mnemo_store.records import DropMemory, DropTrash, Memory
from tests.support.examples import examples
from tests.support.samples import quick_folder, write
from tests.support.store_services import StoreServices, services_in

THERE = ("active", "archived", "compressed", "superseded", "discarded")
WORDS = ("key", "bins", "boat", "engine", "the", "Tuesday", "Ines")
TIMES = (0, 999, 1000, 2500, 4000, 5500, 7000, 9000, 20_000)

TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "edit", "edit", "tag", "trash", "restore", "supersede", "drop", "use"]),
        st.integers(0, 9),  # which of the memories there are
        TEXTS,
        st.sampled_from([-3000, 0, 1, 700, 1500, 4000]),  # ms that go by first; a clock may step back
    ),
    max_size=14,
)


def happen(services: StoreServices, step: tuple[str, int, str, int], ids: list[str]) -> None:
    """One thing that somebody does; what cannot be done then is not."""
    what, which, text, passed = step
    services.at = max(0, services.at + passed)
    if what == "add" or not ids:
        # Each has a word of its own, so that equal texts are different memories and none counts as said again.
        ids.append(services.add(f"{text} n{services.store.seq}", tags=(f"t{which % 3}",), importance=which / 10))
        return
    chosen = ids[which % len(ids)]
    state = services.memory(chosen).state
    match what:
        case "edit" if state != "trashed":
            services.edit(chosen, content=f"{text} e{services.store.seq}")
        case "tag" if state != "trashed":
            services.edit(chosen, tags=(f"t{which % 3}", "again"))
        case "trash":
            services.trash(chosen)
        case "restore" if state == "trashed":
            services.restore(chosen)
        case "supersede" if state != "trashed":
            ids.append(services.add(f"{text} n{services.store.seq}", supersedes=(chosen,)))
        case "drop":
            services.trash(chosen)
            write(services.store, DropMemory(id=chosen), DropTrash(id=chosen))
            ids.remove(chosen)
        case "use":
            services.memories.record_use([chosen]).result()


def replayed(folder: Path, at: int, alive: list[str]) -> dict[str, Memory]:
    """The state from the journal's lines up to the last one of that time, without trashed and dropped memories."""
    everything = with_trash(folder, at, alive)
    return {memory_id: memory for memory_id, memory in everything.items() if memory.state != "trashed"}


def is_recalled(memory: Memory, everything: dict[str, Memory]) -> bool:
    """Active, or superseded by what is in the trash or gone, and whatever stood in its place after that. SPEC 7.2"""
    if memory.state != "superseded":
        return memory.state == "active"
    replacement = everything.get(memory.superseded_by)
    while replacement is not None and replacement.state == "trashed":
        replacement = everything.get(replacement.superseded_by)
    return replacement is None


def with_trash(folder: Path, at: int, alive: list[str]) -> dict[str, Memory]:
    """The same with what is in the trash."""
    lines: list[dict[str, Any]] = []
    for path in (folder / "journal").glob("*.jsonl"):
        objects = (json.loads(unseal_json(line)[0]) for line in path.read_bytes().splitlines())
        lines += [each for each in objects if "seq" in each]
    lines.sort(key=lambda line: int(line["seq"]))
    last = max((place for place, line in enumerate(lines) if line["at"] <= at), default=-1)
    memories: dict[str, Memory] = {}
    for change in (change for line in lines[: last + 1] for change in line["changes"]):
        if change["record_type"] == "memory":
            memory = msgspec.convert(change["data"], Memory)
            memories[memory.id] = memory
        elif change["record_type"] == "memory_dropped":
            memories.pop(change["id"], None)
    return {memory.id: memory for memory in memories.values() if memory.id in alive}


@settings(max_examples=examples(25), deadline=None)
@given(STEPS)
def test_the_store_as_of_a_time_is_what_the_journal_up_to_then_makes(steps: list[tuple[str, int, str, int]]) -> None:
    with quick_folder() as folder, services_in(folder) as services:
        ids: list[str] = []
        for step in steps:
            happen(services, step, ids)
        for at in TIMES:
            expected = replayed(folder, at, ids)
            shown = services.listed(at, states=THERE, now=0)
            assert {memory.id: memory for memory in shown} == expected
            tagged = services.listed(at, states=("active",), tags=("t1",), now=0)
            wanted = [each for each in expected.values() if "t1" in each.tags and each.state == "active"]
            assert {memory.id: memory for memory in tagged} == {memory.id: memory for memory in wanted}


def counted(tokenizer: Tokenizer, memory: Memory) -> tuple[dict[str, int], int]:
    """Weighted occurrences by term, and length in words."""
    fields = fields_of(memory)
    counts: dict[str, int] = {}
    length = 0
    weighted = [(fields.content, 1), (fields.speaker, 1), *((text, 2) for text in fields.tags + fields.headings)]
    for text, weight in weighted:
        for piece in (piece for chunk in chunks(text) for piece in tokenizer.pieces(chunk)):
            counts[piece.term] = counts.get(piece.term, 0) + weight
            length += piece.kind == "word"
    return counts, length


def bm25(query: str, memories: list[Memory], present: list[Memory]) -> dict[str, float]:
    """By id, by the counts of what is indexed at present."""
    tokenizer = Tokenizer()
    held = [counted(tokenizer, memory) for memory in present]
    mean = sum(length for _, length in held) / max(1, len(held)) or 1.0
    scores: dict[str, float] = {}
    for memory in memories:
        counts, length = counted(tokenizer, memory)
        for term in tokenizer.query_terms(query):
            df = sum(term in other for other, _ in held)
            if f := counts.get(term, 0):
                idf = math.log(1 + (len(held) - df + 0.5) / (df + 0.5))
                part = idf * f * (K1 + 1) / (f + K1 * (1 - B + B * length / mean))
                scores[memory.id] = scores.get(memory.id, 0.0) + part
    return scores


@settings(max_examples=examples(25), deadline=None)
@given(STEPS, TEXTS)
def test_recall_as_of_a_time_finds_what_comparing_every_memory_of_then_finds(
    steps: list[tuple[str, int, str, int]], query: str
) -> None:
    with quick_folder() as folder, services_in(folder) as services:
        ids: list[str] = []
        for step in steps:
            happen(services, step, ids)
        present = services.listed(states=THERE[:-1], now=0)
        for at in TIMES:
            everything = with_trash(folder, at, ids)
            then = [memory for memory in everything.values() if is_recalled(memory, everything)]
            scores = bm25(query, then, present)
            full = float(services.views.lexical.score_texts(query, [LexicalFields(query)])[0])
            held = words_held(np.array(list(scores.values())), full)
            recalled = services.recall(query, at)
            hits = recalled.hits
            assert {hit.details.memory.id: hit.score for hit in hits} == pytest.approx(
                dict(zip(scores, held.tolist(), strict=True)), rel=1e-5
            )
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            for first, second in itertools.pairwise(hits):
                if first.score == second.score:
                    assert _tie(first.details.memory) <= _tie(second.details.memory)
            assert recalled.total == len(hits)
            assert {hit.details.memory.content for hit in hits} == {
                memory.content for memory in then if memory.id in scores
            }


def _tie(memory: Memory) -> tuple[float, int, str]:
    return -memory.importance, -memory.event_at, memory.id


def test_a_filter_that_nothing_then_passes_gives_nothing() -> None:
    with quick_folder() as folder, services_in(folder) as services:
        services.add("key", tags=("t1",))
        then = services.past.state_at(500)
        assert services.memories.page(MemoryFilter(), 10, "", then=then) == ([], "")
        assert services.recalled("key", 500) == []
