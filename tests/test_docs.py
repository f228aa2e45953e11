"""Nothing that a person can use is undocumented, and nothing that is documented is made up.

What there is comes from the tables that the program itself works by: its commands, its settings, its routes.
"""

import ast
import importlib
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from mnemo_client.cli import command_table, help_pages
from mnemo_client.cli.help_pages import EXAMPLES
from mnemo_client.cli.main import parse
from mnemo_client.cli.terminal import TextStyle
from mnemo_client.errors import UsageError
from mnemo_daemon import settings
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.server import openapi
from mnemo_daemon.server.router import Route
from mnemo_daemon.services import Services
from tests.support.packaging_scripts import load_script
from tests.test_tidy import PAGES_WORDS_MAX, README_WORDS_MAX

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("store", "daemon", "clients", "tests", "packaging")
PACKAGES = ("store/mnemo_store", "daemon/mnemo_core", "daemon/mnemo_daemon", "clients/mnemo_client")
SAID_BY_ITS_NAME_LINES_MAX = 10
"""A function this short, with its name and types, may say all there is to say; a longer one says what is true after."""
SHELL_LANGUAGES = frozenset({"sh", "shell", "bash", "console"})


class Block(NamedTuple):
    """A fenced block of code in a page."""

    page: str
    line: int
    language: str
    text: str


@cache
def page(name: str) -> str:
    """The text of a page that must be there."""
    path = ROOT / name
    assert path.is_file(), f"{name} is not there"
    return path.read_text(encoding="utf-8")


@cache
def pages() -> dict[str, str]:
    """Every page that we wrote, by its path."""
    found = [*ROOT.glob("*.md")]
    for folder in ("store", "daemon", "clients", "packaging", "systemd", "tests"):
        found += [path for path in (ROOT / folder).rglob("*.md") if "node_modules" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(found)}


def blocks(name: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    language, start, lines = None, 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if not (fence := re.match(r"\s*```(\S*)", line)):
            lines.append(line)
        elif language is None:
            language, start, lines = fence[1], number, []
        else:
            yield Block(name, start, language, "\n".join(lines))
            language = None
    assert language is None, f"{name}:{start}: this block is never closed"


def without_blocks(text: str) -> str:
    return re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.DOTALL | re.MULTILINE)


def undocumented_commands(text: str) -> Iterator[str]:
    """The commands that no line of text names: `mnemo notes add`, or its parts behind one `mnemo notes`."""
    lines = text.splitlines()
    for name, _command in command_table.all_commands():
        whole = re.compile(rf"\bmnemo {name[0]}\b")
        part = re.compile(rf"\b{name[-1]}\b")
        if not any(whole.search(line) and part.search(line[match.end() :] if len(name) > 1 else line)
                   for line in lines if (match := whole.search(line))):  # fmt: skip
            yield "mnemo " + " ".join(name)


def bad_examples() -> Iterator[str]:
    """The commands without an example, examples of no command, and examples that the command line would refuse."""
    names = {" ".join(name) for name, _ in command_table.all_commands()}
    yield from (
        f"{name}: it needs one to three examples" for name in names if not 1 <= len(EXAMPLES.get(name, ())) <= 3
    )
    yield from (f"{name}: there is no such command" for name in EXAMPLES.keys() - names)
    for name, examples in EXAMPLES.items():
        for example in examples:
            words = list(itertools.takewhile(lambda word: word not in "<|", shlex.split(example, comments=True)))
            found = command_table.find_command(words)
            try:
                if found is None or found[1][0] != name.split()[0]:
                    yield f"{name}: {example}: it is of another command"
                else:
                    parse(*found)
            except UsageError as error:
                yield f"{name}: {example}: {error.message}"


def undocumented_keys(text: str) -> Iterator[str]:
    """The configuration keys of which text has neither the name nor the variable."""
    for key in settings.KEYS.values():
        if not re.search(rf"\b({re.escape(key.path)}|{key.variable})\b", text):
            yield key.path


@cache
def routes() -> tuple[Route, ...]:
    """Every route of the daemon. The table is made without touching the daemon, so none is needed."""
    handlers = Api(cast(Services, None), cast(StatusReport, None))
    try:
        return openapi.with_document(handlers.routes(), "0")
    finally:
        handlers.close()


def undocumented_routes(wanted: Iterable[tuple[str, str]], text: str) -> Iterator[str]:
    """The routes of which no line of text has the method and, with or without /v1 before it, the path."""
    for method, path in wanted:
        bare = re.escape(path.removeprefix("/v1"))
        if not re.search(rf"^.*\b{method}\b.*(?<![\w}}])(?:/v1)?{bare}(?![\w/{{-])", text, re.MULTILINE):
            yield f"{method} {path}"


def unknown_commands(block: Block) -> Iterator[str]:
    """The calls of `mnemo` in a shell block that it would refuse: commands or options that there are not."""
    for offset, line in enumerate(block.text.splitlines(), start=1):
        for call in re.findall(r"(?:^|[|;&]|\$)\s*mnemo\s+([^|;&#>]*)", line.strip()):
            words = call.split()
            at = f"{block.page}:{block.line + offset}: mnemo {call.strip()}"
            if not words or words[0].startswith("-"):
                continue
            found = command_table.find_command(words)
            if found is None:
                yield at
                continue
            command, _name, rest = found
            known = {name for argument in (*command.arguments, *command_table.COMMON) for name in argument.names}
            yield from (at for word in rest if re.match(r"--[a-z]", word) and word.partition("=")[0] not in known)


def unknown_variables(name: str, text: str) -> Iterator[str]:
    known = {key.variable for key in settings.KEYS.values()} | set(settings.PLACES) | {"MNEMO_SECTION_KEY"}
    for match in re.finditer(r"\bMNEMO_[A-Z][A-Z_]+\b", text):
        if match[0] not in known:
            yield f"{name}: {match[0]}"


def broken_links(folder: Path, name: str, text: str) -> Iterator[str]:
    """The links of a page, name, to files that are not there, and to headings that the file has not."""
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", without_blocks(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        to = (folder / name).parent / path if path else folder / name
        if not to.exists():
            yield f"{name}: {target}"
        elif anchor and to.suffix == ".md" and anchor not in anchors(to.read_text(encoding="utf-8")):
            yield f"{name}: {target}: no such heading"


def anchors(text: str) -> set[str]:
    """The names that links can use for a page's headings, made as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def undocumented_names(path: str, text: str) -> Iterator[str]:
    """The names in a module that need a docstring and have none.

    The module itself; a class, unless fields with names and types are all it has; a public function or method of more
    than SAID_BY_ITS_NAME_LINES_MAX lines. What begins with an underscore explains itself where it stands, and a command
    or the handler of a route is explained by the table it stands in.
    """
    tree = ast.parse(text)
    in_tables = {command.run.partition(":")[2] for _name, command in command_table.all_commands()}
    in_tables |= {getattr(route.handler, "__name__", "") for route in routes()}
    if text.strip() and not ast.get_docstring(tree):
        yield f"{path}: the module"
    bodies = [
        tree.body,
        *(each.body for each in tree.body if isinstance(each, ast.ClassDef) and not each.name.startswith("_")),
    ]
    for body in bodies:
        for node in body:
            if isinstance(node, ast.ClassDef):
                is_plain = all(isinstance(each, ast.AnnAssign | ast.Assign | ast.Pass | ast.Expr) for each in node.body)
                needs_one = not is_plain
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                needs_one = (node.end_lineno or 0) - node.body[0].lineno + 1 > SAID_BY_ITS_NAME_LINES_MAX
            else:
                continue
            if node.name in in_tables or node.name.startswith("_"):
                continue
            if needs_one and not ast.get_docstring(node):
                yield f"{path}:{node.lineno}: {node.name}"


def test_every_command_is_in_the_reference() -> None:
    missing = list(undocumented_commands(page("clients/docs/commands.md")))
    assert not missing, "clients/docs/commands.md does not name: " + ", ".join(missing)


def test_every_setting_is_in_the_table_with_its_meaning() -> None:
    missing = list(undocumented_keys(page("clients/docs/settings.md")))
    assert not missing, "clients/docs/settings.md does not name: " + ", ".join(missing)
    assert not [key.path for key in settings.KEYS.values() if not key.meaning]


def test_every_route_is_in_the_protocol() -> None:
    made = [(route.method, route.path) for route in routes()]
    for name in ("clients/docs/http.md", "clients/docs/http-fields.md"):
        missing = list(undocumented_routes(made, page(name)))
        assert not missing, f"{name} does not name: " + ", ".join(missing)


def test_every_generated_part_of_a_page_is_what_its_source_makes() -> None:
    reference = load_script("reference")
    different = [name for name, text in pages().items() if reference.filled(text) != text]
    assert not different, "run `make docs`: " + ", ".join(different)
    found = {part: name for name, text in pages().items() for part in reference.parts_of(text)}
    assert found == {name: part.page for name, part in reference.PARTS.items()}
    changed = page("clients/docs/settings.md").replace("| `notes.settle_ms` |", "| `notes.settle` |")
    assert reference.filled(changed) == page("clients/docs/settings.md")
    with pytest.raises(KeyError):
        reference.filled("<!-- generated: nothing -->\n<!-- end -->")


def test_a_default_of_the_storage_format_is_never_written_anew() -> None:
    reference = load_script("reference")
    row = '| `Edge` | `via` | `""` |\n'
    reference.check_frozen(row, row + "| `Edge` | `slot` | `false` |\n")
    for after in ("", row.replace('""', "null")):
        with pytest.raises(reference.FrozenDefaultError, match=r"Edge\.via"):
            reference.check_frozen(row, after)


def hand_written_words(text: str) -> int:
    """The number of words of a page that nothing generates, outside of blocks of code. A word has a letter or digit."""
    text = without_blocks(load_script("reference").without_parts(text))
    return sum(any(map(str.isalnum, word)) for word in text.split())


def test_the_pages_are_as_short_as_they_were_meant_to_be() -> None:
    assert len(page("README.md").split()) <= README_WORDS_MAX
    words = {name: hand_written_words(text) for name, text in pages().items() if not name.startswith("tests/")}
    longest = sorted(words, key=lambda name: -words[name])[:5]
    counted = sum(words.values())
    longer = f"{counted} words; the longest pages are {longest}; a feature raises PAGES_WORDS_MAX by what it needs"
    assert counted <= PAGES_WORDS_MAX, longer
    part = "| two | words\n<!-- generated: settings -->\n| a | b |\n<!-- end -->\n```sh\nmnemo up\n```\n"
    assert hand_written_words(part) == 2


def unknown_types(text: str) -> Iterator[str]:
    """The types in backquotes that a page about the protocol names and no module of it defines."""
    folder = ROOT / "clients" / "mnemo_client" / "protocol"
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in folder.glob("*.py")]
    known = {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    for match in re.finditer(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`", without_blocks(text)):
        if match[1] not in known:
            yield match[1]


def test_every_type_that_the_protocol_names_is_defined() -> None:
    text = page("clients/docs/http.md")
    assert not list(unknown_types(text))
    assert not list(unknown_types(load_script("reference").without_parts(page("clients/docs/http-fields.md"))))
    assert list(unknown_types("Answers `RecallAnswer`, or `RecallResult`.")) == ["RecallResult"]


def test_every_public_thing_says_what_it_is() -> None:
    missing = [
        each
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for each in undocumented_names(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert not missing, "without a docstring:\n" + "\n".join(missing)


def test_every_link_leads_somewhere() -> None:
    broken = [each for name, text in pages().items() for each in broken_links(ROOT, name, text)]
    assert not broken, "\n".join(broken)


def missing_modules(name: str, text: str) -> Iterator[str]:
    """The modules in backquotes, by any part of their path, that there are not."""
    modules = [f"/{path.relative_to(ROOT).as_posix()}" for part in SOURCES for path in (ROOT / part).rglob("*.py")]
    for match in re.finditer(r"`([\w/]+\.py)`", text):
        if not any(module.endswith(f"/{match[1]}") for module in modules):
            yield f"{name}: {match[1]}"


def test_every_module_that_a_page_names_is_there() -> None:
    missing = [each for name, text in pages().items() for each in missing_modules(name, text)]
    assert not missing, "\n".join(missing)
    assert list(missing_modules("x.md", "`indexes/lexical.py`, `lexicals.py`")) == ["x.md: lexicals.py"]


def test_every_python_block_compiles() -> None:
    for name, text in pages().items():
        for block in blocks(name, text):
            if block.language == "python":
                compile(block.text, f"{name}:{block.line}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def unknown_imports(code: str) -> Iterator[str]:
    """The names that a block of Python takes from our packages and that they do not have."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mnemo_"):
            module = importlib.import_module(node.module)
            yield from (f"{node.module}.{each.name}" for each in node.names if not hasattr(module, each.name))


def test_every_python_block_takes_what_is_there() -> None:
    code = [block.text for name, text in pages().items() for block in blocks(name, text) if block.language == "python"]
    assert code
    assert not [each for text in code for each in unknown_imports(text)]
    assert list(unknown_imports("from mnemo_client.protocol.memories import AnswerBody, Wanting")) == [
        "mnemo_client.protocol.memories.Wanting"
    ]


def test_every_command_line_in_the_pages_would_be_accepted() -> None:
    unknown = [
        each
        for name, text in pages().items()
        for block in blocks(name, text)
        if block.language in SHELL_LANGUAGES
        for each in unknown_commands(block)
    ]
    assert not unknown, "\n".join(unknown)


def test_every_command_has_examples_that_it_accepts_in_its_help(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not list(bad_examples())
    for name, examples in EXAMPLES.items():
        page_of_it = help_pages.topic_lines(name.split(), TextStyle()) or []
        assert {f"  mnemo {example}" for example in examples} <= set(page_of_it), name
    monkeypatch.setitem(EXAMPLES, "down", ("down --now",))
    monkeypatch.setitem(EXAMPLES, "up", ())
    monkeypatch.setitem(EXAMPLES, "fly", ("up",))
    assert sorted(each.partition(":")[0] for each in bad_examples()) == ["down", "fly", "fly", "up"]


def test_the_reference_has_every_exit_code_with_its_meaning() -> None:
    in_page = dict(re.findall(r"^\| (\d+) \| (.*) \|$", page("clients/docs/commands.md"), re.MULTILINE))
    assert in_page == {str(code): meaning for code, meaning in help_pages.EXIT_CODES.items()}


def test_every_variable_in_the_pages_is_one_that_is_read() -> None:
    unknown = [each for name, text in pages().items() for each in unknown_variables(name, text)]
    assert not unknown, "\n".join(unknown)


def test_a_page_without_a_command_or_a_key_is_seen() -> None:
    everything = "\n".join("mnemo " + " ".join(name) for name, _ in command_table.all_commands())
    assert not list(undocumented_commands(everything))
    assert not list(undocumented_commands(everything.replace("mnemo notes add", "`mnemo notes status|add|rm|rescan`")))
    assert list(undocumented_commands(everything.replace("mnemo notes add", ""))) == ["mnemo notes add"]
    assert "mnemo recall" in list(undocumented_commands("mnemo recalls"))
    keys = " ".join(settings.KEYS)
    assert not list(undocumented_keys(keys))
    assert list(undocumented_keys(keys.replace("notes.settle_ms", "MNEMO_NOTES_SETTLE_MS"))) == []
    assert list(undocumented_keys(keys.replace("notes.settle_ms", ""))) == ["notes.settle_ms"]


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("POST `/v1/memories/{id}/restore`", True),
        ("| GET, POST `/memories/{id}/restore` · `/purge` | back from the trash |", True),
        ("GET `/v1/memories/{id}/restore`", False),
        ("POST `/v1/memories/{id}/restore/all`", False),
        ("POST `/v1/memories`", False),
    ],
)
def test_a_route_counts_as_documented_with_its_method_and_whole_path(text: str, is_there: bool) -> None:
    made = [("POST", "/v1/memories/{id}/restore")]
    assert (list(undocumented_routes(made, text)) == []) is is_there


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("$ mnemo recall --json tea", True),
        ("git log | mnemo add -", True),
        ("mnemo notes add --namespace=x folder  # with a comment", True),
        ("mnemo remember tea", False),
        ("mnemo recall --jsonl tea", False),
        ("cat x | mnemo remember -", False),
    ],
)
def test_a_command_line_that_would_be_refused_is_seen(line: str, is_known: bool) -> None:
    assert (list(unknown_commands(Block("x.md", 1, "sh", line))) == []) is is_known


def test_a_broken_link_and_a_missing_heading_are_seen(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A heading, `code` and more\n")
    text = "[a](there.md) [b](there.md#a-heading-code-and-more) [c](https://example.org) [d](gone.md) [e](there.md#b)"
    assert list(broken_links(tmp_path, "x.md", text)) == ["x.md: gone.md", "x.md: there.md#b: no such heading"]


def test_a_variable_that_nothing_reads_is_seen() -> None:
    assert list(unknown_variables("x.md", "MNEMO_DATA_DIR MNEMO_NOTES_SETTLE_MS MNEMO_COLOUR")) == [
        "x.md: MNEMO_COLOUR"
    ]


def test_a_missing_docstring_is_reported() -> None:
    long_body = "    a = 1\n" * (SAID_BY_ITS_NAME_LINES_MAX + 1)
    assert list(undocumented_names("x.py", "a = 1")) == ["x.py: the module"]
    module = '"""A module."""\n'
    assert list(undocumented_names("x.py", f"{module}def f():\n{long_body}")) == ["x.py:2: f"]
    assert list(undocumented_names("x.py", f"{module}class A:\n    def f(self): ...\n")) == ["x.py:2: A"]
    assert not list(undocumented_names("x.py", f"{module}def _f():\n{long_body}\ndef g():\n    return 1\n"))
    assert not list(undocumented_names("x.py", f"{module}class A(Struct):\n    size_bytes: int\n"))


def test_blocks_are_found_with_their_language_and_line() -> None:
    found = list(blocks("x.md", "text\n```sh\nmnemo up\n```\n\n```\nplain\n```\n"))
    assert found == [Block("x.md", 2, "sh", "mnemo up"), Block("x.md", 6, "", "plain")]
