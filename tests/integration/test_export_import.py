"""Everything out and in again: our own export, and those of other tools, through the socket. SPEC 3.7, 3.8, 5.3, 16."""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import lmdb
import msgspec
import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.maintenance import ImportAnswer
from mnemo_client.protocol.memories import MemoryView, NewMemory, Patch
from mnemo_client.protocol.status import NotesRootStatus
from mnemo_daemon.transfer.store_merge import MERGED
from mnemo_store.codec import encode_json
from mnemo_store.journal.dump import MemoryRow, VersionRow
from mnemo_store.record_texts import skip_hash
from mnemo_store.records import (
    ChunkRef,
    DropTrash,
    Edge,
    ErasedText,
    NoteFile,
    NotePlace,
    NoteRoot,
    PutMeta,
    Skip,
    TrashEntry,
    Usage,
)
from mnemo_store.tables import BY_NAME, MEMORIES, TABLE_NAMES, TABLES, VERSIONS, Table, put_of
from tests.support.running_daemon import RunningDaemon, running
from tests.support.samples import AT, dump_of, opened, sample_id, sample_memory, write
from tests.support.table_records import sample_record

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"
EVERY_USER = {"mem0.json": "tom", "mcp-memory.jsonl": "local", "engram.json": "local"}
STORED = {"mem0.json": 5, "mcp-memory.jsonl": 6, "engram.json": 3}
SKIPPED = {"mem0.json": 1, "mcp-memory.jsonl": 3, "engram.json": 1}


def take_in(client: Client, name: str, **options: Any) -> ImportAnswer:
    return client.import_from([(EXPORTS / name).read_bytes()], **options)


def begun(folder: Path) -> AbstractContextManager[RunningDaemon]:
    """A daemon without a model."""
    return running(folder, {"MNEMO_MODELS_FOLDER": str(folder.parent / "models")})


def contents(client: Client, **filters: Any) -> set[str]:
    return {memory.content for memory in client.list_memories(limit=500, **filters).memories}


def rows(client: Client, namespace: str | None = None, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.export(namespace, **options)]


# Other tools


@pytest.mark.parametrize("name", STORED)
def test_an_export_of_another_tool_is_imported_once_and_can_be_reverted(client: Client, name: str) -> None:
    into, user = f"once-{name}", {"user_id": EVERY_USER[name]}
    first = take_in(client, name, namespace=into)
    assert (first.stored, first.duplicate, first.skipped) == (STORED[name], 0, SKIPPED[name])
    found = {m.content for u in {"local", *user.values()} for m in _all(client, into, u)}
    assert len(found) == STORED[name]
    again = take_in(client, name, namespace=into)
    assert (again.stored, again.duplicate, again.group) == (0, STORED[name], None)
    assert first.group is not None
    assert len(client.undo(group=first.group).ids) == STORED[name]
    assert not {m.content for u in {"local", *user.values()} for m in _all(client, into, u)}
    back = take_in(client, name, namespace=into)
    assert (back.stored, back.restored, back.duplicate) == (0, STORED[name], 0)
    assert {m.content for u in {"local", *user.values()} for m in _all(client, into, u)} == found


def _all(client: Client, namespace: str, user: str) -> list[MemoryView]:
    return client.list_memories(namespace=namespace, user_id=user, limit=500).memories


def test_mem0_keeps_what_it_knows_of_a_memory(client: Client) -> None:
    found = take_in(client, "mem0.json", namespace="mem0")
    assert (found.tool, found.users, found.masked) == ("mem0", {"tom": 4}, {"password": 1})
    assert found.not_kept == {"metadata.confidence": 1, "metadata.note": 1}
    assert [(problem.place, problem.why) for problem in found.problems] == [
        ("results[3]", "object missing required field `memory`")
    ]
    by_content = {memory.content: memory for memory in _all(client, "mem0", "tom")}
    key = by_content["Ines keeps the spare key of the boat."]
    assert (key.trust, key.layer, key.source, key.user_id) == ("import", "buffer", "import", "tom")
    assert (key.agent_id, key.run_id, key.speaker) == ("deckhand", "run-7", "Ines")
    assert (key.created_at, key.event_at) == (1_740_674_000_557, 1_740_812_400_000)
    assert key.tags == ["people", "possessions", "boat_keys", "harbour", "keys"]
    assert key.key == "mem0:892db2ae-06d9-49e5-8b3e-000000000001"
    assert by_content["The mooring is paid until the end of June 2099."].expires_at
    assert contents(client, namespace="mem0") == {"ines has key of the boat"}


def test_what_an_imported_memory_states_is_a_fact_of_it(client: Client) -> None:
    export = b'{"results": [{"id": "e1", "memory": "Eva lives in Lisbon.", "created_at": "2025-02-27T16:43:20Z"}]}'
    for stored in (1, 0):
        assert client.import_from([export], namespace="states").stored == stored
        (fact,) = client.facts(namespace="states").facts
        assert (fact.subject, fact.predicate, fact.object) == ("Eva", "lives in", "Lisbon")


def test_a_secret_in_an_export_is_in_no_file(short_folder: Path) -> None:
    with begun(short_folder / "data") as daemon, daemon.client() as client:
        take_in(client, "mem0.json")
    for path in (short_folder / "data").rglob("*"):
        assert path.is_dir() or b"Tr0ub4dor" not in path.read_bytes(), path


def test_another_user_and_namespace_can_be_given(client: Client) -> None:
    found = take_in(client, "mem0.json", namespace="mine", user_id="local")
    assert (found.stored, found.users) == (5, {})
    assert "Ines keeps the spare key of the boat." in contents(client, namespace="mine")


def test_the_graph_server_gives_sentences_that_stand_alone(client: Client) -> None:
    found = take_in(client, "mcp-memory.jsonl", namespace="graph")
    assert [problem.place for problem in found.problems] == ["line 4", "line 5", "line 7"]
    assert contents(client, namespace="graph") == {
        "Ines Ferreira: Keeps the spare key of the boat",
        "Ines Ferreira speaks Portuguese",
        "Ines Ferreira: Prefers calls before nine",
        "Harbour Office (organization)",
        "AI: maintains the tide table",
        "Ines Ferreira works at Harbour Office",
    }
    assert contents(client, namespace="graph", tags=["organization"]) == {"Harbour Office (organization)"}


def test_engram_keeps_namespace_kind_importance_times_and_use(client: Client) -> None:
    found = take_in(client, "engram.json")
    assert [problem.why for problem in found.problems] == ["there is nothing in the text to remember"]
    (rule,) = _all(client, "shop", "local")
    assert (rule.kind, rule.importance, rule.importance_source, rule.layer) == ("procedural", 0.9, "rule", "buffer")
    assert rule.tags == ["lesson", "trigger:migrate"]
    assert (rule.access_count, rule.repetition_count, rule.last_accessed) == (12, 3, 1_738_368_000_000)
    by_content = {memory.content: memory for memory in _all(client, "default", "local")}
    assert by_content["The shop opens at ten on Sundays."].created_at == 1_735_689_600_000  # given in seconds
    assert by_content["The shop opens at ten on Sundays."].importance == 1.0
    assert by_content["We met the supplier in Porto."].kind == "episodic"


def test_memories_edited_here_are_not_reverted_by_the_same_export(client: Client) -> None:
    take_in(client, "mem0.json", namespace="edited", user_id="local")
    (mine,) = [m for m in _all(client, "edited", "local") if m.content.startswith("Ines keeps")]
    client.patch(mine.id, Patch(content="Tom keeps the spare key now."))
    again = take_in(client, "mem0.json", namespace="edited", user_id="local")
    assert (again.older, again.duplicate, again.updated) == (1, 4, 0)
    assert client.get(mine.id).content == "Tom keeps the spare key now."


def test_a_memory_changed_in_the_tool_is_imported_as_a_new_version(client: Client) -> None:
    def export(text: str, updated_at: str) -> list[bytes]:
        item = {"id": "77", "memory": text, "created_at": "2025-01-01T00:00:00Z", "updated_at": updated_at}
        return [json.dumps({"results": [item]}).encode()]

    client.import_from(export("The tide table is on paper.", "2025-01-01T00:00:00Z"), namespace="changing")
    changed = client.import_from(export("The tide table is online.", "2099-01-01T00:00:00Z"), namespace="changing")
    assert (changed.updated, changed.stored) == (1, 0)
    (memory,) = _all(client, "changing", "local")
    assert [version.memory.content for version in client.history(memory.id).versions] == [
        "The tide table is online.", "The tide table is on paper."
    ]  # fmt: skip


def test_a_dry_run_tells_the_same_and_changes_nothing(client: Client) -> None:
    before = client.status().seq
    twice = (EXPORTS / "mcp-memory.jsonl").read_bytes() * 2
    planned = client.import_from([twice], namespace="dry", dry_run=True)
    assert (planned.stored, planned.duplicate, planned.skipped, planned.group) == (6, 6, 6, None)
    assert client.status().seq == before
    done = client.import_from([twice], namespace="dry")
    assert (done.stored, done.duplicate, done.skipped) == (6, 6, 6)


def test_memories_erased_here_stay_erased_unless_requested(short_folder: Path) -> None:
    with opened(short_folder / "data") as store, store.snapshot() as snapshot:
        salt = snapshot.meta("salt")
    forgotten = ["Ines Ferreira: keeps the SPARE key  of the boat", "The harbour office said: password: Tr0ub4dor&3x"]
    with opened(short_folder / "data") as store:
        write(store, *(ErasedText(hash=skip_hash(salt, text), at=AT) for text in forgotten))
    with begun(short_folder / "data") as daemon, daemon.client() as client:
        graph, mem0 = take_in(client, "mcp-memory.jsonl"), take_in(client, "mem0.json")
        assert (graph.stored, graph.forgotten, mem0.stored, mem0.forgotten) == (5, 1, 4, 1)
        reported = take_in(client, "mcp-memory.jsonl", allow_forgotten=True)
        assert (reported.stored, reported.duplicate, reported.forgotten) == (1, 5, 0)
        again = take_in(client, "mcp-memory.jsonl")  # it is wanted now: no restore leaves it out either
        assert (again.duplicate, again.forgotten) == (6, 0)


def test_only_a_person_has_taken_in_again_what_was_forgotten(daemon: RunningDaemon) -> None:
    with daemon.client(entry_point="mcp") as agent, pytest.raises(RefusalError) as refused:
        take_in(agent, "mcp-memory.jsonl", allow_forgotten=True)
    assert (refused.value.status, refused.value.code, refused.value.field) == (422, "refused", "allow_forgotten")


def test_an_agent_may_import_and_cannot_reach_what_it_does_not_see(daemon: RunningDaemon, client: Client) -> None:
    take_in(client, "mcp-memory.jsonl", namespace="hidden")
    (one,) = [m for m in _all(client, "hidden", "local") if "tide" in m.content]
    client.patch(one.id, Patch(tags=["sensitive"]))
    with daemon.client(entry_point="mcp") as agent:
        found = take_in(agent, "mcp-memory.jsonl", namespace="hidden")
    assert (found.duplicate, found.skipped) == (5, 4)
    assert [problem.place for problem in found.problems if "is in use" in problem.why] == ["line 3"]


# What cannot be taken in


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "there is nothing in it"),
        (b" \n\t\n", "there is nothing in it"),
        (b"Dear diary,\ntoday", "it begins with 'Dear diary,'"),
        (b"\xff\xfe\x00\x01", "the file is not an export"),
        (b"x" * 10_000_000, "the file is not an export"),
        (b'{"results": [{"id": "1", "memory": "cut o', "truncated"),
        (b'[{"text": "of a tool nobody knows"}]', "nothing in it looks like a memory"),
        (b'{"journal":1,"file":"short_term"}\n{"seq":1}\n', "What can be imported"),
    ],
)
def test_a_file_that_is_no_export_is_refused_with_a_guess_at_its_format(client: Client, data: bytes, why: str) -> None:
    before = client.status().seq
    with pytest.raises(RefusalError) as refused:
        client.import_from([data])
    assert (refused.value.status, refused.value.code) == (400, "unknown_export")
    assert why in refused.value.message
    assert len(refused.value.message) < 500
    assert client.status().seq == before


def test_a_line_that_is_too_long_or_no_utf8_costs_that_line(client: Client) -> None:
    def entity(name: bytes, observation: bytes) -> bytes:
        return b'{"type":"entity","name":"%b","entityType":"x","observations":["%b"]}\n' % (name, observation)

    lines = [entity(b"a", b"first"), entity(b"b", b"x" * 10_000_000), entity(b"c", b"\xff"), b"\0\0\0\n",
             b"y" * 40_000_000 + b"\n", entity(b"d", b"last")]  # fmt: skip
    found = client.import_from(lines, namespace="lines")
    assert contents(client, namespace="lines") == {"a: first", "d: last"}
    assert [(problem.place, problem.why[:24]) for problem in found.problems] == [
        ("line 2", "the text has 10000003 ch"),
        ("line 3", "it is not UTF-8"),
        ("line 4", "JSON is malformed: inval"),
        ("line 5", "the line is longer than "),
    ]


def test_a_byte_order_mark_is_no_part_of_an_export(client: Client) -> None:
    for name in STORED:
        found = client.import_from([b"\xef\xbb\xbf", (EXPORTS / name).read_bytes()], namespace=f"mark-{name}")
        assert found.stored == STORED[name]


def test_the_tool_can_be_named_where_it_is_not_seen(client: Client) -> None:
    with pytest.raises(RefusalError, match="nothing in it looks like"):
        client.import_from([b'[{"content": "no layer here"}]'])
    assert client.import_from([b'[{"content": "no layer here"}]'], tool="engram", namespace="named").stored == 1
    with pytest.raises(RefusalError, match="no export of our own"):
        client.import_from([b'[{"content": "x", "layer": 1}]'], tool="mnemo")


def test_the_first_hundred_problems_are_shown_and_all_are_counted(client: Client) -> None:
    items = [{"id": str(number)} for number in range(150)] + [{"id": "x", "memory": "the only one"}]
    found = client.import_from([json.dumps(items).encode()], tool="mem0", namespace="problems")
    assert (found.stored, found.skipped, len(found.problems)) == (1, 150, 100)


def test_nothing_can_be_imported_into_every_namespace_at_once(client: Client) -> None:
    with pytest.raises(RefusalError, match="name one namespace"):
        take_in(client, "mem0.json", namespace="*")


# Our own


def fill(folder: Path) -> None:
    """A store with everything that one can hold."""
    with opened(folder) as store, store.snapshot() as snapshot:
        salt = snapshot.meta("salt")
    root, file = NoteRoot(id=sample_id(900), path="/nowhere/notes", added_at=AT), sample_id(901)
    place = NotePlace(title="Garden", headings=("Trees",))
    chunk = sample_memory(3, "Prune the apple trees.", managed=file, note=place, trust="note", layer="working")
    note = NoteFile(
        id=file, root=root.id, path="garden.md", title="Garden", links=("other",),
        chunks=(ChunkRef(memory=chunk.id, hash="h", first_line=1, last_line=3),),
    )  # fmt: skip
    first = sample_memory(
        1, "Der Schlüssel wieder bei Inês. 鍵 🎈", layer="core", pinned=True, key="key:ä", tags=("home",)
    )
    hidden = sample_memory(4, "It was with Tom.", state="superseded", superseded_by=first.id)
    gone = sample_memory(2, "to be thrown away", namespace="work", state="trashed", version=2)
    with opened(folder) as store:
        write(store, PutMeta(name="epoch", value="7"), root, note)
        write(store, sample_memory(1, "an earlier text", key="key:ä"), what="add")
        write(store, first, Usage(id=first.id, access_count=3, strength_epoch=5))
        write(store, sample_memory(2, "to be thrown away", namespace="work"))
        entry = TrashEntry(id=gone.id, at=AT, why="no longer true", state="active")
        write(store, gone, entry, what="rm")
        write(store, chunk, hidden, sample_memory(5, "of the key"))
        write(store, Skip(file=file, hash=skip_hash(salt, "left out")))
        write(store, ErasedText(hash=skip_hash(salt, "forgotten there"), at=AT))
        edges = [(5, 1, "related", ""), (3, 5, "related", "link"), (2, 1, "updates", "")]
        for source, target, relation, via in edges:
            edge = Edge(source=sample_id(source), target=sample_id(target), relation=relation, at=AT, via=via)  # type: ignore[arg-type]
            write(store, edge)
        write(store, sample_memory(6, "in the trash and back", version=2), DropTrash(id=sample_id(6)))


@pytest.fixture(scope="module")
def exported() -> Iterator[list[bytes]]:
    """The export of that store."""
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        fill(Path(folder) / "data")
        with begun(Path(folder) / "data") as daemon, daemon.client() as client:
            yield list(client.export())


def whole(lines: Sequence[bytes]) -> list[bytes]:
    return [line + b"\n" for line in lines]


@contextmanager
def two_daemons(folder: Path) -> Iterator[tuple[RunningDaemon, RunningDaemon]]:
    with ExitStack() as stack:
        with ThreadPoolExecutor(2) as threads:
            one, other = threads.map(stack.enter_context, (begun(folder / "a"), begun(folder / "b")))
        yield one, other


def test_an_export_taken_over_by_an_empty_store_gives_the_same_export(
    started_daemon: RunningDaemon, exported: list[bytes]
) -> None:
    with started_daemon.client() as client:
        found = client.import_from(whole(exported))
        assert (found.tool, found.whole, found.stored, found.group) == ("mnemo", True, 6, None)
        assert list(client.export()) == exported
        assert contents(client, namespace="*") == {
            "Der Schlüssel wieder bei Inês. 鍵 🎈", "Prune the apple trees.", "of the key", "in the trash and back"
        }  # fmt: skip
        assert [m.content for m in client.search("Schlüssel").memories] == ["Der Schlüssel wieder bei Inês. 鍵 🎈"]
        assert [version.seq for version in client.history(sample_id(1)).versions] == [3, 2]
        assert [entry.why for entry in client.trash(namespace="work").entries] == ["no longer true"]
        assert [(root.path, root.state) for root in _settled_roots(client)] == [("/nowhere/notes", "missing")]
        assert client.remember("and it goes on").outcome == "stored"
        # memory, usage, change, where the near check begins
        assert len(rows(client)) == len(exported) + 4


def _settled_roots(client: Client) -> list[NotesRootStatus]:
    deadline = time.monotonic() + 20.0
    while time.monotonic() < deadline:
        roots = client.notes_status().roots
        if all(root.state != "scanning" for root in roots):
            return roots
        time.sleep(0.02)
    raise AssertionError(roots)


class StoreAfterLoss(NamedTuple):
    """The content of a store after a loss, and the results of searching it."""

    everything: list[bytes]
    found: list[str]


LOSSES = {"killed": "", "database lost": "db", "journal lost": "journal", "views lost": "views"}


@pytest.fixture(scope="module")
def left(exported: list[bytes]) -> Iterator[dict[str, Future[StoreAfterLoss]]]:
    """After each loss in a store that took that export over: two at a time, since each is mostly waiting for starts."""
    with tempfile.TemporaryDirectory(prefix="m") as scratch, ThreadPoolExecutor(2) as threads:
        yield {
            loss: threads.submit(left_after, Path(scratch) / str(place), lost, exported)
            for place, (loss, lost) in enumerate(LOSSES.items())
        }


def left_after(folder: Path, lost: str, exported: list[bytes]) -> StoreAfterLoss:
    daemon = RunningDaemon(folder / "data", {"MNEMO_MODELS_FOLDER": str(folder / "models")})
    daemon.start()
    try:
        with daemon.client() as client:
            client.import_from(whole(exported))
        daemon.kill()
        if lost:
            shutil.rmtree(daemon.folder / lost)
        daemon.start()
        with daemon.client() as client:
            left = StoreAfterLoss(list(client.export()), [m.content for m in client.search("apple trees").memories])
    finally:
        daemon.stop()
    assert "Traceback" not in daemon.log.read_text()
    return left


@pytest.mark.parametrize("loss", LOSSES)
def test_imported_memories_are_as_durable_as_any(
    left: dict[str, Future[StoreAfterLoss]], exported: list[bytes], loss: str
) -> None:
    assert left[loss].result() == StoreAfterLoss(exported, ["Prune the apple trees."])


def test_a_dry_run_into_an_empty_store_says_that_it_would_take_everything_over(
    started_daemon: RunningDaemon, exported: list[bytes]
) -> None:
    with started_daemon.client() as client:
        planned = client.import_from(whole(exported), dry_run=True)
        assert (planned.whole, planned.stored, planned.dry_run) == (True, 6, True)
        assert client.status().seq == 0


def test_a_stream_that_is_not_whole_changes_nothing(started_daemon: RunningDaemon, exported: list[bytes]) -> None:
    """Cut off behind each of its lines and in the middle of each; a byte altered in each; a line too few, too many."""
    last = len(exported) - 1
    damaged = [whole(exported[:count]) for count in range(1, len(exported))]
    damaged += [[*whole(exported[:count]), line[: len(line) // 2]] for count, line in enumerate(exported)]
    for number, line in enumerate(exported):
        middle = line.rindex(b'"', 0, len(line) - 2) - 1
        other = line[:middle] + (b"0" if line[middle : middle + 1] != b"0" else b"1") + line[middle + 1 :]
        damaged.append(whole([*exported[:number], other, *exported[number + 1 :]]))
    damaged += [whole([*exported[:number], *exported[number + 1 :]]) for number in range(1, last)]
    damaged.append(whole([*exported, exported[3]]))
    with started_daemon.client() as client:
        for stream in damaged:
            with pytest.raises(RefusalError) as refused:
                client.import_from(stream)
            assert refused.value.status == 400
            assert refused.value.code in ("damaged_export", "unknown_export")  # the header itself may be unreadable
        assert client.status().seq == 0
        assert client.import_from(whole(exported)).whole


def test_a_damaged_stream_names_the_line_and_the_reason(client: Client, exported: list[bytes]) -> None:
    with pytest.raises(RefusalError, match=rf"line {len(exported)}: it is cut off.*nothing was changed"):
        client.import_from(whole(exported[:-1]))
    with pytest.raises(RefusalError, match=r"line 3: .*nothing was changed"):
        client.import_from(whole([*exported[:2], b'{"record_type":"riddle"}', *exported[3:]]))
    with pytest.raises(RefusalError, match=r"dump has version 99"):
        client.import_from(whole([exported[0].replace(b'"mnemo_stream":1', b'"mnemo_stream":99'), *exported[1:]]))


def test_only_a_person_brings_in_layers_and_trust(daemon: RunningDaemon, exported: list[bytes]) -> None:
    with daemon.client(entry_point="mcp") as agent, pytest.raises(RefusalError) as refused:
        agent.import_from(whole(exported))
    assert (refused.value.status, refused.value.code) == (422, "refused")


@pytest.mark.parametrize("option", [{"namespace": "work"}, {"user_id": "tom"}, {"tool": "mem0"}])
def test_our_own_export_says_itself_where_it_belongs(
    client: Client, exported: list[bytes], option: dict[str, Any]
) -> None:
    with pytest.raises(RefusalError) as refused:
        client.import_from(whole(exported), **option)
    assert refused.value.status == 400


def test_an_export_is_merged_into_a_store_that_has_memories(
    started_daemon: RunningDaemon, exported: list[bytes]
) -> None:
    with started_daemon.client() as client:
        mine = client.remember("OF THE KEY").memory  # what the other store has as number 5
        keyed = client.remember("My own text under it.", key="key:ä").memory
        planned = client.import_from(whole(exported), dry_run=True)
        found = client.import_from(whole(exported))
        assert (found.stored, found.duplicate, found.freed, found.whole) == (5, 1, 1, False)
        assert (planned.stored, planned.duplicate, planned.freed, planned.group) == (5, 1, 1, None)
        assert found.not_kept == {
            "watched folders": 1, "earlier versions": 2, "keys that are taken": 1, "forgotten texts": 1
        }  # fmt: skip
        first = client.get(sample_id(1))
        assert (first.content, first.layer, first.trust, first.pinned) == (
            "Der Schlüssel wieder bei Inês. 鍵 🎈", "core", "user", True
        )  # fmt: skip
        assert (first.key, first.tags, first.created_at, first.access_count) == (None, ["home"], AT, 3)
        assert client.get(keyed.id).content == "My own text under it."
        chunk = client.get(sample_id(3))
        assert (chunk.managed, chunk.trust, chunk.layer) == (None, "note", "working")
        assert [entry.why for entry in client.trash(namespace="work").entries] == ["no longer true"]
        edges = [row["data"] for row in rows(client) if row.get("record_type") == "edge"]
        assert {(edge["source"], edge["target"], edge.get("via", "")) for edge in edges} == {
            (mine.id, sample_id(1), ""), (sample_id(3), mine.id, ""), (sample_id(2), sample_id(1), "")
        }  # fmt: skip
        again = client.import_from(whole(exported))
        assert (again.stored, again.duplicate, again.updated, again.group) == (0, 6, 0, None)
        assert found.group is not None
        client.undo(group=found.group)
        assert contents(client, namespace="*") == {"OF THE KEY", "My own text under it."}


def test_of_two_stores_that_went_apart_the_later_text_stands_in_both(short_folder: Path) -> None:
    with two_daemons(short_folder) as (one, other), one.client() as mine, other.client() as theirs:
        kept = mine.remember("The key is with Ines.").memory
        moved = mine.remember("The boat is in Porto.").memory
        theirs.import_from(whole(list(mine.export())))
        theirs.patch(kept.id, Patch(content="The key is with Tom."))
        mine.patch(moved.id, Patch(content="The boat is in Lisbon."))
        back = mine.import_from(whole(list(theirs.export())))
        forth = theirs.import_from(whole(list(mine.export())))
        assert (back.updated, back.older, forth.updated, forth.duplicate) == (1, 1, 1, 1)
        together = {"The key is with Tom.", "The boat is in Lisbon."}
        assert contents(mine) == contents(theirs) == together


def test_texts_forgotten_here_are_left_out_of_our_own_export_too(short_folder: Path, exported: list[bytes]) -> None:
    texts = ["Prune the apple trees.", "Der Schlüssel wieder bei Inês. 鍵 🎈"]
    with opened(short_folder / "data") as store, store.snapshot() as snapshot:
        digests = [skip_hash(snapshot.meta("salt"), text) for text in texts]
    with opened(short_folder / "data") as store:
        write(store, *(ErasedText(hash=digest, at=AT) for digest in digests))
    with begun(short_folder / "data") as daemon, daemon.client() as client:
        found = client.import_from(whole(exported))
        assert (found.whole, found.stored, found.forgotten) == (False, 4, 2)
        assert client.search("apple").memories == []
        assert found.not_kept["edges"] == 3  # each had one of the two at an end
        shown = client.get(sample_id(4))  # nothing that is here replaces it any more
        assert (shown.content, shown.state, shown.superseded_by) == ("It was with Tom.", "active", None)
        reported = client.import_from(whole(exported), allow_forgotten=True)
        assert (reported.stored, reported.duplicate, reported.forgotten) == (2, 4, 0)
        again = client.import_from(whole(exported))  # they are wanted now
        assert (again.duplicate, again.forgotten) == (6, 0)


def test_a_text_forgotten_in_a_store_with_the_same_salt_stays_forgotten_in_both(short_folder: Path) -> None:
    with two_daemons(short_folder) as (one, other), one.client() as mine, other.client() as theirs:
        mine.remember("something to begin with")
        theirs.import_from(whole(list(mine.export())))  # takes over the salt as well
        salt = rows(mine)[0]["salt"]
        for client in (mine, theirs):  # a mask is made with the salt, so equal secrets stay equal
            take_in(client, "mem0.json", user_id="local")
        assert contents(mine) == contents(theirs)
        assert any("[masked:password:" in text for text in contents(mine))
        other.stop()
        with opened(other.folder) as store:
            write(store, ErasedText(hash=skip_hash(salt, "never again"), at=AT))
        other.start()
        with other.client() as again:
            found = mine.import_from(whole(list(again.export())))
        assert found.not_kept == {}
        graph = b'{"type":"entity","name":"it","entityType":"x","observations":["never again"]}\n'
        direct = json.dumps([{"id": "1", "memory": "Never  AGAIN"}]).encode()
        assert mine.import_from([direct]).forgotten == 1
        assert mine.import_from([graph]).stored == 1  # "it: never again" is another text


def test_one_namespace_can_be_exported_and_taken_over_alone(
    started_daemon: RunningDaemon, exported: list[bytes]
) -> None:
    with started_daemon.client() as client:
        client.import_from(whole(exported))
        part = list(client.export("work"))
    assert b"Schl" not in b"".join(part)
    started_daemon.stop()
    shutil.rmtree(started_daemon.folder)
    started_daemon.start()
    with started_daemon.client() as client:
        assert client.import_from(whole(part)).stored == 1
        assert [entry.memory.content for entry in client.trash(namespace="work").entries] == ["to be thrown away"]


def test_without_its_history_an_export_is_merged_even_into_an_empty_store(
    started_daemon: RunningDaemon, exported: list[bytes]
) -> None:
    """Views follow the history: memories whose changes are not told would never get a vector."""
    with started_daemon.client() as client:
        client.import_from(whole(exported))
        bare = list(client.export(history=False))
        kinds = {row.get("record_type") for row in rows(client, history=False)}
    assert not kinds & {"version", "change"}
    started_daemon.stop()
    shutil.rmtree(started_daemon.folder)
    started_daemon.start()
    with started_daemon.client() as client:
        found = client.import_from(whole(bare))
        assert (found.whole, found.stored, found.freed) == (False, 6, 1)


def test_an_agent_gets_no_export(daemon: RunningDaemon, client: Client) -> None:
    client.remember("the alarm code is quebecforge", tags=["sensitive"], namespace="codes")
    with daemon.client(entry_point="mcp") as agent:
        with pytest.raises(RefusalError) as refused:
            b"".join(agent.export())
        assert (refused.value.status, refused.value.code) == (422, "refused")
        assert b"quebecforge" not in agent.last_body
    assert b"quebecforge" in b"".join(client.export())


def test_vectors_cannot_be_exported_without_a_model(client: Client) -> None:
    with pytest.raises(RefusalError) as refused:
        list(client.export(vectors=True))
    assert (refused.value.status, refused.value.code) == (503, "degraded")


def kept_vectors(folder: Path) -> int:
    """The number of texts of a closed store that have vectors."""
    with lmdb.open(str(folder / "db"), readonly=True, max_dbs=len(TABLE_NAMES), lock=False) as env:
        table = env.open_db(b"embeddings", create=False)
        with env.begin() as transaction:
            return int(transaction.stat(table)["entries"])


def test_vectors_come_along_where_they_can_be_compared(short_folder: Path, minilm_folder: Path) -> None:
    model = {"MNEMO_MODELS_FOLDER": str(minilm_folder)}
    texts = ["The spare key is with Ines.", "The boat is in Porto.", "Prune the apple trees."]
    with running(short_folder / "a", model) as daemon, daemon.client() as client:
        client.remember_many([NewMemory(content=text) for text in texts])
        daemon.wait_for_vectors()
        with_vectors = list(client.export(vectors=True))
        assert sum(b'"record_type":"vectors"' in line for line in with_vectors) == 3
        assert list(client.export(vectors=True)) == with_vectors
    with begun(short_folder / "b") as daemon, daemon.client() as client:  # knows no model, and loses nothing of them
        found = client.import_from(whole(with_vectors))
        assert (found.whole, found.not_kept) == (True, {})
    assert kept_vectors(short_folder / "b") == 3
    with running(short_folder / "b", model) as daemon, daemon.client() as client:
        daemon.wait_for_vectors()
        assert list(client.export(vectors=True)) == with_vectors
    with begun(short_folder / "c") as daemon, daemon.client() as client:
        client.remember("my own")
        assert client.import_from(whole(with_vectors)).not_kept["vectors"] == 3
    with running(short_folder / "d", model) as daemon, daemon.client() as client:
        client.remember("the boat is in PORTO.")
        daemon.wait_for_vectors()
        found = client.import_from(whole(with_vectors))
        assert (found.stored, found.duplicate, found.not_kept["vectors"]) == (2, 1, 1)


def test_nothing_of_an_import_stays_on_the_disk_but_what_was_imported(daemon: RunningDaemon, client: Client) -> None:
    with pytest.raises(RefusalError):
        client.import_from([b"a canary that is no export\n"])
    for path in daemon.folder.rglob("*"):
        assert not path.is_file() or b"canary" not in path.read_bytes(), path


def test_the_store_that_is_carried_about_has_a_row_of_every_kind(exported: list[bytes]) -> None:
    kinds = {json.loads(line).get("record_type") for line in exported}
    assert kinds == {None, "meta", "notes_root", "note", "skip", "forgotten", "version", "memory", "usage", "trash",
                     "edge", "change"}  # fmt: skip


@pytest.mark.parametrize("table", MERGED, ids=lambda table: table.name)
def test_records_of_every_table_are_imported_once_into_a_store_in_use(client: Client, table: Table[Any]) -> None:
    """Those that belong to memories or other records, if all of these exist here."""
    texts = ("The heating was serviced in May.", "Ines sails to Porto on Fridays.")
    owners = [client.remember(text, namespace=f"in-use-{table.name}").memory.id for text in texts]
    for parent, owner in zip(table.parents, owners, strict=False):
        if parent.table != "memories":
            of_parent = BY_NAME[parent.table]
            client.import_from(
                [dump_of(put_of(of_parent, msgspec.structs.replace(sample_record(of_parent, 91), id=owner)))]
            )
    of = {parent.field: owner for parent, owner in zip(table.parents, owners, strict=False)}
    record = msgspec.structs.replace(sample_record(table, 91), **of)
    if isinstance(record, Edge):
        record = msgspec.structs.replace(record, via="")  # no note owns an edge that was imported
    for parent in table.parents:
        loose = msgspec.structs.replace(record, **{parent.field: sample_id(92)})
        assert client.import_from([dump_of(put_of(table, loose))]).not_kept == {f"{table.noun}s": 1}
    put = put_of(table, record)
    for _ in range(2):
        client.import_from([dump_of(put)])
        assert list(client.export()).count(encode_json(put)) == 1


@pytest.mark.parametrize(
    "table", [table for table in TABLES if table.key.kinds[0] == "id" and table.put], ids=lambda table: table.name
)
def test_a_dump_with_an_invalid_id_is_refused_whatever_its_table(client: Client, table: Table[Any]) -> None:
    record = sample_record(table, 92)
    if table is MEMORIES:
        row: Any = MemoryRow(seq=1, number=0, data=msgspec.structs.replace(record.memory, id="no id"))
    elif table is VERSIONS:
        row = VersionRow(seq=1, data=msgspec.structs.replace(record.memory, id="no id"))
    else:
        row = put_of(table, msgspec.structs.replace(record, **{table.key.fields[0]: "no id"}))
    with pytest.raises(RefusalError, match="line 2"):
        client.import_from([dump_of(row)])
