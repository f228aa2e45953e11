"""The names that must not change: of what is stored, on the wire, in settings and on the command line.

    python -m tests.golden.names

writes today's names to tests/golden/names.json, which the suite compares with. It refuses where a name that stands
there is gone: files, journals, scripts and other programs rely on them. Only what is new may be added. Types, defaults
and values stand there as short hashes; where one differs, the test shows the form of today.

Names of Python classes and modules stand nowhere in it, except those of wire types: the components of the OpenAPI
document are called after them.
"""

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from mnemo_client.cli import command_table
from mnemo_client.cli.command_types import Argument, Command
from mnemo_client.protocol.ingestion import PieceAnswer, RememberAnswer
from mnemo_client.protocol.maintenance import ImportAnswer, ImportProgress
from mnemo_client.protocol.primitives import FailureAnswer
from mnemo_core.retrieval.ranking.rankers import RANKERS
from mnemo_daemon import settings
from mnemo_daemon.maintenance.erasure import ErasureMark as ForgettingMark
from mnemo_daemon.mcp.knowledge_graph import GRAPH_TOOLS
from mnemo_daemon.mcp.tool_types import schema
from mnemo_daemon.mcp.tools import TOOLS, descriptions
from mnemo_daemon.models.catalogue import ModelManifest as ModelManifest
from mnemo_daemon.models.embedders.calibration import CalibrationFile
from mnemo_daemon.models.language.capability_probe import GradesFile
from mnemo_daemon.server.openapi import document
from mnemo_daemon.server.router import Route
from mnemo_store import records, tables
from mnemo_store.indexes.index_file import MAGIC
from mnemo_store.journal import dump, line_codec
from mnemo_store.maintenance.backup import BackupManifest
from mnemo_store.recovery.database_files import StoreManifest as StoreManifest
from mnemo_store.recovery.store_folder import SwapMarker as RestoreMark
from tests.golden.shapes import Describer, as_json
from tests.test_docs import routes

ROOT = Path(__file__).resolve().parents[2]
ALL_TOOLS = {**TOOLS, **GRAPH_TOOLS}
FILE = Path(__file__).with_name("names.json")
READ = (" body", " query")  # in the name of a shape of a request: its fields may be in any order
SOURCES = ("store", "daemon", "clients")

# Every struct that a file or the journal holds, or that a route sends without its table naming it.
STORED = {
    "journal change": records.Change,
    "journal line": line_codec.JournalLine,
    "journal header": line_codec.SegmentHeader,
    "export header": dump.DumpHeader,
    "export row": dump.TAGGED,
    "export footer": dump.DumpFooter,
    "table of changes": records.ChangeEntry,
    "store.json": StoreManifest,
    "backup.json": BackupManifest,
    "restored.json": RestoreMark,
    "meta forgetting": ForgettingMark,
    "model manifest": ModelManifest,
    "model thresholds": CalibrationFile,
    "model grades": GradesFile,
}
SENT = {
    "error": FailureAnswer,
    "result of a batch": RememberAnswer,
    "result of a text": PieceAnswer,
    "import": ImportAnswer,
    "import progress": ImportProgress,
}


def names() -> dict[str, Any]:
    """Today's names, as they are kept."""
    return {section: kept(form) for section, form in _forms().items()}


def broken(promised: dict[str, Any]) -> Iterator[str]:
    """Sentences about each name that was kept and is gone or changed, or that is new."""
    forms = _forms()
    yield from _unequal_keys("sections", promised, forms)
    for section in promised.keys() & forms.keys():
        was, now = promised[section], kept(forms[section])
        yield from _unequal_keys(section, was, now)
        for name in was.keys() & now.keys():
            yield from _unequal_keys(f"{section}: {name}", was[name], now[name])
            if is_reordered(name, was[name], now[name]):
                yield f"{section}: {name} had its fields in the order {', '.join(was[name])}"
            for part in was[name].keys() & now[name].keys():
                before, after = set(was[name][part].split()), set(now[name][part].split())
                if before - after:
                    yield f"{section}: {name}.{part} was another one; it is now {_parts_of(forms[section][name])[part]}"
                elif after - before:
                    yield f"{section}: a value of {name}.{part} is new"


def _unequal_keys(section: str, kept: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    for name in kept.keys() ^ now.keys():
        yield f"{section}: {name} is {'gone' if name in kept else 'new'}"


def is_reordered(name: str, was: dict[str, Any], now: dict[str, Any]) -> bool:
    """Return whether the fields that are kept are in another order, which only a request may have."""
    is_request = any(part in name for part in READ)
    return not is_request and [part for part in was if part in now] != [part for part in now if part in was]


@cache
def _forms() -> dict[str, dict[str, Any]]:
    """The forms of everything, by section and name."""
    describer = Describer()
    found: dict[str, Any] = {
        "stored": {place: describer.describe(kind, place) for place, kind in STORED.items()},
        "sent": {place: describer.describe(kind, place) for place, kind in SENT.items()},
        "routes": {place: _route(route, place, describer) for place, route in _routes().items()},
        **_plain(),
    }
    return as_json({**found, "shapes": describer.shapes})  # type: ignore[no-any-return]


def kept(section: Any) -> dict[str, dict[str, str]]:
    """A section as it is kept: by its names, and these by their parts, a short hash of every value in a part."""
    if isinstance(section, list):
        section = _parts_of(section)
    return {
        name: {part: " ".join(sorted(set(_hashes(value)))) for part, value in _parts_of(form).items()}
        for name, form in section.items()
    }


def _parts_of(form: Any) -> dict[str, Any]:
    """The parts of a form by their names: fields, options, arguments by their places, or texts."""
    if isinstance(form, dict):
        fields = form.get("fields")
        return {**form, "fields": [], **fields} if isinstance(fields, dict) else form
    if isinstance(form, list) and all(isinstance(each, dict) and "names" in each for each in form):
        return {
            each["names"][0] if each["names"][0].startswith("-") else str(place): each
            for place, each in enumerate(form)
        }
    return {text: {} for text in form} if isinstance(form, list) else {"": form}


def _hashes(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _hashes(each, f"{path}.{name}")
    elif isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        for each in value:
            yield from _hashes(each, f"{path}[]")
    else:
        yield hashlib.blake2b(f"{path}={msgspec.json.encode(value).decode()}".encode(), digest_size=3).hexdigest()


@cache
def _plain() -> dict[str, Any]:
    """What has no type behind it."""
    return {
        "database": {
            "formats": [str(number) for number in range(1, records.FORMAT + 1)],
            "export": dump.DUMP_VERSION,
            "tables": sorted([*tables.TABLE_NAMES, tables.EMBEDDING_ROWS]),
            "tables with several values of a key": sorted(tables.MULTI_VALUE_TABLES),
            "index file magic": MAGIC.decode(),
        },
        "settings": {
            key.path: {
                "variable": key.variable, "default": key.default, "needs restart": key.needs_restart,
                "type": Describer().describe(key.kind, key.path),
            }
            for key in settings.KEYS.values()
        },
        "variables": sorted(settings.PLACES),
        "errors": _error_codes(),
        "commands": {" ".join(("mnemo", *name)): _arguments(command) for name, command in command_table.all_commands()},
        "options of every command": [_argument(each) for each in command_table.COMMON],
        "tools": {tool["name"]: _tool(tool) for tool in descriptions(every=True, table=ALL_TOOLS)},
        "titles of tools": {tool["name"]: tool["title"] for tool in descriptions(every=True, table=ALL_TOOLS)},
        "openapi components": {part: sorted(names) for part, names in document(routes(), "0")["components"].items()},
        "rankers": sorted(RANKERS),
    }  # fmt: skip


def _routes() -> dict[str, Route]:
    """The routes in the order of the file, new ones last: a shape is named after the first route that has it, and must
    not get another name where the table is ordered otherwise."""
    found = {f"{route.method} {route.path}": route for route in routes()}
    places = list(msgspec.json.decode(FILE.read_bytes())["routes"]) if FILE.exists() else []
    return {place: found[place] for place in dict.fromkeys((*places, *found)) if place in found}


def _route(route: Route, place: str, describer: Describer) -> dict[str, Any]:
    parts = {"body": route.operation.body, "query": route.operation.query, "answer": route.operation.answer}
    return {
        **{part: describer.describe(kind, f"{place} {part}") for part, kind in parts.items()},
        "statuses": list(route.operation.statuses), "read only": sorted(route.operation.read_only),
        "content type": route.operation.content_type,
        "streams": route.operation.streams, "bytes at most": route.operation.body_max,
    }  # fmt: skip


def _arguments(command: Command) -> list[Any]:
    return [_argument(each) for each in command.arguments]


def _argument(argument: Argument) -> dict[str, Any]:
    kept = {name: value for name, value in argument.settings.items() if name != "metavar"}
    if kind := kept.get("type"):
        kept["type"] = kind.__name__
    return {"names": list(argument.names), "completion": argument.values, "files": argument.files, **kept}


def _tool(listed: dict[str, Any]) -> Any:
    """A tool, with the form of its structured result where it has one."""
    result = get_type_hints(ALL_TOOLS[listed["name"]].run)["return"]
    return _without_prose(listed if result is str else {**listed, "outputSchema": schema(result)})


def _without_prose(value: Any) -> Any:
    """A tool or a schema without what is written for people to read."""
    if isinstance(value, list):
        return [_without_prose(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("properties"), dict):
        fields = {name: _without_prose(each) for name, each in value["properties"].items()}
        return {**_without_prose({**value, "properties": None}), "properties": fields}
    return {name: _without_prose(each) for name, each in value.items() if name not in {"title", "description"}}


@cache
def _error_codes() -> list[str]:
    """`404 no_route` for every call in the sources whose first arguments are a status and a code, and every class that
    has a code."""
    found = set()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                found |= _codes_of(node)
    return sorted(found)


def _codes_of(node: ast.AST) -> set[str]:
    match node:
        case ast.Call(args=[ast.Constant(value=int(status)), ast.Constant(value=str(code)), *_]) if (
            400 <= status < 600 and code.isidentifier()
        ):
            return {f"{status} {code}"}
        case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
            return {f"code {code}"}
        case _:
            return set()


def main() -> int:
    """Writes the file, unless a name that stands in it is gone."""
    if FILE.exists():
        gone = [each for each in broken(msgspec.json.decode(FILE.read_bytes())) if not each.endswith(" is new")]
        if gone:
            print("\n".join(gone))
            return 1
    FILE.write_text(written(names()) + "\n", encoding="utf-8")
    return 0


def written(found: dict[str, Any]) -> str:
    """JSON with a line for each name, so that a change shows where it is."""
    sections = []
    for section, entries in found.items():
        lines = [f"  {_json(name)}: {_json(parts)}" for name, parts in entries.items()]
        sections.append(f" {_json(section)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(sections) + "\n}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


if __name__ == "__main__":
    sys.exit(main())
