"""A text as the tokens that the guard compares: words, numbers, dates, identifiers; and its closed word lists. SPEC 5.5

Each token is read by itself, in whatever notation it is written; `canonical` puts neighbouring tokens together. Quotes,
brackets and commas are no tokens.

The lists are of spellings and words of one meaning, and of words of opposite meaning. None is complete, and none need
be. A word that is in no list stands for itself alone: the guard then sees a difference where there may be none, never
the other way round.
"""

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Literal, NamedTuple

from mnemo_core.text import lexicon
from mnemo_core.text.languages import UNSPACED, UNSPACED_CHARACTER, is_abbreviation
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import listed
from mnemo_core.text.syntax.english import CLITICS, ing_form, past_forms, third_form

# Words without a meaning of their own. No preposition, pronoun or quantifier is here, and nothing that weakens or
# restricts.
ARTICLES = {language: lexicon.words("vocabulary", f"articles {language}") for language in ("en", "de", "fr")}
LIGHT = lexicon.words("vocabulary", "light")
NEGATIONS = lexicon.words("vocabulary", "negations")
# Words that set how firmly, how much or when something holds: they differ as opposites do.
OPERATORS = lexicon.words("vocabulary", "operators")

MULTIPLIERS = lexicon.numbered("vocabulary", "multipliers")
ATTACHED_MULTIPLIERS = lexicon.numbered("vocabulary", "attached multipliers")
RELATIVE_DAYS = lexicon.words("vocabulary", "relative days")
# Months and weekdays whose names are other words too; in small letters they count as a date only next to one.
AMBIGUOUS_DATES = lexicon.words("vocabulary", "ambiguous dates")
CURRENCIES = lexicon.words("vocabulary", "currencies")


def _phrases() -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    """By first word: what follows it, and what all of it stands for; the longest first."""
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for line in lexicon.lines("vocabulary", "phrases"):
        said, _, meant = line.partition("=")
        first, *rest = said.split()
        found.setdefault(first, []).append((tuple(rest), tuple(meant.split())))
    for each in found.values():
        each.sort(key=lambda phrase: -len(phrase[0]))
    return found


def _opposites() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for words in lexicon.groups("vocabulary", "opposites"):
        for word in words:
            found.setdefault(SYNONYMS.get(word, word), set()).update(SYNONYMS.get(other, other) for other in words)
    return {word: frozenset(others - {word}) for word, others in found.items()}


# Different spellings and words for one thing; the first of each group stands for all.
SYNONYMS = {word: words[0] for words in lexicon.groups("vocabulary", "synonyms") for word in words[1:]}
# What is said in several words, and what the guard takes it for; applied once, from left to right.
PHRASES = _phrases()
OPPOSITES = _opposites()  # words of which each stands against every other of its group
UNITS = {unit: units[0] for units in lexicon.groups("vocabulary", "units") for unit in units}
NUMBER_WORDS = {language: lexicon.numbered("vocabulary", f"number words {language}") for language in ("en", "de", "fr")}
ORDINALS = lexicon.numbered("vocabulary", "ordinals")
# Past and participle of verbs of events: `has moved` means the same as `moved`. A state is no event: whoever has lived
# somewhere may live there still.
PAST_OF = {
    form: forms[0] for base in lexicon.words("vocabulary", "events") for forms in [past_forms(base)] for form in forms
}
PARTICIPLES = frozenset(PAST_OF)
# Verbs of which `is …ing` means the same as the plain present: base and third person by the -ing form.
PRESENT_OF = {ing_form(base): (base, third_form(base)) for base in lexicon.words("vocabulary", "present")}

TokenKind = Literal["number", "unit", "date", "name", "identifier", "negation", "opposite", "word", "end"]


TOKENS_MAX = 4096  # read one by one: more than a memory of words has


class TextToken(NamedTuple):
    """The smallest piece that means something: its value in the one form, and what it is."""

    value: str
    kind: TokenKind


_LETTER = rf"[^\W\d_{UNSPACED}]"
_PLAIN = "[A-Za-z0-9_]"
_TOKEN = lazy_pattern(lexicon.alternation("vocabulary", "tokens", LETTER=_LETTER, PLAIN=_PLAIN))
_INVISIBLE = lazy_pattern("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_QUOTES = str.maketrans({"\u2019": "'", "\u02bc": "'", "\u2018": "'", "\u2212": "-"})
_SPACED_THOUSANDS = lazy_pattern("(?<![\\d.,])\\d{1,3}(?:[\u00a0\u202f\u2009']\\d{3}){1,12}(?!\\d)")
_POWER = lazy_pattern("(?<![mk])[\u00b2\u00b3\u00b9\u2070-\u2079]+")
_SIGN_BEFORE_CURRENCY = lazy_pattern(r"(?<![\w)\]}.%°+-])([-+])([$€£¥₹])(?=\d)")
_DASH_AS_SIGN = lazy_pattern("(?<![\\w)\\]}.%°‐-―-])[‒–](?=\\d)")
_DASH_BETWEEN_DIGITS = lazy_pattern("(?<=\\d)\\s?[\u2010-\u2015]\\s?(?=\\d)")
_HAN_NUMERAL = lazy_pattern(lexicon.alternation("vocabulary", "han_numerals"))
_HAN_COPULA = lazy_pattern(r"(?:です|だ)(?=[。！\s]|$)")
_NUMBER = lazy_pattern(r"([-+]?[\d.,]+)\s?-?(\D.*)?", re.DOTALL)
_WHOSE_IS = listed("it he she that this there here what who where how when")
_IRREGULAR = {"can't": ("can", "not"), "cannot": ("can", "not"), "won't": ("will", "not"), "shan't": ("shall", "not")}
# What contractions come to: these, and what they are written with.
CONTRACTED = frozenset(word for written in (*_IRREGULAR.values(), CLITICS.values(), _IRREGULAR) for word in written)
CAPITALS = {"US": "USA", "U.S": "USA", "U.S.": "USA", "UK": "UK", "U.K": "UK", "IT": "IT", "WHO": "WHO"}
_SIGNS = {"%": "%", "€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "‰": "‰"}


def normalize_notation(text: str) -> str:
    """Compatibility forms, quotes, dashes, grouped digits and Chinese numerals in one way of writing."""
    text = text.strip().translate(_QUOTES)
    text = _SPACED_THOUSANDS.sub(lambda match: re.sub(r"\D", "", match.group()), text)
    text = _SIGN_BEFORE_CURRENCY.sub(r"\2\1", text)
    if text.isascii():
        return text
    text = _POWER.sub(r"^\g<0>", text)  # ten squared is not a hundred and two
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    text = _DASH_AS_SIGN.sub("-", _DASH_BETWEEN_DIGITS.sub("-", text))
    text = _HAN_NUMERAL.sub(lambda match: _han_number(match.group()), text)
    return _HAN_COPULA.sub("", text)


def _han_number(numeral: str) -> str:
    """三百五十 → 350, 二〇二六 → 2026; as it is where it is no number."""
    digits = {"〇": 0, "零": 0, "两": 2, "兩": 2} | {digit: i for i, digit in enumerate("一二三四五六七八九", start=1)}
    powers = {"十": 10, "百": 100, "千": 1000}
    if all(each in digits for each in numeral):
        return "".join(str(digits[each]) for each in numeral)
    total = section = digit = 0
    for each in numeral:
        if each in digits:
            digit = digits[each]
        elif each in powers:
            section += (digit or 1) * powers[each]
            digit = 0
        else:
            total = (total + section + digit) * 10_000
            section = digit = 0
    return str(total + section + digit) if total + section + digit else numeral


def tokenize_sentences(text: str) -> list[list[TextToken]]:
    """The tokens of each sentence, words as they are written, the rest read. What follows the first TOKENS_MAX is one
    token, so that texts that differ there still do."""
    sentences: list[list[TextToken]] = [[]]
    for number, match in enumerate(_TOKEN.finditer(text)):
        if number == TOKENS_MAX:
            sentences.append([TextToken(" ".join(text[match.start() :].casefold().split()), "identifier")])
            break
        group = match.lastgroup
        token = match.group()
        here = sentences[-1]
        if group == "plain" and token not in _IRREGULAR:
            here.append(TextToken(token, "word"))
        elif group in ("word", "plain"):
            here.extend(_expanded(token))
        elif group == "end":
            if "?" in token or token == "？":
                here.append(TextToken("?", "opposite"))
            if token == "." and here and is_abbreviation(here[-1].value):
                continue
            if here:
                sentences.append([])
        elif group == "other":
            if UNSPACED_CHARACTER.match(token) or unicodedata.category(token)[0] in "LMNS":
                here.append(TextToken(_SIGNS.get(token, token), "unit" if token in _SIGNS else "word"))
        elif group is not None:
            here.extend(_READERS[group](token))
    return sentences if sentences[-1] or len(sentences) == 1 else sentences[:-1]


def _expanded(word: str) -> list[TextToken]:
    """A word as it is written; a contraction in its words, a possessive with its 's apart."""
    lower = word.lower()
    if lower in _IRREGULAR:
        return [TextToken(part, "word") for part in _IRREGULAR[lower]]
    if "'" not in word:
        return [TextToken(word, "word")]
    for clitic, full in CLITICS.items():
        if lower.endswith(clitic) and len(lower) > len(clitic):
            return [TextToken(word[: -len(clitic)], "word"), TextToken(full, "word")]
    head, _, tail = word.rpartition("'")
    if tail.lower() == "s":
        return [TextToken(head, "word"), TextToken("is" if head.lower() in _WHOSE_IS else "'s", "word")]
    if len(head) <= 2 and head.lower() in ("l", "d", "j", "n", "m", "t", "s", "c", "qu"):  # French: l'heure, n'est
        return [TextToken(f"{head}'", "word"), *_expanded(tail)]
    return [TextToken(word, "word")]


def _read_number(token: str) -> list[TextToken]:
    """A number, with the unit, multiplier or ordinal ending that is written to it."""
    match = _NUMBER.fullmatch(token)
    if match is None:
        return [TextToken(token, "number")]
    digits, tail = match[1].rstrip(".,"), (match[2] or "").strip()
    digits = re.sub(r"^([-+]?)\.", r"\g<1>0.", digits)
    if not tail:
        return [TextToken(digits, "number")]
    if tail in ("st", "nd", "rd", "th", "ST", "ND", "RD", "TH") and digits.isdecimal():
        return [TextToken(f"#{digits.lstrip('0') or '0'}" if digits.isascii() else f"#{int(digits[:99])}", "number")]
    if tail in ATTACHED_MULTIPLIERS:
        return [TextToken(multiply_digits(digits, ATTACHED_MULTIPLIERS[tail]), "number")]
    unit = unit_of(tail)
    if not unit:
        return [TextToken(token.replace(",", "") if "," in token else _cased(token), "identifier")]
    return [TextToken(digits, "number"), TextToken(unit, "unit")]


def unit_of(text: str) -> str:
    """The name of a unit, in any of its spellings; "" for none. GB and Gb are two."""
    return UNITS.get(text) or (UNITS.get(text.lower(), "") if len(text) > 2 else "")


def multiply_digits(digits: str, factor: int) -> str:
    try:
        return format((Decimal(digits.replace(",", "")) * factor).normalize(), "f")
    except ArithmeticError:
        return f"{digits}x{factor}"


def _cased(token: str) -> str:
    """Case does not count, but in what mixes it with digits and nothing else: there it is part of an id."""
    is_mixed = token.isalnum() and not (token.islower() or token.isupper()) and any(c.isdigit() for c in token)
    return token if is_mixed or "/" in token else token.casefold()


_VERSION = lazy_pattern(r"[vV](\d+(?:\.\d+)*)")
_HYPHENED = lazy_pattern(r"[A-Za-z]+(?:-[A-Za-z]+)+")


def _read_compound(token: str) -> list[TextToken]:
    if _HYPHENED.fullmatch(token):
        return [TextToken(part, "word") for part in token.split("-")]
    if token in CAPITALS:
        return [TextToken(CAPITALS[token], "name")]
    if version := _VERSION.fullmatch(token):
        return [TextToken(version[1], "identifier")]
    return [TextToken(_cased(token), "identifier")]


def _read_phone(token: str) -> list[TextToken]:
    """A telephone number by its digits; what only looks like one, as the numbers it is written with."""
    digits = re.sub(r"\D", "", token)
    grouped = "-" in token or "(" in token or token[0] in "+0"
    if 7 <= len(digits) <= 15 and grouped:
        return [TextToken(("+" if token[0] == "+" else "") + digits, "identifier")]
    if "-" in token or "(" in token:
        return [TextToken(token, "identifier")]
    return [TextToken(part, "number") for part in token.split()]


def _read_slashed(token: str) -> list[TextToken]:
    """Read a date whose month is certain only where the other number cannot be one; else it stays as written."""
    first, second, year = token.split("/")
    if len(year) < 4 or (int(first) > 12) is (int(second) > 12):
        return [TextToken(token, "date")]
    month, day = (second, first) if int(first) > 12 else (first, second)
    return [TextToken(iso_date(year, month, day), "date")]


_HAN_DATE_PARTS = (lazy_pattern(r"(\d{4})年"), lazy_pattern(r"(\d{1,2})月"), lazy_pattern(r"月\s?(\d{1,2})"))


def _read_han_date(token: str) -> list[TextToken]:
    year, month, day = (found[1] if (found := each.search(token)) else "" for each in _HAN_DATE_PARTS)
    return [TextToken(iso_date(year, month, day), "date")] if month else [TextToken(year, "number")]


def _read_han_day(token: str) -> list[TextToken]:
    # 月曜日 ends in the 日 that stands for Sunday in Chinese.
    index = "月火水木金土日".find(token[0]) if "曜" in token else "一二三四五六日天".find(token[-1])
    return [TextToken(f"weekday {min(index, 6) + 1}", "date")]


def _read_time(token: str) -> list[TextToken]:
    """A time of day with am or pm, Uhr, 点 or 時."""
    hour, *rest = map(int, re.findall(r"\d+", token))
    half_day = next((each for each in token.lower() if each in "ap"), "")
    if half_day and not 1 <= hour <= 12:
        return [TextToken(re.sub(r"[\s.]", "", token).lower(), "date")]
    hour = hour % 12 if half_day else hour
    if hour < 12 and (half_day == "p" or token.startswith(("下午", "晚上", "午後"))):
        hour += 12
    return [TextToken(f"T{hour:02}:{rest[0] if rest else 30 if '半' in token else 0:02}", "date")]


def _read_clock(token: str) -> list[TextToken]:
    clock = re.sub(r"\s?Uhr", "", token.lstrip("T"))
    hour, rest = clock.split(":", 1)
    found = [TextToken(f"T{int(hour):02}:{rest[:2]}", "date")]
    return found if len(rest) == 2 else [*found, TextToken(rest[2:], "date")]


def iso_date(year: str, month: str, day: str) -> str:
    """2026-01-05; without a year --01-05, without a day 2026-01."""
    start = f"{year or '-'}-{int(month):02}"
    return f"{start}-{int(day):02}" if day else start


def _read_url(token: str) -> list[TextToken]:
    scheme, rest = token.rstrip(".,;:!?)]*_").split("://", 1)
    host, slash, path = rest.partition("/")
    return [TextToken(f"{scheme.lower()}://{host.lower()}{slash}{path}".rstrip("/"), "identifier")]


_READERS: dict[str, Callable[[str], list[TextToken]]] = {
    "url": _read_url,
    "email": lambda token: [TextToken(token.casefold().rstrip("."), "identifier")],
    "iso": lambda token: [TextToken(iso_date(*re.findall(r"\d+", token)), "date")],
    "dotted": lambda token: [TextToken(iso_date(*reversed(re.findall(r"\d+", token))), "date")],
    "slashed": _read_slashed,
    "han_date": _read_han_date,
    "han_day": _read_han_day,
    "han_time": _read_time,
    "half_day": _read_time,
    "clock": _read_clock,
    "uhr": _read_time,
    "phone": _read_phone,
    "path": lambda token: [TextToken(token.rstrip("."), "identifier")],
    "flag": lambda token: [TextToken(token, "identifier")],
    "tag": lambda token: [TextToken(token.casefold(), "identifier")],
    "number": _read_number,
    "lettered": lambda token: [TextToken(token.casefold(), "identifier")],
    "compound": _read_compound,
    "mixed": lambda token: [TextToken(_cased(token), "number" if token.isdecimal() else "identifier")],
    "operator": lambda token: [TextToken("and" if token == "&" else "about" if token == "~" else token, "opposite")],
}
