"""The exports of other memory tools, as what is to be remembered. SPEC 3.8, 5.3

The fixtures have the tools' documented shapes and invented contents; what is expected of each was worked out by hand.
"""

import datetime as dt
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_core.transfer.import_plan import ImportCandidate, ImportTarget, SecretPolicy, admit_import, decide_import
from mnemo_core.transfer.importers import (
    ImportedMemory,
    ImportFormatError,
    ImportItemError,
    Tool,
    parse,
    read_document,
    tool_of_line,
)
from mnemo_store.records import Memory, PutMemory, PutUsage, TrashEntry, Usage
from tests.support.samples import AT, sample_id, sample_memory

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
GUARD = SecretPolicy("auto", b"key")
NOWHERE_ELSE = ImportTarget()
BOAT_KEY = "Ines keeps the spare key of the boat."


def moment(value: Any) -> int | None:
    """A number is ms, a text ISO 8601 with a zone; anything else no time."""
    if isinstance(value, int):
        return value
    return int(dt.datetime.fromisoformat(value).timestamp() * 1000) if isinstance(value, str) else None


def told(tool: Tool, item: dict[str, Any] | bytes) -> list[ImportedMemory]:
    return list(parse(tool, item if isinstance(item, bytes) else msgspec.json.encode(item), moment))


def only(tool: Tool, **item: Any) -> ImportedMemory:
    (one,) = told(tool, item)
    return one


def admit(
    one: ImportedMemory, tool: Tool = "mem0", into: ImportTarget = NOWHERE_ELSE, guard: SecretPolicy = GUARD
) -> ImportCandidate:
    return admit_import(one, tool, into, guard)


# What it is


@pytest.mark.parametrize(
    ("data", "tool", "places"),
    [
        ('{"results": [{"id": "1", "memory": "a"}]}', "mem0", ["results[0]"]),
        ('{"memories": [{"id": "1", "memory": "a"}, {"id": "2", "memory": "b"}]}', "mem0",
         ["memories[0]", "memories[1]"]),
        ('[{"id": "1", "memory": "a"}]', "mem0", ["[0]"]),
        ('[5, null, {"memory": "a"}]', "mem0", ["[0]", "[1]", "[2]"]),
        ('{"results": []}', "mem0", []),
        ('{"results": [], "relations": [{"source": "a", "relationship": "knows", "target": "b"}]}', "mem0",
         ["relations[0]"]),
        ('{"version": "1", "count": 1, "memories": [{"content": "a", "layer": 1}]}', "engram", ["memories[0]"]),
        ('{"version": "1", "count": 0, "memories": []}', "engram", []),
        ('[{"content": "a", "layer": 2}]', "engram", ["[0]"]),
    ],
)  # fmt: skip
def test_an_export_in_one_piece_is_recognised_by_its_items(data: str, tool: Tool, places: list[str]) -> None:
    found = read_document(data.encode())
    assert (found.tool, [place for place, _ in found.items]) == (tool, places)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[]", "it holds nothing"),
        (b"{}", "it holds nothing"),
        (b'{"memories": []}', "it holds nothing"),
        (b'[{"text": "of a tool nobody knows"}]', "nothing in it looks like a memory"),
        (b'{"memories": [{"content": "a page of our own", "layer": "buffer"}]}', "nothing in it looks like a memory"),
        (b'{"results": [{"memory": "cut o', "truncated"),
        (b'{"results": 5}', r"expected `array.*results"),
        (b"not JSON at all", "malformed"),
        (b'"a text"', "expected `"),
        (b"\xff\xfe{}", "malformed|UTF-8"),
        (b"[" * 100_000, "nested too deeply|truncated"),
    ],
)
def test_a_file_that_is_no_export_is_refused_with_a_reason(data: bytes, why: str) -> None:
    with pytest.raises(ImportFormatError, match=why):
        read_document(data)


def test_an_export_whose_tool_is_named_needs_no_recognising() -> None:
    assert read_document(b'[{"content": "a"}]', "engram").tool == "engram"


@pytest.mark.parametrize(
    ("line", "tool"),
    [
        (b'{"type":"entity","name":"a","entityType":"b","observations":[]}', "mcp-memory"),
        (b'{"type":"relation","from":"a","to":"b","relationType":"c"}', "mcp-memory"),
        (b'{"results": []}', None),
        (b'{"type":"other"}', None),
        (b"{", None),
        (b"[1]", None),
        (b'{"type":"\xff"}', None),
    ],
)
def test_a_file_with_an_item_a_line_is_recognised_by_its_first(line: bytes, tool: Tool | None) -> None:
    assert tool_of_line(line) == tool


# mem0


def test_mem0_keeps_id_scope_speaker_times_and_what_can_be_a_tag() -> None:
    first = read_document((EXPORTS / "mem0.json").read_bytes()).items[0][1]
    assert list(parse("mem0", first, moment)) == [
        ImportedMemory(
            BOAT_KEY,
            id="892db2ae-06d9-49e5-8b3e-000000000001",
            tags=("people", "Possessions", "boat_keys", "harbour", "keys"),
            user_id="tom",
            agent_id="deckhand",
            run_id="run-7",
            speaker="Ines",
            created_at=1_740_674_000_557,  # 2025-02-27 16:33:20.557 UTC
            event_at=1_740_812_400_000,  # 2025-03-01 07:00 UTC, when it was last said
            changed_at=1_740_812_400_000,
            dropped_fields=("metadata.confidence",),
        )
    ]


def test_mem0_without_an_update_happened_when_it_was_stored() -> None:
    one = only("mem0", id=7, memory="a", created_at="2025-02-28T09:00:00Z", updated_at=None)
    assert (one.id, one.created_at, one.event_at, one.changed_at) == ("7", *[1_740_733_200_000] * 3)


def test_mem0_with_a_date_of_expiry_keeps_it() -> None:
    assert (
        only("mem0", memory="a", expiration_date="2099-06-30T00:00:00Z").expires_at == 4_086_460_800_000
    )  # 47,297 days after 1970-01-01


def test_a_time_that_is_none_costs_only_the_time() -> None:
    one = only("mem0", memory="a", created_at={"odd": 1}, updated_at=["x"])
    assert (one.created_at, one.event_at, one.dropped_fields) == (None, None, ("created_at", "updated_at"))


@pytest.mark.parametrize("target", ["target", "destination"])
def test_a_relation_of_mem0_is_a_sentence(target: str) -> None:
    assert only("mem0", source="ines", relationship="has_key_of", **{target: "the_boat"}).content == (
        "ines has key of the boat"
    )


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"id": "1"}, "expected `str`, got `null`|missing required field `memory`"),
        ({"memory": 5}, "expected `str`, got `int`"),
        ({"memory": "a", "metadata": "x"}, "metadata"),
        (b"5", "expected `object`, got `int`"),
        (b'{"memory": "\xff"}', "UTF-8"),
        (b"[" * 100_000, "nested too deeply|expected `object`"),
    ],
)
def test_an_item_that_cannot_be_read_says_why(item: Any, why: str) -> None:
    with pytest.raises(ImportItemError, match=why):
        told("mem0", item)


# The official MCP memory server


def test_each_observation_says_whom_it_is_about() -> None:
    lines = (EXPORTS / "mcp-memory.jsonl").read_bytes().splitlines()
    assert told("mcp-memory", lines[0]) == [
        ImportedMemory("Ines Ferreira: Keeps the spare key of the boat", tags=("Person",)),
        ImportedMemory("Ines Ferreira speaks Portuguese", tags=("Person",)),
        ImportedMemory("Ines Ferreira: Prefers calls before nine", tags=("Person",)),
    ]


def test_a_name_within_another_word_is_not_said() -> None:
    lines = (EXPORTS / "mcp-memory.jsonl").read_bytes().splitlines()
    assert told("mcp-memory", lines[2]) == [ImportedMemory("AI: maintains the tide table", tags=("topic",))]


def test_an_entity_without_observations_is_still_known() -> None:
    lines = (EXPORTS / "mcp-memory.jsonl").read_bytes().splitlines()
    assert told("mcp-memory", lines[1]) == [ImportedMemory("Harbour Office (organization)", tags=("organization",))]


def test_a_relation_of_the_graph_is_a_sentence() -> None:
    lines = (EXPORTS / "mcp-memory.jsonl").read_bytes().splitlines()
    assert told("mcp-memory", lines[7]) == [ImportedMemory("Ines Ferreira works at Harbour Office")]


@pytest.mark.parametrize(
    ("number", "why"), [(3, "observations"), (4, "malformed"), (6, "its type is 'memo', not entity or relation")]
)
def test_a_line_of_the_graph_that_fits_nothing_says_why(number: int, why: str) -> None:
    lines = (EXPORTS / "mcp-memory.jsonl").read_bytes().splitlines()
    with pytest.raises(ImportItemError, match=why):
        told("mcp-memory", lines[number])


# engram


def test_engram_keeps_kind_importance_tags_namespace_times_and_use() -> None:
    first = read_document((EXPORTS / "engram.json").read_bytes()).items[0][1]
    assert list(parse("engram", first, moment)) == [
        ImportedMemory(
            "Always run the migration on a copy first.",
            id="7f3c1b2a-0000-4000-8000-000000000001",
            kind="procedural",
            importance=0.9,
            tags=("lesson", "trigger:migrate"),
            namespace="shop",
            created_at=1_735_689_600_000,
            event_at=1_735_689_600_000,
            changed_at=1_735_776_000_000,
            access_count=12,
            repetition_count=3,
            last_accessed=1_738_368_000_000,
        )
    ]


@pytest.mark.parametrize(("given", "kept"), [(1.7, 1.0), (-0.5, 0.0), (0.25, 0.25), (None, None), (1, 1.0)])
def test_importance_is_clamped_to_its_range(given: float | None, kept: float | None) -> None:
    assert only("engram", content="a", importance=given).importance == kept


def test_an_unknown_kind_is_reported_and_becomes_semantic() -> None:
    one = only("engram", content="a", kind="dream")
    assert (one.kind, one.dropped_fields) == ("semantic", ("kind",))


def test_counts_are_clamped_to_their_column() -> None:
    one = only("engram", content="a", access_count=10**15, repetition_count=-3)
    assert (one.access_count, one.repetition_count) == (2**31 - 1, 0)


# Through the doors


def test_an_admitted_memory_has_the_trust_and_source_of_an_import() -> None:
    draft = admit(
        ImportedMemory("  a\r\n\r\n\r\n\r\nb ", id="1", tags=("Home", "home"), created_at=5, event_at=7)
    ).draft
    assert (draft.content, draft.trust, draft.source, draft.key) == ("a\n\nb", "import", "import", "mem0:1")
    assert (draft.namespace, draft.user_id, draft.tags) == ("default", "local", ("home",))
    assert (draft.created_at, draft.event_at, draft.expires_at, draft.importance) == (5, 7, 0, None)


def test_an_import_into_a_namespace_and_user_goes_there() -> None:
    one = ImportedMemory("a", namespace="shop", user_id="tom")
    assert admit(one).draft[1:3] == ("shop", "tom")
    assert admit(one, into=ImportTarget("boat", "local")).draft[1:3] == ("boat", "local")


def test_without_an_id_of_its_own_the_text_is_the_key() -> None:
    first, again, other = (admit(ImportedMemory(text), "mcp-memory").draft.key for text in ("a b", " a b ", "a c"))
    assert first == again != other
    assert first.startswith("mcp-memory:")


def test_an_id_that_is_too_long_for_a_key_is_shortened_to_one_of_its_own() -> None:
    one, other = (
        admit(ImportedMemory("a", id="x" * 300)).draft.key,
        admit(ImportedMemory("a", id="x" * 299 + "y")).draft.key,
    )
    assert one != other
    assert len(one) == len("mem0:") + 32


def test_a_secret_is_masked_and_its_kind_reported() -> None:
    one = admit(ImportedMemory("password: Tr0ub4dor&3x", id="5"))
    assert "Tr0ub4dor" not in one.draft.content
    assert (one.masked, one.plain) == (("password",), "password: Tr0ub4dor&3x")


def test_with_masking_off_a_secret_is_kept_and_tagged() -> None:
    one = admit(ImportedMemory("password: Tr0ub4dor&3x", tags=("home",)), guard=SecretPolicy("off", b"key"))
    assert (one.draft.content, one.draft.tags) == ("password: Tr0ub4dor&3x", ("sensitive", "home"))


def test_tags_that_do_not_fit_are_reported() -> None:
    assert admit(ImportedMemory("a", tags=("ok", "x" * 33))).dropped_fields == ("tags",)
    assert admit(ImportedMemory("a", tags=("ok", "OK "))).dropped_fields == ()


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (ImportedMemory(" \n "), "nothing in the text"),
        (ImportedMemory("<private>all of it</private>"), "nothing in the text"),
        (ImportedMemory("x" * 8193), "8193 characters, at most 8192"),
        (ImportedMemory("a\0b"), "NUL at character 1"),
        (ImportedMemory("a", user_id="u" * 129), "user_id has 129 characters, at most 128"),
        (ImportedMemory("a", namespace="n" * 65), "namespace has 65 characters, at most 64"),
        (ImportedMemory("a", namespace="*"), "`\\*` is no namespace"),
        (ImportedMemory("a", id="x\0"), "NUL"),
    ],
)
def test_an_invalid_item_is_refused_with_a_reason(one: ImportedMemory, why: str) -> None:
    with pytest.raises(ImportItemError, match=why):
        admit(one)


# New, known, or older


NOW = AT + 1000
NEW_ID = sample_id(99)
EPOCH = 7


def settle(
    new: ImportCandidate, before: Memory | None = None, entry: TrashEntry | None = None
) -> tuple[str, list[Any]]:
    outcome, changes = decide_import(new, before, None, entry, NEW_ID, NOW, EPOCH)
    return outcome, list(changes)


def test_a_new_memory_enters_the_buffer_with_its_times_and_counts() -> None:
    new = admit(ImportedMemory("a", id="1", importance=0.9, created_at=5, event_at=7, access_count=12, last_accessed=8))
    outcome, (put, use) = settle(new)
    assert (outcome, put.data.id, put.data.layer, put.data.decay_rate) == ("stored", NEW_ID, "buffer", 5.0)
    assert (put.data.created_at, put.data.event_at, put.data.modified_at) == (5, 7, NOW)
    assert use == PutUsage(data=Usage(id=NEW_ID, access_count=12, last_accessed=8, strength=0.9, strength_epoch=7))


def test_equal_content_changes_nothing_not_even_its_use() -> None:
    new = admit(ImportedMemory("A  Text", id="1", changed_at=NOW))
    assert settle(new, sample_memory(1, "a text", key="mem0:1")) == ("duplicate", [])


def test_other_content_that_is_newer_is_a_new_version_and_keeps_the_pin() -> None:
    new = admit(ImportedMemory("new text", id="1", changed_at=AT + 1))
    outcome, (put,) = settle(new, sample_memory(1, "old text", key="mem0:1", pinned=True))
    assert (outcome, put.data.id, put.data.content, put.data.version) == ("updated", sample_id(1), "new text", 2)
    assert put.data.pinned


def test_another_kind_decays_by_its_own_factor_from_now_on() -> None:
    new = admit(ImportedMemory("new text", id="1", changed_at=AT + 1, kind="procedural"))
    _, (put, use) = settle(new, sample_memory(1, "old text", key="mem0:1", kind="episodic"))
    assert put.data.kind == "procedural"
    assert (use.data.strength, use.data.strength_epoch) == (pytest.approx(0.5 * 0.98**EPOCH), EPOCH)


@pytest.mark.parametrize("changed_at", [AT, AT - 1, None])
def test_a_memory_changed_here_since_is_unchanged(changed_at: int | None) -> None:
    new = admit(ImportedMemory("their text", id="1", changed_at=changed_at))
    assert settle(new, sample_memory(1, "mine, edited", key="mem0:1")) == ("older", [])


@pytest.mark.parametrize("content", ["same", "mine, edited"])
def test_a_trashed_memory_is_restored_as_it_was(content: str) -> None:
    new = admit(ImportedMemory("same", id="1"))
    before = sample_memory(1, content, key="mem0:1", state="trashed")
    outcome, (put, _) = settle(new, before, TrashEntry(id=before.id, at=AT, why="", state="archived"))
    assert isinstance(put, PutMemory)
    assert (outcome, put.data.content, put.data.state) == ("restored", content, "archived")
