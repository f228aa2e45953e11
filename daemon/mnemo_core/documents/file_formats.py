"""Notes that are no plain text: Obsidian's canvases, notebooks of Jupyter, web pages, tables. SPEC 6

Each is brought to Markdown lines, or to blocks, that know the lines of the file they come from. JSON is decoded
into the fields that are read and no others, so that a file costs what its size costs.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mnemo_core.documents.blocks import NoteDocument, TextBlock
from mnemo_core.documents.front_matter import NoteMetadata
from mnemo_core.documents.html_text import CODE_FENCE, read_web_page
from mnemo_core.documents.markup import parse_markdown
from mnemo_core.text.lazy_patterns import lazy_pattern

ROWS_CHARS = 800  # of rows of a table that are a passage together
CELLS_MAX = 200  # of a row
OUTPUT_CHARS_MAX = 2_000  # of one cell of a notebook: more is data
PAGE_BREAK = "\f"  # begins the first line of every page but the first
LINE_PREFIX_CHARS = 200  # by how much of it a line of a notebook is found again in the file


class FileFormatError(ValueError):
    """A file that is not what its suffix says; the message says why."""


def parse_format(text: str, suffix: str, stem: str) -> NoteDocument:
    """The document in a file with one of markup.FORMAT_SUFFIXES, in linear time. Raises FileFormatError."""
    match suffix:
        case ".canvas":
            return _document(_canvas_lines(text), stem, is_written=True)
        case ".ipynb":
            return _document(_notebook_lines(text), stem, is_written=True)
        case ".docx":  # as word_file has brought it to Markdown
            return parse_markdown(text.split("\n"), "", stem)
        case ".csv" | ".tsv":
            return NoteDocument(stem, NoteMetadata(), tuple(_row_blocks(text, suffix)), ())
        case ".pdf":  # as its pages are written by the process that reads it
            return NoteDocument(stem, NoteMetadata(), tuple(_page_blocks(text)), ())
        case _:
            page = read_web_page(text)
            return _document(zip(page.lines, page.origins, strict=True), stem, page.title)


def _document(
    pairs: Iterable[tuple[str, int]], stem: str, title: str = "", *, is_written: bool = False
) -> NoteDocument:
    """The document of Markdown lines, with the lines of the file in place of their own."""
    lines: list[str] = []
    origins: list[int] = []
    for written, origin in pairs:
        lines.append(written)
        origins.append(max(origin, origins[-1] if origins else 1))  # a passage never ends before it begins
    document = parse_markdown(lines, title, stem, is_written=is_written)
    blocks = tuple(
        block._replace(first_line=origins[block.first_line - 1], last_line=origins[block.last_line - 1])
        for block in document.blocks
    )
    links = tuple(link._replace(line=origins[link.line - 1]) for link in document.links)
    return document._replace(blocks=blocks, links=links)


# JSON: canvases and notebooks


class _Node(msgspec.Struct):
    id: str = ""
    type: str = ""
    text: str = ""
    label: str = ""
    file: str = ""
    url: str = ""


class _CanvasEdge(msgspec.Struct):
    id: str = ""
    label: str = ""


class _Canvas(msgspec.Struct):
    nodes: list[_Node] = []
    edges: list[_CanvasEdge] = []


class _OutputData(msgspec.Struct):
    plain: str | list[str] = msgspec.field(default="", name="text/plain")


class _Output(msgspec.Struct):
    text: str | list[str] = ""
    data: _OutputData | None = None


class _Cell(msgspec.Struct):
    cell_type: str = ""
    source: str | list[str] = ""
    outputs: list[_Output] = []


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


def _canvas_lines(text: str) -> Iterator[tuple[str, int]]:
    """The cards, one after the other; of a card for a file a link to it."""
    try:
        canvas = msgspec.json.decode(text, type=_Canvas) if text.strip() else _Canvas()
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileFormatError(f"not a canvas file: {error}") from None
    places: dict[str, int] = {}
    number, counted = 1, 0
    for match in _ID.finditer(text):
        number += text.count("\n", counted, match.start())
        counted = match.start()
        places.setdefault(match[1], number)
    for node in canvas.nodes:
        origin = places.get(node.id, 1)
        linked = f"[[{node.file}]]" if node.file else node.url
        for line in (*node.text.split("\n"), node.label, linked):
            if line.strip() or node.text:
                yield line, origin
        yield "", origin
    for arrow in canvas.edges:
        if arrow.label.strip():
            yield f"- {arrow.label}", places.get(arrow.id, 1)


_ID = lazy_pattern(r'"id"\s{0,8}:\s{0,8}"([^"\\\n]{1,64})"')


def _notebook_lines(text: str) -> Iterator[tuple[str, int]]:
    """Markdown cells as they are, code fenced, and of what code printed the beginning."""
    try:
        notebook = msgspec.json.decode(text, type=_Notebook)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileFormatError(f"not a Jupyter notebook of version 4 or later: {error}") from None
    places = _LineFinder(text)
    for cell in notebook.cells:
        lines = _joined(cell.source).split("\n")
        if not any(line.strip() for line in lines):
            continue
        is_code = cell.cell_type == "code"
        if is_code:
            yield CODE_FENCE, places.find(lines[0])
        for line in lines:
            yield line, places.find(line)
        if is_code:
            yield CODE_FENCE, places.line
        yield "", places.line
        printed = "\n".join(_joined(each.data.plain if each.data else each.text) for each in cell.outputs)
        if is_code and printed.strip():
            for line in (CODE_FENCE, *printed.strip()[:OUTPUT_CHARS_MAX].split("\n"), CODE_FENCE, ""):
                yield line, places.line


def _joined(source: str | Sequence[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


class _LineFinder:
    """Finder of source lines in the JSON that holds them, in order; after the first miss it finds none."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._is_lost = False
        self.line = 1

    def find(self, line: str) -> int:
        """The line of the file on which this one stands; where that is not known, the last that was."""
        if self._is_lost or not line.strip():
            return self.line
        written = msgspec.json.encode(line[:LINE_PREFIX_CHARS]).decode()[1:-1]
        at = self._text.find(written, self._at)
        if at < 0:
            self._is_lost = True
            return self.line
        self.line += self._text.count("\n", self._at, at)
        self._at = at
        return self.line


# Tables


def _row_blocks(text: str, suffix: str) -> Iterator[TextBlock]:
    """Rows with the names of their columns, so many together as make a passage."""
    together: list[TextBlock] = []
    size, section = 0, 0
    for row in _rows(text, suffix):
        if together and size + len(row.text) > ROWS_CHARS:
            yield _rows_block(together, section)
            together, size, section = [], 0, section + 1
        together.append(row)
        size += len(row.text)
    if together:
        yield _rows_block(together, section)


def _rows_block(rows: Sequence[TextBlock], section: int) -> TextBlock:
    text = "\n".join(row.text for row in rows)
    return TextBlock("list", text, (), section, rows[0].first_line, rows[-1].last_line)


def _rows(text: str, suffix: str) -> Iterator[TextBlock]:
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    mark = "\t" if suffix == ".tsv" else max(",;\t|", key=first.count)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=mark)
    names: list[str] | None = None
    before = 0
    try:
        for cells in reader:
            start, before = before + 1, reader.line_num
            cells = [" ".join(cell.split()) for cell in cells[:CELLS_MAX]]
            if not any(cells):
                continue
            if names is None:
                given = [cell for cell in cells if cell]
                are_names = len(set(given)) == len(given) and not any(re.search(r"\d{2}|@", cell) for cell in given)
                names = cells if are_names else []
                if names:
                    continue
            named = zip([*names, *[""] * len(cells)], cells, strict=False)
            row = "; ".join(f"{name}: {cell}" if name else cell for name, cell in named if cell)
            yield TextBlock("list", row, (), 0, start, before)
    except csv.Error as error:
        raise FileFormatError(f"not a table: {error} (line {reader.line_num})") from None
    if names and before == 1:  # nothing but the names
        yield TextBlock("list", "; ".join(names), (), 0, 1, 1)


# Pages


def page_starts(text: str) -> list[int]:
    """The line, from 1, on which each page of a text with page breaks begins."""
    starts, line = [], 1
    for page in text.split(PAGE_BREAK):
        starts.append(line)
        line += page.count("\n")
    return starts


def _page_blocks(text: str) -> Iterator[TextBlock]:
    """Each page that says something, below a heading that is its number."""
    pages = zip(page_starts(text), text.split(PAGE_BREAK), strict=True)
    for number, (line, page) in enumerate(pages, 1):
        if body := page.rstrip("\n"):
            yield TextBlock("paragraph", body, (f"Page {number}",), number, line, line + body.count("\n"))
