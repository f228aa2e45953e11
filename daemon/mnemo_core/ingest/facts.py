"""The fact graph: the names of its entities, which of its facts hold, and the chains that they form. SPEC 10.3 [G45]

Anna, "the Anna", "anna" and Anna's are one entity. A phrase is an entity too ("my sister Anna"), and so is each name
within it, so that a chain leads from "Siemens in Munich" on to Munich.

A later value ends an earlier one where only one can hold at a time. Nothing of this is stored: it follows from the
facts themselves, whenever they are read. A fact that is taken back no longer ends another, and the order in which facts
were stored makes no difference.

Anna's sister is Maria, Maria works at Siemens, Siemens is in Munich: a step of a chain leads from either side of a fact
to the other one, and to every fact that names an entity of that side.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple

import msgspec

from mnemo_core.text import lexicon
from mnemo_core.text.dates.date_words import MONTHS, WEEKDAYS
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.syntax import english
from mnemo_store.records import Fact

KEYS_MAX = 8  # of one phrase
PHRASE_WORDS_MAX = 6  # of a name in a query
QUERY_CHARS_MAX = 2000  # of a query that are read
ENTITIES_MAX = 8  # of a query

_LEADING = listed("the a an")
_SPEAKER = listed("i me myself mine user")
_TIMES = frozenset((*MONTHS, *WEEKDAYS))
_NO_NAMES = listed("i i'm i've we the a an my our his her their its this that it")
_EDGES = "\"'`“”‘’«»()[]{}<>.,;:!?…。、，！？"
_PATH = lazy_pattern(r"[\w~.-]*/[\w./-]+|\w[\w-]*\.(?:py|js|ts|md|txt|toml|json|ya?ml|rs|go|c|h|cpp|java|sh|cfg|ini)")


def entity_key(phrase: str) -> str:
    """The name under which an entity is found: folded, without leading articles, possessive endings and punctuation at
    the edges; "i" for the speaker; "" where nothing is left."""
    words = [word for each in phrase.casefold().split() if (word := _bare(each))]
    while len(words) > 1 and words[0] in _LEADING:
        del words[0]
    key = " ".join(words)
    return "i" if key in _SPEAKER else key


def entity_keys(phrase: str) -> tuple[str, ...]:
    """The keys of a phrase: its own first, then those of the names and file paths within it."""
    keys = (entity_key(phrase) or phrase, *filter(None, map(entity_key, names_in(phrase))))
    return tuple(dict.fromkeys(keys))[:KEYS_MAX]


def names_in(phrase: str) -> list[str]:
    """The names in a phrase: words with a capital or with capitals and digits inside, joined, and file paths. Months,
    days and a leading article are none."""
    found: list[list[str]] = []
    is_open = False
    for word in phrase.split():
        bare = word.strip(_EDGES)
        is_name = _is_name(bare)
        if is_name and is_open:
            found[-1].append(bare)
        elif is_name:
            found.append([bare])
        is_open = is_name and not word.endswith((",", ";", "'s", "’s"))
    return [" ".join(each) for each in found]


def query_entities(query: str, is_known: Callable[[str], bool]) -> list[str]:
    """The keys of the entities that a query names, the longest first where they overlap. A single word is one if it
    has a capital, or the query has none but its first."""
    words = query[:QUERY_CHARS_MAX].split()
    has_capitals = any(word.strip(_EDGES)[:1].isupper() for word in words[1:])
    found: list[str] = []
    start = 0
    while start < len(words) and len(found) < ENTITIES_MAX:
        length = next(_known_lengths(words[start : start + PHRASE_WORDS_MAX], has_capitals, is_known), 0)
        if length:
            found.append(entity_key(" ".join(words[start : start + length])))
        start += length or 1
    return list(dict.fromkeys(found))


def _known_lengths(words: list[str], has_capitals: bool, is_known: Callable[[str], bool]) -> Iterator[int]:
    """The numbers of words from the first on that are an entity, the longest first."""
    for length in range(len(words), 0, -1):
        key = entity_key(" ".join(words[:length]))
        is_plain = length == 1 and has_capitals and not _is_name(words[0].strip(_EDGES))
        if key not in _COMMON and not is_plain and is_known(key):
            yield length


def _bare(word: str) -> str:
    """A folded word without punctuation at its edges and without a possessive ending."""
    bare = word.replace("’", "'").strip(_EDGES)
    return bare.removesuffix("'s") if not bare.endswith("s'") else bare[:-1]


def _is_name(word: str) -> bool:
    low = _bare(word.casefold())
    if not low or low in _NO_NAMES or low in _TIMES:
        return False
    return any(letter.isupper() for letter in word) or _PATH.fullmatch(word) is not None


_COMMON = frozenset((*_SPEAKER, *_NO_NAMES, *english.PREPOSITIONS, *english.DETERMINERS, *english.BE, "", "what", "who",
                     "where", "when", "which", "how", "why", "does", "do", "did", "is", "has", "have"))  # fmt: skip

BESIDE_MAX = 64  # facts that hold beside one, the last that were decided
CONFLICTS_MAX = 16  # facts that are named as contradicting one fact, the oldest


class GraphFact(NamedTuple):
    """A fact with what it is found and compared by."""

    fact: Fact
    subjects: tuple[str, ...]  # keys of its entities, that of the whole phrase first
    objects: tuple[str, ...]
    attribute: str | None  # of which its subject has one value at a time
    trust: int = 0  # of the memory that states it: a place in TRUSTS, where the most trusted is first
    replaced_at: int = 0  # when a memory that updates the one that states it was said, ms; 0: none does


class FactState(NamedTuple):
    """A fact as it stands: open, or ended at a time (ms) by another one; with the first ids of what contradicts it."""

    fact: Fact
    valid_to: int = 0  # 0: it is open
    superseded_by: str = ""
    conflicts_with: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.valid_to == 0


class _Value(NamedTuple):
    """The words of an object, and the trust of who states it."""

    words: frozenset[str]
    trust: int

    @classmethod
    def of(cls, each: GraphFact) -> "_Value":
        return cls(frozenset(each.objects[0].split()), each.trust)

    def is_same(self, other: "_Value") -> bool:
        """Return whether two objects say the same."""
        return _says_same(self.words, other.words)


class Conflict(NamedTuple):
    """Open facts of which only one can hold, in an order that nobody knows; oldest id first."""

    subject: str
    predicate: str
    facts: tuple[Fact, ...]


_EVENTS = lexicon.words("facts", "events")
_SINGLE = lexicon.meanings("facts", "single_valued")
_SINGLE_PREFIXES = lexicon.words("facts", "single_valued_prefixes")


def graph_fact(fact: Fact, trust: int = 0) -> GraphFact:
    """The fact with the keys of its entities and the attribute that its predicate names."""
    attribute = single_value_of(fact.predicate)
    return GraphFact(fact, entity_keys(fact.subject), entity_keys(fact.object), attribute, trust)


def predicate_key(predicate: str) -> str:
    """A predicate as predicates are compared: folded, its verb in the base form ("works at" is "work at"). What was so
    in the past ("worked at") is not what is so, but for what happens once ("moved to")."""
    words = predicate.casefold().split()
    if words and words[0] not in english.BE:
        past = english.BASE_OF_PAST.get(words[0], "")
        words[0] = past if past in _EVENTS else english.BASE_OF_THIRD.get(words[0], words[0])
    return " ".join(words)


def single_value_of(predicate: str) -> str | None:
    """The attribute that a predicate names, if a subject has one value of it at a time; None for one that may have
    several: "likes", "has"."""
    key = predicate_key(predicate)
    if key.split(" ", 1)[0] in _SINGLE_PREFIXES:
        return key.replace("favorite", "favourite")
    return _SINGLE.get(key)


def begins_state(predicate: str) -> bool:
    """Return whether the predicate starts a lasting state, even in a sentence about an event: moved to, married."""
    return single_value_of(predicate) is not None or predicate_key(predicate).split(" ", 1)[0] in _EVENTS


def resolve_facts(facts: Iterable[GraphFact], at: int) -> list[FactState]:
    """Each fact that had begun by `at` (ms), as it stands then, in the order of the ids.

    Of one subject and single-valued predicate, a fact ends those that began before it with another object, unless they
    are trusted more. Facts whose order is not known (one has no time, or both the same) all stay open.
    """
    begun = sorted((each for each in facts if each.fact.valid_from <= at), key=lambda each: each.fact.id)
    beside = _values_beside(begun)
    states = {each.fact.id: FactState(each.fact) for each in begun}
    for fact in (each.fact for each in begun if 0 < each.fact.valid_to <= at):  # an end that was stored, and has come
        states[fact.id] = FactState(fact, fact.valid_to, fact.superseded_by)
    compared: dict[tuple[str, str, str], list[GraphFact]] = {}
    for each in begun:
        if each.attribute is not None and states[each.fact.id].is_open:
            compared.setdefault((each.fact.user_id, each.subjects[0], each.attribute), []).append(each)
    for some in compared.values():
        if len(some) > 1:
            states |= {state.fact.id: state for state in _resolve_values(some, beside)}
    for each in begun:  # what its memory says has ended, though no fact is known that ended it
        if 0 < each.replaced_at <= at and states[each.fact.id].is_open:
            states[each.fact.id] = FactState(each.fact, max(each.replaced_at, each.fact.valid_from))
    return [  # without the contradictions of what has ended meanwhile
        state._replace(conflicts_with=tuple(other for other in state.conflicts_with if states[other].is_open))
        for state in states.values()
    ]


def decided_facts(facts: Sequence[Fact], kept: str, at: int) -> list[Fact]:
    """The facts of a conflict that a decision changes, as it makes them. kept: the id of the one that holds, while
    those that say something else end at `at` (ms), at their own beginning at the earliest; "": all hold together."""
    values = {each.id: frozenset(entity_keys(each.object)[0].split()) for each in facts}
    changed: list[Fact] = []
    for each in facts:
        if not kept:
            others = (other for other in facts if not _says_same(values[other.id], values[each.id]))
            ids = tuple(dict.fromkeys((*each.beside, *(other.id for other in others))))
            after = msgspec.structs.replace(each, beside=ids[-BESIDE_MAX:])
        elif _says_same(values[each.id], values[kept]):
            continue
        else:
            after = msgspec.structs.replace(each, valid_to=max(at, each.valid_from, 1), superseded_by=kept)
        if after != each:
            changed.append(after)
    return changed


def conflicts_among(states: Sequence[FactState]) -> list[Conflict]:
    """The conflicts among resolved facts, by subject and predicate."""
    found: dict[tuple[str, str], list[Fact]] = {}
    for state in states:
        if state.conflicts_with:
            fact = state.fact
            found.setdefault((entity_key(fact.subject), single_value_of(fact.predicate) or ""), []).append(fact)
    return [
        Conflict(facts[0].subject, facts[0].predicate, tuple(sorted(facts, key=lambda fact: fact.id)))
        for _, facts in sorted(found.items())
    ]


def _says_same(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two objects say the same, as far as both go: "Porto" and "Porto in May"."""
    return one <= other or other <= one


def _values_beside(facts: Iterable[GraphFact]) -> frozenset[tuple[frozenset[str], frozenset[str]]]:
    """The pairs of values, in either order, that hold beside each other, as somebody decided."""
    known = {each.fact.id: each for each in facts}
    pairs = set()
    for each in known.values():
        for other in filter(None, map(known.get, each.fact.beside)):
            one, two = _Value.of(each).words, _Value.of(other).words
            pairs |= {(one, two), (two, one)}
    return frozenset(pairs)


def _resolve_values(
    facts: Sequence[GraphFact], beside: frozenset[tuple[frozenset[str], frozenset[str]]]
) -> list[FactState]:
    """The states of the values of one attribute of one subject. Facts that say the same are compared once. beside: the
    pairs of values that hold together."""
    ended, began_at = list[FactState](), attrgetter("fact.valid_from")
    undated, open_ = dict[_Value, list[GraphFact]](), dict[_Value, list[GraphFact]]()
    for valid_from, group in groupby(sorted(facts, key=began_at), key=began_at):
        began = [(_Value.of(each), each) for each in group]
        for value in list(open_):
            later = (
                one for other, one in began
                if other.trust <= value.trust and not value.is_same(other) and (value.words, other.words) not in beside
            )  # fmt: skip
            if (first := next(later, None)) is not None:
                ended += [FactState(each.fact, valid_from, first.fact.id) for each in open_.pop(value)]
        for value, each in began:
            (open_ if valid_from else undated).setdefault(value, []).append(each)
    still_open = [(value, each) for some in (undated, open_) for value, found in some.items() for each in found]
    still_open.sort(key=lambda one: one[1].fact.id)
    contradicting = {
        value: tuple(
            islice(
                (
                    one.fact.id
                    for other, one in still_open
                    if not value.is_same(other) and (value.words, other.words) not in beside
                ),
                CONFLICTS_MAX,
            )
        )
        for value in dict.fromkeys(value for value, _ in still_open)
    }
    return [*ended, *(FactState(each.fact, conflicts_with=contradicting[value]) for value, each in still_open)]


HOPS_DEFAULT = 2  # of 3 at most, to which the wire types hold a request [G 9]
CHAINS_MAX = 200  # that are followed at once, and in an answer
FAN_OUT_MAX = 64  # facts of one entity that are followed

FactsOf = Callable[[str], Sequence[GraphFact]]  # those that name an entity, by its key, the most important first


class FactChain(NamedTuple):
    """Facts that lead from one entity to another, and the entities on the way as they are written: one more."""

    facts: tuple[Fact, ...]
    entities: tuple[str, ...]


class ChainSearch(NamedTuple):
    """The chains, shorter ones first; whether these are all."""

    chains: list[FactChain]
    is_whole: bool


class _Path(NamedTuple):
    chain: FactChain
    seen: frozenset[str]  # keys of the entities on the way
    ends: tuple[str, ...]  # keys of the last one


def find_chains(entity: str, facts_of: FactsOf, hops: int = HOPS_DEFAULT) -> ChainSearch:
    """The chains from an entity that cannot be longer: for lack of further facts, or since they have `hops` facts. None
    passes the same entity or fact twice. Breadth first, so that a bound cuts the longest."""
    start = entity_key(entity)
    paths = [_Path(FactChain((), (entity,)), frozenset((start,)), (start,))]
    found: list[FactChain] = []
    is_whole = True
    for _ in range(hops):
        longer: list[_Path] = []
        for path in paths:
            steps, is_cut = _steps(path, facts_of)
            is_whole = is_whole and not is_cut
            longer += steps
            if not steps and path.chain.facts:
                found.append(path.chain)
        is_whole = is_whole and len(longer) <= CHAINS_MAX
        paths = longer[:CHAINS_MAX]
    found += [path.chain for path in paths]
    return ChainSearch(found[:CHAINS_MAX], is_whole and len(found) <= CHAINS_MAX)


def _steps(path: _Path, facts_of: FactsOf) -> tuple[list[_Path], bool]:
    """The path with one fact more, in each way; whether there would have been others."""
    found: dict[str, _Path] = {}
    is_cut = False
    for key in path.ends:
        facts = facts_of(key)
        is_cut = is_cut or len(facts) > FAN_OUT_MAX
        for fact, subjects, objects, *_ in facts[:FAN_OUT_MAX]:
            is_forward = key in subjects
            near, other = (fact.subject, fact.object) if is_forward else (fact.object, fact.subject)
            keys = objects if is_forward else subjects
            if fact.id in found or not path.seen.isdisjoint(keys):
                continue
            before = path.chain.entities if path.chain.facts else (near,)  # the first one, too, as it is written
            chain = FactChain((*path.chain.facts, fact), (*before, other))
            found[fact.id] = _Path(chain, path.seen.union(keys), keys)
    return list(found.values()), is_cut
