"""Records and changes of every table, made from their types, so that a new table is tested like the others."""

from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from mnemo_store.records import Change, ChangeEntry, ChunkRef, DropMemory, PutMemory, PutMeta, PutScore, PutVersion
from mnemo_store.tables import EDGES, MEMORIES, TABLES, LoggedChange, StoredMemory, Table, drop_of, put_of
from tests.support.samples import AT, sample_id, sample_memory

IDS = tuple(sample_id(number) for number in range(1, 7))
CONTENTS = ("the tea is green", "The  Tea is GREEN", "the tea is black", "x" * 3000)

# Tables with a change that writes a record.
BY_ITSELF = tuple(table for table in TABLES if table.put is not None)

# Tables of which the store knows nothing but what their `Table` says.
GENERIC = tuple(table for table in TABLES if table.section == "after memories" and table is not EDGES)

ids = st.sampled_from(IDS)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
memories = st.builds(
    sample_memory,
    st.integers(1, len(IDS)),
    st.sampled_from(CONTENTS),
    namespace=st.sampled_from(("default", "project")),
    agent_id=st.sampled_from(("", "scout")),
    key=st.sampled_from(("", "a", "b")),
    layer=st.sampled_from(("buffer", "core")),  # each goes to a file of its own
    state=st.sampled_from(("active", "archived", "superseded", "discarded", "trashed")),
)
chunks = st.builds(ChunkRef, ids, texts, st.integers(1, 3), st.integers(4, 6))

# Fields whose type does not say what may stand in them.
FIELDS: dict[tuple[type, str], st.SearchStrategy[Any]] = {(PutMeta, "name"): st.sampled_from(("epoch", "model", "ä"))}

IDS_BY_NAME = dict.fromkeys(
    ("root", "memory", "superseded_by", "node"), "id"
)  # fields that hold ids without being part of a key


def records(table: Table[Any]) -> st.SearchStrategy[Any]:
    """Few different keys, so that one record often takes the place of another."""
    if table.record is StoredMemory:
        return st.builds(StoredMemory, st.integers(1, 9), memories)
    if table.record is LoggedChange:
        entries = st.builds(ChangeEntry, at=st.just(AT), by=texts, ids=st.lists(ids, max_size=2).map(tuple))
        return st.builds(LoggedChange, st.integers(1, 9), entries)
    kinds = {**IDS_BY_NAME, **dict(zip(table.key.fields, table.key.kinds, strict=True))}
    hints = get_type_hints(table.record)
    fields = {
        name: FIELDS.get((table.record, name), _values(hints[name], kinds.get(name)))
        for name in table.record.__struct_fields__
    }
    return st.builds(table.record, **fields)


def _values(kind: Any, in_key: str | None = None) -> st.SearchStrategy[Any]:
    """Of a type; `in_key` says what a field of a key holds."""
    if in_key == "id":
        return ids
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if in_key == "text":
        return st.sampled_from(("00", "01", "fe"))
    if kind is str:
        return texts
    if kind is ChunkRef:
        return chunks
    if kind is int:
        return st.integers(0, 9)
    if kind is float:
        return st.floats(0, 1)
    if kind is bool:
        return st.booleans()
    if get_origin(kind) is dict:
        return st.dictionaries(*map(_values, get_args(kind)), max_size=2)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, **{name: _values(hint) for name, hint in get_type_hints(kind).items()})
    if get_origin(kind) is tuple:
        return st.lists(_values(get_args(kind)[0]), max_size=2).map(tuple)
    return st.one_of(*(st.none() if one is type(None) else _values(one) for one in get_args(kind)))


def changes_of(table: Table[Any]) -> st.SearchStrategy[Change]:
    """Changes that write and remove the records of a table. Versions and history entries come with memories."""
    versions = memories.map(lambda memory: PutVersion(data=msgspec.structs.replace(memory, overruled=True)))
    if table.put is PutVersion:
        return versions
    if table.put in (None, PutMemory):
        return st.one_of(
            memories.map(lambda memory: PutMemory(data=memory)),
            versions,
            st.builds(PutScore, id=ids, importance=st.floats(0, 1)),
            ids.map(lambda one: DropMemory(id=one)),
        )
    puts = records(table).map(lambda record: put_of(table, record))
    if table.drop is None:
        return puts
    return st.one_of(puts, puts, records(table).map(lambda record: drop_of(table, record)))


# Memories half of the time, since most of what can go wrong is theirs.
changes: st.SearchStrategy[Change] = st.sampled_from([*BY_ITSELF, *[MEMORIES] * 10]).flatmap(changes_of)
writes = st.lists(changes, min_size=1, max_size=6)


def sample_record(table: Table[Any], number: int) -> Any:
    """A record in which every field has a value of its own that is not the default, made from the type."""
    if table.record is StoredMemory:
        return StoredMemory(number, sample_memory(number, f"contentsample{number}"))
    if table.record is LoggedChange:
        return LoggedChange(number, ChangeEntry(at=AT, by=f"callersample{number}"))
    kinds = dict(zip(table.key.fields, table.key.kinds, strict=True))
    hints = get_type_hints(table.record)
    values = {name: _sample(name, hints[name], number, kinds.get(name)) for name in table.record.__struct_fields__}
    return table.record(**values)


def _sample(name: str, kind: Any, number: int, in_key: str | None = None) -> Any:
    if in_key == "id" or name in IDS_BY_NAME:
        return sample_id(number)
    if get_origin(kind) is Literal:
        return get_args(kind)[-1]
    if kind is str:
        return f"{name}sample{number}"
    if kind is int:
        return number
    if kind is float:
        return 0.25
    if kind is bool:
        return True
    if get_origin(kind) is dict:
        key, value = get_args(kind)
        return {_sample(name, key, number): _sample(name, value, number)}
    if get_origin(kind) is tuple:
        return (_sample(name, get_args(kind)[0], number),)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        return kind(**{field: _sample(field, hints[field], number) for field in kind.__struct_fields__})
    return _sample(name, next(one for one in get_args(kind) if one is not type(None)), number)
