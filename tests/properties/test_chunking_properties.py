"""Any note: nothing of it is lost, every chunk fits, its lines are right. SPEC 5.2, 6"""

import re
from itertools import pairwise

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mnemo_core.documents.chunking import (
    SPEAKER_CHARS_MAX,
    TOKENS_MAX,
    TOKENS_MIN,
    estimate_tokens,
    split_blocks,
    split_text,
)
from mnemo_core.documents.markup import parse
from mnemo_store.records import CONTENT_CHARS_MAX

WORD = st.sampled_from(["alpha", "Beta.", "gamma", "δέλτα", "日本語。", "#tag", "x" * 40, "end!", "`code`", "a|b"])
PROSE = st.lists(WORD, min_size=1, max_size=120).map(" ".join)
LINE = st.one_of(
    PROSE,
    PROSE,
    st.just(""),
    st.just(""),
    st.builds("{} {}".format, st.sampled_from(["#", "##", "###", "*", "**", "-", "1."]), PROSE),
    st.sampled_from(["```", "~~~", "---", "===", "| a | b |", "|---|---|", "+---+", "    code", "\tcode", "  - deep"]),
    st.sampled_from(
        ["== ==", ".. code-block:: x", "   indented", "Text::", "#+begin_src", "#+end_src", ":PROPERTIES:"]
    ),
    st.text(alphabet="cx |-=#*`~:.+<>[]\t ", max_size=30),  # no HTML: its elements are a and b
)
NOTE = st.lists(LINE, max_size=60).map("\n".join)
PLAIN = st.lists(st.one_of(PROSE, st.just("")), max_size=40).map("\n".join)


def words_of(text: str) -> list[str]:
    return text.split()


@given(NOTE, st.sampled_from([".md", ".rst", ".org", ".txt"]))
@settings(max_examples=150, deadline=None)
def test_every_chunk_of_a_note_fits_and_stands_where_it_says(text: str, suffix: str) -> None:
    lines = text.split("\n")
    last = 0
    for chunk in split_blocks(parse(text, suffix, "stem").blocks):
        assert 0 < len(chunk.text) <= CONTENT_CHARS_MAX
        assert chunk.text == chunk.text.strip()
        assert 1 <= chunk.first_line <= chunk.last_line <= len(lines)
        assert chunk.first_line >= last  # in order; a long line may be shared by two
        last = chunk.last_line
        first_word = words_of(chunk.text)[0]
        assert any(first_word.lstrip("*#") in line for line in lines[chunk.first_line - 1 : chunk.last_line])


@given(NOTE)
@example("Text::")
@example("alias:: one\nalias:: another")
@example("a:::")
@example("std::vector keeps its elements together")
@example(f"plays:: {'the cello ' * 200}")
@example("---\nalpha\n# gamma\n---\nBeta.")
@settings(max_examples=150, deadline=None)
def test_no_line_of_a_markdown_note_is_lost(text: str) -> None:
    kept = kept_words(text)
    for line in text.split("\n"):
        if text.startswith("---") and NOT_KEPT.search(line):
            continue
        for word in words_of(line):
            if any(character.isalnum() for character in word):  # no rule, no underline
                assert word in kept or word.strip("#") in kept or word.removesuffix(":") in kept, (word, line)


NOT_KEPT = re.compile(r"[ \t]#|:[ \t|>+-]*$")  # of front matter: a comment behind a value, a key without one


def kept_words(text: str) -> set[str]:
    document = parse(text, ".md", "stem")
    kept = set(words_of(document.title))
    for chunk in split_blocks(document.blocks):
        kept.update(words_of(chunk.text))
        kept.update(word for heading in chunk.headings for word in words_of(heading))
    return kept


VALUE = st.one_of(
    PROSE,
    st.lists(st.sampled_from(["alpha", "beta gamma", "'delta'", '"epsilon" zeta', "x" * 40]), min_size=1, max_size=30)
    .map(", ".join)
    .flatmap(lambda items: st.sampled_from([items, f"[{items}]", f"[{items}](eta)", f"[{items}"])),
    st.sampled_from(["yes", "false", "0.5", "high", "2026-05-01", "[[theta]]", '"iota" kappa', "- lambda", "|", ""]),
)
KEY = st.sampled_from(
    ["title", "Tags", "tag", "date", "created", "namespace", "importance", "memory", "aliases", "plays"]
)
FIELD = st.one_of(
    st.builds("{}: {}".format, KEY, VALUE),
    st.builds("{}: {}".format, KEY, VALUE),
    st.builds("{}: {}".format, KEY, VALUE),
    st.builds("- {}".format, VALUE),
    st.builds("  {}".format, VALUE),
    LINE.filter(lambda line: line.rstrip() not in ("---", "...")),
)


@given(st.lists(FIELD, max_size=12))
@example(["plays: alpha", "Plays: beta"])
@example(["plays: alpha", "and the cello", "# gamma"])
@example(["plays: [alpha](https://beta.example) gamma", 'aliases: "alpha" beta'])
@example(["plays:", *["- alpha"] * 100, "- beta"])
@example([f"plays: {'alpha ' * 200} beta"])
@example([f"tags: {'x' * 40}", "namespace: " + "y" * 80, "importance: alpha", "memory: beta", "date: gamma"])
@example(["title: alpha", "title: beta"])
@example(["date: 2026-05-01", "- 2026-05-03"])
@example([f"title: {'alpha ' * 50} beta"])
@example(["  alpha", "plays: beta"])
@example(["- alpha", "plays: beta"])
@settings(max_examples=150, deadline=None)
def test_no_line_of_front_matter_is_lost(lines: list[str]) -> None:
    text = "\n".join(["---", *lines, "---", "text"])
    meta = parse(text, ".md", "stem").meta
    understood = f"title tags tag date created namespace importance memory {meta.date} {meta.created} {meta.namespace}"
    understood += f" {meta.importance} {'yes' if meta.memory else 'false'} {' '.join(meta.tags)}"
    kept = parts_of(" ".join([*kept_words(text), understood]))
    for line in lines:
        if not NOT_KEPT.search(line):
            assert parts_of(line) <= kept, line


def parts_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@given(PLAIN)
@settings(max_examples=150, deadline=None)
def test_a_plain_text_is_kept_word_for_word(text: str) -> None:
    chunks = split_blocks(text)
    assert [word for chunk in chunks for word in words_of(chunk.text)] == words_of(text)


@given(PLAIN)
@example("\n\n".join(["x" * 97] * 4))  # two of them have 51 tokens by their sum, and 49 together
@settings(max_examples=150, deadline=None)
def test_pieces_have_at_most_300_tokens_and_two_neighbours_under_50_never_remain(text: str) -> None:
    sizes = estimate_tokens([chunk.text for chunk in split_blocks(text)])
    assert all(size <= TOKENS_MAX for size in sizes)
    assert all(a >= TOKENS_MIN or b >= TOKENS_MIN or a + b >= TOKENS_MAX for a, b in pairwise(sizes))


@given(NOTE)
@settings(max_examples=60, deadline=None)
def test_a_text_added_under_another_heading_changes_no_earlier_chunk(text: str) -> None:
    assume("```" not in text and "~~~" not in text)
    assume(not any(line.lstrip().startswith(("# ", "#\t", "=")) for line in text.split("\n")))  # another title
    before = split_blocks(parse(f"# T\n\n## One\n\n{text}", ".md", "stem").blocks)
    after = split_blocks(parse(f"# T\n\n## One\n\n{text}\n\n## Two\n\nnew text", ".md", "stem").blocks)
    if before:
        assert [chunk.text for chunk in after[: len(before)]] == [chunk.text for chunk in before]


SPEAKER = st.sampled_from(
    ["Anna: ", "Ben: ", "**User:** ", "assistant: ", "[10:02] Anna: ", "佐藤：", "Note: ", "- Ben: "]
)
TURN = st.builds("{}{}".format, SPEAKER, PROSE)
INGESTED = st.lists(st.one_of(LINE, TURN), max_size=60).map("\n".join)
SPOKEN = st.lists(st.one_of(TURN, TURN, PROSE, st.just("")), max_size=60).map("\n".join)


def bare(text: str) -> str:
    """Its characters that are not blank."""
    return "".join(text.split())


@given(st.one_of(INGESTED, SPOKEN, st.text(max_size=2000)))
@settings(max_examples=200, deadline=None)
def test_nothing_of_a_text_that_came_in_is_lost_and_only_speakers_are_said_again(text: str) -> None:
    chunks = split_text(text, estimate_tokens)
    assert chunks == split_text(text, estimate_tokens)
    found = bare("".join(chunk.text for chunk in chunks))
    rest = iter(found)
    assert all(character in rest for character in bare(text)), "every character, in its order"
    assert len(found) - len(bare(text)) <= SPEAKER_CHARS_MAX * max(len(chunks) - 1, 0)


@given(INGESTED)
@settings(max_examples=150, deadline=None)
def test_every_chunk_of_a_text_that_came_in_fits_and_stands_where_it_says(text: str) -> None:
    lines, last = text.split("\n"), 0
    for chunk in split_text(text, estimate_tokens):
        assert 0 < len(chunk.text) <= CONTENT_CHARS_MAX
        assert chunk.text == chunk.text.strip()
        assert last <= chunk.first_line <= chunk.last_line <= len(lines)
        last = chunk.last_line


@given(SPOKEN.filter(lambda text: "- Ben" not in text))
@settings(max_examples=150, deadline=None)
def test_pieces_of_a_conversation_have_at_most_300_tokens_and_two_neighbours_under_50_never_remain(text: str) -> None:
    sizes = estimate_tokens([chunk.text for chunk in split_text(text, estimate_tokens)])
    assert all(size <= TOKENS_MAX for size in sizes)
    assert all(a >= TOKENS_MIN or b >= TOKENS_MIN or a + b >= TOKENS_MAX for a, b in pairwise(sizes))
