"""Chunking: a note or a text is cut into the pieces that are stored as memories. SPEC 5.2 [L 1.3]

Blank lines first; a paragraph over 300 tokens is cut at sentence ends, a piece under 50 tokens joins its neighbour, and
no piece crosses a heading. Code, tables and lists stay whole up to the size of a memory, then are cut between lines. A
conversation is cut between its turns.

Notes are always cut by `estimate_tokens`, never by a model's tokenizer, though SPEC 5.2 counts the model's tokens: if
the boundaries depended on the model, a new model would cut every note again and give up the ids of unchanged text.
Where a model counts more tokens than the estimate, its windows (SPEC 2.3) cover the rest.
"""

import functools
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from mnemo_core.documents.blocks import BlockKind, TextBlock
from mnemo_core.documents.markup import parse
from mnemo_core.text.languages import CJK
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_store.records import CONTENT_CHARS_MAX

TOKENS_MIN = 50  # a piece below joins its neighbour [L 1.3]
TOKENS_MAX = 300  # a paragraph above is cut [L 1.3]
CHARS_PER_TOKEN = 4  # SPEC 7.1, when no tokenizer counts; an ideograph is a token of its own

CHARS_PER_TOKEN_MAX = 27  # some tokenizers call a word of any length one token; a memory could not hold 300 such
CUT_CHARS = CONTENT_CHARS_MAX - 512  # of what no memory can hold, a piece leaves room for the heading above it
PROSE_SHARE_MIN = 0.9  # of the characters of an indented block that are letters or blanks: it is no code then

assert TOKENS_MIN * 2 <= TOKENS_MAX
assert TOKENS_MAX * CHARS_PER_TOKEN <= CONTENT_CHARS_MAX
assert TOKENS_MAX * CHARS_PER_TOKEN_MAX <= CONTENT_CHARS_MAX

CountTokens = Callable[[Sequence[str]], Sequence[int]]


class Chunk(NamedTuple):
    """A piece of a text. Lines are 1-based and inclusive."""

    text: str
    headings: tuple[str, ...]
    first_line: int
    last_line: int
    tags: tuple[str, ...] = ()  # of the headings above


_SAYS = lazy_pattern(r"[^\W_]")  # a letter or a digit of any script


class _ChunkPiece(NamedTuple):
    text: str
    tokens: int
    first: int
    last: int
    whole: bool  # code, table or list: may be longer than TOKENS_MAX
    says: bool  # has a letter or digit: kept, since a text that grows by joining would be searched each time

    @property
    def is_short(self) -> bool:
        """Return whether the piece must join a neighbour. A horizontal rule counts as short: some models give it many
        tokens."""
        return self.tokens < TOKENS_MIN or not self.says


def _piece(text: str, tokens: int, first: int, last: int, *, whole: bool) -> _ChunkPiece:
    return _ChunkPiece(text, tokens, first, last, whole, _SAYS.search(text) is not None)


_CJK = lazy_pattern(f"[\u3000-\u303f{CJK}\uff01-\uff9f]")
# An end of a sentence: its marks, quotes and brackets that close with it, and the blank behind. Before a small letter
# it is an abbreviation. Chinese and Japanese have no blank. Possessive, so that a million dots cost a million steps.
_SENTENCE_END = lazy_pattern(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]{0,3}+\s++(?![a-zß-ÿ])|(?<![。！？｡．])[。！？｡．]++[\"'”’」』）)]{0,3}\s*"
)
_MANY_NEWLINES = lazy_pattern(r"\n{3,}")
_BLANK_LINES = lazy_pattern(r"\n[ \t]*\n\s*")


def estimate_tokens(texts: Sequence[str]) -> list[int]:
    """Tokens of each text without a tokenizer: ceil(characters / 4), an ideograph, kana or Hangul 1. SPEC 7.1"""
    return [_estimate(text) for text in texts]


def _estimate(text: str) -> int:
    if text.isascii():
        return -(-len(text) // CHARS_PER_TOKEN)
    other = len(_CJK.sub("", text))
    return len(text) - other - (-other // CHARS_PER_TOKEN)


def split_blocks(source: str | Sequence[TextBlock], count_tokens: CountTokens = estimate_tokens) -> list[Chunk]:
    """The chunks of a plain text, or of the blocks of a parsed document, in order.

    Every chunk has 1 to 8192 characters, and 50 to 300 tokens but for code, tables and lists, and for what has no
    neighbour to join. Every line that is not blank is in a chunk. Linear in the length of the text.
    """
    blocks = paragraphs(source) if isinstance(source, str) else source
    chunks: list[Chunk] = []
    for _, section in groupby(blocks, key=lambda block: block.section):
        together = list(section)
        for piece in _joined(_pieces(together, count_tokens), count_tokens):
            chunks += _chunk(piece, together[0].headings, together[0].tags)
    return chunks


def _chunk(piece: _ChunkPiece, headings: tuple[str, ...], tags: tuple[str, ...] = ()) -> list[Chunk]:
    """The chunk of a piece; none where it is blank."""
    text = _stored_text(piece)
    return [Chunk(text, headings, piece.first, piece.last, tags)] if text else []


def _stored_text(piece: _ChunkPiece) -> str:
    return _MANY_NEWLINES.sub("\n\n", piece.text).strip()


def split_text(text: str, count_tokens: CountTokens, suffix: str = ".md") -> list[Chunk]:
    """The chunks of a text that was given to be remembered: prose, Markdown (or what the suffix of a note says it is),
    or a conversation.

    As `split`, but everything that is not blank is in a chunk, headings too, each before what stands below it; what is
    too short joins its neighbour across headings, and has the trail of its first line. Where people speak in turns,
    short turns are together, and what follows of one that is too long has the speaker's name put before it again.
    Linear in the length of the text.
    """
    count = bounded_count(count_tokens)
    blocks = _everything(text, suffix)
    speakers = _speakers(blocks)
    if speakers:
        pieces = list(_packed(_spoken(_turns(blocks, speakers), count), count))
    else:
        pieces = _joined(_pieces(blocks, count, chars=CUT_CHARS), count)
    starts = [block.first_line for block in blocks]
    chunks: list[Chunk] = []
    for piece in pieces:
        chunks += _chunk(piece, blocks[max(bisect_right(starts, piece.first) - 1, 0)].headings)
    return chunks


def bounded_count(count_tokens: CountTokens) -> CountTokens:
    """A model's own count for which no piece of 300 tokens is longer than a memory: a word of any length counts."""

    def count(texts: Sequence[str]) -> list[int]:
        found = zip(texts, count_tokens(texts), strict=True)
        return [max(tokens, -(-len(text) // CHARS_PER_TOKEN_MAX)) for text, tokens in found]

    return count


def paragraphs(text: str) -> list[TextBlock]:
    """A text without markup as paragraphs, separated by blank lines."""
    blocks: list[TextBlock] = []
    line, start = 1, 0
    for gap in _BLANK_LINES.finditer(text):
        blocks += _paragraph(text[start : gap.start()], line)
        line += text.count("\n", start, gap.end())
        start = gap.end()
    return [*blocks, *_paragraph(text[start:], line)]


def _paragraph(text: str, line: int) -> list[TextBlock]:
    if not text.strip():
        return []
    lead = len(text) - len(text.lstrip("\n"))
    body = text.strip("\n")
    first = line + lead
    return [TextBlock("paragraph", body, (), 0, first, first + body.count("\n"))]


def _everything(text: str, suffix: str) -> list[TextBlock]:
    """The blocks of a text, and what is in none of them: headings, rules, front matter. Such lines stand at the head of
    the paragraph below them; before code, a list or a table they are a paragraph."""
    lines = text.split("\n")
    blocks: list[TextBlock] = []
    last = 0  # the line up to which everything is in a block
    for block in parse(text, suffix, "").blocks:
        if block.kind == "code" and _is_prose(block.text):
            block = block._replace(kind="paragraph")
        before = _some_lines(lines, last, block.first_line - 1, block)
        if before and block.kind == "paragraph":
            block = block._replace(first_line=before[0].first_line)
        else:
            blocks += before
        blocks += _some_lines(lines, block.first_line - 1, block.last_line, block, block.kind)
        last = block.last_line
    sibling = blocks[-1] if blocks else TextBlock("paragraph", "", (), 0, 1, 1)
    return [*blocks, *_some_lines(lines, last, len(lines), sibling)]


def _some_lines(
    lines: Sequence[str], start: int, end: int, sibling: TextBlock, kind: BlockKind = "paragraph"
) -> list[TextBlock]:
    """Lines start to end, 0-based, as a block of the same section as another one; none where they are blank."""
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    if start == end:
        return []
    body = "\n".join(lines[start:end])
    return [sibling._replace(kind=kind, text=body, first_line=start + 1, last_line=end)]


def _is_prose(code: str) -> bool:
    """Return whether an indented block is prose that somebody indented."""
    if code.lstrip().startswith(("```", "~~~")):
        return False
    return sum(each.isalpha() or each.isspace() or each in ".," for each in code) >= PROSE_SHARE_MIN * len(code)


def _pieces(
    blocks: Sequence[TextBlock], count_tokens: CountTokens, most: int = TOKENS_MAX, chars: int = CONTENT_CHARS_MAX
) -> list[_ChunkPiece]:
    """The blocks of a section, those that are too long cut: a paragraph into pieces of at most `most` tokens, code, a
    list or a table that no memory can hold into pieces of at most `chars` characters."""
    pieces: list[_ChunkPiece] = []
    counts = count_tokens([block.text for block in blocks])
    for block, tokens in zip(blocks, counts, strict=True):
        if block.kind != "paragraph" and len(block.text) > CONTENT_CHARS_MAX:
            pieces += _cut_between_lines(block, count_tokens, chars)
        elif block.kind == "paragraph" and tokens > most:
            pieces += _cut_at_sentences(block.text, block.first_line, tokens, count_tokens, most)
        else:
            whole = block.kind != "paragraph"
            pieces.append(_piece(block.text, tokens, block.first_line, block.last_line, whole=whole))
    return pieces


# Joining what is too short


def _joined(pieces: Sequence[_ChunkPiece], count_tokens: CountTokens) -> list[_ChunkPiece]:
    """The pieces of one section, each that is too short joined to the next, or, failing that, to the one before."""
    done: list[_ChunkPiece] = []
    pending: _ChunkPiece | None = None
    for piece in pieces:
        if pending is None:
            pending = piece
        elif _belongs_before(pending, piece) and done and _fits(done[-1], pending):
            done[-1] = _join(done[-1], pending)
            pending = piece
        elif (pending.is_short and _fits(pending, piece)) or (
            # Code, a list or a table that the words before it announce
            piece.whole and _is_lead(pending.text) and pending.tokens + piece.tokens < TOKENS_MAX
        ):
            are_short = max(pending.tokens, piece.tokens) < TOKENS_MIN
            pending = _join(pending, piece)
            # The sum, in which each part is rounded up, can be over the limit where the text is still under it.
            if are_short and pending.tokens >= TOKENS_MIN:
                pending = pending._replace(tokens=count_tokens([_stored_text(pending)])[0])
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


def _close(done: list[_ChunkPiece], piece: _ChunkPiece) -> None:
    if piece.is_short and done and _fits(done[-1], piece):
        done[-1] = _join(done[-1], piece)
    else:
        done.append(piece)


# Lines that begin a topic: a heading, a label, or a directive, except those that add to the text above.
_TELLS_MORE = r"(?:version|deprecated|audit-event|availability|moduleauthor|sectionauthor|seealso)"
_MORE = lazy_pattern(rf"\.\. {_TELLS_MORE}")
_DIRECTIVE = lazy_pattern(rf"\.\. (?!{_TELLS_MORE})[\w:-]{{2,40}}::|\.\. _")
_HEADING = lazy_pattern(r"#{1,6} |[^\n]*\n([=\-~^\"'`*+#.])\1{2,}[ \t]*(?:\n|$)")


def _belongs_before(pending: _ChunkPiece, piece: _ChunkPiece) -> bool:
    """Return whether a short last piece belongs to the piece before it rather than to the head of the next block."""
    if not pending.is_short or piece.whole or _is_lead(pending.text):
        return False
    text = piece.text.lstrip()
    begins = _DIRECTIVE.match(text) or _HEADING.match(text) or (piece.tokens < TOKENS_MIN and _is_lead(text))
    return bool(begins or _MORE.match(pending.text.lstrip()))


def _is_lead(text: str) -> bool:
    """Return whether the text announces the next block: "For example:", a signature, a heading."""
    line = text.rstrip().rpartition("\n")[2].strip()
    is_underline = len(line) >= 3 and len(set(line)) == 1 and line[0] in "=-~^\"'*+#"
    return is_underline or line.endswith((":", "：")) or _DIRECTIVE.match(line) is not None


def _fits(one: _ChunkPiece, other: _ChunkPiece) -> bool:
    """Return whether two pieces fit into one. A short text and the list it introduces fit, however long the list is."""
    if len(one.text) + len(other.text) + max(other.first - one.last, 1) > CONTENT_CHARS_MAX:
        return False
    return one.tokens + other.tokens < TOKENS_MAX or one.whole or other.whole


def _join(one: _ChunkPiece, other: _ChunkPiece) -> _ChunkPiece:
    gap = "\n" * max(other.first - one.last, 1)  # the true number of lines, so that lines can be counted in it
    tokens = one.tokens + other.tokens + 1
    text, whole = one.text + gap + other.text, one.whole or other.whole
    return _ChunkPiece(text, tokens, one.first, other.last, whole, one.says or other.says)


def _shared_out(one: _ChunkPiece, other: _ChunkPiece, count_tokens: CountTokens) -> list[_ChunkPiece]:
    """Re-cut two neighbours, too long together and one too short alone, into even pieces."""
    both = _join(one, other)
    return _cut_at_sentences(both.text, both.first, both.tokens, count_tokens)


# Cutting what is too long


def _cut_at_sentences(
    text: str, first_line: int, tokens: int, count_tokens: CountTokens, most: int = TOKENS_MAX
) -> list[_ChunkPiece]:
    """A paragraph of `tokens` tokens as pieces of about equal size, none over `most`, cut at sentence ends."""
    units = _units(text, count_tokens, most)
    aim = tokens / -(-tokens // (most - TOKENS_MIN))
    groups: list[tuple[int, int, int]] = []  # start, end, tokens
    for start, end, size in units:
        if groups and (groups[-1][2] + size // 2 <= aim and groups[-1][2] + size <= most):
            groups[-1] = (groups[-1][0], end, groups[-1][2] + size)
        else:
            groups.append((start, end, size))
    if len(groups) > 1 and groups[-1][2] < TOKENS_MIN and groups[-1][2] + groups[-2][2] <= most:
        last = groups.pop()
        groups[-1] = (groups[-1][0], last[1], groups[-1][2] + last[2])
    pieces: list[_ChunkPiece] = []
    line, counted = first_line, 0
    for start, end, size in groups:
        line += text.count("\n", counted, start)
        counted = start
        body = text[start:end].rstrip()
        lead = len(body) - len(body.lstrip("\n"))
        pieces.append(_piece(body.strip("\n"), size, line + lead, line + body.count("\n"), whole=False))
    return pieces


def _units(text: str, count_tokens: CountTokens, most: int) -> list[tuple[int, int, int]]:
    """(start, end, tokens) of the smallest parts a paragraph is cut into: sentences, and what is left of one that is
    too long when it is cut at line ends, else at blanks, else anywhere."""
    starts = [0, *(match.end() for match in _SENTENCE_END.finditer(text))]
    spans = [(a, b) for a, b in zip(starts, [*starts[1:], len(text)], strict=True) if b > a]
    sizes = count_tokens([text[a:b] for a, b in spans])
    units: list[tuple[int, int, int]] = []
    for (start, end), size in zip(spans, sizes, strict=True):
        if size <= most:
            units.append((start, end, size))
        else:
            parts = list(_hard_parts(text, start, end, count_tokens, most))
            counts = count_tokens([text[a:b] for a, b in parts])
            units += [(a, b, n) for (a, b), n in zip(parts, counts, strict=True)]
    return units


def _hard_parts(text: str, start: int, end: int, count_tokens: CountTokens, most: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(start + most // 2 * CHARS_PER_TOKEN, end)
        if count_tokens([text[start:stop]])[0] > most:
            stop = min(start + most // 2, end)
        if stop < end:
            least = (start + stop) // 2
            cut = text.rfind("\n", least, stop)
            cut = cut if cut >= 0 else text.rfind(" ", least, stop)
            stop = cut + 1 if cut >= 0 else stop
        yield start, stop
        start = stop


def _cut_between_lines(block: TextBlock, count_tokens: CountTokens, chars: int) -> list[_ChunkPiece]:
    """Code, a table or a list that no memory can hold, cut between lines; a table's header heads every piece."""
    lines = block.text.split("\n")
    head = _table_head(lines) if block.kind == "table" else 0
    header = "".join(line + "\n" for line in lines[:head])
    room = chars - len(header)
    groups: list[list[tuple[str, int]]] = []  # rows with their line numbers
    size = 0
    for number, line in enumerate(lines[head:], block.first_line + head):
        for row in (line[at : at + room] for at in range(0, max(len(line), 1), room)):  # cut anywhere if it is too long
            if not groups or size + len(row) + 1 > room:
                groups.append([])
                size = 0
            groups[-1].append((row, number))
            size += len(row) + 1
    texts = [header + "\n".join(row for row, _ in group) for group in groups]
    return [
        _piece(text, tokens, group[0][1] if at else block.first_line, group[-1][1], whole=True)
        for at, (text, tokens, group) in enumerate(zip(texts, count_tokens(texts), groups, strict=True))
    ]


def _table_head(lines: Sequence[str]) -> int:
    """Number of header lines of a table: those down to the rule below it, if that is near."""
    for index, line in enumerate(lines[:6]):
        bare = line.strip()
        if index and bare and not set(bare) - set("|:-+= "):
            head = index + 1
            return head if sum(map(len, lines[:head])) < CONTENT_CHARS_MAX // 4 else 0
    return 0


# Conversations


class _SpeakerTurn(NamedTuple):
    """A turn of a conversation: the blocks from a speaker's line up to the next one's. Before the first: no speaker."""

    speaker: str  # as it is put before what follows of a turn that is cut, such as "Anna:"
    blocks: list[TextBlock]


SPEAKER_CHARS_MAX = 40
SPEAKER_WORDS_MAX = 4
SPOKEN_SHARE_MIN = 0.125  # of the blocks of a conversation, in which somebody begins to speak
_ROLES = frozenset({"user", "assistant", "human", "ai", "system", "agent", "bot", "me", "you", "q", "a", "model"})
_TIME = r"[\[(]?\d[\d./,: \-]{2,24}(?:[AaPp]\.?[Mm]\.?)?[\])]?[ \t]{0,3}[-–—]?[ \t]{0,3}"
_SPEAKER = lazy_pattern(
    rf"[ \t]{{0,8}}(?:[-*+>•][ \t]{{1,4}})?(?P<time>{_TIME})?(?:\*\*|__)?"
    rf"(?P<name>[^\W\d_](?:[\w.'’ -]{{0,{SPEAKER_CHARS_MAX - 2}}}[\w.])?)"
    rf"(?:\*\*|__)?(?P<behind>[ \t]?[\[(]\d[\d:. ]{{2,12}}[\])])?(?:：|:(?:\*\*|__)?(?=[ \t]|$))"
)


def _speakers(blocks: Sequence[TextBlock]) -> frozenset[str]:
    """The speakers of a conversation: names that recur, have a time, or are roles. Empty for any other text.

    A name before a colon that occurs once may be anything ("Note:", "Result:"), and so may a single name, or labels
    that recur here and there in a long text.
    """
    times: Counter[str] = Counter()
    for block in blocks:
        for _, name, is_sure in _beginnings(block):
            times[name] += 2 if is_sure else 1
    speakers = frozenset(name for name, count in times.items() if count >= 2)
    spoken = sum(
        any(name in speakers and _says_something(block, number, name) for number, name, _ in _beginnings(block))
        for block in blocks
    )
    return speakers if len(speakers) >= 2 and spoken >= len(blocks) * SPOKEN_SHARE_MIN else frozenset()


def _says_something(block: TextBlock, number: int, name: str) -> bool:
    """Return whether words follow the name. A label stands alone on its line, and so may a role."""
    lines = block.text.split("\n")
    return number + 1 < len(lines) or not lines[number].rstrip("* _").endswith((":", "：")) or name.lower() in _ROLES


def _beginnings(block: TextBlock) -> Iterator[tuple[int, str, bool]]:
    """The lines of a block, counted from 0, on which somebody may begin to speak, who, and whether that is sure: by a
    time or a role."""
    if block.kind not in ("paragraph", "list"):
        return
    for number, line in enumerate(block.text.split("\n")):
        if match := _SPEAKER.match(line) if ":" in line or "：" in line else None:
            name = match["name"]
            is_role = name.lower() in _ROLES
            if name.count(" ") < SPEAKER_WORDS_MAX and (is_role or not name[0].islower()):
                yield number, name, is_role or bool(match["time"] or match["behind"])


def _turns(blocks: Sequence[TextBlock], speakers: frozenset[str]) -> list[_SpeakerTurn]:
    """The turns of a conversation; what a heading begins is nobody's until somebody speaks."""
    turns = [_SpeakerTurn("", [])]
    section = blocks[0].section
    for block in blocks:
        if block.section != section:
            section = block.section
            turns.append(_SpeakerTurn("", []))
        for part, speaker in _parts(block, speakers):
            if speaker:
                turns.append(_SpeakerTurn(f"{speaker}:", []))
            turns[-1].blocks.append(part)
    return [turn for turn in turns if turn.blocks]


def _parts(block: TextBlock, speakers: frozenset[str]) -> Iterator[tuple[TextBlock, str]]:
    """A block, cut before each line on which a speaker begins, and who that is."""
    lines = block.text.split("\n")
    begins = [(number, name) for number, name, _ in _beginnings(block) if name in speakers]
    if not begins:
        yield block, ""
        return
    borders = [*([(0, "")] if begins[0][0] else []), *begins, (len(lines), "")]
    for (start, speaker), (end, _) in pairwise(borders):
        for part in _some_lines(lines, start, end, block):
            ahead = block.first_line - 1
            yield part._replace(first_line=ahead + part.first_line, last_line=ahead + part.last_line), speaker


class _TurnPiece(NamedTuple):
    """A turn, or a piece of one that is too long."""

    piece: _ChunkPiece
    speaker: str
    speaker_tokens: int
    begins: bool  # with the speaker's own line


def _spoken(turns: Sequence[_SpeakerTurn], count_tokens: CountTokens) -> Iterator[_TurnPiece]:
    """The turns, each in as few pieces as it can be."""
    names = count_tokens([turn.speaker for turn in turns])
    for turn, speaker_tokens in zip(turns, names, strict=True):
        pieces = _announced(_pieces(turn.blocks, count_tokens, TOKENS_MAX - speaker_tokens, CUT_CHARS))
        chars = sum(len(piece.text) + 2 for piece in pieces)
        if sum(piece.tokens + 1 for piece in pieces) <= TOKENS_MAX and chars <= CONTENT_CHARS_MAX:
            pieces = [functools.reduce(_join, pieces)]
        for number, piece in enumerate(pieces):
            yield _TurnPiece(piece, turn.speaker, speaker_tokens, number == 0)


def _announced(pieces: Sequence[_ChunkPiece]) -> list[_ChunkPiece]:
    """Join code, a list or a table of a turn with the few words that announce it."""
    done: list[_ChunkPiece] = []
    for piece in pieces:
        before = done[-1] if done else piece
        few = min(piece.tokens, before.tokens) < TOKENS_MIN and (piece.whole or before.whole)
        if done and few and _fits(before, piece):
            done[-1] = _join(before, piece)
        else:
            done.append(piece)
    return done


def _packed(said: Iterator[_TurnPiece], count_tokens: CountTokens) -> Iterator[_ChunkPiece]:
    """Pack as many turns into each piece as fit."""
    waiting = deque(said)
    groups: list[list[_TurnPiece]] = []
    sizes: list[int] = []
    while waiting:
        each = waiting.popleft()
        if groups and _goes_with(groups[-1], sizes[-1], each):
            groups[-1].append(each)
            sizes[-1] += each.piece.tokens + 1
            continue
        if groups and sizes[-1] < TOKENS_MIN and not each.piece.whole and not groups[-1][-1].piece.whole:
            # Cut so that its beginning fits to what is too short alone
            most, whole = TOKENS_MAX - TOKENS_MIN - each.speaker_tokens, each.piece
            parts = _cut_at_sentences(whole.text, whole.first, whole.tokens, count_tokens, most)
            begin, *rest = (each._replace(piece=part, begins=each.begins and part is parts[0]) for part in parts)
            if rest and _goes_with(groups[-1], sizes[-1], begin):
                waiting.extendleft(reversed([begin, *rest]))
                continue
        groups.append([each])
        sizes.append(each.piece.tokens + (0 if each.begins else each.speaker_tokens))  # which a continued turn repeats
    if len(groups) > 1:
        _even_out(groups[-2], groups[-1], sizes[-2], sizes[-1])
    return map(_together, groups)


def _goes_with(group: Sequence[_TurnPiece], size: int, each: _TurnPiece) -> bool:
    """Return whether the turn still fits into the group."""
    chars = sum(len(before.piece.text) + 2 for before in group) + len(each.piece.text) + SPEAKER_CHARS_MAX + 2
    return chars <= CONTENT_CHARS_MAX and size + each.piece.tokens + 1 <= TOKENS_MAX


def _even_out(before: list[_TurnPiece], last: list[_TurnPiece], before_size: int, last_size: int) -> None:
    """Move turns into a last group that is too short, as many as the group before can spare."""
    while last_size < TOKENS_MIN and len(before) > 1:
        size = before[-1].piece.tokens + 1
        if before_size - size < TOKENS_MIN or before[-1].piece.whole:
            break
        last.insert(0, before.pop())
        before_size -= size
        last_size += size


def _together(group: Sequence[_TurnPiece]) -> _ChunkPiece:
    piece, speaker, _, begins = group[0]
    if speaker and not begins and len(piece.text) + len(speaker) < CONTENT_CHARS_MAX:
        piece = piece._replace(text=speaker + ("\n" if piece.whole else " ") + piece.text)
    return functools.reduce(_join, (each.piece for each in group[1:]), piece)
