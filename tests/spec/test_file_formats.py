"""Canvases, notebooks, web pages and tables as notes. SPEC 6"""

import io
import json
import zipfile

import pytest

from mnemo_core.documents.blocks import NoteDocument
from mnemo_core.documents.chunking import split_blocks
from mnemo_core.documents.file_formats import FileFormatError, page_starts, parse_format
from mnemo_core.documents.html_text import read_web_page
from mnemo_core.documents.word_file import UNPACKED_BYTES_MAX, WordFileError, read_word_file
from tests.support.time_complexity import repeated, require_linear


def passages(document: NoteDocument) -> list[tuple[str, tuple[str, ...], int, int]]:
    return [(each.text, each.headings, each.first_line, each.last_line) for each in document.blocks]


def test_a_web_page_has_its_headings_lists_tables_and_code_and_no_scripts() -> None:
    page = """<!doctype html><html><head><title>Trees &amp; more</title><style>p{}</style></head>
<body><script>var a = "<p>no</p>";</script><!-- hidden -->
<h1>Pears</h1>
<p>Prune <b>them</b> in
 February.<br>Not later.</p>
<ul><li>one<li>two</ul>
<table><tr><th>Kind</th><th>Month</th></tr><tr><td>Conference</td><td>March</td></tr></table>
<pre>a &lt; b
  c</pre>
<p>1 < 2 <img src="x" alt="A tree"></p>"""
    document = parse_format(page, ".html", "page")
    assert document.title == "Trees & more"
    assert passages(document) == [
        ("Prune them in February.\nNot later.", ("Pears",), 4, 5),
        ("- one\n- two", ("Pears",), 6, 6),
        ("Kind | Month\nConference | March", ("Pears",), 7, 7),
        ("~~~~\na < b\n  c\n~~~~", ("Pears",), 8, 9),
        ("1 < 2 A tree", ("Pears",), 10, 10),
    ]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("<a", "One"), ("</p", "One"), ('<a href="x', "One"), ('<a\n b="1" c="2" d', "One"),
        ("1 < 2", "One1 < 2"), ("< a", "One< a"), ("<a is less than b", "One<a is less than b"),
    ],
)  # fmt: skip
def test_a_tag_that_a_page_ends_in_is_no_text(end: str, said: str) -> None:
    assert read_web_page(f"<p>One{end}").lines[0] == said


def test_a_canvas_has_its_cards_its_links_and_what_its_arrows_say() -> None:
    nodes = [
        {"id": "a1", "type": "text", "text": "## Trip\n\nPack the <b>tent</b>.<!-- again -->"},
        {"id": "b2", "type": "file", "file": "maps/alps.md"},
        {"id": "c3", "type": "group", "label": "Later"},
    ]
    lines = ",\n".join(json.dumps(node) for node in nodes)
    edges = json.dumps([{"id": "d4", "fromNode": "a1", "toNode": "b2", "label": "look up the way"}])
    document = parse_format(f'{{"nodes":[\n{lines}\n],"edges":{edges}}}', ".canvas", "trip")
    assert [(text, first) for text, _, first, _ in passages(document)] == [
        ("Pack the tent.", 2),
        ("[[maps/alps.md]]", 3),
        ("Later", 4),
        ("- look up the way", 5),
    ]
    assert document.links[0].target == "maps/alps.md"


def test_a_notebook_has_its_text_its_code_and_the_beginning_of_what_was_printed() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Yield\n", "\n", "Nine kilos.<br>"]},
        {"cell_type": "code", "source": "print(9)", "outputs": [{"output_type": "stream", "text": ["9\n"]}]},
        {"cell_type": "code", "source": "", "outputs": [{"data": {"image/png": "AAAA"}}]},
    ]
    document = parse_format(json.dumps({"cells": cells, "nbformat": 4}, indent=1), ".ipynb", "yield")
    assert document.title == "Yield"
    assert [(text, first) for text, _, first, _ in passages(document)] == [
        ("Nine kilos.", 8),
        ("~~~~\nprint(9)\n~~~~", 13),
        ("~~~~\n9\n~~~~", 13),
    ]


def test_a_row_of_a_table_has_the_names_of_its_columns() -> None:
    table = 'name;phone;note\nInes;+43 1 555;"plays\nthe cello"\nAda;;"a; b"\n'
    document = parse_format(table, ".csv", "people")
    assert passages(document) == [
        ("name: Ines; phone: +43 1 555; note: plays the cello\nname: Ada; note: a; b", (), 2, 4)
    ]
    assert passages(parse_format("2026-01-01\t5\n2026-01-02\t6", ".tsv", "x"))[0][0] == "2026-01-01; 5\n2026-01-02; 6"
    many = parse_format("name,age\n" + "Ines Example,41\n" * 500, ".csv", "people")
    assert all(len(chunk.text) < 1_000 for chunk in split_blocks(many.blocks))


@pytest.mark.parametrize(
    ("text", "suffix"),
    [("{", ".canvas"), ("[1]", ".canvas"), ('{"cells": 1}', ".ipynb"), ("[" * 300_000, ".ipynb"), ("", ".ipynb"),
     ('a,b\n"' + "x" * 200_000, ".csv")],
)  # fmt: skip
def test_a_file_whose_content_contradicts_its_suffix_is_refused_by_name(text: str, suffix: str) -> None:
    with pytest.raises(FileFormatError, match=r"^not a (canvas|Jupyter notebook|table)"):
        parse_format(text, suffix, "x")


def word_file(body: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f'<?xml version="1.0"?><w:document><w:body>{body}</w:body></w:document>')
    return packed.getvalue()


def test_a_word_file_has_its_headings_lists_and_table_rows() -> None:
    def paragraph(text: str, style: str = "") -> str:
        return f'<w:p w:rsidR="1"><w:pPr>{style}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'

    cells = "".join(f"<w:tc>{paragraph(text)}</w:tc>" for text in ("Pear", "March"))
    data = word_file(
        paragraph("Garden &amp; trees", '<w:pStyle w:val="Title"/>')
        + paragraph("Pruning", '<w:pStyle w:val="Heading2"/>')
        + "<w:p><w:r><w:t>In </w:t></w:r><w:r><w:t>February.</w:t><w:t/></w:r></w:p>"
        + paragraph("one", "<w:numPr><w:ilvl/></w:numPr>")
        + paragraph("two", "<w:numPr><w:ilvl/></w:numPr>")
        + f"<w:tbl><w:tr>{cells}</w:tr><w:tr>{cells}</w:tr></w:tbl>"
    )
    document = parse_format(read_word_file(data), ".docx", "garden")
    assert document.title == "Garden & trees"
    assert [(text, headings) for text, headings, *_ in passages(document)] == [
        ("In February.", ("Pruning",)),
        ("- one\n- two\nPear | March\nPear | March", ("Pruning",)),
    ]


def test_a_broken_or_huge_word_file_is_refused() -> None:
    whole = word_file("<w:p><w:r><w:t>x</w:t></w:r></w:p>" * 1_000)
    huge = word_file("x" * (UNPACKED_BYTES_MAX + 1))
    assert len(huge) < 100_000
    assert read_word_file(word_file(f"<w:p><w:t>&#{'9' * 5000};</w:t></w:p>")).startswith("&#9")
    for data in (b"", b"PK", whole[:-30], whole[:60] + b"\xff" * 40 + whole[100:], huge):
        with pytest.raises(WordFileError):
            read_word_file(data)


def test_a_page_of_a_pdf_is_a_section_and_its_lines_are_those_of_the_text() -> None:
    text = "One.\nTwo.\n\f\n\f## Three\n- four"
    document = parse_format(text, ".pdf", "lease")
    assert (document.title, page_starts(text)) == ("lease", [1, 3, 4])
    assert passages(document) == [("One.\nTwo.", ("Page 1",), 1, 2), ("## Three\n- four", ("Page 3",), 4, 5)]
    assert parse_format("", ".pdf", "lease").blocks == ()


HOSTILE = (
    "<", "<a ", "<!", "<!--", "<![", "<?", "</", "&", "&#1", '<a b="', "<a b=c ", "<script>", "<script></scrip",
    "<p>", "<pre>", "<svg>", "<svg></sv", '<img alt="', "<b>x ", "<td>", "<td>x</td>", "<title>", "<li>",
)  # fmt: skip


@pytest.mark.parametrize("unit", HOSTILE)
def test_no_page_costs_more_than_its_length(unit: str) -> None:
    require_linear(read_web_page, repeated(unit, 250_000), units_max=400)
