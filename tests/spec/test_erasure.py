"""Hard deletion: what it takes along, what it repairs, and what reveals a text in a file. SPEC 3.7"""

import json
import random
from typing import Any

import msgspec
import pytest

from mnemo_core.ingest import erasure
from mnemo_core.ingest.erasure import (
    BLOCK_BYTES,
    ErasurePlan,
    ResidueFinder,
    ResiduePatterns,
    references_of,
    residue_patterns,
    texts_of,
)
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import (
    ChunkRef,
    ConversationTurn,
    DropMemory,
    ErasedText,
    Memory,
    NoteFile,
    NotePlace,
    PutErasedText,
    PutSkip,
    Skip,
    TraceStep,
)
from tests.support.samples import AT, sample_id, sample_memory

A, B, C, D, E = (sample_id(number) for number in range(1, 6))
SALT = "00" * 16


def memory(number: int, **fields: Any) -> Memory:
    return sample_memory(number, **fields)


def planned(asked: list[str], *memories: Memory) -> ErasurePlan:
    return erasure.plan_erasure(asked, [tie for each in memories if (tie := references_of(each)) is not None])


# What goes along


def test_memories_derived_from_the_erased_alone_are_erased_down_the_chain() -> None:
    plan = planned([A], memory(1), memory(2, derived_from=(A,)), memory(3, derived_from=(B,)), memory(4))
    assert plan.erased == (A, B, C)
    assert plan.derived == (B, C)
    assert plan.rederive == {}


def test_memories_derived_from_others_too_are_erased_and_reported_with_their_other_sources() -> None:
    plan = planned([A], memory(3, derived_from=(A, B, D)))
    assert plan.derived == (C,)
    assert plan.rederive == {C: (B, D)}


def test_a_circle_of_derivations_ends() -> None:
    plan = planned([A], memory(1, derived_from=(B,)), memory(2, derived_from=(A,)))
    assert plan.erased == (A, B)


def test_the_other_sources_of_an_erased_merge_are_visible_again() -> None:
    merged = memory(3, derived_from=(A, B))
    older = memory(2, state="superseded", superseded_by=C)
    plan = planned([A], merged, older)
    assert plan.unhidden == {B}
    after = erasure.without_references(older, plan, plan.erased, AT + 1)
    assert after is not None
    assert (after.state, after.superseded_by, after.version, after.modified_at) == ("active", "", 2, AT + 1)


def test_sources_of_an_erased_summary_are_visible_again_unless_another_summary_exists() -> None:
    summary = memory(3, derived_from=(A, B, D), compression_source=True)
    other = memory(5, derived_from=(D,), compression_source=True)
    sources = (memory(2, state="compressed"), memory(4, state="compressed"))
    assert planned([A], summary, other, *sources).unhidden == {B}
    assert planned([C], summary, other, *sources).unhidden == {B}


def test_memories_superseded_by_an_erased_one_stay_hidden_without_naming_it() -> None:
    older = memory(2, state="superseded", superseded_by=A)
    plan = planned([A], older)
    assert plan.unhidden == frozenset()
    after = erasure.without_references(older, plan, plan.erased, AT)
    assert after is not None
    assert (after.state, after.superseded_by) == ("superseded", "")


def test_evidence_of_erased_memories_is_removed_and_other_evidence_stays() -> None:
    kept = memory(2, evidence=("https://example.org", A, D))
    plan = planned([A], kept)
    assert plan.referrers == (B,)
    after = erasure.without_references(kept, plan, plan.erased, AT)
    assert after is not None
    assert after.evidence == ("https://example.org", D)


def test_a_memory_without_references_to_erased_ones_is_unchanged() -> None:
    kept = memory(2, evidence=(D,), derived_from=(E,), superseded_by=D, state="superseded")
    plan = planned([A], kept)
    assert plan.referrers == ()
    assert erasure.without_references(kept, plan, plan.erased, AT) is None


def test_emptying_the_trash_erases_nothing_derived() -> None:
    ties = [tie for each in (memory(2, derived_from=(A,)), memory(3)) if (tie := references_of(each)) is not None]
    plan = erasure.plan_without_derived([A], ties)
    assert plan.erased == (A,)
    assert plan.referrers == (B,)


def test_an_interrupted_plan_continues_after_its_sources_are_erased() -> None:
    plan = erasure.plan_erasure([A], [tie for tie in [references_of(memory(3, derived_from=(B,)))] if tie], derived=[B])
    assert plan.derived == (B, C)


def test_a_purged_memory_leaves_a_salted_hash_of_each_text_it_had_and_its_note_one_too() -> None:
    first, second = memory(1, content="Blue door", managed=E), memory(1, content="Red door", managed=E, version=2)
    hashes = [skip_hash(SALT, "Blue door"), skip_hash(SALT, "Red door")]
    assert erasure.erase_memory([first, second, second], SALT, 7, has_note=True) == [
        *(PutErasedText(data=ErasedText(hash=digest, at=7)) for digest in hashes),
        *(PutSkip(data=Skip(file=E, hash=digest)) for digest in hashes),
        DropMemory(id=A),
    ]
    assert erasure.erase_memory([first], SALT, 7, has_note=False) == [
        PutErasedText(data=ErasedText(hash=hashes[0], at=7)),
        DropMemory(id=A),
    ]


def test_a_manifest_loses_erased_chunks_and_links_that_only_they_had() -> None:
    chunks = tuple(ChunkRef(each, "h", line, line) for line, each in enumerate((A, B, C), 1))
    note = NoteFile(id=E, root=D, path="n.md", title="Trips", chunks=chunks, links=("Lisbon", "Porto"))
    after = erasure.without_chunks(note, {A, C}, ["We went to [[Porto]]."])
    assert [chunk.memory for chunk in after.chunks] == [B]
    assert (after.title, after.links) == ("Trips", ("Porto",))
    nothing = erasure.without_chunks(note, {A, B, C}, [])
    assert (nothing.chunks, nothing.title, nothing.links) == ((), "", ())
    assert nothing.path == "n.md"


# What gives a text away


def found(text: str, data: bytes) -> set[str]:
    sought = ResiduePatterns()
    sought.add_text(text)
    return ResidueFinder(sought).find(data)


TEXT = "The Ferry leaves\nfrom pier nine at dawn"


@pytest.mark.parametrize(
    "data",
    [
        b"xx The Ferry leaves\nfrom pier nine at dawn yy",
        b"the ferry leaves from pier nine at dawn",
        b"THE FERRY LEAVES FROM PIER NINE AT DAWN",
        json.dumps({"content": TEXT}).encode(),
        msgspec.msgpack.encode({"content": TEXT}),
    ],
)
def test_a_whole_text_is_found_as_it_is_normalised_and_escaped(data: bytes) -> None:
    assert "the ferry leaves from pier nine at dawn" in found(TEXT, data)


def test_letters_beyond_ascii_are_found_in_either_escaping() -> None:
    name = "größe: 42 ml"
    for data in ("Größe: 42 ml".encode(), b'"Gr\\u00f6\\u00dfe: 42 ml"', '{"c":"Größe: 42 ml"}'.encode()):
        assert found("Größe: 42 ml", data) >= {"grösse: 42 ml"}, data
    assert name not in found("Größe: 42 ml", b"Gr\xf6\xdfe: 42 ml")


def test_five_words_in_a_row_are_found_and_four_are_not() -> None:
    assert found(TEXT, b"... from pier nine at dawn") == {"from pier nine at dawn"}
    assert found(TEXT, b"... pier nine at dawn ...") == set()


def test_a_longer_word_is_found_by_itself_and_a_shorter_one_is_not() -> None:
    assert found("Ask Zbigniew about the key", b"zbigniew said") == {"zbigniew"}
    assert found("Ask Ann about the key", b"ann about") == set()
    assert found("Скажи маме о ключе", "о маме".encode()) == set()


def test_a_word_with_marks_in_it_is_found_whole() -> None:
    assert found("The code is QX7-11-Z, keep it", b"[QX7-11-Z]") == {"qx7-11-z"}


def test_five_ideographs_in_a_row_are_a_run() -> None:
    assert "京タワーの" in found("東京タワーの下で会う", "…京タワーの…".encode())


def test_patterns_of_remaining_memories_are_not_searched() -> None:
    sought = ResiduePatterns()
    sought.add_text("Quarterly numbers for the Zanzibar office")
    shared = ResidueFinder(sought).find(b"quarterly numbers are due")
    assert shared == {"quarterly", "numbers"}
    left = sought.without(shared)
    assert ResidueFinder(left).find(b"quarterly numbers are due") == set()
    assert ResidueFinder(left).find(b"zanzibar") == {"zanzibar"}
    assert ResidueFinder(left.only({"zanzibar"})).find(b"the Zanzibar office") == {"zanzibar"}


def test_a_text_of_few_words_is_short_and_a_word_that_is_a_whole_text_counts_as_that() -> None:
    sought = ResiduePatterns()
    sought.add_text("Zanzibar")
    sought.add_text("in Zanzibar we met")
    assert sought.kinds["zanzibar"] == "short"
    assert sought.kinds["in zanzibar we met"] == "short"


def test_every_text_of_a_record_is_searched() -> None:
    full = memory(
        1,
        content="said contentword",
        speaker="Speakerson",
        key="keykeykey",
        session_id="sessionword",
        run_id="runwordrun",
        agent_id="agentword",
        tags=("tagtagtag",),
        evidence=("/evidence/path",),
        note=NotePlace(title="Titleword", headings=("Headingword",)),
        trace=TraceStep(
            step_number=1,
            action="actionword",
            task_objective="objectiveword",
            context="contextword",
            outcome="outcomeword",
            key_findings="findingsword",
        ),
        turn=ConversationTurn(role="user", summary="summaryword"),
    )
    words = ["contentword", "speakerson", "keykeykey", "sessionword", "runwordrun", "agentword", "tagtagtag"]
    words += [
        "evidence",
        "titleword",
        "headingword",
        "actionword",
        "objectiveword",
        "contextword",
        "outcomeword",
        "findingsword",
        "summaryword",
    ]
    sought = residue_patterns([full])
    assert set(words) <= sought.kinds.keys()
    assert next(texts_of(full)) == "said contentword"


def test_the_finder_agrees_with_a_search_for_each_form_by_itself() -> None:
    chance = random.Random(5)
    alphabet = ["ab", "abc", "abcdef", "abcdefg", "bcd", "cde fg", "Über", "weiß", "日本語", "x"]
    sought = ResiduePatterns()
    for _ in range(60):
        sought.add_text(" ".join(chance.choices(alphabet, k=chance.randint(1, 12))))
    finder = ResidueFinder(sought)
    for size in (0, 5, 7, 8, 9, 300):
        data = " ".join(chance.choices(alphabet, k=size)).encode()
        expected = {name for form, name in sought.forms.items() if form in data.lower()}
        assert finder.find(data) == expected
    assert sought.forms
    for form in list(sought.forms)[:40]:
        at_the_seam = bytes(1) * (BLOCK_BYTES - 3) + form
        assert sought.forms[form] in finder.find(at_the_seam)
    assert finder.overlap == max(map(len, sought.forms)) - 1


def test_nothing_is_found_without_patterns() -> None:
    assert ResidueFinder(ResiduePatterns()).find(b"anything at all") == set()
