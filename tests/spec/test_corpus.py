"""The present corpus and that of another time answer the same calls. SPEC 7.1 `as_of`, 7.2"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mnemo_daemon.retrieval.candidates.corpus import NOT_THEN, AsOfCorpus, Corpus
from mnemo_daemon.retrieval.candidates.corpus_builder import CorpusBuilder
from mnemo_daemon.retrieval.question import Question
from mnemo_store.indexes.attributes import MemoryFilter
from mnemo_store.records import TRUSTS
from tests.support.store_services import SHOWN, StoreServices, services_in

NONE = np.empty(0, np.float32)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[StoreServices]:
    with services_in(tmp_path) as services:
        yield services


def corpus_of(services: StoreServices, at: int | None = None, **fields: object) -> Corpus:
    wanted = MemoryFilter(user_id="local", states=SHOWN, now=services.at)._replace(**fields)  # type: ignore[arg-type]
    return CorpusBuilder(services.store, services.views).build(Question("?", wanted, as_of=at))


def test_a_store_that_has_not_changed_is_the_same_corpus_of_both_times(services: StoreServices) -> None:
    ids = [services.add(text, speaker=name) for text, name in (("The key is blue.", "Ines"), ("A boat.", "Ben"))]
    now, then = corpus_of(services), corpus_of(services, services.at)
    assert (type(now), type(then)) == (Corpus, AsOfCorpus)
    for corpus in (now, then):
        assert corpus.ids(corpus.numbers) == ids
        assert corpus.versions[1] == ()
        assert corpus.speakers_named("What does Ines's sister say?") == {"ines"}
        assert corpus.text_hashes(corpus.numbers) == now.text_hashes(now.numbers)
        assert corpus.column("trust", corpus.numbers).tolist() == [TRUSTS.index("user")] * 2
        assert corpus.joined(corpus.numbers, lambda some: some + np.float32(0.5), NONE).tolist() == [0.5, 1.5]


def test_a_memory_that_has_changed_since_has_a_number_of_its_own(services: StoreServices) -> None:
    same, changed = (
        services.add("The key is blue.", speaker="Ben"),
        services.add("The boat is in Bonn.", speaker="Ines"),
    )
    services.at = 2000
    services.edit(changed, content="The boat is in Lima.", speaker="Kaja")
    later = services.add("The roof leaks.")
    now, then = corpus_of(services), corpus_of(services, 1500)
    assert now.ids(now.numbers) == [same, changed, later]
    assert then.ids(then.numbers) == [same, changed]
    kept, version = then.numbers.tolist()
    assert (then.index_number(kept), then.index_number(version)) == (kept, None)
    assert then.index_numbers(then.numbers).tolist() == [kept, -1]
    assert (now.speakers_named("Ines Kaja"), then.speakers_named("Ines Kaja")) == ({"kaja"}, {"ines"})
    assert now.text_hashes(now.numbers)[1] != then.text_hashes(then.numbers)[1]
    assert [(place, memory.content) for place, memory in then.versions_among(then.numbers)] == [
        (1, "The boat is in Bonn.")
    ]
    values = then.joined(then.numbers, lambda some: some + np.float32(0.5), np.array([7], np.float32))
    assert values.tolist() == [kept + 0.5, 7.0]
    with services.store.snapshot() as snapshot:
        memory = then.memory(snapshot, version)
        assert memory is not None
        assert memory.content == "The boat is in Bonn."
        assert [then.number(snapshot, each) for each in (same, changed, later)] == [kept, version, None]
        assert now.number(snapshot, later) is not None
    assert (now.absence, then.absence) == (None, NOT_THEN)


def test_a_version_that_the_filter_leaves_out_is_not_in_scope_but_has_a_number(services: StoreServices) -> None:
    changed = services.add("The boat is in Bonn.", tags=("boat",))
    services.at = 2000
    services.edit(changed, tags=("ship",))
    then = corpus_of(services, 1500, tags=("ship",))
    assert then.numbers.tolist() == []
    with services.store.snapshot() as snapshot:
        number = then.number(snapshot, changed)
    assert number is not None
    assert not then.is_in_scope(number)
    part, row = then.row(number)
    assert then.parts(MemoryFilter(states=SHOWN))[part].visible[row]
    assert corpus_of(services, 1500, tags=("boat",)).is_in_scope(number)


def test_while_nothing_changes_recalls_of_one_filter_share_the_present_corpus(services: StoreServices) -> None:
    services.add("The key is blue.")
    builder = CorpusBuilder(services.store, services.views)
    question = Question("?", MemoryFilter(user_id="local", states=SHOWN, now=services.at))
    first = builder.build(question)
    assert builder.build(question._replace(query="else")) is first
    services.add("A boat.")
    assert builder.build(question) is not first
