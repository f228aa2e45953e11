"""Trust through changes: who said a version, and who may touch what a person pinned. SPEC 2.1"""

import msgspec
import pytest

from mnemo_core.ingest import trust
from mnemo_store.records import TRUSTS, Memory, PutMemory, PutTrash, TrashEntry, Trust
from tests.support.samples import AT, sample_id, sample_memory


class StoredMemories:
    """A store that holds these memories."""

    def __init__(self, *memories: Memory) -> None:
        self._memories = {memory.id: memory for memory in memories}

    def memory(self, memory_id: str) -> Memory | None:
        return self._memories.get(memory_id)


def replace(memory: Memory, **fields: object) -> Memory:
    return msgspec.structs.replace(memory, **fields)


def authorised(before: Memory | None, after: Memory, writer: Trust, *others: Memory, put_back: bool = False) -> Memory:
    held = StoredMemories(*others) if before is None else StoredMemories(before, *others)
    (change,) = trust.authorise([PutMemory(data=after)], held, writer, put_back=put_back)
    assert isinstance(change, PutMemory)
    return change.data


TEA = "Ann drinks black tea at breakfast"

# before, after: content and trust of a version; writer; the trust of the version.
TABLE: list[tuple[str, Trust, str, Trust, Trust]] = [
    (TEA, "user", TEA, "user", "user"),
    (TEA, "user", "Ann drinks green tea at breakfast", "user", "user"),
    (TEA, "user", "Ann drinks green tea at breakfast", "agent", "agent"),
    (TEA, "user", "Something else entirely", "agent", "agent"),
    (TEA, "agent", "Ann drinks green tea at breakfast", "user", "agent"),
    (TEA, "agent", "Something else entirely", "user", "user"),
    (TEA, "import", "breakfast: eggs", "agent", "import"),
    (TEA, "import", "eggs, daily", "agent", "agent"),
    (TEA, "note", "Ann drinks milk", "user", "note"),
    (TEA, "tool", "black coffee", "user", "tool"),
    (TEA, "agent", "Ann", "user", "user"),  # too short a word to tell one text from another
    ("The PIN is 42", "agent", "Bring 42 eggs", "user", "agent"),  # a number is
    ("No", "agent", "no", "user", "agent"),  # and a text of short words is compared by these
    ("安喝红茶", "agent", "早餐有红茶", "user", "agent"),
    ("安喝红茶", "agent", "鲍勃不喝水", "user", "user"),
]


@pytest.mark.parametrize(("old", "old_trust", "new", "writer", "expected"), TABLE)
def test_a_new_text_has_the_least_trust_of_its_writer_and_of_the_old_text_that_stays(
    old: str, old_trust: Trust, new: str, writer: Trust, expected: Trust
) -> None:
    before = sample_memory(1, old, trust=old_trust)
    after = replace(before, content=new, tags=("edited",), trust=writer, version=2)
    assert authorised(before, after, writer).trust == expected


@pytest.mark.parametrize("writer", TRUSTS)
@pytest.mark.parametrize("source", TRUSTS)
def test_a_derived_memory_has_the_least_trust_of_writer_and_sources(writer: Trust, source: Trust) -> None:
    sources = [sample_memory(2, trust="user"), sample_memory(3, trust=source)]
    after = sample_memory(1, trust=writer, derived_from=(sources[0].id, sources[1].id, sample_id(9)))
    expected = max(writer, source, key=TRUSTS.index)
    assert authorised(None, after, writer, *sources).trust == expected
    before = sample_memory(1, "what stood there", trust="user")
    rewritten = replace(after, content="other words", version=2)
    assert authorised(before, rewritten, writer, *sources).trust == expected


STATES: list[dict[str, object]] = [
    {"state": "trashed"},
    {"state": "superseded", "superseded_by": sample_id(7)},
    {"state": "archived"},
]


@pytest.mark.parametrize("writer", TRUSTS)
@pytest.mark.parametrize("fields", STATES)
def test_a_change_of_state_leaves_the_trust_as_it_is(writer: Trust, fields: dict[str, object]) -> None:
    before = sample_memory(1, trust="user")
    after = replace(before, version=2, modified_at=AT + 1, **fields)
    assert authorised(before, after, writer).trust == "user"


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "other"}, {"tags": ("a",)}, {"importance": 0.9}, {"kind": "episodic"}, {"category": "decision"},
        {"event_at": 7}, {"expires_at": 7}, {"speaker": "Bob"}, {"evidence": ("x",)}, {"session_id": "s"},
        {"derived_from": (sample_id(5),)},
    ],
)  # fmt: skip
def test_an_agents_edit_of_any_field_of_what_a_user_wrote_is_the_agents(fields: dict[str, object]) -> None:
    before = sample_memory(1, trust="user")
    assert authorised(before, replace(before, version=2, **fields), "agent").trust == "agent"


@pytest.mark.parametrize(
    ("now", "then", "writer", "expected"),
    [
        ("agent", "user", "user", "user"),  # a person takes an agent's edit back: it is their own text again
        ("agent", "user", "agent", "agent"),
        ("user", "agent", "user", "agent"),
        ("user", "import", "agent", "import"),
    ],
)
def test_a_version_that_is_put_back_brings_its_own_trust(
    now: Trust, then: Trust, writer: Trust, expected: Trust
) -> None:
    before = sample_memory(1, "what it says now", trust=now, version=2)
    back = sample_memory(1, "what it said then", trust=then, version=3)
    assert authorised(before, back, writer, put_back=True).trust == expected


def test_putting_back_a_state_alone_is_no_edit() -> None:
    trashed = sample_memory(1, trust="user", state="trashed", version=2)
    back = replace(trashed, state="active", version=3)
    assert authorised(trashed, back, "agent", put_back=True).trust == "user"


@pytest.mark.parametrize(
    ("writer", "source"), [("user", "user"), ("agent", "llm"), ("note", "rule"), ("import", "rule"), ("tool", "rule")]
)
def test_only_a_person_is_the_source_user_of_an_importance(writer: Trust, source: str) -> None:
    before = sample_memory(1, importance=0.5, importance_source="rule")
    after = replace(before, importance=0.9, importance_source="user", version=2)
    assert authorised(before, after, writer).importance_source == source
    assert authorised(None, after, writer).importance_source == source
    kept = replace(before, importance_source="user")
    edited = replace(kept, tags=("a",), version=2)
    assert authorised(kept, edited, writer).importance_source == "user"  # the person's, which stays
    replaced = replace(kept, content="Quite another thing", version=2)
    assert authorised(kept, replaced, writer).importance_source == source  # of a text that is gone


PINNED_CHANGES: list[dict[str, object]] = [
    {"content": "other"}, {"tags": ("a",)}, {"pinned": False}, {"importance": 1.0}, {"state": "trashed"},
    {"state": "superseded", "superseded_by": sample_id(7)}, {"state": "active"},
]  # fmt: skip


@pytest.mark.parametrize("writer", TRUSTS)
@pytest.mark.parametrize("fields", PINNED_CHANGES)
def test_nobody_below_trust_user_changes_a_pinned_memory(writer: Trust, fields: dict[str, object]) -> None:
    before = sample_memory(1, pinned=True)
    after = replace(before, version=2, **fields)
    if writer == "user":
        assert authorised(before, after, writer) == replace(after, trust="user")
        return
    with pytest.raises(trust.PinnedError) as refused:
        authorised(before, after, writer)
    assert refused.value.memory_id == before.id
    assert before.id in str(refused.value)


@pytest.mark.parametrize("writer", TRUSTS[1:])
def test_nobody_below_trust_user_pins(writer: Trust) -> None:
    with pytest.raises(trust.PinnedError, match="only a person can pin"):
        authorised(None, sample_memory(1, pinned=True), writer)
    with pytest.raises(trust.PinnedError) as refused:
        authorised(sample_memory(1), sample_memory(1, pinned=True, version=2), writer)
    assert refused.value.memory_id == sample_id(1)


@pytest.mark.parametrize("writer", TRUSTS)
@pytest.mark.parametrize("pinned", [True, False])
def test_a_text_of_nobody_but_a_person_updates_a_pinned_memory(writer: Trust, *, pinned: bool) -> None:
    other = sample_memory(1, pinned=pinned)
    expected = "related" if pinned and writer != "user" else "updates"
    assert trust.allowed_relation(other, "updates", writer) == expected
    assert trust.allowed_relation(other, "repeats", writer) == "repeats"


def test_other_changes_pass_as_they_are() -> None:
    entry = PutTrash(data=TrashEntry(id=sample_id(1), at=AT, why="", state="active"))
    assert trust.authorise([entry], StoredMemories(), "agent") == [entry]
