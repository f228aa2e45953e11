"""Reading notes: titles, front matter, headings, blocks, links, tags. SPEC 6"""

import textwrap

import pytest

from mnemo_core.documents.blocks import TextBlock, WikiLink
from mnemo_core.documents.chunking import split_blocks
from mnemo_core.documents.markup import inline_tags, links_in, parse, suffix_of
from tests.support.time_complexity import require_linear


def blocks(text: str, suffix: str = ".md") -> list[tuple[str, str, tuple[str, ...], int, int]]:
    document = parse(textwrap.dedent(text), suffix, "stem")
    return [(b.kind, b.text, b.headings, b.first_line, b.last_line) for b in document.blocks]


def kinds(text: str, suffix: str = ".md") -> list[str]:
    return [block[0] for block in blocks(text, suffix)]


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("a.md", ".md"),
        ("A.MD", ".md"),
        ("a.rst.txt", ".rst.txt"),
        ("a.org", ".org"),
        ("a.txt", ".txt"),
        ("a.png", ""),
        (".md", ""),
        ("md", ""),
    ],
)
def test_a_note_is_known_by_its_suffix(name: str, suffix: str) -> None:
    assert suffix_of(name) == suffix


# Markdown


def test_headings_make_the_trail_and_a_lone_top_heading_is_the_title() -> None:
    text = """\
        # Garden

        Intro.

        ## Plants
        Roses.
        ### Old ones
        Thorns.
        ## Tools
        Spade.
        """
    assert parse(textwrap.dedent(text), ".md", "stem").title == "Garden"
    assert blocks(text) == [
        ("paragraph", "Intro.", (), 3, 3),
        ("paragraph", "Roses.", ("Plants",), 6, 6),
        ("paragraph", "Thorns.", ("Plants", "Old ones"), 8, 8),
        ("paragraph", "Spade.", ("Tools",), 10, 10),
    ]


def test_with_several_top_headings_the_file_name_is_the_title() -> None:
    document = parse("# One\na\n# Two\nb", ".md", "stem")
    assert document.title == "stem"
    assert [block.headings for block in document.blocks] == [("One",), ("Two",)]


def test_a_top_heading_next_to_another_title_stays_a_heading() -> None:
    document = parse("---\ntitle: Mine\n---\n# Theirs\ntext", ".md", "stem")
    assert (document.title, document.blocks[0].headings) == ("Mine", ("Theirs",))


def test_a_title_alone_makes_no_block() -> None:
    assert parse("# Only a title", ".md", "stem")[:3:2] == ("Only a title", ())


def test_two_headings_of_one_name_are_two_sections() -> None:
    document = parse("# Log\na\n# Log\nb", ".md", "stem")
    assert [block.section for block in document.blocks] == [1, 2]


def test_a_heading_without_text_is_remembered_itself() -> None:
    assert blocks("# A\n## Buy milk\n## Call Bob\ntomorrow") == [
        ("paragraph", "Buy milk", (), 2, 2),
        ("paragraph", "tomorrow", ("Call Bob",), 4, 4),
    ]


@pytest.mark.parametrize(
    ("line", "heading"),
    [("## Plain", "Plain"), ("## Closed ##", "Closed"), ("## C#", "C#"), ("   ## Indented", "Indented")],
)
def test_a_heading_is_read_without_its_marks(line: str, heading: str) -> None:
    assert blocks(f"# T\n\n{line}\n\ntext")[0][2] == (heading,)


@pytest.mark.parametrize("line", ["#tag and text", "####### seven", "\\# escaped", "    # code"])
def test_a_line_that_is_no_heading_is_text(line: str) -> None:
    [block] = parse(line, ".md", "stem").blocks
    assert (block.headings, block.text) == ((), line)


def test_underlined_headings_count() -> None:
    assert blocks("Top\n===\n\na\n\nSub\n---\n\nb") == [
        ("paragraph", "a", (), 4, 4),
        ("paragraph", "b", ("Sub",), 9, 9),
    ]


def test_a_code_fence_is_one_block_whatever_is_in_it() -> None:
    text = "before\n```python\n# no heading\n\n| no | table |\n```\nafter"
    assert [(b[0], b[3], b[4]) for b in blocks(text)] == [("paragraph", 1, 1), ("code", 2, 6), ("paragraph", 7, 7)]


def test_a_longer_fence_holds_a_shorter_one_and_an_open_one_reaches_to_the_end() -> None:
    assert kinds("````\n```\nx\n```\n````\nafter") == ["code", "paragraph"]
    assert kinds("~~~\nx\n```\n# y") == ["code"]


def test_a_table_needs_its_rule() -> None:
    assert kinds("intro\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\nafter") == ["paragraph", "table", "paragraph"]
    assert kinds("a | b\nc | d") == ["paragraph"]


def test_a_list_stays_together_with_its_indented_parts() -> None:
    text = "Steps:\n- one\n  more\n\n- two\n\n  ```sh\n# inside\n  ```\n  - deep\n\nafter"
    assert [(b[0], b[3], b[4]) for b in blocks(text)] == [("paragraph", 1, 1), ("list", 2, 10), ("paragraph", 12, 12)]


@pytest.mark.parametrize("text", ["* a\n* b", "1. a\n2. b", "- [ ] a\n- [x] b", "+ a\n\n+ b"])
def test_every_kind_of_list_is_one(text: str) -> None:
    assert kinds(text) == ["list"]


def test_a_rule_parts_and_is_not_text() -> None:
    assert blocks("a\n\n---\n\n* * *\n\nb") == [("paragraph", "a", (), 1, 1), ("paragraph", "b", (), 7, 7)]


# Front matter


def test_front_matter_is_read_and_is_not_text() -> None:
    text = """\
        ---
        title: "My: title"
        tags: [Work, 'home', "#x/y"]
        date: 2024-01-20
        namespace: garden
        importance: 0.9
        aliases:
          - whatever
        ---
        Text.
        """
    document = parse(textwrap.dedent(text), ".md", "stem")
    assert document.title == "My: title"
    assert document.meta.tags == ("work", "home", "x/y")
    assert (document.meta.date, document.meta.namespace, document.meta.importance) == ("2024-01-20", "garden", 0.9)
    assert document.meta.memory
    assert blocks(text)[1:] == [("paragraph", "Text.", (), 10, 10)]


def test_the_metadata_of_a_note_is_a_passage_of_its_own_with_its_keys() -> None:
    text = """\
        ---
        title: Ines
        tags: [people/friend]
        created: 2024-01-20
        Birthday: 12 March 1985
        phone: "+43 1 555 0199"
        aliases:
          - Inka
          - "Ines K."
        company: [[Acme]]
        address:
          city: Graz
          street: Hauptplatz 3
        about: >-
          plays the cello
          on Sundays
        empty:
        cssclasses: [wide]
        ---
        We met at the sea.
        """
    (kind, said, headings, first, last), rest = blocks(text)
    assert said.split("\n") == [
        "created: 2024-01-20",
        "Birthday: 12 March 1985",
        "phone: +43 1 555 0199",
        "aliases: Inka, Ines K.",
        "company: [[Acme]]",
        "address: city: Graz, street: Hauptplatz 3",
        "about: plays the cello on Sundays",
    ]
    assert (kind, headings, first, last) == ("list", (), 1, 19)
    assert rest == ("paragraph", "We met at the sea.", (), 20, 20)
    document = parse(textwrap.dedent(text), ".md", "stem")
    assert document.links == (WikiLink("Acme", 10),)
    assert [chunk.text for chunk in split_blocks(document.blocks)] == [said, "We met at the sea."]


def test_bookkeeping_alone_is_no_passage() -> None:
    assert blocks("---\ntitle: x\ntags: [a]\ncreated: 2024-01-20\nupdated: 2024-01-21\nid: 7\n---\nText.") == [
        ("paragraph", "Text.", (), 8, 8)
    ]


def test_a_logseq_page_begins_with_its_properties() -> None:
    text = "title:: Ines\ntags:: [[people/friend]], cello\nalias:: Inka\nbirthday:: [[Mar 12th, 1985]]\n\n- We met."
    document = parse(text, ".md", "stem")
    assert (document.title, document.meta.tags) == ("Ines", ("people/friend", "cello"))
    assert [block.text for block in document.blocks] == ["alias: Inka\nbirthday: [[Mar 12th, 1985]]", "- We met."]
    assert parse("date:: [[Aug 14th, 2026]]\n\n- x", ".md", "stem").meta.date == "[[Aug 14th, 2026]]"
    assert parse("- phone:: 555\n  mail:: a@b.c\n- We met.", ".md", "stem").blocks[0].text == "phone: 555\nmail: a@b.c"


def test_properties_that_only_programs_read_are_no_text() -> None:
    text = "- Water the roses\n  id:: 64f0-11\n  collapsed:: true\n  deadline:: Friday\n- Rake"
    assert blocks(text) == [("list", "- Water the roses\n\n\n  deadline:: Friday\n- Rake", (), 1, 5)]


def test_comments_of_obsidian_are_left_out_and_code_keeps_its_marks() -> None:
    text = (
        "Seen %%not seen%% again.\n\n%%\nhidden [[link]]\n\n# hidden\n%%\nShown.\n\n```\n%% of mermaid\n```\n`%%` 5%%"
    )
    document = parse(text, ".md", "stem")
    assert [(block.text, block.first_line) for block in document.blocks] == [
        ("Seen  again.", 1),
        ("Shown.", 8),
        ("```\n%% of mermaid\n```", 10),
        ("`%%` 5%%", 13),
    ]
    assert document.links == ()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <b class='x'>bold</b>, H<sub>2</sub>O", ["a bold, H2O"]),
        ("<p>One</p><p>Two<br/>Three</p>", ["One  Two Three"]),
        ("One\n<!-- two\n\nthree -->\nFour", ["One", "Four"]),
        ("One <!-- ``` --> two\n\n<!--\n```\n-->\n\nThree", ["One  two", "Three"]),
        ("One <!-- never closed\n\nTwo", ["One <!-- never closed", "Two"]),
        ("<style>p { color: red }\n\n.x {}\n</style>One", ["One"]),
        ("<script>never closed\n\nTwo", ["never closed", "Two"]),
        ('<img src="a.png"\n  alt="x"\n  width="5"> One', ["One"]),
        ("<a\n\nOne > two", ["<a", "One > two"]),
        ("<div>\n    <p>One</p>\n</div>\n\n    <p>code</p>", ["One", "    <p>code</p>"]),
        ("- One\n\n    <b>two</b>", ["- One\n\n    two"]),
        ("`<b>` ``<i>`` <u>x</u> `never", ["`<b>` ``<i>`` x `never"]),
        ("````\n```\n<b>\n````\n<b>x</b>", ["````\n```\n<b>\n````", "x"]),
        ("List<String> <T> <your name> <https://a.b> <a@b.c> 1<2 a<b", None),
        ("Fish &amp; chips&nbsp;&lt;b&gt; &#10;&bogus; `&amp;`", ["Fish & chips <b>  &bogus; `&amp;`"]),
    ],
)
def test_html_in_markdown_is_left_out_and_code_is_kept(text: str, shown: list[str] | None) -> None:
    assert [block.text.strip("\n") for block in parse(text, ".md", "stem").blocks] == (shown or [text])


def test_html_in_front_of_a_heading_and_in_it_makes_no_other_title() -> None:
    document = parse('<!-- by hand -->\n<a name="top"></a>\n# <b>Boats</b> {x}\n\nText.', ".md", "stem")
    assert (document.title, [block.text for block in document.blocks]) == ("Boats {x}", ["Text."])


def test_a_comment_mark_that_is_never_closed_is_text_whatever_stands_in_code_below() -> None:
    assert [block.text for block in parse("5 %% of all\n\n`%%`", ".md", "stem").blocks] == ["5 %% of all", "`%%`"]


def test_a_keyword_of_org_that_is_not_the_first_of_its_kind_is_text() -> None:
    text = "#+title: Agenda\n#+DATE: 2024-01-20\n#+Title: Another\nText.\n#+date: 2026-05-03"
    document = parse(text, ".org", "stem")
    assert (document.title, document.meta.created) == ("Agenda", "2024-01-20")
    assert [block.text for block in document.blocks] == ["#+Title: Another\nText.", "#+date: 2026-05-03"]


def test_tags_of_a_heading_are_those_of_what_stands_below_it() -> None:
    text = "# Ada #people/friend\n\n## Work #lab\n\nText.\n\n## Home\n\nMore."
    document = parse(text, ".md", "stem")
    assert [block.tags for block in document.blocks] == [("people/friend", "lab"), ("people/friend",)]
    org = parse("* Garden :home:out:\n** Roses :flower:\nWater.\n* :no:\n", ".org", "stem")
    assert next((block.headings, block.tags) for block in org.blocks) == (
        ("Garden", "Roses"),
        ("home", "out", "flower"),
    )


def test_properties_of_an_org_entry_are_its_text() -> None:
    text = (
        "* Ines\n:PROPERTIES:\n:ID: 1234\n:PHONE: +43 1 555\nat noon\n:MAIL:\n:BIRTHDAY: 1985-03-12\n:END:\nA friend."
    )
    assert [block.text for block in parse(text, ".org", "stem").blocks] == [
        "phone: +43 1 555\nat noon\nbirthday: 1985-03-12",
        "A friend.",
    ]


@pytest.mark.parametrize(
    ("lines", "tags"),
    [
        ("tags: a, b c", ("a", "b c")),
        ("tags: a b", ("a", "b")),
        ("tags:\n- a\n- b", ("a", "b")),
        ("tag: a # why", ("a",)),
        ("tags: [a, b", ("a", "b")),
        ("tags:", ()),
        ("TAGS: a", ("a",)),
    ],
)
def test_tags_are_read_in_every_way_people_write_them(lines: str, tags: tuple[str, ...]) -> None:
    assert parse(f"---\n{lines}\n---\nx", ".md", "s").meta.tags == tags


@pytest.mark.parametrize("value", ["false", "False", "no", "off"])
def test_memory_false_is_honoured(value: str) -> None:
    assert not parse(f"---\nmemory: {value}\n---\nx", ".md", "s").meta.memory


@pytest.mark.parametrize("value", ["high", "1.5", "-1", "nan", "inf", ""])
def test_an_importance_that_makes_no_sense_is_passed_over(value: str) -> None:
    assert parse(f"---\nimportance: {value}\n---\nx", ".md", "s").meta.importance is None


def test_front_matter_without_an_end_is_text() -> None:
    assert [b[1] for b in blocks("---\na: b\n\ntext")] == ["a: b", "text"]


def test_aliases_and_anchors_are_not_expanded() -> None:
    bomb = "---\na: &a [x,x]\nb: &b [*a,*a]\ntags: [*b, *b]\n---\ntext"
    assert parse(bomb, ".md", "s").meta.tags == ("*b",)


# reStructuredText


def test_rst_levels_follow_the_order_of_their_adornments() -> None:
    text = """\
        ======
        Manual
        ======

        Intro.

        Part
        ====

        a

        Deep
        ----

        b

        Next
        ====

        c
        """
    document = parse(textwrap.dedent(text), ".rst", "stem")
    assert document.title == "Manual"
    assert [(b.text, b.headings) for b in document.blocks] == [
        ("Intro.", ()), ("a", ("Part",)), ("b", ("Part", "Deep")), ("c", ("Next",)),
    ]  # fmt: skip


def test_rst_code_is_what_follows_two_colons_or_a_directive() -> None:
    text = """\
        Like this::

            Heading?
            ========

        Then

        .. code-block:: python
           :linenos:

           x = 1

        end
        """
    assert [(b[0], b[3], b[4]) for b in blocks(text, ".rst")] == [
        ("paragraph", 1, 1), ("code", 3, 4), ("paragraph", 6, 6), ("code", 8, 11), ("paragraph", 13, 13),
    ]  # fmt: skip


def test_rst_tables_stay_whole() -> None:
    grid = "+---+---+\n| a | b |\n+===+===+\n| 1 | 2 |\n+---+---+"
    simple = "===  ===\na    b\n===  ===\n1    2\n\n3    4\n===  ==="
    assert kinds(f"x\n\n{grid}\n\ny\n\n{simple}\n\nz", ".rst") == [
        "paragraph", "table", "paragraph", "table", "paragraph",
    ]  # fmt: skip


# Org


def test_org_headings_keywords_drawers_and_blocks() -> None:
    text = """\
        #+TITLE: Agenda
        #+FILETAGS: :work:home:
        #+DATE: <2024-01-20 Sat>
        * TODO Call Bob :phone:
        :PROPERTIES:
        :ID: 7
        :END:
        About the roof.
        ** Later
        #+begin_src sh
        * no heading
        #+end_src
        - item
        """
    document = parse(textwrap.dedent(text), ".org", "stem")
    assert (document.title, document.meta.tags, document.meta.created) == ("Agenda", ("work", "home"), "2024-01-20 Sat")
    assert [(b.kind, b.headings, b.first_line) for b in document.blocks] == [
        ("paragraph", ("TODO Call Bob",), 8),
        ("code", ("TODO Call Bob", "Later"), 10),
        ("list", ("TODO Call Bob", "Later"), 13),
    ]


# Plain text


def test_plain_text_has_paragraphs_and_lists_and_no_headings() -> None:
    assert blocks("# not a heading\nline\n\n- a\n- b", ".txt") == [
        ("paragraph", "# not a heading\nline", (), 1, 2),
        ("list", "- a\n- b", (), 4, 5),
    ]


# Links and tags


def test_links_are_read_without_alias_and_heading() -> None:
    document = parse("See [[Roses|the roses]],\n![[img/Plan#North]] and [[https://x.org]].", ".md", "s")
    assert document.links == (("Roses", 1), ("img/Plan", 2))


def test_org_links_to_files_count() -> None:
    assert links_in("[[file:notes/a.org::*Part][text]] [[https://x.org][web]]") == ("notes/a.org",)


def test_inline_tags_are_words_behind_a_hash_outside_code() -> None:
    text = "#Top and (#side) a#no #a/b-c #12 #ff0000 #fff0 #face `#code` x/#anchor\n```\n#fenced\n```\n，#中文"
    assert inline_tags(text) == ("top", "side", "a/b-c", "fff0", "face", "中文")


# What hostile files cost


@pytest.mark.parametrize("suffix", [".md", ".rst", ".org", ".txt"])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 100_000, id="brackets"),
        pytest.param("> " * 100_000, id="quotes"),
        pytest.param("[[" * 100_000, id="links"),
        pytest.param("| a | b |\n|---|---|\n" + "| x | y |\n" * 50_000, id="table"),
        pytest.param("\n".join("  " * (n % 200) + "- x" for n in range(20_000)), id="nested list"),
        pytest.param("== ==\nx\n\n" * 20_000, id="open tables"),
        pytest.param("```\n" * 40_001, id="fences"),
        pytest.param(":PROPERTIES:\n" * 20_000, id="drawers"),
        pytest.param("\n".join("*" * (n % 5000 + 1) + " h" for n in range(5_000)), id="deep headings"),
        pytest.param("\n".join("#" * (n % 6 + 1) + " h" for n in range(50_000)), id="headings"),
        pytest.param("a\n" * 50_000, id="one paragraph"),
        pytest.param("    x\n\n\n" * 20_000, id="indented"),
        pytest.param("word " * 200_000, id="one line"),
    ],
)
def test_hostile_files_are_parsed_in_time(suffix: str, text: str) -> None:
    require_linear(lambda part: parse(part, suffix, "s"), text, units_max=400)
    assert all(isinstance(block, TextBlock) for block in parse(text, suffix, "s").blocks)


def test_what_stands_in_a_literal_block_is_no_tag() -> None:
    assert inline_tags("Compile it::\n\n    #include <a.h>\n\nFor #work.") == ("work",)
