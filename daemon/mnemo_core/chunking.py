"""Cutting a note or a text into the pieces that are remembered. SPEC 5.2 [L 1.3]

Blank lines first; a paragraph over 300 tokens is cut at sentence ends, a piece under 50 joins its neighbour, and no
piece crosses a heading. Code, tables and lists stay whole up to what a memory can hold, then are cut between lines.

Notes are always cut by `estimate_tokens`, never by a model's tokenizer, though SPEC 5.2 counts in the model's tokens:
were the boundaries to depend on the model, the arrival of one would cut every note anew and give up the ids of what
nobody changed. Where a model counts more tokens than the estimate, its windows (SPEC 2.3) take in the rest.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from mnemo_core.markup import Block
from mnemo_store.records import CONTENT_CHARS_MAX

TOKENS_MIN = 50  # a piece below joins its neighbour [L 1.3]
TOKENS_MAX = 300  # a paragraph above is cut [L 1.3]
CHARS_PER_TOKEN = 4  # SPEC 7.1, when no tokenizer counts; an ideograph is a token of its own

assert TOKENS_MIN * 2 <= TOKENS_MAX
assert TOKENS_MAX * CHARS_PER_TOKEN <= CONTENT_CHARS_MAX

CountTokens = Callable[[Sequence[str]], Sequence[int]]


class Chunk(NamedTuple):
    """A piece of a text. Lines are 1-based and inclusive."""

    text: str
    headings: tuple[str, ...]
    first_line: int
    last_line: int


class _Piece(NamedTuple):
    text: str
    tokens: int
    first: int
    last: int
    whole: bool  # code, table or list: may be longer than TOKENS_MAX


_CJK = re.compile(
    "[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff9f\U00020000-\U0003ffff]"
)
# An end of a sentence: its marks, quotes and brackets that close with it, and the blank behind. Before a small letter
# it is an abbreviation. Chinese and Japanese have no blank. Possessive, so that a million dots cost a million steps.
_SENTENCE_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]{0,3}+\s++(?![a-zß-ÿ])|(?<![。！？｡．])[。！？｡．]++[\"'”’」』）)]{0,3}\s*"
)
_MANY_NEWLINES = re.compile(r"\n{3,}")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def estimate_tokens(texts: Sequence[str]) -> list[int]:
    """Tokens of each text without a tokenizer: ceil(characters / 4), an ideograph, kana or Hangul 1. SPEC 7.1"""
    return [_estimate(text) for text in texts]


def _estimate(text: str) -> int:
    if text.isascii():
        return -(-len(text) // CHARS_PER_TOKEN)
    other = len(_CJK.sub("", text))
    return len(text) - other - (-other // CHARS_PER_TOKEN)


def split(source: str | Sequence[Block], count_tokens: CountTokens = estimate_tokens) -> list[Chunk]:
    """The chunks of a plain text, or of the blocks of a parsed document, in order.

    Every chunk has 1 to 8192 characters, and 50 to 300 tokens but for code, tables and lists, and for what has no
    neighbour to join. Every line that is not blank is in a chunk. Linear in the length of the text.
    """
    blocks = paragraphs(source) if isinstance(source, str) else source
    chunks: list[Chunk] = []
    for _, section in groupby(blocks, key=lambda block: block.section):
        together = list(section)
        pieces = _joined(_pieces(together, count_tokens), count_tokens)
        for piece in pieces:
            text = _MANY_NEWLINES.sub("\n\n", piece.text).strip()
            if text:
                chunks.append(Chunk(text, together[0].headings, piece.first, piece.last))
    return chunks


def paragraphs(text: str) -> list[Block]:
    """A text without markup as paragraphs, parted by blank lines."""
    blocks: list[Block] = []
    line, start = 1, 0
    for gap in _BLANK_LINES.finditer(text):
        blocks += _paragraph(text[start : gap.start()], line)
        line += text.count("\n", start, gap.end())
        start = gap.end()
    return [*blocks, *_paragraph(text[start:], line)]


def _paragraph(text: str, line: int) -> list[Block]:
    if not text.strip():
        return []
    lead = len(text) - len(text.lstrip("\n"))
    body = text.strip("\n")
    first = line + lead
    return [Block("paragraph", body, (), 0, first, first + body.count("\n"))]


def _pieces(blocks: Sequence[Block], count_tokens: CountTokens) -> list[_Piece]:
    """The blocks of a section, those that are too long cut."""
    pieces: list[_Piece] = []
    counts = count_tokens([block.text for block in blocks])
    for block, tokens in zip(blocks, counts, strict=True):
        if block.kind != "paragraph" and len(block.text) > CONTENT_CHARS_MAX:
            pieces += _cut_between_lines(block, count_tokens)
        elif block.kind == "paragraph" and tokens > TOKENS_MAX:
            pieces += _cut_at_sentences(block.text, block.first_line, tokens, count_tokens)
        else:
            whole = block.kind != "paragraph"
            pieces.append(_Piece(block.text, tokens, block.first_line, block.last_line, whole))
    return pieces


# Joining what is too short


def _joined(pieces: Sequence[_Piece], count_tokens: CountTokens) -> list[_Piece]:
    """The pieces of one section, each that is too short joined to the next, or, failing that, to the one before."""
    done: list[_Piece] = []
    pending: _Piece | None = None
    for piece in pieces:
        if pending is None:
            pending = piece
        elif pending.tokens < TOKENS_MIN and _fits(pending, piece):
            pending = _join(pending, piece)
        elif pending.tokens < TOKENS_MIN and not done and not (pending.whole or piece.whole):
            *cut, pending = _shared_out(pending, piece, count_tokens)
            done += cut
        else:
            _close(done, pending)
            pending = piece
    if pending is None:
        return done
    if pending.tokens < TOKENS_MIN and done and not _fits(done[-1], pending) and not (pending.whole or done[-1].whole):
        before = done.pop()
        return [*done, *_shared_out(before, pending, count_tokens)]
    _close(done, pending)
    return done


def _close(done: list[_Piece], piece: _Piece) -> None:
    if piece.tokens < TOKENS_MIN and done and _fits(done[-1], piece):
        done[-1] = _join(done[-1], piece)
    else:
        done.append(piece)


def _fits(one: _Piece, other: _Piece) -> bool:
    """Whether both are one piece: a short text and the list it introduces are, however long the list."""
    if len(one.text) + len(other.text) + max(other.first - one.last, 1) > CONTENT_CHARS_MAX:
        return False
    return one.tokens + other.tokens < TOKENS_MAX or one.whole or other.whole


def _join(one: _Piece, other: _Piece) -> _Piece:
    gap = "\n" * max(other.first - one.last, 1)  # the true number of lines, so that lines can be counted in it
    tokens = one.tokens + other.tokens + 1
    return _Piece(one.text + gap + other.text, tokens, one.first, other.last, one.whole or other.whole)


def _shared_out(one: _Piece, other: _Piece, count_tokens: CountTokens) -> list[_Piece]:
    """Two neighbours that are too long together and one too short alone, cut anew into even pieces."""
    both = _join(one, other)
    return _cut_at_sentences(both.text, both.first, both.tokens, count_tokens)


# Cutting what is too long


def _cut_at_sentences(text: str, first_line: int, tokens: int, count_tokens: CountTokens) -> list[_Piece]:
    """A paragraph of `tokens` tokens as pieces of about equal size, none over TOKENS_MAX, cut at sentence ends."""
    units = _units(text, count_tokens)
    aim = tokens / -(-tokens // (TOKENS_MAX - TOKENS_MIN))
    groups: list[tuple[int, int, int]] = []  # start, end, tokens
    for start, end, size in units:
        if groups and (groups[-1][2] + size // 2 <= aim and groups[-1][2] + size <= TOKENS_MAX):
            groups[-1] = (groups[-1][0], end, groups[-1][2] + size)
        else:
            groups.append((start, end, size))
    if len(groups) > 1 and groups[-1][2] < TOKENS_MIN and groups[-1][2] + groups[-2][2] <= TOKENS_MAX:
        last = groups.pop()
        groups[-1] = (groups[-1][0], last[1], groups[-1][2] + last[2])
    pieces: list[_Piece] = []
    line, counted = first_line, 0
    for start, end, size in groups:
        line += text.count("\n", counted, start)
        counted = start
        body = text[start:end].rstrip()
        lead = len(body) - len(body.lstrip("\n"))
        pieces.append(_Piece(body.strip("\n"), size, line + lead, line + body.count("\n"), whole=False))
    return pieces


def _units(text: str, count_tokens: CountTokens) -> list[tuple[int, int, int]]:
    """(start, end, tokens) of the smallest parts a paragraph is cut into: sentences, and what is left of one that is
    too long when it is cut at line ends, else at blanks, else anywhere."""
    starts = [0, *(match.end() for match in _SENTENCE_END.finditer(text))]
    spans = [(a, b) for a, b in zip(starts, [*starts[1:], len(text)], strict=True) if b > a]
    sizes = count_tokens([text[a:b] for a, b in spans])
    units: list[tuple[int, int, int]] = []
    for (start, end), size in zip(spans, sizes, strict=True):
        if size <= TOKENS_MAX:
            units.append((start, end, size))
        else:
            parts = list(_hard_parts(text, start, end, count_tokens))
            counts = count_tokens([text[a:b] for a, b in parts])
            units += [(a, b, n) for (a, b), n in zip(parts, counts, strict=True)]
    return units


def _hard_parts(text: str, start: int, end: int, count_tokens: CountTokens) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(start + TOKENS_MAX // 2 * CHARS_PER_TOKEN, end)
        if count_tokens([text[start:stop]])[0] > TOKENS_MAX:
            stop = min(start + TOKENS_MAX // 2, end)
        if stop < end:
            least = (start + stop) // 2
            cut = text.rfind("\n", least, stop)
            cut = cut if cut >= 0 else text.rfind(" ", least, stop)
            stop = cut + 1 if cut >= 0 else stop
        yield start, stop
        start = stop


def _cut_between_lines(block: Block, count_tokens: CountTokens) -> list[_Piece]:
    """Code, a table or a list that no memory can hold, cut between lines; a table's header heads every piece."""
    lines = block.text.split("\n")
    head = _table_head(lines) if block.kind == "table" else 0
    header = "".join(line + "\n" for line in lines[:head])
    room = CONTENT_CHARS_MAX - len(header)
    rows = [
        part for number, line in enumerate(lines[head:], block.first_line + head) for part in _row(line, number, room)
    ]
    pieces: list[tuple[str, int, int]] = []
    taken: list[str] = []
    size, first, last = 0, block.first_line, block.first_line
    for row, number in rows:
        if taken and size + len(row) + 1 > room:
            pieces.append((header + "\n".join(taken), first, last))
            taken, size, first = [], 0, number
        taken.append(row)
        size += len(row) + 1
        last = number
    if taken:
        pieces.append((header + "\n".join(taken), first, last))
    counts = count_tokens([text for text, _, _ in pieces])
    return [_Piece(text, n, a, b, whole=True) for (text, a, b), n in zip(pieces, counts, strict=True)]


def _row(line: str, number: int, room: int) -> list[tuple[str, int]]:
    """A line, cut anywhere if it alone is too long."""
    if len(line) <= room:
        return [(line, number)]
    return [(line[at : at + room], number) for at in range(0, len(line), room)]


def _table_head(lines: Sequence[str]) -> int:
    """How many lines at the top of a table are its header: those down to the rule below it, if that is near."""
    for index, line in enumerate(lines[:6]):
        bare = line.strip()
        if index and bare and not set(bare) - set("|:-+= "):
            head = index + 1
            return head if sum(map(len, lines[:head])) < CONTENT_CHARS_MAX // 4 else 0
    return 0
