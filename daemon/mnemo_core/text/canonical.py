"""The guard: a test whether two texts differ in a specific. SPEC 5.5

Two texts that differ in a number, unit, date, name, identifier, negation or opposite are never the same, however close
their vectors. No list can hold all names and opposites, so the guard works the other way round. Each text is brought
into one form, in which expressions of one meaning are written in one way (15 percent, 15 %; has moved, moved; Jan 5,
2026, 2026-01-05), and words without a meaning of their own are left out. Texts whose forms are equal do not differ. All
others do, by the tokens that one form has and the other lacks. A rewording that no rule knows therefore counts as a
difference: it costs a memory stored twice, where the other mistake would cost a memory.

Case and white space do not count, as they do not for equal content.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.dates.date_words import MONTHS, WEEKDAYS
from mnemo_core.text.languages import identify_language
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.tokens import (
    AMBIGUOUS_DATES,
    ARTICLES,
    CAPITALS,
    CONTRACTED,
    CURRENCIES,
    LIGHT,
    MULTIPLIERS,
    NEGATIONS,
    NUMBER_WORDS,
    OPERATORS,
    OPPOSITES,
    ORDINALS,
    PARTICIPLES,
    PAST_OF,
    PHRASES,
    PRESENT_OF,
    RELATIVE_DAYS,
    SYNONYMS,
    UNITS,
    TextToken,
    iso_date,
    multiply_digits,
    normalize_notation,
    tokenize_sentences,
    unit_of,
)

Kind = Literal["number", "unit", "date", "name", "identifier", "negation", "opposite"]


class SpecificDifference(NamedTuple):
    """A specific that one text has and the other lacks; "" where a text has nothing in its place."""

    kind: Kind
    one: str
    other: str


class CanonicalForm(NamedTuple):
    """A text in the form in which texts are compared."""

    tokens: tuple[TextToken, ...]
    values: tuple[str, ...]
    swapped_values: tuple[str, ...]  # of "my editor is Vim" those of "Vim is my editor"; empty where nothing can turn


class UnchangedWords(NamedTuple):
    """The words of a text that come into its form as they are, and the text in small letters."""

    words: frozenset[str]
    folded: str
    is_plain: bool  # ASCII; other texts have no words here


# The order in which differences are named: what a reader sees first.
_ORDER: tuple[Kind, ...] = ("negation", "number", "date", "unit", "identifier", "opposite", "name")

_ARTICLES_MAX = 8  # before a date
_CLAUSES = listed("and but or then while because if when unless after before until though so since as ; ,")
_OWNERS = listed("my our your his her their the")
_BEFORE_DATES = listed("on at in am um im le à")
_MONTH_BEFORE = listed("in since until by last next this early late of im seit bis en")
_AFTER_PARTICIPLE = lexicon.words("vocabulary", "after participles")
_DAY_DIGITS_MAX = 4  # a day of a month, with the zeros before it
_BEING = frozenset({"am", "is", "are"})


def difference(one: str | CanonicalForm, other: str | CanonicalForm) -> SpecificDifference | None:
    """The specific in which two texts differ; None where the guard finds none. Symmetric: turned round, it names the
    same pair the other way."""
    first = canonical_form(one) if isinstance(one, str) else one
    second = canonical_form(other) if isinstance(other, str) else other
    if first.values == second.values:
        return None
    is_swapped = first.values == second.swapped_values or second.values == first.swapped_values
    if is_swapped and first.values and second.values:
        return None
    # The difference that a reader would name first, of two forms that are not equal.
    counts = Counter(first.values), Counter(second.values)
    left = {atom.value: _kind(atom) for atom in first.tokens if counts[0][atom.value] > counts[1][atom.value]}
    right = {atom.value: _kind(atom) for atom in second.tokens if counts[1][atom.value] > counts[0][atom.value]}
    if not left and not right:  # the same words in another order: who pays whom
        at = next(i for i, (a, b) in enumerate(zip(first.values, second.values, strict=True)) if a != b)
        kinds = {_kind(first.tokens[at]), _kind(second.tokens[at])}
        return SpecificDifference(next(kind for kind in _ORDER if kind in kinds), first.values[at], second.values[at])
    pairs = [(a, b) for a in left if a in OPPOSITES for b in right if b in OPPOSITES[a]]
    sides = (left, right)
    for kind in _ORDER:
        if kind == "opposite" and pairs:
            return SpecificDifference("opposite", *min(pairs, key=sorted))
        found = [next((value for value, each in side.items() if each == kind), "") for side in sides]
        if any(found):
            return SpecificDifference(kind, *found)
    raise AssertionError("forms that are not equal differ in something")


def obviously_differ(one: UnchangedWords, other: UnchangedWords) -> bool:
    """Return whether one text has a word that no rule changes and the other lacks: then their forms differ."""
    if not (one.is_plain and other.is_plain):
        return False
    pairs = ((one, other), (other, one))
    return any(word not in there.folded for here, there in pairs for word in here.words - there.words)


# Shorter ones may be units, parts of times or of contractions. A word next to an apostrophe is split.
_UNTOUCHED = lazy_pattern(r"(?<![a-z'])[a-z]{4,}(?![a-z'])")


def unchanged_words(text: str) -> UnchangedWords:
    folded, is_plain = text.lower(), text.isascii()
    words = frozenset(_UNTOUCHED.findall(folded)) - _WORDS_OF_RULES if is_plain else frozenset()
    return UnchangedWords(words, folded, is_plain)


def _words_of_rules() -> frozenset[str]:
    """Every word that a rule reads, leaves out or puts in: what is in none of the lists stays as it is."""
    found: list[Iterable[str]] = [
        SYNONYMS, SYNONYMS.values(), UNITS, UNITS.values(), ORDINALS, MULTIPLIERS, MONTHS, WEEKDAYS, RELATIVE_DAYS,
        LIGHT, PAST_OF, PAST_OF.values(), PRESENT_OF, CONTRACTED, *ARTICLES.values(), *NUMBER_WORDS.values(),
        *PRESENT_OF.values(), PHRASES,
        *(words for phrases in PHRASES.values() for phrase in phrases for words in phrase),
        ("noon", "midnight", "midi", "minuit", "been", "have", "were", "does", "about", "anymore", "longer", "weekday"),
    ]  # fmt: skip
    return frozenset(part for words in found for word in words for part in re.findall("[a-z]+", word.lower()))


_WORDS_OF_RULES = _words_of_rules()


def canonical_form(text: str) -> CanonicalForm:
    """The form of a text in which it is compared. Costs more than a comparison: keep it for a text that meets many."""
    sentences = tokenize_sentences(normalize_notation(text))
    words = [token.value.lower() for sentence in sentences for token in sentence if token.kind == "word"]
    language = identify_language(words)
    atoms: list[TextToken] = []
    copula = -1
    for sentence in sentences:
        said, copula = _normalized(sentence, language)
        atoms += said
    values = tuple(atom.value for atom in atoms)
    swapped = (*values[copula:], *values[:copula]) if len(sentences) == 1 and copula > 0 else ()
    return CanonicalForm(tuple(atoms), values, swapped)


def _kind(atom: TextToken) -> Kind:
    if atom.value in NEGATIONS:
        return "negation"
    if atom.value in OPERATORS:
        return "opposite"
    return "name" if atom.kind in ("word", "end") else atom.kind  # type: ignore[return-value]


def _normalized(sentence: list[TextToken], language: str) -> tuple[list[TextToken], int]:
    """A sentence in the one form, and where in it a plain `is` was left out: -1 where none or several were."""
    atoms = _with_dates(_numbers(_phrases(sentence), language), language)
    atoms = _with_units(atoms, language)
    if language == "en":
        atoms = _verbs(atoms)
    dropped = ARTICLES[language]
    said: list[TextToken] = []
    copulas: list[int] = []
    for at, (value, kind) in enumerate(atoms):
        if kind != "word":
            said.append(TextToken(value, kind))
            continue
        word = value.casefold()
        if word == _COPULA:
            copulas.append(len(said))
        elif word in _BEFORE_DATES and _date_follows(atoms, at, dropped):
            continue
        elif value in CAPITALS:
            said.append(TextToken(CAPITALS[value], "name"))
        elif word not in dropped and not (language == "en" and word in LIGHT):
            is_name = at > 0 and value[:1].isupper()
            said.append(TextToken(SYNONYMS.get(word, word), "name" if is_name else "word"))
    # Dates that stand side by side in one order: on Monday at three, at three on Monday
    at = 0
    while at < len(said):
        end = at
        while end < len(said) and said[end].kind == "date":
            end += 1
        values = [atom.value for atom in said[at:end]]
        kinds = {"time" if each[0] == "T" else "weekday" if each.startswith("weekday") else "day" for each in values}
        if end - at > 1 and len(kinds) == end - at:  # of two times, each belongs to the day next to it
            said[at:end] = sorted(said[at:end])
        at = max(end, at + 1)
    said = _dates_last(said)
    return said, _turning_point(atoms, said, copulas)


_COPULA = "\0is"  # stands where a plain `is` was


def _turning_point(atoms: Sequence[TextToken], said: Sequence[TextToken], copulas: Sequence[int]) -> int:
    """Index of the only `is` of a sentence that names an owner; -1 for any other sentence."""
    if len(copulas) != 1 or not 0 < copulas[0] < len(said):
        return -1
    owners = (*atoms[:1], *atoms[copulas[0] : copulas[0] + 2])
    is_owned = any(atom.value.lower() in _OWNERS for atom in owners) or any(atom.value == "'s" for atom in atoms[:2])
    is_plain = all(atom.kind != "opposite" and atom.value not in NEGATIONS for atom in said)
    return copulas[0] if is_owned and is_plain else -1


def _phrases(sentence: list[TextToken]) -> list[TextToken]:
    """Replace phrases of several words by the words of the same meaning."""
    found: list[TextToken] = []
    at = 0
    while at < len(sentence):
        value, kind = sentence[at]
        for rest, meant in PHRASES.get(value.lower(), ()) if kind == "word" else ():
            end = at + 1 + len(rest)
            if all(atom.kind == "word" for atom in sentence[at:end]) and rest == tuple(
                atom.value.lower() for atom in sentence[at + 1 : end]
            ):
                found += [TextToken(word, "word") for word in meant]
                at = end
                break
        else:
            found.append(sentence[at])
            at += 1
    if any(atom.value == "anymore" for atom in found) and sum(atom.value == "not" for atom in found) == 1:
        found = [TextToken("no longer", "negation") if atom.value == "not" else atom for atom in found]
        return [atom for atom in found if atom.value not in ("anymore", "do", "does")]
    for at in range(len(found) - 1):
        if found[at].value.lower() == "no" and found[at + 1].value == "longer":
            found[at : at + 2] = [TextToken("no longer", "negation")]
            break
    return found


def _numbers(atoms: list[TextToken], language: str) -> list[TextToken]:
    """Numbers in one notation, whether written in digits or in words."""
    words = NUMBER_WORDS[language]
    found: list[TextToken] = []
    at = 0
    while at < len(atoms):
        value, kind = atoms[at]
        lower = value.lower()
        if kind == "number":
            number = _notation(value, language)
            if at + 1 < len(atoms) and atoms[at + 1].value.lower() in MULTIPLIERS:
                number = multiply_digits(number, MULTIPLIERS[atoms[at + 1].value.lower()])
                at += 1
            found.append(TextToken(number, "number"))
        elif kind == "word" and (lower in words or (lower in ("a", "an") and _multiplier(atoms, at + 1))):
            spelled, at = _spelled(atoms, at, words)
            found.append(TextToken(str(spelled), "number"))
            continue
        elif kind == "word" and language == "en" and lower in ORDINALS:
            found.append(TextToken(f"#{ORDINALS[lower]}", "number"))
        elif kind == "word" and lower in ("noon", "midnight", "midi", "minuit"):
            found.append(TextToken("T12:00" if lower in ("noon", "midi") else "T00:00", "date"))
        else:
            found.append(atoms[at])
        at += 1
    return found


def _multiplier(atoms: Sequence[TextToken], at: int) -> bool:
    return at < len(atoms) and atoms[at].kind == "word" and atoms[at].value.lower() in MULTIPLIERS


def _spelled(atoms: Sequence[TextToken], at: int, words: dict[str, int]) -> tuple[int, int]:
    """The number that the words from here on spell, and where they end: two hundred and five thousand."""
    total = current = 0
    last = 0  # the size of the last part: after twenty comes one to nine
    start = at
    while at < len(atoms) and atoms[at].kind == "word":
        lower = atoms[at].value.lower()
        if lower in words:
            part = words[lower]
            if at > start and not (last == 100 or last == 1000 or (20 <= last < 100 and part < 10)):
                break
            current += part
            last = part if part >= 20 else 1
        elif lower in MULTIPLIERS:
            factor = MULTIPLIERS[lower]
            if factor == 100:
                current = (current or 1) * 100
            else:
                total, current = total + (current or 1) * factor, 0
            last = min(factor, 1000)
        elif lower in ("a", "an") and at == start:
            last = 1
        elif lower == "and" and last >= 100 and at + 1 < len(atoms) and atoms[at + 1].value.lower() in words:
            pass
        else:
            break
        at += 1
    return total + current, at


def _notation(digits: str, language: str) -> str:
    """12,000 → 12000; in German and French 3,5 → 3.5. What could be two numbers stays as it is written."""
    if re.fullmatch(r"[-+]?\d{1,3}(?:\.\d{3})+,\d+", digits):
        return digits.replace(".", "").replace(",", ".")
    if "," not in digits:
        return digits
    if language == "en" and re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", digits):
        return digits.replace(",", "")
    return digits.replace(",", ".") if language != "en" else digits


def _with_units(atoms: list[TextToken], language: str) -> list[TextToken]:
    """After a number, a unit in its one spelling; a currency written before its amount goes behind it."""
    found: list[TextToken] = []
    for at, (value, kind) in enumerate(atoms):
        previous = found[-1] if found else TextToken("", "end")
        if kind in ("word", "unit") and previous.kind == "number" and unit_of(value):
            found[-1] = TextToken(_amount(previous.value, language), "number")
            found.append(TextToken(unit_of(value), "unit"))
        elif previous.kind == "number" and (
            # A single capital is a unit outside the list: 10 K, 5 M.
            kind == "unit" or (kind == "word" and len(value) == 1 and "A" < value <= "Z" and value != "I")
        ):
            found.append(TextToken(value, "unit"))
        elif kind == "number" and previous.value in CURRENCIES and (at < 2 or found[-2:-1][0].kind != "number"):
            found[-1:] = [TextToken(_amount(value, language), "number"), TextToken(previous.value, "unit")]
        else:
            found.append(TextToken(value, kind))
    return found


def _amount(digits: str, language: str) -> str:
    """The number of an amount with a unit: 3.50 becomes 3.5, which of a version it must not. In German and French,
    1.500 km are 1500."""
    if language != "en" and re.fullmatch(r"[-+]?\d{1,3}(?:\.\d{3})+", digits):
        return digits.replace(".", "")
    return digits.rstrip("0").rstrip(".") if "." in digits and digits.count(".") == 1 else digits


def _with_dates(atoms: list[TextToken], language: str) -> list[TextToken]:
    """Months, with the day and year next to them, and weekdays as dates."""
    found: list[TextToken] = []
    at = 0
    while at < len(atoms):
        value, kind = atoms[at]
        lower = value.lower()
        if kind != "word":
            found.append(atoms[at])
        elif lower in MONTHS and _is_month(atoms, at):
            day = year = ""
            if found and (_day(found[-1]) or (found[-1].value == "of" and len(found) > 1 and _day(found[-2]))):
                day = _day(found[-1]) or _day(found[-2])
                del found[-1 if _day(found[-1]) else -2 :]
            elif at + 1 < len(atoms) and _day(atoms[at + 1]):
                day = _day(atoms[at + 1])
                at += 1
            if at + 1 < len(atoms) and _year(atoms[at + 1]):
                year = atoms[at + 1].value
                at += 1
            found.append(TextToken(iso_date(year, str(MONTHS[lower]), day), "date"))
        elif lower in WEEKDAYS and (lower not in AMBIGUOUS_DATES or value[0].isupper()):
            found.append(TextToken(f"weekday {WEEKDAYS[lower] + 1}", "date"))
        elif lower in RELATIVE_DAYS and (lower != "morgen" or language == "de"):
            found.append(TextToken(lower, "date"))
        else:
            found.append(atoms[at])
        at += 1
    return found


def _is_month(atoms: Sequence[TextToken], at: int) -> bool:
    word = atoms[at].value
    if word.lower() not in AMBIGUOUS_DATES or (at > 0 and word[0].isupper()):
        return True
    before = atoms[at - 1] if at else TextToken("", "end")
    is_next_to_day = bool(_day(before)) or (at + 1 < len(atoms) and bool(_day(atoms[at + 1]) or _year(atoms[at + 1])))
    return is_next_to_day or before.value.lower() in _MONTH_BEFORE


def _day(atom: TextToken) -> str:
    """The day of a month that a number can be, "" for none."""
    digits = atom.value.removeprefix("#")
    is_number = atom.kind == "number" and digits.isdecimal() and len(digits) <= _DAY_DIGITS_MAX
    return digits if is_number and 1 <= int(digits) <= 31 else ""


def _year(atom: TextToken) -> bool:
    return atom.kind == "number" and atom.value.isdecimal() and len(atom.value) == 4 and atom.value[0] in "12"


def _verbs(atoms: list[TextToken]) -> list[TextToken]:
    """English tenses that say the same, said the same way. `was`, `had` and `will` stay: they say when."""
    found: list[TextToken] = []
    # For each place, and the end, the first one from there on that is neither a light word nor a `not`
    telling = [len(atoms)] * (len(atoms) + 1)
    for at in range(len(atoms) - 1, -1, -1):
        is_light = atoms[at].value.lower() in LIGHT or atoms[at].value == "not"
        telling[at] = telling[at + 1] if is_light else at
    at = 0
    while at < len(atoms):
        value, kind = atoms[at]
        lower = value.lower() if kind == "word" else ""
        if lower not in _TENSES:
            found.append(atoms[at])
            at += 1
            continue
        after = telling[at + 1]
        verb = atoms[after].value.lower() if after < len(atoms) and atoms[after].kind == "word" else ""
        between = atoms[at + 1 : after]
        next_word = atoms[after + 1].value.lower() if after + 1 < len(atoms) else ""
        if lower in _BEING and verb in PRESENT_OF and not any(atom.value == "not" for atom in between):
            found += [*between, TextToken(PRESENT_OF[verb][lower == "is"], "word")]
            at = after + 1
            continue
        if lower in _BEING:
            is_passive = verb in PARTICIPLES or (verb.endswith("ed") and len(verb) > 4)
            found.append(TextToken("is" if is_passive else _COPULA, "opposite" if is_passive else "word"))
        elif lower in ("was", "were"):
            found.append(TextToken("was", "opposite"))
        elif lower in ("have", "has") and verb == "been" and (next_word in PARTICIPLES or next_word.endswith("ed")):
            found += [*between, TextToken("was", "opposite")]
            at = after + 1
            continue
        elif lower in ("have", "has") and verb in PARTICIPLES and _ends_verb(atoms, after + 1) and not between:
            found.append(TextToken(PAST_OF[verb], "word"))
            at = after + 1
            continue
        else:
            found.append(atoms[at])
        at += 1
    return found


_TENSES = _BEING | {"was", "were", "have", "has"}


def _ends_verb(atoms: Sequence[TextToken], at: int) -> bool:
    """Return whether no plain noun follows: in `I have paid leave` the participle is no verb."""
    if at >= len(atoms):
        return True
    value, kind = atoms[at]
    return kind != "word" or value[0].isupper() or value.lower() in _AFTER_PARTICIPLE


def _date_follows(atoms: Sequence[TextToken], at: int, articles: frozenset[str]) -> bool:
    behind = (atom.kind for atom in atoms[at + 1 : at + 1 + _ARTICLES_MAX] if atom.value.lower() not in articles)
    return next(behind, "") == "date"


def _dates_last(atoms: list[TextToken]) -> list[TextToken]:
    """A sentence of one clause that begins with its only date, with the date at the end."""
    end = 0
    while end < len(atoms) and atoms[end].kind == "date":
        end += 1
    rest = atoms[end:]
    if not end or not rest or any(atom.kind == "date" or atom.value in _CLAUSES for atom in rest):
        return atoms
    if rest[-1].value == "?":
        return [*rest[:-1], *atoms[:end], rest[-1]]
    return [*rest, *atoms[:end]]
