"""Fills in the generated parts of the pages: what the tables of the program say stands in no page by hand.

    python packaging/reference.py

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; PARTS has the function that makes it. The pages are
checked in, and tests/test_docs.py compares them with what this program would write.
"""

import ast
import functools
import inspect as stdlib_inspect
import io
import re
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import inspect

from mnemo_client.cli.command_table import COMMON, GROUPS
from mnemo_client.cli.command_types import Argument, Command
from mnemo_client.cli.help_pages import EXAMPLES, EXIT_CODES
from mnemo_client.protocol import changes
from mnemo_client.protocol.retrieval import AskMemories, AskSentence
from mnemo_client.protocol.validation import describe
from mnemo_core.lifecycle.consolidation.steps import STEPS
from mnemo_core.llm.registry import TASKS
from mnemo_core.similarity.thresholds import COSINES, MEASURED, OF_G, OF_T, SOURCE
from mnemo_daemon import settings
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.jobs import jobs_of
from mnemo_daemon.mcp.tools import TOOLS
from mnemo_daemon.server import openapi
from mnemo_daemon.server.router import Route
from mnemo_daemon.services import Services
from mnemo_store import records
from mnemo_store.maintenance.check import INVARIANTS
from mnemo_store.maintenance.repair import REPAIR_STEPS
from mnemo_store.records import FORMATS, Change, Record
from mnemo_store.tables import TABLES, Key, Table

ROOT = Path(__file__).resolve().parent.parent
SOURCE_ROOTS = ("store", "daemon", "clients")
FOLDERS = (".", "clients/docs", "daemon/docs", "daemon/docs/adr", "store/docs")
DEFAULTS_ROW = re.compile(r"^\| `(\w+)` \| `(\w+)` \| `(.*)` \|$", re.MULTILINE)

_PART = re.compile(r"(<!-- generated: ([^>]*) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEADING = re.compile(r"^##+ (\d+(?:\.\d+)*[a-z]?) (.+)$", re.MULTILINE)


class FrozenDefaultError(Exception):
    """A default of the storage format differs from the page that froze it."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows)])


def cell(text: str) -> str:
    """Text for a cell of a table: no line break, and no bar that would end it."""
    return " ".join(text.split()).replace("|", "\\|")


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


# Commands


def commands() -> str:
    """Every command by its heading, with its arguments, options and examples."""
    lines = ["### Options of every command", "", _arguments(COMMON)]
    for heading, group in GROUPS.items():
        lines += ["", f"### {heading}"]
        for command in group:
            lines += _command((command.name,), command)
            for part in command.subcommands:
                lines += _command((command.name, part.name), part)
    return "\n".join(lines)


def _command(name: Sequence[str], command: Command) -> Iterator[str]:
    positional = [each.placeholder for each in command.arguments if not each.is_option]
    yield from ("", f"#### `mnemo {' '.join([*name, *positional])}`", "", sentence(command.help))
    if command.arguments:
        yield from ("", _arguments(command.arguments))
    if examples := EXAMPLES.get(" ".join(name), ()):
        yield from ("", "```sh", *(f"mnemo {example}" for example in examples), "```")


def _arguments(arguments: Sequence[Argument]) -> str:
    rows = []
    for each in arguments:
        names = ", ".join(each.names) if each.is_option else ""
        value = "" if each.is_flag else each.placeholder
        choices = "" if not each.is_option or not each.choices or value.count("|") else f" ({', '.join(each.choices)})"
        rows.append([f"`{' '.join(filter(None, (names, value)))}`", each.help + choices])
    return table(("argument", "meaning"), rows)


def exit_codes() -> str:
    return table(("exit code", "meaning"), ((str(code), meaning) for code, meaning in EXIT_CODES.items()))


# Settings


def setting_table() -> str:
    """Every key with its values, default and meaning."""
    rows = []
    for key in settings.KEYS.values():
        default = msgspec.json.encode(key.default).decode()
        values = describe(inspect.type_info(key.kind)).removeprefix("one of ").replace('"', "`")
        restart = " Read at the start only." if key.needs_restart else ""
        rows.append([f"`{key.path}`", f"`{default}`", values, sentence(key.meaning) + restart])
    return table(("key", "default", "values", "meaning"), rows)


# Routes and wire types

EVENT_TYPES: tuple[type[msgspec.Struct], ...] = (
    changes.StartEvent, changes.ChangeEvent, changes.JobEvent, changes.ProgressEvent, changes.OperationEvent,
    changes.GapEvent, changes.EndEvent, AskMemories, AskSentence,
)  # fmt: skip
"""The data of server-sent events, which no route names as its answer."""


def every_route() -> tuple[Route, ...]:
    """Every route of the daemon. The table is made without touching the daemon, so none is needed."""
    handlers = Api(cast(Services, None), cast(StatusReport, None))
    try:
        return openapi.with_document(handlers.routes(), "0")
    finally:
        handlers.close()


def route_table() -> str:
    """Every route with its right and types."""
    rows = []
    for route in every_route():
        of = route.operation
        right = of.needed_right + (", owner" if of.for_owner else ", person" if of.for_person else "")
        takes = [_linked(each) for each in (of.body, of.query) if each is not None]
        answers = _linked(of.answer) if issubclass(of.answer, msgspec.Struct) else of.content_type
        rows.append([route.method, f"`{route.path}`", sentence(of.summary), right, " · ".join(takes), answers])
    return table(("method", "route", "purpose", "right", "takes", "answers"), rows)


def wire_types() -> str:
    """The fields of every type that a route takes or answers, and of the types in these."""
    found: dict[str, inspect.StructType] = {}
    of_each = (route.operation for route in every_route())
    in_routes = (each for of in of_each for each in (of.body, of.query, of.answer))
    for each in (*in_routes, *EVENT_TYPES):
        if each is not None and issubclass(each, msgspec.Struct):
            _collect(inspect.type_info(each), found)
    parts = []
    for name in sorted(found):
        rows = [
            [f"`{field.encode_name}`", _default(field), _values(field.type), _meaning(found[name].cls, field)]
            for field in found[name].fields
        ]
        head: tuple[str, ...] = ("field", "default", "values", "meaning")
        if not any(row[3] for row in rows):
            head, rows = head[:3], [row[:3] for row in rows]
        parts.append(f"### {name}\n\n{table(head, rows) if rows else 'No fields.'}")
    return "\n\n".join(parts)


def _collect(kind: inspect.Type, found: dict[str, inspect.StructType]) -> None:
    match kind:
        case inspect.StructType(cls=cls):
            if cls.__name__ not in found:
                found[cls.__name__] = kind
                for field in kind.fields:
                    _collect(field.type, found)
        case inspect.Metadata(type=inner):
            _collect(inner, found)
        case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            _collect(inner, found)
        case inspect.DictType(value_type=inner):
            _collect(inner, found)
        case inspect.UnionType(types=types):
            for each in types:
                _collect(each, found)
        case _:
            pass


def _linked(kind: type[Any]) -> str:
    return f"[`{kind.__name__}`](#{kind.__name__.lower()})"


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    if field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT:  # msgspec.UNSET
        return "absent"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{msgspec.json.encode(value).decode()}`"


def _meaning(struct: type[Any], field: inspect.Field) -> str:
    """The meaning of a field: its description, else the comments at the field and above it."""
    comments = (_comments(each).get(field.name, "") for each in struct.__mro__ if issubclass(each, msgspec.Struct))
    return _description(field.type) or next(filter(None, comments), "")


@functools.cache
def _comments(struct: type[Any]) -> dict[str, str]:
    """The comments of a struct's own fields."""
    if struct is msgspec.Struct:
        return {}
    source = textwrap.dedent(stdlib_inspect.getsource(struct))
    by_line: dict[int, tuple[bool, str]] = {}  # whether the comment has the line for itself
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and "fmt:" not in token.string:
            by_line[token.start[0]] = (not token.line[: token.start[1]].strip(), token.string.removeprefix("#").strip())
    found = {}
    for node in cast(ast.ClassDef, ast.parse(source).body[0]).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno is not None:
            first = node.lineno
            while by_line.get(first - 1, (False, ""))[0]:
                first -= 1
            lines = [by_line[line][1] for line in range(first, node.end_lineno + 1) if line in by_line]
            found[node.target.id] = " ".join(lines)
    return found


def _description(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(type=inner, extra_json_schema=extra):
            return str((extra or {}).get("description", "")) or _description(inner)
        case inspect.UnionType(types=types):
            return next(filter(None, map(_description, types)), "")
        case _:
            return ""


def _values(kind: inspect.Type) -> str:
    """The values of a field, in words."""
    match kind:
        case inspect.Metadata(type=inner):
            return _values(inner)
        case inspect.StructType(cls=cls):
            return _linked(cls)
        case (
            inspect.ListType(item_type=inner, max_length=most) | inspect.VarTupleType(item_type=inner, max_length=most)
        ):
            return f"list of {_values(inner)}" + (f", at most {most}" if most is not None else "")
        case inspect.DictType(value_type=inner):
            return f"object of {_values(inner)}"
        case inspect.UnionType(types=types):
            return " or ".join(dict.fromkeys(map(_values, types)))
        case inspect.IntType() | inspect.FloatType() | inspect.StrType() | inspect.BoolType() | inspect.NoneType():
            return describe(kind).removeprefix("a ")
        case inspect.LiteralType(values=values):
            return " · ".join(f"`{each}`" if each != "" else '`""`' for each in values)
        case _:
            return "any value"


def tool_table() -> str:
    """The tools that agents see."""
    rows = [[f"`{name}`", tool.description, "" if tool.is_basic else "with `--all-tools`"]
            for name, tool in TOOLS.items()]  # fmt: skip
    return table(("tool", "description that the agent reads", "listed"), rows)


# The store


def store_tables() -> str:
    """Every table that has records, with the changes that write and remove them."""
    rows = []
    for each in TABLES:
        keys = "; and ".join(_key(key) for key in each.keys)
        changes = " · ".join(_change(each, kind) for kind in (each.put, each.drop) if kind is not None)
        parents = " · ".join(dict.fromkeys(f"`{parent.table}` ({parent.field})" for parent in each.parents))
        rows.append([f"`{each.name}`", keys, f"`{each.record.__name__}`", changes, parents])
    return table(("table", "key", "record", "changes", "belongs to"), rows)


def _key(key: Key) -> str:
    mark = f" `{key.mark.decode()}` " if key.mark else ", "
    return mark.join(key.fields)


def _change(of: Table[Any], kind: type[Any]) -> str:
    tag = f"`{kind.__struct_config__.tag}`"
    if kind is of.drop:
        return tag + ": " + ", ".join(f"`{name}`" for name in of.key.fields)
    return tag if kind is not of.record else tag + ": " + ", ".join(f"`{each}`" for each in kind.__struct_fields__)


def record_meanings() -> str:
    """Each record of the store and its meaning, by its docstring."""
    kinds = dict.fromkeys(each.record for each in TABLES)
    inner = [kind for kind in vars(records).values() if isinstance(kind, type) and issubclass(kind, Record)]
    tagged = set(_changes())
    shown = [*kinds, *(kind for kind in inner if kind not in kinds and kind not in tagged and kind is not Record)]
    rows = [(f"`{kind.__name__}`", " ".join((kind.__doc__ or "").split())) for kind in shown]
    return table(("record", "meaning"), [row for row in rows if row[1]])


def _changes() -> Iterator[type[Any]]:
    yield from Change.__args__


def invariants() -> str:
    rows = [[f"`{each.name}`", f"`{each.table}`", each.about, f"`{each.remedy}`"] for each in INVARIANTS]
    return table(("rule", "table", "holds", "remedy"), rows)


def repair_steps() -> str:
    return table(("remedy", "action"), ([f"`{remedy}`", what] for remedy, what in REPAIR_STEPS.items()))


def stored_defaults() -> str:
    """The default of every field of a record."""
    rows = []
    for struct in vars(records).values():
        if isinstance(struct, type) and issubclass(struct, Record):
            for field in msgspec.structs.fields(struct):
                if field.default is not msgspec.NODEFAULT:
                    default = msgspec.json.encode(field.default).decode()
                    rows.append([f"`{struct.__name__}`", f"`{field.name}`", f"`{default}`"])
    return table(("record", "field", "default"), rows)


# The daemon


def threshold_table() -> str:
    """Each similarity threshold: its source's value, and those of the default model in both forms."""
    (model, _), *_ = MEASURED
    int8, float32 = MEASURED[model, "int8"], MEASURED[model, "float32"]
    rows = []
    for name in COSINES:
        of = "G" if name in OF_G else "T" if name in OF_T else ""
        source = f"{getattr(SOURCE, name):.2f} [{of}]" if of else "none"
        rows.append([f"`{name}`", source, f"{getattr(int8, name):.3f}", f"{getattr(float32, name):.3f}"])
    return table(("threshold", "source", f"{model}, int8", "float32"), rows)


class _AnyService:
    """Stands for the services of a daemon where only the table of jobs is read: every part is another one."""

    def __getattr__(self, name: str) -> "_AnyService":
        return _AnyService()


def job_table() -> str:
    """The background jobs, with the bound of a slice."""
    rows = [[f"`{job.name}`", job.summary, job.slice_bound, "yes" if job.is_heavy else ""]
            for job in jobs_of(cast(Services, _AnyService()))]  # fmt: skip
    return table(("job", "purpose", "a slice is", "heavy"), rows)


def cycle_steps() -> str:
    return table(("step", "purpose"), ([f"`{step.name}`", step.summary] for step in STEPS))


def task_table() -> str:
    """The language-model tasks, each by its paragraph in the docstring of its module, or else by all of that."""
    rows = []
    for task in sorted(TASKS, key=lambda task: task.site):
        loaded = [each for name, each in sys.modules.items() if name.startswith("mnemo_core.llm.")]
        named = [each.__doc__ or "" for each in loaded if any(value is task for value in vars(each).values())]
        own = [part for text in named for part in text.split("\n\n") if part.startswith(f"`{task.site}`: ")]
        about = next(text for text in own or named if f"`{task.site}`" in text.partition("\n")[0])
        rule = re.sub(r"^(The tasks? )?`[^:]*: | SPEC \d[\d.]*(?:, \d[\d.]*)*| \[[^]]*\]", "", " ".join(about.split()))
        waits = f"{task.deadline_s:g} s, interactive" if task.is_interactive else f"{task.deadline_s:g} s"
        rows.append([f"`{task.site}`", sentence(rule), _form(inspect.type_info(task.answer)), waits])
    return table(("site", "answers", "form of the answer", "deadline"), rows)


def _form(kind: inspect.Type) -> str:
    """The form of a language model's answer, with the bounds of everything in it."""
    match kind:
        case inspect.Metadata(type=inner):
            return _form(inner)
        case inspect.StructType(fields=fields):
            return "; ".join(f"`{field.encode_name}`: {_form(field.type)}" for field in fields)
        case (
            inspect.ListType(item_type=inner, max_length=most) | inspect.VarTupleType(item_type=inner, max_length=most)
        ):
            return f"at most {most} of ({_form(inner)})"
        case _:
            return _values(kind)


def benchmarks() -> str:
    """The measurements, each by the first sentence of its docstring."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lists = re.findall(r"^(?:MODEL|STORE)_BENCHES := (.*)$", makefile, re.MULTILINE)
    targets = {*" ".join(lists).split(), *re.findall(r"\bbench-(\w+)", makefile)}
    rows = []
    for module in sorted((ROOT / "tests/bench").glob("bench_*.py")):
        name = module.stem.removeprefix("bench_")
        about = (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
        command = f"make bench-{name}" if name in targets else f"python -m tests.bench.{module.stem}"
        rows.append([f"`{command}`", re.sub(r" SPEC [\d.a-z]+$", "", " ".join(about.split()))])
    return table(("command", "measures"), rows)


# Pages


def sections() -> str:
    """The numbered sections of the pages, which docstrings name as `SPEC 7.5`."""
    found = []
    for page in numbered_pages():
        for number, title in _HEADING.findall(page.read_text(encoding="utf-8")):
            found.append((_order(number), number, title, page))
    rows = []
    for _, number, title, page in sorted(found):
        path = page.name if page.parent.parent.name == "daemon" else f"../../{page.relative_to(ROOT)}"
        rows.append([number, f"[{title}]({path}#{anchor(f'{number} {title}')})"])
    return table(("SPEC", "section"), rows)


def numbered_pages() -> list[Path]:
    """The pages whose sections are numbered."""
    return sorted([*(ROOT / "daemon/docs").glob("*.md"), *(ROOT / "store/docs").glob("*.md")])


def _order(number: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(re.sub(r"\D", "", part)), part) for part in number.split("."))


def anchor(heading: str) -> str:
    """The name that links use for a heading, made as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def decisions() -> str:
    """The decision records by number."""
    lines = []
    for page in sorted((ROOT / "daemon/docs/adr").glob("0*.md")):
        number, _, title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").partition(" · ")
        lines.append(f"- [{number}]({page.name}) {title}")
    return "\n".join(lines)


def packages() -> str:
    """The sub-packages, each by the first line of its docstring."""
    rows = []
    for init in sorted(path for root in SOURCE_ROOTS for path in ROOT.glob(f"{root}/mnemo_*/*/__init__.py")):
        about = (ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        rows.append([f"`{init.parent.parent.name}/{init.parent.name}`", about])
    return table(("folder", "subject"), rows)


class GeneratedPart(NamedTuple):
    """A part of a page, and the page that has it."""

    page: str
    make: Callable[[], str]


PARTS: dict[str, GeneratedPart] = {
    "packages": GeneratedPart("CONTRIBUTING.md", packages),
    "commands": GeneratedPart("clients/docs/commands.md", commands),
    "exit codes": GeneratedPart("clients/docs/commands.md", exit_codes),
    "settings": GeneratedPart("clients/docs/settings.md", setting_table),
    "routes": GeneratedPart("clients/docs/http-fields.md", route_table),
    "wire types": GeneratedPart("clients/docs/http-fields.md", wire_types),
    "tools": GeneratedPart("clients/docs/agents.md", tool_table),
    "formats": GeneratedPart(
        "store/docs/format.md", lambda: table(("format", "added"), [(str(n), text) for n, text in FORMATS.items()])
    ),
    "tables": GeneratedPart("store/docs/format.md", store_tables),
    "records": GeneratedPart("store/docs/format.md", record_meanings),
    "invariants": GeneratedPart("store/docs/format.md", invariants),
    "repair steps": GeneratedPart("store/docs/format.md", repair_steps),
    "defaults": GeneratedPart("store/docs/format.md", stored_defaults),
    "thresholds": GeneratedPart("daemon/docs/models.md", threshold_table),
    "tasks": GeneratedPart("daemon/docs/llm-tasks.md", task_table),
    "jobs": GeneratedPart("daemon/docs/lifecycle.md", job_table),
    "steps": GeneratedPart("daemon/docs/lifecycle.md", cycle_steps),
    "benchmarks": GeneratedPart("daemon/docs/benchmarks.md", benchmarks),
    "sections": GeneratedPart("daemon/docs/README.md", sections),
    "decisions": GeneratedPart("daemon/docs/adr/README.md", decisions),
}


def filled(text: str) -> str:
    """A page with its generated parts as they must be. Raises KeyError for a part that there is not."""
    return _PART.sub(lambda found: f"{found[1]}{PARTS[found[2]].make()}\n{found[3]}", text)


def parts_of(text: str) -> list[str]:
    """The names of a page's generated parts."""
    return [match[2] for match in _PART.finditer(text)]


def without_parts(text: str) -> str:
    """A page without what is generated in it."""
    return _PART.sub("", text)


def check_frozen(before: str, after: str) -> None:
    """Raise FrozenDefaultError where a default of the storage format is gone or differs: older data relies on it."""
    frozen = {found[:2]: found[2] for found in DEFAULTS_ROW.findall(before)}
    now = {found[:2]: found[2] for found in DEFAULTS_ROW.findall(after)}
    for (record, field), default in frozen.items():
        if now.get((record, field)) != default:
            raise FrozenDefaultError(f"the default of {record}.{field} is {default} in every store that there is")


def main() -> int:
    for page in sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = filled(before)
        check_frozen(before, after)
        if after != before:
            page.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)} was written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
