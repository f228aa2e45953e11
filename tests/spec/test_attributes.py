"""The attribute store: filtering and counting without decoding a record. SPEC 2.1, 2.4, 7.1."""

import itertools
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_store.codec import id_key
from mnemo_store.disk import Disk
from mnemo_store.errors import IndexMismatch
from mnemo_store.indexes import index_file
from mnemo_store.indexes.attributes import (
    KIND,
    MASKS_KEPT,
    AttributeStore,
    MemoryFilter,
)
from mnemo_store.record_texts import text_hash
from mnemo_store.records import STATES, TIERS, UNREQUESTED_SOURCES, ConversationTurn, NotePlace, Usage
from tests.support.samples import AT, sample_id, sample_memory


def columns_of(*rows: dict[str, Any]) -> AttributeStore:
    """One memory for each row of fields, numbered from 0."""
    columns = AttributeStore()
    for number, fields in enumerate(rows):
        columns.put(number, sample_memory(number, **fields), Usage(id=sample_id(number)))
    return columns


def passing(columns: AttributeStore, **wanted: Any) -> list[int]:
    return np.flatnonzero(columns.mask(MemoryFilter(**wanted))).tolist()


def test_only_active_and_archived_memories_pass_unless_other_states_are_named() -> None:
    columns = columns_of(*({"state": state} for state in STATES))
    assert STATES == ("active", "archived", "compressed", "superseded", "discarded", "trashed")
    assert passing(columns) == [0, 1]
    assert passing(columns, states=("trashed",)) == [5]
    assert passing(columns, states=STATES) == [0, 1, 2, 3, 4, 5]


def test_the_tier_of_a_turn_is_a_column_and_of_what_is_no_turn_it_is_zero() -> None:
    turns = ({"turn": ConversationTurn(role="user", tier=tier)} for tier in TIERS)
    columns = columns_of({}, *turns)
    assert TIERS == ("ring", "recent", "registry")
    assert columns.column("tier").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("rows", "wanted", "expected"),
    [
        (({}, {"namespace": "p"}, {"namespace": "q"}), {"namespaces": ("p", "default")}, [0, 1]),
        (({}, {"namespace": "p"}), {"namespaces": ("nobody",)}, []),
        (({}, {"user_id": "ann"}), {"user_id": "ann"}, [1]),
        (({}, {"user_id": "ann"}), {"user_id": "bob"}, []),
        (({"agent_id": "a"}, {"run_id": "a"}), {"agent_id": "a"}, [0]),
        (({"agent_id": "a"}, {"run_id": "a"}), {"run_id": "a"}, [1]),
        (({}, {"session_id": "s"}), {"session_id": "s"}, [1]),
        (({}, {"session_id": "s"}), {"session_id": ""}, [0]),
        (({"kind": "episodic"}, {}), {"kinds": ("episodic", "working")}, [0]),
        (({"category": "crumb"}, {}), {"categories": ("fact",)}, [1]),
        (({"layer": "core"}, {}), {"layers": ("core",)}, [0]),
        (({"source": "note"}, {}), {"source": "note"}, [0]),
        (({"speaker": "Ann"}, {}), {"speaker": "Ann"}, [0]),
        (({"trust": "user"}, {"trust": "note"}, {"trust": "agent"}), {"trust_min": "note"}, [0, 1]),
        (({"importance": 0.3}, {"importance": 0.29}), {"min_importance": 0.3}, [0]),
        (
            (
                {"importance": 0.19},
                *({"source": name, "importance": value} for name in UNREQUESTED_SOURCES for value in (0.2, 0.19)),
            ),
            {"min_importance_unasked": 0.2},
            [0, 1, 3, 5, 7, 9],
        ),
        (({"event_at": 5}, {"event_at": 6}, {"event_at": 7}), {"since": 6, "until": 7}, [1]),
        (({"event_at": -5}, {}), {"until": 0}, [0]),
        (({"expires_at": 10}, {"expires_at": 11}, {}), {"now": 10}, [1, 2]),
        (({"tags": ("a", "b")}, {"tags": ("a",)}, {}), {"tags": ("a",)}, [0, 1]),
        (({"tags": ("a", "b")}, {"tags": ("a",)}, {}), {"tags": ("a", "b")}, [0]),
        (({"tags": ("a",)}, {}), {"tags": ("nobody",)}, []),
        (({"tags": ("a",)}, {}), {"without_tags": ("a", "nobody")}, [1]),
    ],
)
def test_each_filter_lets_through_what_it_names(
    rows: tuple[dict[str, Any], ...], wanted: dict[str, Any], expected: list[int]
) -> None:
    assert passing(columns_of(*rows), **wanted) == expected


def test_an_empty_attribute_store_lets_nothing_through_and_finds_nothing() -> None:
    columns = AttributeStore()
    assert passing(columns, tags=("a",), namespaces=("default",)) == []
    assert columns.find("01234567") == []
    assert columns.count_by("state") == {}


def test_a_changed_memory_passes_by_what_it_is_now() -> None:
    columns = columns_of({"tags": ("a", "b"), "namespace": "p"}, {})
    columns.put(0, sample_memory(0, tags=("b", "c"), version=2), None)
    assert passing(columns, tags=("a",)) == []
    assert passing(columns, tags=("b", "c")) == [0]
    assert passing(columns, namespaces=("p",)) == []
    assert columns.tags_of(0) == ("b", "c")


def test_a_tag_includes_those_nested_in_it() -> None:
    columns = AttributeStore()
    for number, tag in enumerate(("people", "people/friend", "people/friend/old", "peoples", "my/people")):
        columns.put(number, sample_memory(number, tags=(tag,)), None)
    assert passing(columns, tags=("people",)) == [0, 1, 2]
    assert passing(columns, tags=("people/friend",)) == [1, 2]
    assert passing(columns, without_tags=("people",)) == [3, 4]


def test_a_tag_named_twice_counts_once_and_can_be_taken_away() -> None:
    columns = columns_of({"tags": ("a", "a")})
    columns.put(0, sample_memory(0), None)
    assert passing(columns, tags=("a",)) == []


def test_a_dropped_memory_is_not_found_and_numbers_may_have_gaps() -> None:
    columns = columns_of({"tags": ("a",)})
    columns.put(5, sample_memory(5, tags=("a",)), None)
    columns.drop(0)
    columns.drop(99)
    assert columns.size == 6
    assert passing(columns, states=STATES) == [5]
    assert passing(columns, tags=("a",)) == [5]
    assert columns.find(sample_id(0).replace("-", "")) == []
    assert columns.count_states(STATES) == 1


def test_usage_is_kept_when_the_record_changes_and_the_other_way_round() -> None:
    columns = columns_of({"importance": 0.25})
    columns.set_usage(0, Usage(id=sample_id(0), access_count=3, strength=0.75, last_accessed=AT, strength_epoch=4))
    columns.put(0, sample_memory(0, importance=0.5), None)
    columns.set_usage(7, Usage(id=sample_id(7)))
    names = ("access_count", "strength", "last_accessed", "strength_epoch", "importance")
    assert [columns.column(name)[0] for name in names] == [3, 0.75, AT, 4, 0.5]
    assert columns.size == 1


def test_counts_follow_every_change_of_state() -> None:
    columns = columns_of({}, {"state": "archived"}, {"state": "trashed"})
    assert columns.count_states(("active", "archived")) == 2
    columns.put(0, sample_memory(0, state="trashed"), None)
    assert columns.count_states(("active",)) == 0
    assert columns.count_states(("trashed",)) == 2
    columns.drop(2)
    assert columns.count_states(("trashed",)) == 1
    assert columns.count_by("state") == {"archived": 1, "trashed": 1}


def test_counting_by_a_name_leaves_out_what_is_hidden() -> None:
    columns = columns_of({}, {"namespace": "p"}, {"namespace": "p"}, {"namespace": "p", "state": "trashed"})
    assert columns.count_by("namespace") == {"default": 1, "p": 2}
    assert columns.count_by("kind") == {"semantic": 3}


def test_ids_are_found_by_8_or_more_digits_of_their_beginning_or_end() -> None:
    columns = AttributeStore()
    ids = [
        "01890000-1111-7000-8000-aaaaaaaaaaaa",
        "01890000-2222-7000-8000-aaaaaaaaaaab",
        "aaaaaaaa-0000-7000-8000-000000000001",
    ]
    for number, text in enumerate(ids):
        memory = sample_memory(number)
        columns.put(number, type(memory)(id=text, content="x", created_at=AT, modified_at=AT, event_at=AT), None)
    assert columns.find("01890000") == ids[:2]
    assert columns.find("018900001") == ids[:1]
    assert columns.find("aaaaaaaa") == [ids[0], ids[2]]
    assert columns.find("aaaaaaab") == [ids[1]]
    assert columns.find("bbbbbbbb") == []
    assert columns.find("01890000", limit=1) == ids[:1]


def test_every_prefix_and_suffix_of_an_id_finds_it_and_one_wrong_digit_does_not() -> None:
    chance = random.Random(4)
    text = bytes(chance.randrange(256) for _ in range(16)).hex()
    columns = AttributeStore()
    dashed = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
    memory = sample_memory(0)
    columns.put(0, type(memory)(id=dashed, content="x", created_at=AT, modified_at=AT, event_at=AT), None)
    assert id_key(dashed).hex() == text
    for length in range(8, 33):
        for part in (text[:length], text[-length:]):
            assert columns.find(part) == [dashed]
            place = chance.randrange(length)
            wrong = part[:place] + ("0" if part[place] != "0" else "1") + part[place + 1 :]
            assert columns.find(wrong) == []


def test_a_word_names_a_speaker_when_it_is_part_of_the_name_of_one_in_the_mask() -> None:
    columns = columns_of({"speaker": "Ann Lee"}, {"speaker": "Bob", "namespace": "p"})
    everywhere = columns.mask(MemoryFilter())
    project = columns.mask(MemoryFilter(namespaces=("p",)))
    assert columns.has_speaker("lee", everywhere)
    assert not columns.has_speaker("lee", project)
    assert columns.has_speaker("bob", project)
    assert not columns.has_speaker("carl", everywhere)


def test_a_mask_is_the_same_array_until_a_row_changes() -> None:
    """A caller can tell by its identity that nothing changed."""
    columns = columns_of({}, {"namespace": "p"})
    mask = columns.mask(MemoryFilter(now=5))
    assert columns.mask(MemoryFilter(now=9)) is mask
    columns.set_usage(0, Usage(id=sample_id(0), access_count=1))
    assert columns.mask(MemoryFilter()) is mask
    with pytest.raises(ValueError, match="read-only"):
        mask[0] = False
    columns.put(1, sample_memory(1, state="trashed"), None)
    assert passing(columns) == [0]
    columns.drop(0)
    assert passing(columns) == []
    assert mask.tolist() == [True, True], "whoever has it goes on with what it was"


def test_a_mask_holds_from_one_expiry_to_the_next_and_no_longer() -> None:
    columns = columns_of({"expires_at": 10}, {"expires_at": 20}, {})
    expected = {5: [0, 1, 2], 9: [0, 1, 2], 10: [1, 2], 19: [1, 2], 20: [2], 21: [2]}
    for now in (5, 9, 10, 19, 20, 21, 19, 5):
        assert passing(columns, now=now) == expected[now]
    assert columns.mask(MemoryFilter(now=10)) is columns.mask(MemoryFilter(now=19))


def test_no_more_masks_are_kept_than_some() -> None:
    columns = columns_of({}, {"namespace": "p"})
    first = columns.mask(MemoryFilter())
    for number in range(MASKS_KEPT):
        columns.mask(MemoryFilter(namespaces=(str(number),)))
    assert columns.mask(MemoryFilter()) is not first
    assert columns.mask(MemoryFilter()).tolist() == first.tolist()


def test_a_filter_that_is_asked_once_pushes_no_kept_mask_out() -> None:
    columns = columns_of({}, {"namespace": "p"}, {"expires_at": 5})
    kept = columns.mask(MemoryFilter(now=9))
    for number in range(MASKS_KEPT):
        assert not columns.uncached_mask(MemoryFilter(namespaces=(str(number),))).any()
    assert columns.mask(MemoryFilter(now=9)) is kept
    assert columns.uncached_mask(MemoryFilter(now=9)).tolist() == kept.tolist() == [True, True, False]


def test_a_narrowed_mask_is_without_some_and_the_same_again_for_the_same() -> None:
    columns = columns_of({"speaker": "Ann"}, {"speaker": "Bob"}, {"speaker": "Ann"})
    mask = columns.mask(MemoryFilter())
    assert columns.exclude(mask, np.array([], np.int64)) is mask
    narrowed = columns.exclude(mask, np.array([1]))
    assert narrowed.tolist() == [True, False, True]
    assert columns.exclude(mask, np.array([1])) is narrowed
    assert [columns.has_speaker(name, narrowed) for name in ("ann", "bob")] == [True, False]
    assert columns.exclude(mask, np.array([0, 2])).tolist() == [False, True, False]
    assert mask.tolist() == [True, True, True]
    assert columns.has_speaker("bob", np.array([False, True])), "a mask that nobody keeps"
    assert not columns.has_speaker("bob", np.array([True]))
    columns.put(1, sample_memory(1, speaker="Ann"), None)
    assert not columns.has_speaker("bob", columns.exclude(columns.mask(MemoryFilter()), np.array([0])))


def test_a_saved_view_comes_back_the_same(tmp_path: Path) -> None:
    columns = columns_of(
        {"tags": ("b", "a"), "namespace": "p", "speaker": "Ann Lee"},
        {"tags": ("a",), "state": "archived", "expires_at": AT},
        {"state": "trashed"},
        {},
    )
    columns.drop(3)
    columns.save(tmp_path / "c.view", {"store": "s", "seq": 4}, Disk())
    again, meta = AttributeStore.load(tmp_path / "c.view")
    assert meta == {"store": "s", "seq": 4}
    for wanted in ({}, {"tags": ("a",)}, {"namespaces": ("p",)}, {"states": STATES}, {"now": AT}):
        assert passing(again, **wanted) == passing(columns, **wanted)
    assert again.size == columns.size
    assert again.count_by("state") == columns.count_by("state")
    assert again.count_states(STATES) == 3
    assert again.ids([0, 1]) == [sample_id(0), sample_id(1)]
    assert again.has_speaker("lee", again.mask(MemoryFilter()))
    for each in (columns, again):
        each.put(4, sample_memory(4, namespace="q", tags=("a",)), Usage(id=sample_id(4), access_count=2))
        each.put(0, sample_memory(0), None)
    assert passing(again, tags=("a",)) == passing(columns, tags=("a",)) == [1, 4]
    assert passing(again, namespaces=("q",)) == [4]


def test_a_file_with_other_columns_is_not_used(tmp_path: Path) -> None:
    arrays: dict[str, NDArray[Any]] = {"state": np.zeros(1, np.uint8), "tag_numbers": np.zeros(0, np.uint32)}
    index_file.save(tmp_path / "c.view", KIND, {"own": {}}, arrays, Disk())
    with pytest.raises(IndexMismatch, match="other columns"):
        AttributeStore.load(tmp_path / "c.view")


def test_rows_are_found_again_after_the_arrays_have_grown_many_times() -> None:
    columns = AttributeStore()
    for number in range(5000):
        columns.put(number, sample_memory(number, importance=(number % 10) / 10), None)
    assert columns.size == 5000
    assert len(passing(columns, min_importance=0.9)) == 500
    assert columns.ids([4999]) == [sample_id(4999)]


def test_a_count_of_tokens_that_comes_after_a_change_of_the_text_is_not_kept() -> None:
    columns = columns_of({"modified_at": 5})
    columns.set_tokens(0, 7, modified_at=5)
    assert columns.column("tokens").tolist() == [7]
    columns.put(0, sample_memory(0, modified_at=6), None)
    columns.set_tokens(0, 7, modified_at=5)
    assert columns.column("tokens").tolist() == [0]


def test_a_column_that_was_read_stays_as_it_was() -> None:
    columns = columns_of({}, {})
    state, importance = columns.columns("state", "importance")
    alone = columns.column("state")
    columns.put(1, sample_memory(1, state="trashed", importance=0.9), None)
    columns.drop(0)
    assert state.tolist() == alone.tolist() == [0, 0]
    assert importance[1] == np.float32(sample_memory(1).importance)


def test_the_values_of_some_memories_come_in_their_order() -> None:
    columns = columns_of({"importance": 0.25}, {"importance": 0.5}, {"importance": 0.75})
    assert columns.values("importance", np.array([2, 0])).tolist() == [0.75, 0.25]
    assert columns.values("importance", np.array([1, 9_999]), clip=True)[0] == 0.5
    assert columns.values("importance", np.array([[0], [2]])).tolist() == [[0.25], [0.75]]
    with pytest.raises(IndexError):
        columns.values("importance", np.array([9_999]))
    assert AttributeStore().values("state", np.array([3]), clip=True).tolist() == [0]


def test_columns_read_together_have_one_length_while_rows_are_added() -> None:
    columns, is_over, seen = AttributeStore(), threading.Event(), set[int]()

    def add() -> None:
        for number in itertools.count():
            columns.put(number, sample_memory(number), None)
            if is_over.is_set():
                return

    adding = threading.Thread(target=add)
    adding.start()
    try:
        while len(seen) < 300:
            states, modified_at = columns.columns("state", "modified_at")
            assert len(states) == len(modified_at)
            seen.add(len(states))
    finally:
        is_over.set()
        adding.join()


def test_a_row_that_is_still_to_come_has_no_count_of_tokens() -> None:
    columns = columns_of({"modified_at": 5})
    columns.set_tokens(0, 7, modified_at=5)
    assert [columns.tokens_of(0), columns.tokens_of(1)] == [7, 0]


def test_each_has_the_hash_of_the_text_that_is_embedded_for_it(tmp_path: Path) -> None:
    """The text of a note chunk includes its headings. A changed text has another hash, and the file keeps the
    hashes."""
    columns = columns_of(
        {"content": "one"}, {"content": "two", "note": NotePlace(title="T", headings=("H",))}, {"content": "three"}
    )
    columns.put(2, sample_memory(2, content="four"), None)
    hashes = [text_hash("one"), text_hash("T > H\ntwo"), text_hash("four")]
    assert columns.text_hashes(np.array([0, 1, 2])) == hashes
    assert columns.text_hashes(np.array([2, 0])) == [hashes[2], hashes[0]]
    assert columns.text_hashes(np.array([], np.int64)) == []
    high, low = columns.columns("text_high", "text_low")
    assert int(high[0]).to_bytes(8, "big") + int(low[0]).to_bytes(8, "big") == hashes[0]
    columns.save(tmp_path / "columns.view", {}, Disk())
    assert AttributeStore.load(tmp_path / "columns.view")[0].text_hashes(np.array([0, 1, 2])) == hashes


def test_a_memory_without_a_usage_record_is_as_strong_as_it_is_important() -> None:
    columns = AttributeStore()
    columns.put(0, sample_memory(0, importance=0.75), None)
    assert columns.values("strength", np.array([0])).tolist() == [0.75]
    columns.put(0, sample_memory(0, importance=0.5, version=2), None)  # a new version changes no usage
    assert columns.values("strength", np.array([0])).tolist() == [0.75]
