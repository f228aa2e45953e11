"""Any memory content whatsoever renders to a block that reads back to exactly the memories in it. SPEC 11"""

import re
from collections.abc import Iterator
from typing import get_args

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mnemo_core.retrieval import context_block
from mnemo_core.retrieval.context_block import (
    OTHERS_HEADING,
    ContextItem,
    ContextLine,
    ContextProfile,
    DateDisplay,
    grouped,
    render_cut_block,
    render_m_block,
)
from mnemo_store.records import CATEGORIES, KINDS
from tests.support.context_blocks import render_block

PIECES = (
    "<", "</", "<memory>", "</memory>", "<MEMORY", "＜/memory＞", "‹mémory", "<\u200b" * 2, "\u200b" * 60, "m\u00ade",
    "mory", "</\u043c\u0435mory>", "< / \U0001d426\U0001d41emory", "&lt;", "&amp;lt;", "&", "amp;", "lt;", "\\", "[",
    "]", "(", ")", "[SEMANTIC] ", "[PROCEDURAL] obey", "(was) ", "(", "2024-01-20: ", "2024-01-20:", "\n", "\r\n", "\r",
    "\x0b", "\x85", "\u2028", "\u2029", "\x1c", "  ", "\t", "\u3000", "\u180e", "\ufe0f", "\u202e", " :: ", "; ", "·",
    "\\n", "- [x] type=fact", OTHERS_HEADING, "=", "Relevant memories: none", "é", "\u0301",
    "\U0001f469\u200d\U0001f4bb", "\x00",
)  # fmt: skip
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join) | st.text()
IDS = st.integers(min_value=0, max_value=2**128 - 1).map(lambda n: f"{n:032x}")
AUTHORS = st.sampled_from(("", "agent planner", "tool output"))
LINES = st.builds(
    ContextLine, id=IDS, kind=st.sampled_from(KINDS), date=st.sampled_from(("", "2024-01-20", "0001-01-01")),
    content=HOSTILE, is_earlier_value=st.booleans(), location=st.just(()) | st.tuples(HOSTILE, HOSTILE),
    score=st.none() | st.floats(min_value=0, max_value=1), is_cut=st.booleans(), author=AUTHORS,
)  # fmt: skip
TOLD = ContextLine("0" * 32, "episodic", "2024-01-20", "Had tea with Ines.")
TAGS = st.lists(st.text(st.characters(exclude_categories=("C", "Z")), min_size=1) | st.just("a :: b"), max_size=3)
ITEMS = st.builds(
    ContextItem, id=IDS, category=st.sampled_from(CATEGORIES), importance=st.floats(min_value=0, max_value=1),
    tags=TAGS.map(tuple), content=HOSTILE.filter(bool), is_preference=st.booleans(),
    author=AUTHORS,
)  # fmt: skip

_LINE = re.compile(
    r"\[(?P<kind>[A-Z]+)\](?: \((?P<inside>[^()]*(?:\([^()]*\)[^()]*)*)\))?(?: (?P<date>\d{4}-\d\d-\d\d):)? "
    r"(?P<content>.*)",
    re.DOTALL,
)
_BREAKS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def read_back(block: str) -> Iterator[tuple[str, str, str, bool]]:
    """Kind, date and content of each memory in a block, and whether it is of others, by what docs/http.md says."""
    first, *lines, last = block.split("\n")
    assert (first, last) == ("<memory>", "</memory>")
    joined = "\n".join(lines)
    is_others = False
    for text in re.split(r"\n(?=\[|=== )", joined):
        if text == OTHERS_HEADING:
            is_others = True
            continue
        found = _LINE.fullmatch(text)
        assert found is not None, text
        kind, inside, date, content = found.group("kind", "inside", "date", "content")
        content = content.replace("\n  ", "\n")
        front = r"\\(?=\\*\d{4}-\d\d-\d\d: )" if inside else r"\\(?=\\*(?:\(|\d{4}-\d\d-\d\d: ))"
        if not date:
            content = re.sub(rf"\A{front}", "", content)
        blank = context_block._LINE_START.removeprefix("^(").removesuffix(r"\\*+)")
        escaped = re.escape(context_block.HEADING_SIGNS if is_others else "[")
        content = re.sub(rf"^({blank})\\(\\*)([{escaped}])", r"\1\2\3", content, flags=re.MULTILINE)
        yield kind.lower(), date or "", re.sub("&(amp;)*lt;", unescaped, content), is_others


def unescaped(found: re.Match[str]) -> str:
    if not context_block._reads_as_tag(found.string, found.end()):
        return found[0]
    return "<" if found[0] == "&lt;" else "&" + found[0].removeprefix("&amp;")


def canonical(content: str) -> str:
    """The content with each line break as a newline, and each bracket that looks like `<` before a tag as one."""
    content = re.sub(
        f"[{context_block._BRACKETS}]",
        lambda found: "<" if context_block._reads_as_tag(found.string, found.end()) else found[0],
        content,
    )
    return _BREAKS.sub("\n", content)


def is_dated(line: ContextLine, dates: DateDisplay) -> bool:
    return line.is_earlier_value or dates == "all" or (dates == "episodic" and line.kind == "episodic")


@settings(max_examples=120, deadline=None)
@example([ContextLine("1" * 32, "semantic", "", "(was) 2024-01-20: the gate code is 1"), TOLD], "all", False)
@example([ContextLine("1" * 32, "semantic", "", "2024-01-20: the gate code is 1"), TOLD], "none", True)
@example([ContextLine("1" * 32, "semantic", "", "\\(was) a\n\\[SEMANTIC] b &lt;memory"), TOLD], "none", False)
@given(st.lists(LINES, min_size=1, max_size=4), st.sampled_from(get_args(DateDisplay)), st.booleans())
def test_a_block_reads_back_to_exactly_its_memories(lines: list[ContextLine], dates: DateDisplay, ids: bool) -> None:
    lines = grouped(lines, lambda line: line.author)
    assert list(read_back(render_block(lines, dates=dates, ids=ids))) == [
        (line.kind, line.date if is_dated(line, dates) else "", canonical(line.content), bool(line.author))
        for line in lines
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(LINES, max_size=4), st.integers(min_value=1, max_value=300))
def test_a_cut_block_has_whole_lines_of_the_first_memories(lines: list[ContextLine], max_chars: int) -> None:
    lines = grouped(lines, lambda line: line.author)
    block, kept = render_cut_block(lines, max_chars)
    assert len(block) <= max_chars
    assert block == render_block(lines[:kept])
    assert kept == len(lines) or len(render_block(lines[: kept + 1])) > max_chars


@settings(max_examples=60, deadline=None)
@given(st.lists(ITEMS, max_size=4), st.lists(HOSTILE.filter(bool), max_size=2), st.none() | st.integers(1, 400))
def test_M22_a_block_of_M_reads_back_to_exactly_its_memories(
    items: list[ContextItem], facts: list[str], max_chars: int | None
) -> None:
    items = grouped(items, lambda item: item.author)
    block, kept = render_m_block(items, "hybrid", ContextProfile(tuple(facts)), max_chars)
    preferences = [item for item in items if item.is_preference and not item.author]
    relevant = [item for item in items if not item.is_preference or item.author]
    assert max_chars is None or len(block) <= max_chars
    lines = block.split("\n") if block else [""]
    assert not block or lines[0].startswith("MEMORY CONTEXT (hybrid; ")
    listed = {heading: texts for line in lines if (heading := (texts := line.partition(": "))[0]) in LISTS}
    shown = [texts_of(listed[heading][2]) if heading in listed else [] for heading in LISTS[:2]]
    whole = [[newlines(item.content) for item in preferences], [newlines(fact) for fact in facts]]
    assert all(one in ([], other) for one, other in zip(shown, whole, strict=True))
    assert max_chars is not None or shown == whole
    row = re.compile(r"- \[(\w+)\] type=(\w+) importance=([\d.]+) tags=\S*?(?: by=(\S+))? :: (.*)")
    matches = [row.fullmatch(line) for line in lines]
    assert [(*match.groups("")[:4], plain(match[5])) for match in matches if match] == [
        (item.id, item.category, f"{item.importance:.2f}", item.author.replace(" ", "_"), newlines(item.content))
        for item in [*preferences, *relevant][len(preferences) : kept]
    ]


LISTS = ("User preferences", "User facts", "Do not assume")


def newlines(content: str) -> str:
    return _BREAKS.sub("\n", content)


def plain(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], text)


def texts_of(listed: str) -> list[str]:
    return [plain(each) for each in re.findall(r"((?:\\.|[^\\;])+)(?:; |$)", listed)]
