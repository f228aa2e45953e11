"""The tokenizer: turns a text into search terms with their positions. SPEC 2.3, 7.2

A text is cut at white space into chunks, and each chunk is analysed by itself, so that an index may cache the answer
for a chunk it has seen. A chunk becomes pieces:

    word        memories → memori · 東京都 → 東京, 京都 · part of an identifier · 3.11.2
    whole       an identifier as one term: src/words.py, wordview (for wordView, word-view), c++, 3.11 of 3.11.2
    character   one character of a run of Chinese, Japanese, Korean, Thai …, for queries of one character
    stop word   the, is, who: indexed, and used only by a query that has nothing else

Before that, every character is folded: compatibility forms and accents go (ﬁ → fi, é → e, Ａ → A), its shape is
noted in ASCII (capital, small, digit, unspaced script, symbol), and the structure is read off the shapes. Nothing a
text contains can raise.
"""

import functools
import importlib.util
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from py_rust_stemmers import SnowballStemmer  # type: ignore[attr-defined]  # its stub is empty

RULES = 1  # version of this module's rules: an index made with another one is rebuilt
TERM_CHARS_MAX = 64  # code points; longer identifiers are known by their parts, longer parts by their beginning
QUERY_TERMS_MAX = 256  # distinct terms, in order of appearance; the rest of a longer query is not looked up
CHINESE_WORD_CHARS_MIN = 3  # shorter ones are bigrams already

_STOPS = """
a about above after again all also am an and any are aren arent as at be because been before being below between both
but by can cannot cant could couldnt did didnt do does doesnt doing dont down during each else few for from further
had hadnt has hasnt have havent having he her here hers herself him himself his how i if in into is isnt it its itself
just let me more most mustnt my myself neednt no nor not now of off on once only or other our ours ourselves out over
own same shall shant she should shouldnt so some such than that the their theirs them themselves then there these they
this those through to too under until up upon very was wasnt we were werent what when where which while who whom whose
why with wont would wouldnt yet you your yours yourself yourselves
"""
ENGLISH_STOPS = frozenset(_STOPS.split())  # without may, us, will, which are also a month, a country, a name

Kind = Literal["word", "whole", "character", "stop"]
Segmenter = Callable[[str], list[tuple[str, int, int]]]  # Han text to (word, start, end), overlaps allowed


class Token(NamedTuple):
    """A term and its position: offsets in code points of the original text, end exclusive."""

    term: str
    start: int
    end: int


class Piece(NamedTuple):
    """A token of one chunk, and its kind."""

    term: str
    start: int
    end: int
    kind: Kind


class _FoldedText(NamedTuple):
    """A chunk after folding. plain and shape have equal length; starts and ends lead back to the chunk."""

    plain: str
    shape: str
    starts: range | list[int]
    ends: range | list[int]


# Shapes. ASCII stands for itself; all other characters are represented by one of these. The two that are not ASCII are
# private-use characters, which in a text count as gaps, so no text can forge them.
_CAPITAL, _SMALL, _DIGIT, _UNSPACED, _SYMBOL, _GAP = "A", "a", "0", "\ue000", "\ue001", " "
_SYMBOLS_FROM = "\u2190"  # arrows, dingbats, emoji can be looked for; © and ° cannot

_CHUNK = re.compile(r"\S+")  # as str.split cuts
# A plain word, which is what most texts consist of: the fast path.
_PLAIN_WORD = re.compile(rf"""[("'\[*]*([A-Z]?[a-z]{{1,{TERM_CHARS_MAX - 1}}})[.,:;!?)"'\]*]*""")
_WORD = r"[A-Za-z0-9_]+"
_COMPOUND = re.compile(
    rf"{_UNSPACED}+|{_SYMBOL}|{_WORD}(?:(?:[-_.'/\\:@&=%~+#$]{{1,3}}|(?<=[0-9]),(?=[0-9])){_WORD})*(?:\+\+|#)?"
)
_SEGMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.,'-]*[A-Za-z0-9])?")
_PART = re.compile(r"[A-Za-z0-9]+")
_VERSION = re.compile(r"[vV]?([0-9]+(?:\.[0-9]+)+)")
_GROUPED_NUMBER = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_NEGATION = re.compile(r"[a-z]+n't", re.IGNORECASE)
_CONTRACTED = re.compile(r"'(?:s|ll|re|ve|d|m)\Z", re.IGNORECASE)
_SHARP = re.compile(r"[A-Za-z]#")  # C#, F#
_NAME = re.compile(r"([A-Za-z]+)([0-9]*)")  # sha256 has parts, a3f9b2c has none
_ACRONYMS = re.compile(r"[A-Z]{2,}s\Z")  # the stemmer leaves the s of PDFs
_HUMP = re.compile(r"[A-Z]{2,}s(?![A-Za-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HAN = re.compile(f"[\u3400-\u9fff\U00020000-\U0003ffff]{{{CHINESE_WORD_CHARS_MIN},}}")

# Scripts written without spaces between words: Thai, Lao, Myanmar, Khmer, Jamo, kana, bopomofo, Han, Hangul.
_UNSPACED_SCRIPT = re.compile(
    "[\u0e01-\u0e4e\u0e81-\u0ecd\u1000-\u1049\u1780-\u17d3\u1100-\u11ff\u3005-\u3007\u3041-\u3096\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7a3\U00020000-\U0003ffff]"
)
# Accents, Hebrew points, Arabic vowel signs, variation selectors. Marks that make another letter (Indic vowels, the
# voicing of kana) stay.
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f]"
)
_PLAIN_LETTERS = frozenset("йЙ")  # letters of their own whose mark is no accent
_APOSTROPHES = frozenset("\u2019\u02bc\u2032")
_HYPHENS = frozenset("\u2010\u2212")
_BREAK = "\u200b"  # zero-width space: invisible, yet it ends a word
_FOLDS_KEPT = 8192  # character clusters whose folding is cached; a text has some hundreds, Chinese thousands
_CLUSTER_KEPT_MAX = 8  # characters; a longer cluster is no letter, and may be a whole text of accents


def chunks(text: str) -> list[str]:
    """The runs between white space; each can be analysed by itself."""
    return text.split()


@functools.lru_cache(_FOLDS_KEPT)
def _extends(character: str) -> bool:
    """True for what composes with the character before it: marks, the later Jamo of a syllable, halfwidth voicing."""
    return unicodedata.category(character)[0] == "M" or "\u1160" <= character <= "\u11ff" or character in "\uff9e\uff9f"


@functools.lru_cache(_FOLDS_KEPT)
def _fold(cluster: str) -> tuple[str, str]:
    """Plain form and shape of a character with what extends it; both empty for formatting characters."""
    plain = unicodedata.normalize("NFC", cluster)
    if plain not in _PLAIN_LETTERS:
        plain = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", cluster)))
    plain = "".join(c for c in plain if unicodedata.category(c) != "Cf" or c == _BREAK)
    return plain, "".join(map(_shape, plain))


def _shape(character: str) -> str:
    if character.isascii():
        return character
    if _UNSPACED_SCRIPT.match(character):
        return _UNSPACED
    if character in _APOSTROPHES:
        return "'"
    if character in _HYPHENS:
        return "-"
    match unicodedata.category(character):
        case "Lu" | "Lt":
            return _CAPITAL
        case "Ll" | "Lm" | "Lo" | "Mn" | "Mc" | "Me":
            return _SMALL
        case "Nd" | "Nl" | "No":
            return _DIGIT
        case "So" if character >= _SYMBOLS_FROM:
            return _SYMBOL
        case _:
            return _GAP


def _folded(chunk: str) -> _FoldedText:
    if chunk.isascii():
        return _FoldedText(chunk, chunk, range(len(chunk)), range(1, len(chunk) + 1))
    begins = [i for i, character in enumerate(chunk) if i == 0 or not _extends(character)]
    plain, shape, starts, ends = [], [], [], []
    for start, end in zip(begins, [*begins[1:], len(chunk)], strict=True):
        cluster = chunk[start:end]
        letters, shapes = _fold(cluster) if len(cluster) <= _CLUSTER_KEPT_MAX else _fold.__wrapped__(cluster)
        plain.append(letters)
        shape.append(shapes)
        starts += [start] * len(letters)
        ends += [end] * len(letters)
    return _FoldedText("".join(plain), "".join(shape), starts, ends)


@functools.cache
def _jieba() -> Any:
    """The optional Chinese segmenter, imported on the first Chinese text: it costs 0.4 s and 33 MB. None without it."""
    try:
        import rjieba
    except ImportError:
        return None
    return rjieba


def chinese_words(text: str) -> list[tuple[str, int, int]]:
    """The words of a Chinese text, long ones also in their parts; none without the extra `zh`."""
    jieba = _jieba()
    return [] if jieba is None else jieba.tokenize(text, "search")


class Tokenizer:
    """Cuts text into terms for one stemming language. Holds no state: safe from any thread."""

    def __init__(self, language: str = "english", segment: Segmenter = chinese_words) -> None:
        """language: one of Snowball's, else ValueError. Stop words are known for English alone."""
        self._stem = SnowballStemmer(language).stem_word
        self._stops = ENGLISH_STOPS if language == "english" else frozenset[str]()
        self._segment = segment
        segmented = segment is not chinese_words or importlib.util.find_spec("rjieba") is not None
        self.signature = f"{RULES}/{unicodedata.unidata_version}/{language}/{'zh' if segmented else '-'}"

    def tokens(self, text: str, *, keep_stops: bool = False) -> list[Token]:
        """Every term by which a query could find this text, with its position. Identifiers come before their parts."""
        found: list[Token] = []
        for match in _CHUNK.finditer(text):
            at = match.start()
            found += [
                Token(piece.term, at + piece.start, at + piece.end)
                for piece in self.pieces(match.group())
                if keep_stops or piece.kind != "stop"
            ]
        return found

    def query_terms(self, text: str) -> list[str]:
        """The terms to look up, each once, at most QUERY_TERMS_MAX; stop words only where there is nothing else."""
        terms: dict[str, None] = {}
        stops: dict[str, None] = {}
        for chunk in chunks(text):
            for piece in self.pieces(chunk):
                if piece.kind == "stop":
                    stops[piece.term] = None
                elif piece.kind != "character":
                    terms[piece.term] = None
            if len(terms) >= QUERY_TERMS_MAX:
                break
        return list(terms or stops)[:QUERY_TERMS_MAX]

    def highlight_spans(self, text: str, query: str) -> list[tuple[int, int]]:
        """The stretches of text that match terms of the query, in order, merged where they touch or overlap."""
        wanted = set(self.query_terms(query))
        spans = sorted((t.start, t.end) for t in self.tokens(text, keep_stops=True) if t.term in wanted)
        merged: list[tuple[int, int]] = []
        for start, end in spans:
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def pieces(self, chunk: str) -> list[Piece]:
        """The pieces of one of `chunks`, with offsets in that chunk."""
        if simple := _PLAIN_WORD.fullmatch(chunk):
            word, start, end = simple[1].lower(), *simple.span(1)
            if word in self._stops:
                return [Piece(word, start, end, "stop")]
            return [Piece(self._term(word), start, end, "word")]
        folded = _folded(chunk)
        found: list[Piece] = []
        for match in _COMPOUND.finditer(folded.shape):
            if match.group()[0] == _UNSPACED:
                local = self._unspaced(folded.plain, *match.span())
            elif match.group() == _SYMBOL:
                local = iter([Piece(folded.plain[match.start()], *match.span(), "whole")])
            else:
                local = self._compound(folded, *match.span())
            for term, start, end, kind in local:
                found.append(Piece(term, folded.starts[start], folded.ends[end - 1], kind))
        return found

    def _unspaced(self, plain: str, start: int, end: int) -> Iterator[Piece]:
        """A run without spaces: overlapping pairs, single characters, and the words of Chinese."""
        if end - start == 1:
            yield Piece(plain[start], start, end, "word")
            return
        for at in range(start, end):
            yield Piece(plain[at], at, at + 1, "character")
        for at in range(start, end - 1):
            yield Piece(plain[at : at + 2], at, at + 2, "word")
        for han in _HAN.finditer(plain, start, end):
            for word, first, last in self._segment(han.group()):
                if CHINESE_WORD_CHARS_MIN <= len(word) <= TERM_CHARS_MAX:
                    yield Piece(word, han.start() + first, han.start() + last, "whole")

    def _compound(self, folded: _FoldedText, start: int, end: int) -> Iterator[Piece]:
        """Words joined by anything: a path, an address, a single word."""
        segments = [match.span() for match in _SEGMENT.finditer(folded.shape, start, end)]
        if len(segments) > 1 and end - start <= TERM_CHARS_MAX:
            yield Piece(folded.plain[start:end].casefold(), start, end, "whole")
        for first, last in segments:
            if folded.shape.startswith("++", last) or _SHARP.match(folded.shape, first, last + 1):
                suffix = last + (2 if folded.shape[last] == "+" else 1)
                yield Piece(folded.plain[first:suffix].casefold(), first, suffix, "whole")
            yield from self._segment_pieces(folded, first, last)

    def _segment_pieces(self, folded: _FoldedText, start: int, end: int) -> Iterator[Piece]:
        """Words joined by - _ . ' or nothing: a name, a version, a contraction."""
        if contracted := _CONTRACTED.search(folded.shape, max(start + 1, end - 3), end):
            end = contracted.start()
        shape = folded.shape[start:end]
        if shape.isalnum():
            yield from self._name(folded, start, end)
        elif version := _VERSION.fullmatch(shape):
            yield from _version(folded.plain, start + version.start(1), end)
        elif _GROUPED_NUMBER.fullmatch(shape):
            yield Piece(folded.plain[start:end].replace(",", ""), start, end, "word")
        elif _NEGATION.fullmatch(shape):
            yield Piece((folded.plain[start : end - 2] + "t").casefold(), start, end, "stop")
        else:
            if end - start <= TERM_CHARS_MAX:
                yield Piece(self._term(_closed_up(folded, start, end)), start, end, "whole")
            for part in _PART.finditer(folded.shape, start, end):
                yield from self._name(folded, *part.span())

    def _name(self, folded: _FoldedText, start: int, end: int) -> Iterator[Piece]:
        """Letters and digits: a word, or a camelCase or numbered name with its parts."""
        name = _NAME.fullmatch(folded.shape, start, end) if end - start <= TERM_CHARS_MAX else None
        humps = [match.span() for match in _HUMP.finditer(folded.shape, start, end)] if name else []
        if len(humps) < 2:
            humps = [(start, min(end, start + TERM_CHARS_MAX))]
        else:
            yield Piece(self._term(folded.plain[start:end].casefold()), start, end, "whole")
        for first, last in humps:
            if _ACRONYMS.match(folded.shape, first, last):
                last -= 1
            word = folded.plain[first:last].casefold()
            if word in self._stops:
                yield Piece(word, first, last, "stop")
            else:
                yield Piece(self._term(word), first, last, "word")

    def _term(self, word: str) -> str:
        """The stem of a word of letters; itself where the stem would pass for a stop word (beings, be)."""
        stem = self._stem(word) if word.isalpha() else word
        return word if stem in self._stops or not stem else stem


def _version(plain: str, start: int, end: int) -> Iterator[Piece]:
    """A version and its prefixes: 3.11.2, 3.11, 3."""
    yield Piece(plain[start:end], start, end, "word")
    while (end := plain.rfind(".", start, end)) > start:
        yield Piece(plain[start:end], start, end, "whole")


def _closed_up(folded: _FoldedText, start: int, end: int) -> str:
    """An identifier as one word: without - _ ', except between digits, so that wi-fi is wifi and 2024-05-01 stays."""
    kept: list[str] = []
    for at in range(start, end):
        joint = folded.shape[at] in "-_'"
        if not joint or (folded.shape[at - 1].isdigit() and folded.shape[at + 1].isdigit()):
            kept.append(folded.plain[at])
    return "".join(kept).casefold()
