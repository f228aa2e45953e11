"""Questions made of documents that no one here wrote: a heading asks for its section, a sentence for its paragraph,
and a one-line purpose for its page.

    python -m tests.bench.bench_documents FOLDER [--headings 500] [--sentences 500] [--files 0] [--rankers words,auto]

FOLDER holds the sources of some documentation (.rst, .rst.txt, .md). They are copied and watched as a folder of notes,
as a user would have them, after what is asked was taken out:

- of a section, its heading. A number stands in its place, so that the section still begins there, under whatever is
  above it, and the heading is in no trail, not of the section and not of those below. Labels and index entries right
  above it go too. Asked are headings of two words or more that name one section only.
- of a paragraph, one of its sentences. The rest stays on the same lines.

- of a page, the line that says what it is for: a `:synopsis:`, or what stands behind the dash in a section `NAME`, as
  manual pages have it.

Right is any chunk of the section, of the rest of the paragraph, or of the page.
"""

import random
import re
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from mnemo_client.client import Client
from mnemo_client.protocol.choices import Ranker
from mnemo_core.documents.blocks import TextBlock
from mnemo_core.documents.markup import parse, suffix_of
from tests.bench import harness
from tests.bench.tables import hits, rankers_named, show_hits
from tests.support.running_daemon import running

TOP_K = 50
SEED = 13
FILE_BYTES_MAX = 1 << 20  # a longer note is passed over by the daemon
PAGE = 500
SECTION_WORDS_MIN = 40  # of its own, not counting the sections below
TITLE_LINES = 6  # from the first on, among which the title stands, which says the purpose a second time
SENTENCE_WORDS = range(8, 31)
REST_WORDS_MIN = 25

_ROLE = re.compile(r":[a-z][a-z:+-]*:`([^`]*)`")
_TARGET = re.compile(r"\s*<[^>]*>$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z*`:])")
_ABOVE = re.compile(r"\.\. (?:_[^:]+:|index::)|\s+\S")  # a label, an index entry, and what is set in below it
_SYNOPSIS = re.compile(r"\s+:synopsis:\s*(\S.*)")
_NAME = re.compile(r"\S.*?\s(?:-|--|---|\\-|\u2013|\u2014)\s+(\S.*)")
_TITLE_PURPOSE = re.compile(r"(?<=\S)\s+---\s+.*$")
_WORD = re.compile(r"[^\W\d_]{2,}")


class Place(NamedTuple):
    """A question, and the lines of a file, 1-based and inclusive, that answer it."""

    text: str
    file: str
    first_line: int
    last_line: int


class PageSection(NamedTuple):
    """The text below one heading, and the line of that heading (0-based)."""

    heading: str
    line: int
    blocks: list[TextBlock]

    @property
    def place(self) -> tuple[int, int]:
        return self.blocks[0].first_line, self.blocks[-1].last_line


class DocumentSource(NamedTuple):
    """A document: its path in the folder, its lines, and its sections but for what stands under its title."""

    path: str
    lines: list[str]
    sections: list[PageSection]


def main(
    folder: Path, *, headings: int = 500, sentences: int = 500, purposes: int = 500, files: int = 0,
    rankers: str = "auto,words,cosine,hybrid",
) -> None:  # fmt: skip
    chance = random.Random(SEED)
    documents = list(sources(folder, files, chance))
    of_purposes = take_purposes(documents, purposes, chance)
    of_headings = take_headings(documents, headings, chance)
    of_sentences = take_sentences(documents, sentences, chance, of_headings)
    with tempfile.TemporaryDirectory() as scratch:
        notes = Path(scratch) / "notes"
        write(documents, folder, notes)
        with running(Path(scratch) / "data") as daemon, daemon.client() as client:
            client.add_root(notes)
            wait_for_notes(client, len(documents))
            daemon.wait_for_vectors(7200)
            chunks = chunks_of(client, notes)
            print(f"{len(documents)} files of {folder.name}, {sum(map(len, chunks.values()))} chunks")
            for title, places in (
                ("purpose → its page", of_purposes), ("heading → its section", of_headings),
                ("sentence → its paragraph", of_sentences),
            ):  # fmt: skip
                if places:
                    show_hits(title, ask_all(client, places, chunks, rankers_named(rankers)))


def sources(folder: Path, files: int, chance: random.Random) -> Iterator[DocumentSource]:
    paths = [path for path in sorted(folder.rglob("*")) if suffix_of(path.name) and path.is_file()]
    paths = [path for path in paths if path.stat().st_size < FILE_BYTES_MAX]
    for path in sorted(chance.sample(paths, min(files, len(paths)))) if files else paths:
        text = path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
        lines = text.split("\n")
        yield DocumentSource(path.relative_to(folder).as_posix(), lines, list(_sections(lines, suffix_of(path.name))))


def _sections(lines: list[str], suffix: str) -> Iterator[PageSection]:
    blocks = parse("\n".join(lines), suffix, "").blocks
    for _, group in groupby(blocks, key=lambda block: block.section):
        together = list(group)
        trail = together[0].headings
        if trail:
            above = range(together[0].first_line - 2, -1, -1)
            line = next((at for at in above if lines[at].lstrip("# ").strip() == trail[-1]), None)
            if line is not None:
                yield PageSection(trail[-1], line, together)


def take_purposes(documents: Sequence[DocumentSource], count: int, chance: random.Random) -> list[Place]:
    """Takes the line that says what a page is for out of it: a `:synopsis:`, or what stands in a section `NAME`."""
    found = [(source, purpose) for source in documents if (purpose := _purpose(source))]
    places = []
    for source, (text, lines) in chance.sample(found, min(count, len(found))):
        for at in lines:
            source.lines[at] = ""
        for at, line in enumerate(source.lines[:TITLE_LINES]):
            source.lines[at] = _TITLE_PURPOSE.sub("", line)
        places.append(Place(bare(text), source.path, 1, len(source.lines)))
    return places


def _purpose(source: DocumentSource) -> tuple[str, list[int]] | None:
    """The purpose of the page, and the lines that state it (0-based)."""
    for at, line in enumerate(source.lines):
        if synopsis := _SYNOPSIS.fullmatch(line):
            return synopsis[1], [at]
    for section in source.sections:
        first, last = section.place
        said = " ".join(" ".join(source.lines[first - 1 : last]).split())
        if section.heading.strip("* ").upper() == "NAME" and (named := _NAME.fullmatch(said)):
            return named[1], [section.line, *range(first - 1, last)]
    return None


def take_headings(documents: Sequence[DocumentSource], count: int, chance: random.Random) -> list[Place]:
    """Takes the headings that are asked out of the documents."""
    names = Counter(bare(section.heading).lower() for source in documents for section in source.sections)
    may = [
        (source, section)
        for source in documents
        for section in source.sections
        if names[bare(section.heading).lower()] == 1
        and len(_WORD.findall(bare(section.heading))) >= 2
        and _words(section.blocks) >= SECTION_WORDS_MIN
    ]
    places = []
    for number, (source, section) in enumerate(chance.sample(may, min(count, len(may))), start=1):
        source.lines[section.line] = source.lines[section.line].replace(section.heading, str(number))
        _clear_above(source.lines, section)
        places.append(Place(bare(section.heading), source.path, *section.place))
    return places


def _clear_above(lines: list[str], section: PageSection) -> None:
    """Blanks the labels and index entries right above a heading, which say what it says."""
    at = section.line - 1
    if at >= 0 and lines[at] and not lines[at].strip(lines[at][0]):
        at -= 1  # an overline
    while at >= 0 and (not lines[at].strip() or _ABOVE.match(lines[at])):
        if lines[at].startswith(".. ") or _is_below_label(lines, at):
            lines[at] = ""
        at -= 1


def _is_below_label(lines: Sequence[str], at: int) -> bool:
    """True if an indented line belongs to a label or an index entry, and not to a paragraph or code."""
    while at >= 0 and (not lines[at].strip() or lines[at][0].isspace()):
        at -= 1
    return at >= 0 and bool(_ABOVE.match(lines[at])) and lines[at].startswith(".. ")


def take_sentences(
    documents: Sequence[DocumentSource], count: int, chance: random.Random, asked: Sequence[Place]
) -> list[Place]:
    """Takes the sentences that are asked out of their paragraphs, one a section, where no heading is asked."""
    taken = {(place.file, place.first_line) for place in asked}
    may = []
    for source in documents:
        for section in source.sections:
            if (source.path, section.blocks[0].first_line) not in taken:
                cut = [found for block in section.blocks if (found := _without_a_sentence(block, chance))]
                if cut:
                    may.append((source, *chance.choice(cut)))
    said = Counter(sentence for _, _, sentence, _ in may)
    places = []
    for source, block, sentence, rest in chance.sample(may, min(count, len(may))):
        if said[sentence] == 1:
            source.lines[block.first_line - 1 : block.last_line] = rest
            places.append(Place(bare(sentence), source.path, block.first_line, block.last_line))
    return places


def _without_a_sentence(block: TextBlock, chance: random.Random) -> tuple[TextBlock, str, list[str]] | None:
    """A sentence of a paragraph of prose, and the paragraph's lines without it, as many as before."""
    if block.kind != "paragraph" or block.text[:1].isspace() or block.text.startswith((".. ", "=", ":")):
        return None
    if any(line[:1].isspace() for line in block.text.split("\n")):
        return None
    sentences = _SENTENCE_END.split(" ".join(block.text.split()))
    may = [at for at, each in enumerate(sentences) if len(each.split()) in SENTENCE_WORDS and each[-1] in ".!?"]
    if len(sentences) < 3 or not may:
        return None
    taken = chance.choice(may)
    rest = " ".join(sentences[:taken] + sentences[taken + 1 :]).split()
    count = block.last_line - block.first_line + 1
    if len(rest) < max(REST_WORDS_MIN, count):
        return None
    bounds = [len(rest) * at // count for at in range(count + 1)]
    return block, sentences[taken], [" ".join(rest[bounds[at] : bounds[at + 1]]) for at in range(count)]


def bare(text: str) -> str:
    """Without inline markup."""
    text = _ROLE.sub(lambda match: _TARGET.sub("", match[1]).lstrip("~!."), text)
    return " ".join(text.replace("`", "").replace("*", "").replace("---", "-").split())


def _words(blocks: Sequence[TextBlock]) -> int:
    return sum(len(_WORD.findall(block.text)) for block in blocks)


def write(documents: Sequence[DocumentSource], folder: Path, notes: Path) -> None:
    for source in documents:
        path = notes / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(source.lines), encoding="utf-8")
        shutil.copystat(folder / source.path, path)  # the file's time is its memories'


def wait_for_notes(client: Client, files: int) -> None:
    """Returns once every file of the watched folder was read."""
    while True:
        status = client.notes_status()
        (root,) = status.roots
        if root.state in ("watching", "polling") and not root.waiting and root.files + status.skipped_total >= files:
            return
        time.sleep(0.1)


def chunks_of(client: Client, notes: Path) -> dict[str, list[tuple[str, int, int]]]:
    """By file: id, first and last line of each chunk."""
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    cursor: str | None = None
    while True:
        page = client.list_memories(limit=PAGE, cursor=cursor)
        for memory in page.memories:
            assert memory.note is not None
            found[Path(memory.note.path).relative_to(notes).as_posix()].append((memory.id, *memory.note.lines))
        cursor = page.cursor
        if cursor is None:
            return found


def right_of(place: Place, chunks: dict[str, list[tuple[str, int, int]]]) -> set[str]:
    """The ids of the chunks that answer."""
    right = {
        memory_id
        for memory_id, first, last in chunks[place.file]
        if first <= place.last_line and last >= place.first_line
    }
    assert right, f"no chunk of {place.file}:{place.first_line}"
    return right


def ask_all(
    client: Client, places: Sequence[Place], chunks: dict[str, list[tuple[str, int, int]]], rankers: Sequence[Ranker]
) -> dict[Ranker, list[dict[str, float]]]:
    found: dict[Ranker, list[dict[str, float]]] = defaultdict(list)
    for place in places:
        right = right_of(place, chunks)
        for ranker in rankers:
            answer = client.recall(place.text, top_k=TOP_K, token_budget=None, dry=True, ranker=ranker)
            found[ranker].append(hits([memory.id for memory in answer.memories], right))
    return found


if __name__ == "__main__":
    harness.run(main)
