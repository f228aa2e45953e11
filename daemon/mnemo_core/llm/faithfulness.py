"""Verification that a text rests on its sources and says what they say, and nothing else. SPEC 12.3

A grounded text has only specifics of its sources, each looked at alone: that Anna has 4 cats and Bob 3 is grounded if
the sources have it the other way round. A faithful one is compared clause by clause: a clause is compared with the
clauses of the sources that share its words. It must take its words from one place of one source, its numbers, dates and
identifiers from a clause about the same, name its names in their order, and be negated or hedged as its source is. Like
the guard, this errs towards rejection: a rewording that no rule knows costs the answer, and a sentence that stands in
the sources as it is always passes.

The specifics of a text are its numbers (with their units), dates, identifiers and names, in the canonical form in which
the guard compares texts, so that `three` supports `3` and `5 January 2026` supports `2026-01-05`. A name is a word with
a capital, also at the start of a sentence, and in scripts without capitals every word. A rewording that no rule knows
counts as a specific of its own: that costs the answer, where the other mistake would put an invention into the store.
"""

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, get_args

from mnemo_core.text import lexicon
from mnemo_core.text.canonical import CanonicalForm, canonical_form
from mnemo_core.text.dates.date_words import MONTHS
from mnemo_core.text.languages import EMPTY_WORDS, STEM_LETTERS, WORD, sentences
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.tokens import NEGATIONS, OPERATORS, OPPOSITES, normalize_notation

SpecificKind = Literal["number", "date", "identifier", "name"]
_DATE = lazy_pattern(r"(?:[0-9]+|-)-(?P<month>[0-9]{2})(?![0-9])")  # as a token: 2023-05-08, 2023-05, --05-08, --05
_KINDS = (*get_args(SpecificKind), "word")  # a word is none of the specifics, but some tasks want all in the sources
_UNSUPPORTED = "is in none of the sources"
_LOST = "of a source is lost"


class Specific(NamedTuple):
    """A value that a text cannot know unless a source has it."""

    kind: SpecificKind
    value: str


def unsupported_specific(text: str, sources: Sequence[str]) -> Specific | None:
    """Return the first specific of a text that stands in none of the sources; None if they support all of them."""
    return _unsupported(text, _Support.of(sources)) if find_specifics(text) else None


def rejection_of(text: str, sources: Sequence[str]) -> str:
    """Return why a text must not be used, in words for a log; "" if the sources support all of it."""
    found = unsupported_specific(text, sources)
    return f"the {found.kind} {found.value!r} {_UNSUPPORTED}" if found else ""


def loss_of(sources: Sequence[str], text: str) -> str:
    """Return what would be lost if a text replaced its sources, in words for a log; "" if it has all specifics."""
    support = _Support.of([text])
    for source in sources:
        if found := _unsupported(source, support):
            return f"the {found.kind} {found.value!r} {_LOST}"
    return ""


def rejection_kind(reason: str) -> str:
    """Return the kind of a rejection without the words of the texts: `unsupported name`, `lost number` or `other`."""
    kind = reason.removeprefix("the ").partition(" ")[0]
    if kind in _KINDS:
        if reason.endswith(_UNSUPPORTED):
            return f"unsupported {kind}"
        if reason.endswith(_LOST):
            return f"lost {kind}"
    return "other"


class _Support(NamedTuple):
    """The sources, as a text is looked up in them."""

    sentences: frozenset[str]  # with single spaces
    values: frozenset[Specific]
    words: frozenset[str]

    @classmethod
    def of(cls, sources: Sequence[str]) -> "_Support":
        # A part may have its own language.
        parts = dict.fromkeys(part for source in sources for part in (source.strip(), *sentences(source)))
        known, words = set[Specific](), set[str]()
        for part in parts:
            values = find_values(canonical_form(part))
            known.update(values)
            words.update(_without_months((word.casefold() for word in _words(part)), values))
        known |= {broader for value in known for broader in broader_specifics(value)}
        return cls(frozenset(map(single_spaced, parts)), frozenset(known), frozenset(words))


def _unsupported(text: str, support: _Support) -> Specific | None:
    """The first specific without support in a text, outside sentences that are quoted as they are."""
    rest = [sentence for sentence in sentences(text) if single_spaced(sentence) not in support.sentences]
    for specific in find_specifics("\n".join(rest)):
        if specific.value not in support.words if specific.kind == "name" else specific not in support.values:
            return specific
    return None


def single_spaced(text: str) -> str:
    """The text with one space for any white space."""
    return " ".join(text.split())


def find_specifics(text: str, form: CanonicalForm | None = None) -> list[Specific]:
    """The specifics of a text; its names last. form: the canonical form of the text, where it is known."""
    values = find_values(form or canonical_form(text))
    return [*values, *(Specific("name", word) for word in _without_months(find_names(text), values))]


def find_values(form: CanonicalForm) -> list[Specific]:
    """The specifics of a text that are no names."""
    found: list[Specific] = []
    for token, after in itertools.zip_longest(form.tokens, form.tokens[1:]):
        if token.kind == "number" and after is not None and after.kind == "unit":
            found.append(Specific("number", f"{token.value} {after.value}"))
        elif token.kind in ("number", "date", "identifier"):
            found.append(Specific(token.kind, token.value))
    return found


def _without_months(words: Iterable[str], values: Iterable[Specific]) -> Iterable[str]:
    """The words that are not months of the dates among the values: these are a part of the date, and name nobody."""
    dates = (_DATE.match(value.value) for value in values if value.kind == "date")
    months = {int(date["month"]) for date in dates if date}
    return (word for word in words if MONTHS.get(word) not in months)


def find_names(text: str) -> Iterable[str]:
    """The words that may be names, in small letters."""
    for word in _words(text):
        has_capital = word != word.lower()
        is_caseless = word.isalpha() and word.lower() == word.upper()
        if (has_capital or is_caseless) and (small := word.casefold()) not in EMPTY_WORDS:
            yield small


def _words(text: str) -> Sequence[str]:
    return WORD.findall(normalize_notation(text))


def broader_specifics(specific: Specific) -> Iterable[Specific]:
    """The less exact specifics that a specific supports: of a day its month and year, of an amount the number."""
    if specific.kind == "number" and " " in specific.value:
        yield Specific("number", specific.value.partition(" ")[0])
    elif specific.kind == "date" and (parts := specific.value.split("-"))[0].isdecimal():
        yield Specific("number", parts[0])
        yield Specific("date", "-".join(parts[:2]))
        yield Specific("date", "--" + "-".join(parts[1:]))
        yield from (Specific("date", f"--{month}") for month in parts[1:2])


CLAUSES_MAX = 1000  # of all sources together, since each clause is compared with all that share a word
_CONJUNCTIONS = "|".join(sorted(lexicon.words("clauses", "conjunctions")))
_CLAUSE_END = lazy_pattern(rf"[,;:](?=\s)|[，；：、—–]|\s(?:{_CONJUNCTIONS})(?=\s)")
_VALUES = ("number", "unit", "date", "identifier")
_NOT_MODAL = frozenset({"is"})  # the passive, which the guard counts among the operators


class ComparedClause(NamedTuple):
    """A clause as it is compared."""

    words: tuple[str, ...]  # content words in their order, by their first letters, without the following
    values: frozenset[Specific]
    opposites: frozenset[str]  # words that have an opposite
    operators: frozenset[str]  # negations and words that set how firmly or when something holds
    names: frozenset[str]  # of the words, those with a capital


class _Sources(NamedTuple):
    """The clauses of the sources, and where each word stands."""

    clauses: list[ComparedClause]
    clauses_with: dict[str, list[int]]  # by word
    passages: list[frozenset[str]]  # the words of two sentences in a row
    passages_with: dict[str, list[int]]


def distortion_of(text: str, sources: Sequence[str]) -> str:
    """Return where a text says something else than its sources, in words for a log; "" if it is faithful to them."""
    quoted = {single_spaced(part) for source in sources for part in (source, *sentences(source))}
    new = dict.fromkeys(sentence for sentence in sentences(text) if single_spaced(sentence) not in quoted)
    if not new:
        return ""
    known = _read_sources(sources)
    if known is None:
        return "the sources have too many clauses to be compared"
    found = (_distortion(clause, known) for sentence in new for clause in read_clauses(sentence))
    return next(filter(None, found), "")


def omission_of(sources: Sequence[str], text: str) -> str:
    """Return what a text leaves out or says otherwise that replaces its sources, in words for a log; "" for nothing."""
    found = (distortion_of(source, [text]) for source in sources)
    return next((f"of a source, {reason}" for reason in found if reason), "")


def contradiction_between(one: str, other: str) -> str:
    """Return where two texts say different things of the same, in words for a log; "" if they can stand side by side.

    Clauses are about the same if one has all content words of the other; they contradict each other in values of a kind
    of which they share none, in opposites, or if only one of them is negated. So do clauses that differ in one word.
    A sentence of both contradicts neither.
    """
    said = [dict.fromkeys(map(single_spaced, sentences(text))) for text in (one, other)]
    known = _read_sources([sentence for sentence in said[0] if sentence not in said[1]])
    if known is None:
        return "they have too many clauses to be compared"
    for sentence in [sentence for sentence in said[1] if sentence not in said[0]]:
        for clause in map(_with_broader, read_clauses(sentence)):
            words = set(clause.words)
            shared = Counter(at for word in words for at in known.clauses_with.get(word, ()))
            for at, count in shared.items():
                near = known.clauses[at]
                is_same = count == min(len(words), len(set(near.words)))
                if (is_same and _contradict(clause, near)) or _replaces_word(clause, near):
                    return f"{_shown(clause)} stands against {_shown(near)}"
    return ""


def read_clauses(sentence: str) -> list[ComparedClause]:
    """The clauses of a sentence. What has no content words of its own belongs to the clause before or after it."""
    groups: list[list[ComparedClause]] = []
    has_words = False
    for clause in map(_read_clause, _CLAUSE_END.split(sentence)):
        if not groups or (has_words and clause.words):
            groups.append([])
            has_words = False
        groups[-1].append(clause)
        has_words = has_words or bool(clause.words)
    return [_joined(group) for group in groups]


def _read_clause(text: str) -> ComparedClause:
    names = {_stem(name) for name in find_names(text)}
    words, opposites, operators = list[str](), set[str](), set[str]()
    for value, kind in (form := canonical_form(text)).tokens:
        if kind == "negation":  # `no longer` is one token
            operators.update((value, "not"))
        elif value in OPERATORS or value in NEGATIONS:
            operators.add(value)
        elif value in OPPOSITES:
            opposites.add(value)
        elif kind not in _VALUES and value not in EMPTY_WORDS and value.isalnum():
            words.append(_stem(value.casefold()))
    return ComparedClause(
        tuple(words), frozenset(find_values(form)), frozenset(opposites), frozenset(operators - _NOT_MODAL),
        frozenset(names.intersection(words)),
    )  # fmt: skip


def _stem(word: str) -> str:
    """The first letters of a word in small letters: `cats` of a source answers for `cat`."""
    return word[:-1] if len(word) == STEM_LETTERS and word[-1] == "s" else word[:STEM_LETTERS]


def _joined(clauses: list[ComparedClause]) -> ComparedClause:
    words = tuple(word for clause in clauses for word in clause.words)
    values, opposites, operators, names = (frozenset().union(*each) for each in list(zip(*clauses, strict=True))[1:])
    return ComparedClause(words, values, opposites, operators, names)


def _read_sources(sources: Iterable[str]) -> _Sources | None:
    """The sources in the form in which clauses are looked up; None if there are too many."""
    clauses: dict[ComparedClause, None] = {}
    passages: dict[frozenset[str], None] = {}
    for source in sources:
        before = frozenset[str]()
        for sentence in dict.fromkeys(sentences(source)):
            read = [_with_broader(clause) for clause in read_clauses(sentence)]
            clauses.update(dict.fromkeys(read))
            if len(clauses) > CLAUSES_MAX:
                return None
            here = frozenset(_said(read))
            passages[before | here] = None
            before = here
    clauses_with, passages_with = dict[str, list[int]](), dict[str, list[int]]()
    for at, clause in enumerate(clauses):
        for word in _compared(clause):
            clauses_with.setdefault(word, []).append(at)
    for at, passage in enumerate(passages):
        for word in passage:
            passages_with.setdefault(word, []).append(at)
    return _Sources(list(clauses), clauses_with, list(passages), passages_with)


def _with_broader(clause: ComparedClause) -> ComparedClause:
    broader = {each for value in clause.values for each in broader_specifics(value)}
    return clause._replace(values=clause.values | broader)


def _said(clauses: Iterable[ComparedClause]) -> Iterator[str]:
    """The words that must stand in the sources."""
    for clause in clauses:
        yield from clause.words
        yield from (word for word in clause.opposites if word not in EMPTY_WORDS)


def _compared(clause: ComparedClause) -> frozenset[str]:
    """The words by which clauses are close to each other."""
    return clause.opposites.union(clause.words)


def _distortion(clause: ComparedClause, known: _Sources) -> str:
    said = set(_said([clause]))
    if missing := sorted(word for word in said if word not in known.passages_with):
        return f"no word stands for {missing[0]!r}"
    if said:
        rarest = min(said, key=lambda word: len(known.passages_with[word]))
        if not any(said <= known.passages[at] for at in known.passages_with[rarest]):
            return f"no passage has all of {sorted(said)}"
    shared = Counter(at for word in _compared(clause) for at in known.clauses_with.get(word, ()))
    if not shared:
        return ""  # without a content word, only its values say anything, and those are grounded
    most = max(shared.values())
    closest = [known.clauses[at] for at, count in shared.items() if count == most]
    if all(each.operators != clause.operators for each in closest):
        return f"{_shown(clause)} is not negated, hedged or asked as its source is"
    if not any(_is_in_order(clause, each) for each in closest):
        return f"the names of {_shown(clause)} stand in another order"
    near = [(count, known.clauses[at]) for at, count in shared.items()]
    for value in sorted(clause.values):
        own = max((count for count, each in near if value in each.values), default=0)
        others = (n for n, each in near if value not in each.values and any(v.kind == value.kind for v in each.values))
        if own < max(others, default=1):
            return f"the {value.kind} {value.value!r} belongs to something else"
    for word in sorted(clause.opposites):
        own = max((count - 1 for count, each in near if word in each.opposites), default=0)
        if own < max((count for count, each in near if _has_opposite(each, word)), default=0):
            return f"{word!r} stands for its opposite"
    for name in sorted(clause.names):
        own = max((count - 1 for count, each in near if name in each.words), default=0)
        others = (n for n, each in near if name not in each.words and each.names.difference(clause.words))
        if own < max(others, default=0):
            return f"{name!r} stands for another name"
    return ""


def _has_opposite(clause: ComparedClause, word: str) -> bool:
    return word not in clause.opposites and bool(clause.opposites & OPPOSITES[word])


def _is_in_order(clause: ComparedClause, source: ComparedClause) -> bool:
    """Return whether the names that both have follow each other in both in the same order."""
    names = clause.names & set(source.words)
    one, other = (dict.fromkeys(word for word in each.words if word in names) for each in (clause, source))
    return list(one) == list(other)


def _shown(clause: ComparedClause) -> str:
    return repr(" ".join(clause.words))


def _replaces_word(one: ComparedClause, other: ComparedClause) -> bool:
    """Return whether two clauses of one subject differ in one word: `My editor is Vim`, `My editor is Emacs`."""
    is_one_subject = one.words[:1] == other.words[:1]
    return is_one_subject and len(one.words) == len(other.words) and sum(map(operator.ne, one.words, other.words)) == 1


def _contradict(one: ComparedClause, other: ComparedClause) -> bool:
    kinds = {value.kind for value in one.values} & {value.kind for value in other.values}
    shared = {value.kind for value in one.values & other.values}
    return (
        bool(kinds - shared)
        or any(_has_opposite(other, word) for word in one.opposites)
        or bool(one.operators & NEGATIONS) != bool(other.operators & NEGATIONS)
    )
