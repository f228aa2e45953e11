"""Features of a question: it asks for a time, a place, a person, a number, a reason. SPEC 7.3 (`auto`)

The counterpart of the features of a text. English first; the question words of German, French, Chinese and Japanese
too. They are computed once a recall.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from mnemo_core.text.dates.date_words import MONTHS
from mnemo_core.text.languages import CASE_LOOKALIKES
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.lexicon import alternation

PROMPT_CHARS_MAX = 1024  # some 256 tokens, which is what the default embedding model reads of a question


class QueryFeatures(NamedTuple):
    """Features of a query. Several may hold, or none."""

    when: bool
    where: bool
    who: bool
    what: bool
    which: bool
    how_many: bool  # also how often, how old, how far, and what it costs
    how_long: bool
    why: bool
    how: bool  # in what way
    yes_no: bool
    is_keywords: bool  # neither a question word nor a mark
    first_person: bool
    is_speculative: bool
    wants_title: bool


def _pattern(section: str) -> re.Pattern[str]:
    return lazy_pattern(alternation("questions", section), re.IGNORECASE)


_ASKED = {name: _pattern(name) for name in QueryFeatures._fields[: QueryFeatures._fields.index("is_keywords")]}
_FIRST_PERSON, _SPECULATIVE, _TITLE = map(_pattern, ("first_person", "is_speculative", "wants_title"))
_US = lazy_pattern(r"\bus\b")  # not the country
_MARK = lazy_pattern("[?？]")
_WAS = lazy_pattern(r"^\W*was\b", re.IGNORECASE)  # what in German, a verb in English
_GERMAN = _pattern("german")


def question_of_prompt(prompt: str) -> str:
    """The prompt, or, of one longer than PROMPT_CHARS_MAX, its beginning and its end, in whole words. What a person
    typed stands there, and what was pasted between them."""
    if len(prompt) <= PROMPT_CHARS_MAX:
        return prompt
    text, half = prompt.strip(), PROMPT_CHARS_MAX // 2
    if len(text) <= PROMPT_CHARS_MAX:
        return text
    return f"{text[:half].rsplit(None, 1)[0]}\n{text[-half:].split(None, 1)[-1]}"


def analyze_query(query: str) -> QueryFeatures:
    """The features of a query."""
    query = query.replace("\u2019", "'")

    def has(pattern: re.Pattern[str]) -> bool:
        return pattern.search(query) is not None

    asked = {name: has(pattern) for name, pattern in _ASKED.items()}
    if has(_WAS) and has(_GERMAN):
        asked |= {"what": True, "yes_no": False}
    return QueryFeatures(
        **asked, is_keywords=not any(asked.values()) and not has(_MARK), first_person=has(_FIRST_PERSON) or has(_US),
        is_speculative=has(_SPECULATIVE), wants_title=has(_TITLE),
    )  # fmt: skip


Role = Literal["user", "agent"]
ROLE_NAMES: Final[Mapping[Role, tuple[str, ...]]] = {  # of who speaks as such
    "user": ("user", "human"), "agent": ("assistant", "agent", "ai", "bot"),
}  # fmt: skip

# What stands around a question: neither the words nor the deeds of the one who is asked are meant.
_ASIDE = _pattern("aside")
_TO_THE_AGENT = _pattern("to_the_agent")


def asked_role(query: str) -> Role | None:
    """Of a person and an agent who talk, the one whose words it asks for: "What did you suggest for my knee?" the
    agent's, "What is my sister called?" the person's; None where it says neither I nor you."""
    query = query.replace("\u2019", "'")
    if _TO_THE_AGENT.search(_ASIDE.sub(" ", query)):
        return "agent"
    return "user" if _FIRST_PERSON.search(query) else None


_PAST = _pattern("asks_for_past")


def asks_for_past(query: str) -> bool:
    """Return whether a query asks in so many words for what was true once: `before`, `used to`, `in 2019`."""
    return bool(named_years(query)) or _PAST.search(query.replace("\u2019", "'")) is not None


_LIST = _pattern("asks_for_list")


def asks_for_list(query: str) -> bool:
    """Return whether a query asks for several things that separate memories may hold: `what books has …`, `how often`,
    `in what ways`, or how something changed over time."""
    return _LIST.search(question_of_prompt(query).replace("\u2019", "'")) is not None


_MONTH = lazy_pattern(
    rf"\b(?:{'|'.join(sorted((name for name in MONTHS if len(name) > 3), reverse=True))})\b", re.IGNORECASE
)
_MAY = lazy_pattern(r"\b(?:May|Mai)\b")  # not the verb
_PLANET = "Mars"  # written so it is no French month
_YEAR = lazy_pattern(r"(?<!\d)(?:19|20)\d\d(?!\d)")


def named_months(query: str) -> frozenset[int]:
    """The months that a query names, 1 to 12; by their whole names."""
    found = {MONTHS[name.lower()] for name in _MONTH.findall(query.translate(CASE_LOOKALIKES)) if name != _PLANET}
    return frozenset(found | ({5} if _MAY.search(query) else set()))


def named_years(query: str) -> frozenset[int]:
    """The years of the last century and this one that a query names."""
    return frozenset(map(int, _YEAR.findall(query)))
