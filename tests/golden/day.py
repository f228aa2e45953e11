"""A day that is the same wherever and whenever it is lived: what the daemon answers, and what it leaves on the disk.

    python -m tests.golden.day

writes what a day comes to today to tests/golden/day.jsonl, which the suite compares with. Clock, chance, disk and model
are those of the simulation; the model gives token vectors too, so that every stage of every ranker has its say.

Ids, checksums and durations are put as placeholders, messages are left out, and numbers are compared with a tolerance:
what is pinned are names, their order, states, ranks and scores.
"""

import json
import re
import struct
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import lmdb
import msgspec
import numpy as np

from mnemo_core.retrieval.ranking.late_interaction import Codes, quantize
from mnemo_core.retrieval.ranking.rankers import RANKERS
from mnemo_daemon.models.embedders.embedder import Embedder, QueryTokens
from mnemo_daemon.models.embedders.token_rows import LateForm
from mnemo_store import codec
from mnemo_store.journal.line_codec import unpacked
from mnemo_store.tables import EMBEDDING_ROWS, EMBEDDINGS
from tests.simulation.embedders import Floats, SimulatedEmbedder, SimulatedModels
from tests.simulation.world import World, in_simulated_time
from tests.support import recall_sets

FILE = Path(__file__).with_name("day.jsonl")
TALK = "bread-and-trumpet"  # one of those on which nothing is fitted
TURNS = 45
QUESTIONS = 4
TOLERANCE = 2e-3  # of a score: what two processors may differ by, and less than any change of a rule

PROSE = frozenset({"message", "hint", "why", "reason", "reasons", "detail", "notes", "where", "summary", "description"})
VARYING = frozenset({
    "took_ms", "stages_ms", "seconds", "uptime_seconds", "started_at", "pid", "memory_private_bytes", "disk", "bytes",
    "database_bytes", "database_mtime_ns", "inode", "sum", "prev", "last", "hash", "digest", "sha256", "salt", "store",
    "store_id", "change", "running",
})  # fmt: skip
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class WordEmbedder(SimulatedEmbedder):
    """Each word of a text is a token of its own."""

    late = LateForm("pinned", 16, 64)

    def encode_both(self, texts: Sequence[str], run_all: Any = map) -> tuple[list[Floats], list[Codes | None]]:
        rows = [np.stack([self._vector([word]) for word in text.split()[:64] or [""]]) for text in texts]
        return self.encode_batch(texts, run_all), [quantize(each) for each in rows]

    def encode_query_tokens(self, text: str) -> QueryTokens:
        found = list(re.finditer(r"\S+", text))[:64]
        rows = np.stack([self._vector([each[0]]) for each in found])
        return QueryTokens(
            self.encode_query(text), rows, tuple(each[0] for each in found), tuple(each.span() for each in found)
        )

    def token_starts(self, text: str) -> list[int]:
        return [each.start() for each in re.finditer(r"\S+", text)][:64]


class WordModels(SimulatedModels):
    def spaces(self) -> list[str]:
        """With that of the token rows, as the real service lists it: what is in no space listed is not kept."""
        return [*super().spaces(), WordEmbedder.late.space]

    def _open(self, name: str) -> Embedder:
        manifest = self._installed.installed(name)
        return WordEmbedder(manifest, self._mood) if manifest is not None else super()._open(name)


class PinnedWorld(World):
    make_models = WordModels


def lived() -> Iterator[Any]:
    """What the day comes to, a JSON value a line: requests with their answers, then every file and row."""
    with tempfile.TemporaryDirectory() as folder:
        world = PinnedWorld(Path(folder), Random("the pinned day"))
        settle = Placeholders(Path(folder))
        with in_simulated_time(world.clock):
            try:
                world.open()
                world.install()
                for line in _asked(world):
                    yield settle.settled(line)
                world.close()
                for line in _left_behind(world.data):
                    yield settle.settled(line)
            finally:
                world.throw_away()


def _asked(world: World) -> Iterator[Any]:
    def ask(method: str, path: str, body: Any = None, /, **more: Any) -> Any:
        # The transcript has the entry point under the name that its header has.
        named = {"entry_point" if name == "door" else name: value for name, value in more.items()}
        given = world.ask(method, path, body, **named)
        return {"asked": [method, path, body, more], "status": given.status, "answer": _read(given.value)}

    def ids(line: Any) -> list[str]:
        return [each["memory"]["id"] for each in line["answer"].get("results", [line["answer"]])]

    talk = next(each for each in recall_sets.conversations(recall_sets.UNSEEN) if each.name == TALK)
    turns = [
        {"role": "user", "speaker": turn.speaker, "content": turn.text, "at": int(turn.at.timestamp() * 1000)}
        for turn in talk.turns[:TURNS]
    ]
    yield ask("POST", "/v1/turns", {"session_id": "s1", "turns": turns, "explain": True})
    world.step()
    full = {"content": "The spare key is with Ines, number 14.", "tags": ["home"], "key": "the key",
            "evidence": ["https://example.org"], "explain": True}  # fmt: skip
    first = ask("POST", "/v1/memories", full)
    yield first
    world.step()
    yield ask("POST", "/v1/memories", {"content": "The spare key is with Ines, number 14."}, door="cli")
    second = ask(
        "POST", "/v1/memories", {"content": "The spare key is with Tomas, number 15.", "explain": True}, door="mcp"
    )
    yield second
    yield ask(
        "POST",
        "/v1/memories",
        {"content": "My api key is sk-abcdefghijklmnopqrstuvwxyz012345", "kind": "semantic"},
        door="mcp",
    )
    yield ask("POST", "/v1/memories/batch", {"memories": [{"content": "I prefer tea."}, {"content": ""}]})
    text = "Maria moved to Berlin in May 2023.\n\nOK.\n\nWe decided to use LMDB because it is fast."
    yield ask("POST", "/v1/ingest", {"text": text, "infer": True, "explain": True})
    yield ask("POST", "/v1/extract", {"text": text, "dry": True})
    world.step()
    step = {"content": "Ran the tests.", "kind": "procedural", "form": "step", "expires_at": 1_900_000_000_000,
            "trace": {"step_number": 1, "action": "test", "task_objective": "release"}}  # fmt: skip
    yield ask("POST", "/v1/memories", step, namespace="work")
    world.notes_folder.save(
        "house.md", [("Boiler", "The boiler was serviced on 3 March 2024."), ("Keys", "See [[garden]].")]
    )
    world.notes_folder.save("garden.md", [("Shed", "The shed is painted green.")])
    yield ask("POST", "/v1/notes/roots", {"path": str(world.notes_folder.folder)})
    world.step()
    world.step(5)
    yield from _recalls(ask, talk)
    one, two = ids(first)[0], ids(second)[0]
    yield ask("GET", f"/v1/memories/{one}")
    yield ask("PATCH", f"/v1/memories/{one}", {"content": "The spare key is with Ines, number 16.", "pinned": False})
    yield ask("PATCH", f"/v1/memories/{one}", {"content": "again", "if_version": 1})
    yield ask("PATCH", f"/v1/memories/{one}", {"strength": 1})
    world.step(60)
    yield ask("GET", f"/v1/memories/{one}/history")
    yield ask("DELETE", f"/v1/memories/{two}")
    yield ask("GET", "/v1/trash")
    yield ask("POST", f"/v1/memories/{two}/restore")
    yield ask("POST", "/v1/undo", {})
    yield ask("GET", "/v1/diff", since=str(world.clock.milliseconds - 30_000))
    yield ask("POST", f"/v1/memories/{two}/purge", {"everywhere": False})
    yield ask("POST", "/v1/reclassify", {"dry_run": True})
    yield ask("GET", "/v1/memories", limit="2")
    yield ask("GET", "/v1/recent", limit="2")
    world.index()
    world._keep_house()  # the job that waits for the vectors to be complete
    for path in ("/v1/tags", "/v1/status", "/v1/health", "/v1/models",
                 "/v1/notes/status", "/v1/nothing", "/v1/memories/00000000-0000-7000-8000-000000000000"):  # fmt: skip
        yield ask("GET", path)
    yield ask("POST", "/v1/check")
    yield ask("GET", "/v1/export", vectors="true")
    yield ask("POST", "/v1/import", raw=b'[{"id": "1", "memory": "Tomas likes green tea.", "user_id": "tomas"}]')
    yield ask("POST", "/v1/backup", {})
    world.step(60)


def _recalls(ask: Any, talk: recall_sets.LabelledConversation) -> Iterator[Any]:
    """Every ranker, on questions that the talk answers."""
    asked = [each for each in talk.questions if all(_place(name, talk) < TURNS for name in each.evidence)][:QUESTIONS]
    for question in asked:
        for ranker in RANKERS:
            line = ask("POST", "/v1/recall", {"query": question.text, "ranker": ranker, "top_k": 8, "dry": True})
            hits = [[each["id"], each["score"], each["channels"]] for each in line["answer"]["memories"]]
            yield {"query": question.text, "ranker": ranker, "hits": hits}
    query = asked[0].text
    yield ask("POST", "/v1/recall", {"query": "where is the boiler", "top_k": 3, "source": "note", "explain": True})
    yield ask("POST", "/v1/recall", {"query": "where is the spare key", "top_k": 3, "cut": "gap", "tags": ["home"],
                                     "ranker": "hybrid", "explain": True})  # fmt: skip
    yield ask("POST", "/v1/recall", {"query": query, "group_by": "note"})
    yield ask("POST", "/v1/context", {"query": query, "token_budget": 200})
    yield ask("GET", "/v1/search", q="boiler")


def _place(name: str, talk: recall_sets.LabelledConversation) -> int:
    return [turn.id for turn in talk.turns].index(name)


def _read(value: Any) -> Any:
    """An answer of bytes as the lines it has."""
    if not isinstance(value, bytes):
        return value
    return [msgspec.json.decode(line) for line in value.splitlines()]


def _left_behind(data: Path) -> Iterator[Any]:
    """The names of the files, then what those hold whose form is promised, in the order of their names."""
    files = sorted(path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file())
    yield {"files": files}
    for name in files:
        if name.startswith("backups/") and not name.endswith("backup.json"):
            continue  # the same as what they are copies of
        content = (data / name).read_bytes()
        if name.endswith(".json"):
            yield {"file": name, "content": msgspec.json.decode(content)}
        elif name.endswith(".jsonl"):
            yield {"file": name, "lines": list(map(_line, content.splitlines()))}
        elif content.startswith(b"mnemo-view"):
            size = struct.unpack_from("<Q", content, 24)[0]
            yield {"file": name, "header": msgspec.json.decode(content[32 : 32 + size])}
    with lmdb.open(str(data / "db"), readonly=True, max_dbs=40, lock=False) as env:
        with env.begin() as transaction:
            tables = sorted(bytes(key).decode() for key, _ in transaction.cursor())
        tables.remove(EMBEDDING_ROWS)  # shown where the references to them are
        embedding_rows = env.open_db(EMBEDDING_ROWS.encode(), create=False)
        for table in tables:
            rows = env.open_db(table.encode(), create=False)
            with env.begin(db=rows) as transaction:
                found = [(bytes(key), bytes(value)) for key, value in transaction.cursor()]
                if table == EMBEDDINGS:
                    found = [(key, transaction.get(value[1:], b"", db=embedding_rows)) for key, value in found]
            if table == "meta":
                yield {"table": table, "rows": {key.decode(): value.decode() for key, value in found}}
            else:
                yield from (
                    {"table": table, "key": _key(table, key), "value": _value(table, value)} for key, value in found
                )


def _line(line: bytes) -> Any:
    """A line of JSON, unpacked where it is a packed one of the journal."""
    value = msgspec.json.decode(line)
    return value if "packed" not in value else msgspec.json.decode(unpacked(value["packed"])) | {"sum": value["sum"]}


PACKED = frozenset({"versions", "changes", "usage", "trash", "edges", "notes", "roots", "forgotten", "facts"})
BY_ID = frozenset({"memories", "versions", "usage", "numbers", "trash", "edges", "notes", "roots", "skips", "facts"})
SALTED = frozenset({"skips", "forgotten"})  # their keys end in a hash that the store's salt is in
SEQ_BYTES = 8


def _key(table: str, key: bytes) -> str:
    name = f"{uuid.UUID(bytes=key[:16])} " if table in BY_ID else ""
    rest = key[16:] if table in BY_ID else key
    if table in ("edges", "facts"):
        return f"{name}{rest[:-16]!r} {uuid.UUID(bytes=rest[-16:])}"
    return name + (f"{len(rest)} bytes" if table in SALTED else rest.hex())


def _value(table: str, value: bytes) -> Any:
    if table == EMBEDDINGS:
        return f"{len(value)} bytes"
    value = codec.unpack_value(value)
    if table == "memories":
        return [value[:SEQ_BYTES].hex(), msgspec.msgpack.decode(value[SEQ_BYTES:])]
    if table in PACKED:
        return msgspec.msgpack.decode(value)
    return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.hex()


class Placeholders:
    """Puts a number for each id in the order in which they are met, and … for what varies or is prose."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._ids: dict[str, str] = {}

    def settled(self, value: Any, name: str = "") -> Any:
        match value:
            case dict():
                return {
                    self.settled(key): self.settled(each, name if name in VARYING else key)
                    for key, each in value.items()
                }
            case list() | tuple():
                return [self.settled(each, name) for each in value]
            case str() if name in PROSE or name in VARYING or (name == "version" and value):
                return "…"
            case bool():
                return value
            case int() | float() if name in VARYING:
                return 0
            case str():
                text = value.replace(self._folder, "FOLDER")
                return _ID.sub(lambda found: self._ids.setdefault(found[0], f"<{len(self._ids) + 1}>"), text)
            case float():
                return round(value, 6)
            case bytes():
                return value.decode()
            case _:
                return value


def unlike(kept: Any, now: Any, where: str = "") -> Iterator[str]:
    """Sentences about each place in which a value is not what was kept. Numbers may differ by TOLERANCE; the fields of
    an object keep their order."""
    match kept, now:
        case dict(), dict():
            if list(kept) != list(now):
                yield f"{where} had {', '.join(kept)} and has {', '.join(now)}"
            for name in kept.keys() & now.keys():
                yield from unlike(kept[name], now[name], f"{where}.{name}")
        case list(), list():
            if len(kept) != len(now):
                yield f"{where} had {len(kept)} and has {len(now)}"
            for place, (was, is_now) in enumerate(zip(kept, now, strict=False)):
                yield from unlike(was, is_now, f"{where}[{place}]")
        case (float(), int() | float()) | (int(), float()):
            if abs(kept - now) > TOLERANCE:
                yield f"{where} was {kept} and is {now}"
        case _:
            if type(kept) is not type(now) or kept != now:
                yield f"{where} was {kept!r} and is {now!r}"


def named(line: Any) -> str:
    """The words that tell one line of the day from the others."""
    match line:
        case {"asked": [method, path, *_]}:
            return f"{method} {path}"
        case {"query": query, "ranker": ranker}:
            return f"{ranker}: {query}"
        case {"table": table}:
            return f"table {table}, {line.get('key', '')}"
        case {"file": file}:
            return str(file)
        case _:
            return str(next(iter(line)))


def main() -> int:
    """Writes the file."""
    FILE.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lived()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
