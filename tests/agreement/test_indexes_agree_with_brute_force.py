"""Every registered index against plain Python over the memories of the store, through any sequence of writes, restarts
and rebuilds. SPEC 3.1, 17.2"""

import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mnemo_daemon.indexing.commit_indexes import COMMIT_INDEXES
from mnemo_daemon.indexing.index import INDEXED_STATES, BackgroundIndex
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING
from mnemo_store.indexes.attributes import CODED, NAMED
from mnemo_store.indexes.tokenizer import Tokenizer
from mnemo_store.indexes.vector_kernels import as_kept
from mnemo_store.record_texts import embedded_text, text_hash
from mnemo_store.records import Memory
from tests.simulation.embedders import ModelFaults, SimulatedCatalogue, SimulatedModels
from tests.support.erasure_services import ErasureServices, wait_until
from tests.support.examples import examples

WORDS = ["harbour", "windmill", "kettle", "a", "lighthouse"]
CONTENTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
TAGS = st.lists(st.sampled_from(["boats", "tea"]), max_size=2, unique=True)
MEMORIES_MAX = 6

Memories = Mapping[int, Memory]  # of the store, by row id


def columns_hold(services: ErasureServices, memories: Memories) -> None:
    columns = services.views.attributes
    states = columns.column("state")
    assert np.flatnonzero(states != 255).tolist() == sorted(memories)
    for number, memory in memories.items():
        at = np.array([number])
        assert columns.ids([number]) == [memory.id]
        assert columns.text_hashes(at) == [text_hash(embedded_text(memory))]
        assert sorted(columns.tags_of(number)) == sorted(memory.tags)
        for name in ("importance", "created_at", "modified_at", "event_at"):
            assert columns.values(name, at)[0] == np.asarray(getattr(memory, name), columns.column(name).dtype)
        for name, choices in CODED.items():
            assert choices[columns.values(name, at)[0]] == getattr(memory, name)
        for name in NAMED:
            assert columns.values(name, at)[0] == columns.code(name, getattr(memory, name))


def words_hold(services: ErasureServices, memories: Memories) -> None:
    tokenizer = Tokenizer()
    indexed = {number: memory for number, memory in memories.items() if memory.state in INDEXED_STATES}
    assert len(services.views.lexical) == len(indexed)
    for word in WORDS[:3]:
        (term,) = tokenizer.query_terms(word)
        texts = {number: " ".join((memory.content, *memory.tags)) for number, memory in indexed.items()}
        holding = [number for number, text in texts.items() if term in {each.term for each in tokenizer.tokens(text)}]
        assert sorted(services.views.lexical.search(word, 100).numbers.tolist()) == sorted(holding)


def vectors_hold(services: ErasureServices, memories: Memories) -> None:
    serving = services.indexing.serving()
    assert serving is not None
    indexed = {number: memory for number, memory in memories.items() if memory.state in INDEXED_STATES}
    assert sorted(serving.view.numbers().tolist()) == sorted(indexed)
    for number, memory in indexed.items():
        (expected,) = services.embedding.encode_batch(serving.embedder, [embedded_text(memory)])
        found = serving.view.vectors_of(number)
        assert found is not None
        assert np.array_equal(found, as_kept(expected))


def tokens_hold(services: ErasureServices, memories: Memories) -> None:
    serving = services.indexing.serving()
    assert serving is not None
    late = serving.embedder.late
    if late is None:
        assert services.indexing.tokens.progress() is None
        return
    texts = [text_hash(embedded_text(each)) for each in memories.values() if each.state in INDEXED_STATES]
    with services.store.snapshot() as snapshot:
        assert all(rows is not None for rows in snapshot.token_rows(late.space, texts, late.dimensions))


ORACLES: dict[str, Callable[[ErasureServices, Memories], None]] = {
    "columns": columns_hold, "words": words_hold, "vectors": vectors_hold, "tokens": tokens_hold
}  # fmt: skip


def test_every_registered_index_is_compared() -> None:
    assert list(ORACLES) == [*(each.name for each in COMMIT_INDEXES), "vectors", "tokens"]


class IndexesAgree(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="m")
        self.ids: list[str] = []
        self.services = self.opened()

    def opened(self) -> ErasureServices:
        catalogue = SimulatedCatalogue()
        catalogue.there.add(DEFAULT_EMBEDDING)
        services = ErasureServices(Path(self.folder.name) / "data", SimulatedModels(catalogue, ModelFaults()))
        services.embedding.refresh()
        services.indexing.start()
        return services

    def teardown(self) -> None:
        self.services.close()
        self.services.embedding.close()
        self.folder.cleanup()

    def memory(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.ids))

    @precondition(lambda self: len(self.ids) < MEMORIES_MAX)
    @rule(content=CONTENTS, tags=TAGS)
    def add(self, content: str, tags: list[str]) -> None:
        self.services.at += 1
        memory_id = self.services.add(content, tags=tuple(tags), session_id="s")
        if memory_id not in self.ids:
            self.ids.append(memory_id)

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), content=CONTENTS)
    def edit(self, data: st.DataObject, content: str) -> None:
        memory = self.services.memory(self.memory(data))
        if memory.state == "active":
            self.services.edit(memory.id, content=content)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def trash_or_restore(self, data: st.DataObject) -> None:
        memory = self.services.memory(self.memory(data))
        if memory.state == "trashed":
            self.services.restore(memory.id)
        else:
            self.services.trash(memory.id)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        memory_id = self.memory(data)
        self.services.forget(memory_id)
        self.ids.remove(memory_id)

    @rule()
    def rebuild(self) -> None:
        self.services.views.rebuild()

    @rule()
    def restart(self) -> None:
        self.services.close()
        self.services.embedding.close()
        self.services = self.opened()
        assert self.services.views.rebuilt == []

    @rule()
    def restart_without_files(self) -> None:
        self.services.close()
        self.services.embedding.close()
        for path in (Path(self.folder.name) / "data" / "views").iterdir():
            path.unlink()
        self.services = self.opened()

    @invariant()
    def every_index_holds_what_it_should(self) -> None:
        services = self.services
        with services.store.snapshot() as snapshot:
            memories = {snapshot.number(each.id): each for each in snapshot.memories("", 100)}
        assert None not in memories
        for index in services.indexing.indexes.values():
            wait_until(functools.partial(is_current, index, services.store.seq))
        for oracle in ORACLES.values():
            oracle(services, {number: memory for number, memory in memories.items() if number is not None})


def is_current(index: BackgroundIndex, seq: int) -> bool:
    progress = index.progress()
    return progress is None or (progress.state == "ready" and progress.applied_seq >= seq)


TestIndexesAgree = IndexesAgree.TestCase
TestIndexesAgree.settings = settings(max_examples=examples(5), stateful_step_count=12, deadline=None)
