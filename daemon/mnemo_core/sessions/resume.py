"""The resume: what an agent reads at the start of a conversation, within fixed budgets. SPEC 11 [G 7, G43]

Its first line counts, and sections follow: the core memories by weight, the profile, what was changed last, the topics,
and the actions that have a warning. All of that is the person's own; what others wrote stands behind it under a heading
of its own, each line with its author. A memory is a line as in the context block, so a stored text can forge neither a
line nor a section. What a budget has no room for is condensed, where a language model has done that before, or counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemo_core.documents.chunking import estimate_tokens
from mnemo_core.ingest.memory_role import MemoryRole
from mnemo_core.retrieval.context_block import OTHERS_HEADING, ContextLine, inline_text, listed_line, render_line
from mnemo_core.retrieval.result_selection import OTHERS_SHARE
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.statement_reading import FILLER, stem
from mnemo_core.text.tokens import NEGATIONS

CORE_TOKENS = 2000  # [G 7], as those of all budgets here: characters / 4, so that no model decides what fits
CONDENSED_TOKENS = 400  # of these, for the lines of what stands condensed
RECENT_TOKENS = 1000  # [G 7]
TOPIC_TOKENS = 500  # [G 7]
TRIGGER_TOKENS = 200  # [G 7]
PROFILE_TOKENS = 400  # of the lists of the profile, where there is one
RECENT_EPOCHS = 24  # [G43]
EPOCH_MS = 1_800_000  # a cycle of consolidation, which only comes where something has happened. SPEC 9.1
NEWEST = 4096  # changes that are looked at first: mostly the last epochs are among them
# Token budgets of the roles that Core begins with, in this order. SPEC 9.6
ROLE_TOKENS: Mapping[MemoryRole, int] = {
    "identity": 250, "instruction": 250, "rule": 200, "constraint": 150, "goal": 120, "decision": 350, "blocker": 150,
    "next": 250, "lesson": 250, "fact": 250,
}  # fmt: skip
PROFILE_ROLES: tuple[MemoryRole, ...] = (  # of a profile, in this order
    "identity", "instruction", "rule", "taste", "constraint", "goal", "decision", "blocker", "next", "lesson",
)  # fmt: skip
BY_TIME: frozenset[MemoryRole] = frozenset(("goal", "decision", "blocker", "next"))  # the newest first, and dated
OF_WORK: frozenset[MemoryRole] = BY_TIME | {"rule", "constraint", "lesson"}  # those of a project before those of none
RECENT_ROLES: frozenset[MemoryRole] = frozenset((*ROLE_TOKENS, "fact", "appointment", "event"))
EVENTS_MS = 3 * 86_400_000  # of what happened, only that of the last days is recent
OPEN_ROLES: frozenset[MemoryRole] = frozenset(("blocker", "next"))
# The relevance to a task from which a memory comes before the others of its section, by its role. [G]
RELEVANT_MIN, CORE_RELEVANT_MIN = 0.20, 0.35
ROLE_RELEVANT_MIN: Mapping[MemoryRole, float] = {"constraint": 0.25, "lesson": 0.10}
SESSION_PARTS = 4  # statements of a session in its line
READ_MAX = 300  # memories that are looked at for a section: no budget has room for as many
LEFT_MAX = 16  # memories that are looked at beyond those that fit: what a model condenses at once

STEM_CHARS = 6  # of a word, which its forms have in common
SAID_SHARE = 0.8  # of the words of a text that says no more than another one
DONE_WORDS_MIN, DONE_SHARE = 2, 0.5  # words of an open step that a later text repeats if the step is done

_WORD = lazy_pattern(r"\w+")
Listed = TypeVar("Listed")
Times = NDArray[np.int64]


class ResumeTopic(NamedTuple):
    """A topic of the tree, as it is listed. is_own: its name is made of the person's own words alone."""

    id: str
    name: str
    members: int
    is_root: bool = True
    is_own: bool = True


class ResumeEntry(NamedTuple):
    """A memory that may stand in a section. short: a shorter form of its content; "" where there is none. reason: why
    it may stand there, in words. parts: the ids of further memories in its line."""

    line: ContextLine
    short: str = ""
    reason: str = ""
    parts: tuple[str, ...] = ()


class LineOrigin(NamedTuple):
    """The memories that a line shows, and why it is there, in words."""

    ids: tuple[str, ...]
    reason: str
    is_condensed: bool = False


class PlacedLine(NamedTuple):
    """A line of a resume and the section that it stands in. origin: None where it shows no memory."""

    text: str
    section: str
    origin: LineOrigin | None = None

    @property
    def tokens(self) -> int:
        """The tokens of the line, as the budgets count them."""
        return _size(self.text)


class ResumeSection(NamedTuple):
    """The lines of a section. ids: of the memories that stand in it whole; condensed: in a shorter form; left: of all
    that were looked at and are not whole. total: how many memories it is about."""

    lines: tuple[str, ...]
    ids: tuple[str, ...]
    condensed: tuple[str, ...]
    left: tuple[str, ...]
    total: int
    parts: tuple[str, ...] = ()  # ids of the memories that a line of several is made of
    origins: tuple[LineOrigin, ...] = ()  # of the lines
    budget: int = 0  # tokens
    left_out: Mapping[str, int] = MappingProxyType({})  # memories that were passed over for another reason than room

    @property
    def excluded(self) -> dict[str, int]:
        """The numbers of memories that are not in it, by reason."""
        over_budget = self.total - len(self.ids) - len(self.condensed)
        return {**({"over_budget": over_budget} if over_budget > 0 else {}), **self.left_out}


class ResumeLists(NamedTuple):
    """The topics and triggers of a resume, and how many topics there are."""

    topics: Sequence[ResumeTopic]
    topic_total: int
    triggers: Sequence[str]
    of_others: Sequence[str] = ()  # the triggers that no memory of the person has


class ComparedWords(NamedTuple):
    """The words of a text by which it is compared with others: prefixes of its content words, and its numbers and
    negations."""

    stems: frozenset[str]
    specifics: frozenset[str]


def compared_words(text: str) -> ComparedWords:
    """Return the words of a text for comparison. Linear in its length, and cheap enough for several hundred texts."""
    words = _WORD.findall(text.lower())
    stems = frozenset(stem(word)[:STEM_CHARS] for word in words if word not in FILLER)
    return ComparedWords(stems, frozenset(word for word in words if word in NEGATIONS or any(map(str.isdigit, word))))


class RepetitionFilter:
    """Rejects a text that says no more than one that was accepted before."""

    def __init__(self) -> None:
        self._accepted: list[ComparedWords] = []

    def accepts(self, text: str) -> bool:
        """Return whether the text adds something to those accepted so far, and if so, accept it."""
        words = compared_words(text)
        least = SAID_SHARE * max(1, len(words.stems))
        for accepted in self._accepted:
            if words.specifics == accepted.specifics and len(words.stems & accepted.stems) >= least:
                return False
        self._accepted.append(words)
        return True


def is_done(step: str, later: Iterable[ComparedWords]) -> bool:
    """Return whether a later text reports that an open step is done, that is, repeats enough of its words."""
    words = compared_words(step).stems
    least = max(DONE_WORDS_MIN, DONE_SHARE * len(words))
    return any(len(words & each.stems) >= least for each in later)


def recent_since(modified_at: Times) -> int:
    """The time from which on a change is recent: the beginning of the half hour that is the 24th before the last, of
    those in which anything was changed. 0 if nothing was.

    An epoch is a half hour in which something happened: whoever comes back after a month finds what they did last.
    """
    newest = modified_at if len(modified_at) <= NEWEST else np.partition(modified_at, -NEWEST)[-NEWEST:]
    epochs = np.unique(newest // EPOCH_MS)
    if len(epochs) < RECENT_EPOCHS and len(newest) < len(modified_at):
        epochs = np.unique(modified_at // EPOCH_MS)
    return int(epochs[-RECENT_EPOCHS:][0]) * EPOCH_MS if len(epochs) else 0


def fill_section(
    entries: Iterable[ResumeEntry], total: int | None, budget: int, left_max: int = LEFT_MAX
) -> ResumeSection:
    """The section of the first memories that fit the budget, each whole; what does not fit is passed over, and stands
    behind them in its shorter form. The last whole ones give way to these, up to CONDENSED_TOKENS. Ends behind the
    left_max-th that does not fit. total: how many memories there are; None: as many as were read.
    """
    read: list[ResumeEntry] = []
    whole: dict[str, str] = {}
    room = budget
    for entry in entries:
        read.append(entry)
        line = render_line(entry.line)
        if _size(line) <= room and line not in whole.values():
            whole[entry.line.id] = line
            room -= _size(line)
        if len(read) - len(whole) == left_max:
            break
    short = {
        each.line.id: render_line(each.line._replace(content=each.short, is_cut=True))
        for each in read
        if each.short and each.line.id not in whole
    }
    wanted = min(CONDENSED_TOKENS, sum(map(_size, short.values())))
    while room < wanted and len(whole) > 1:
        room += _size(whole.popitem()[1])
    condensed: dict[str, str] = {}
    for entry in read:
        line = short.get(entry.line.id, "")
        if line and _size(line) <= room:
            condensed[entry.line.id] = line
            room -= _size(line)
    left = tuple(each.line.id for each in read if each.line.id not in whole)
    total = len(read) if total is None else total
    entry_of = {each.line.id: each for each in read}
    origins = (
        LineOrigin((memory_id, *entry_of[memory_id].parts), entry_of[memory_id].reason, memory_id in condensed)
        for memory_id in (*whole, *condensed)
    )
    return ResumeSection(
        (*whole.values(), *condensed.values()), tuple(whole), tuple(condensed), left, total, origins=tuple(origins),
        budget=budget,
    )  # fmt: skip


def fill_profile(lists: Mapping[str, Sequence[tuple[str, str]]]) -> ResumeSection:
    """The section of the lists of a profile: under each heading the ids and texts of its entries. What does not fit the
    budget is passed over."""
    lines: list[str] = []
    ids: list[str] = []
    left: list[str] = []
    origins: list[LineOrigin] = []
    room = PROFILE_TOKENS
    for heading, entries in lists.items():
        line, texts, before = "", list[str](), len(ids)
        for entry_id, text in entries:
            longer = listed_line(heading, [*texts, text])
            if _size(longer) <= room:
                line = longer
                texts.append(text)
                ids.append(entry_id)
            else:
                left.append(entry_id)
        if line:
            lines.append(line)
            origins.append(LineOrigin(tuple(ids[before:]), f"entries of the profile, {heading.lower()}"))
            room -= _size(line)
    return ResumeSection(
        tuple(lines), tuple(ids), (), tuple(left), len(ids) + len(left), origins=tuple(origins), budget=PROFILE_TOKENS
    )


def relevant_first(sims: NDArray[np.float32], least: float) -> NDArray[np.intp]:
    """The places of memories by their relevance to a task: the nearest first, behind them those under the least, or
    without a vector (NaN), in their order."""
    return np.argsort(np.where(sims >= least, -sims, 0.0), kind="stable")


def joined_sections(sections: Sequence[ResumeSection]) -> ResumeSection:
    """The lines of several sections as one."""
    parts = ([each for section in sections for each in getattr(section, name)]
             for name in ("lines", "ids", "condensed", "left", "parts", "origins"))  # fmt: skip
    lines, ids, condensed, left, of_lines, origins = map(tuple, parts)
    left_out = sum((Counter(section.left_out) for section in sections), Counter[str]())
    total, budget = sum(section.total for section in sections), sum(section.budget for section in sections)
    return ResumeSection(lines, ids, condensed, left, total, of_lines, origins, budget, left_out)


def tokens_in(section: ResumeSection) -> int:
    """The tokens of the lines of a section."""
    return sum(map(_size, section.lines))


def others_budget(*own: ResumeSection) -> int:
    """The tokens for what others wrote: a share of those for memories, and what the person's own leaves of the rest."""
    budget = CORE_TOKENS + PROFILE_TOKENS + RECENT_TOKENS
    return max(budget // OTHERS_SHARE, budget - sum(map(tokens_in, own)))


def render_resume(
    working: int, buffer: int, core: ResumeSection, recent: ResumeSection, lists: ResumeLists, profile: ResumeSection,
    others: ResumeSection,
) -> str:  # fmt: skip
    """The whole text; an empty profile has no section, and neither have others who wrote nothing."""
    return "\n".join(line.text for line in resume_lines(working, buffer, core, recent, lists, profile, others))


def resume_lines(
    working: int, buffer: int, core: ResumeSection, recent: ResumeSection, lists: ResumeLists, profile: ResumeSection,
    others: ResumeSection,
) -> list[PlacedLine]:  # fmt: skip
    """The lines of the text, each with its section and what it shows."""
    lines = [PlacedLine(f"(Working: {working}, Buffer: {buffer})", "head")]
    sections = {"Core": core, **({"Profile": profile} if profile.total else {}), "Recent": recent}
    for name, section in sections.items():
        lines.append(PlacedLine(f"=== {name} ({section.total}) ===", name.lower()))
        lines += _section_lines(section, name.lower())
    own = [topic for topic in lists.topics if topic.is_own]
    if own:
        lines.append(PlacedLine(f"=== Topics ({lists.topic_total}) ===", "topics"))
        lines += (PlacedLine(_topic_line(topic), "topics") for topic in own)
    lines += (PlacedLine(line, "triggers") for line in _trigger_line(lists.triggers))
    of_others = _section_lines(others, "others")
    further = [_topic_line(topic) for topic in lists.topics if not topic.is_own] + _trigger_line(lists.of_others)
    of_others += (PlacedLine(line, "others") for line in further)
    return [*lines, PlacedLine(OTHERS_HEADING, "others"), *of_others] if of_others else lines


def fitting_topics(topics: Sequence[ResumeTopic]) -> list[ResumeTopic]:
    """The topics that fit the budget, those with most members first; where not all fit, roots before all others."""
    by_members = sorted(topics, key=lambda topic: (-topic.members, topic.id))
    kept = _first(by_members, _topic_line, TOPIC_TOKENS)
    if len(kept) == len(by_members):
        return kept
    return _first(sorted(by_members, key=lambda topic: not topic.is_root), _topic_line, TOPIC_TOKENS)


def fitting_triggers(names: Sequence[str]) -> list[str]:
    """The first names that fit the budget."""
    return _first(names, lambda name: f", {inline_text(name)}", TRIGGER_TOKENS)


def tokens_of(text: str) -> int:
    """The tokens of a text, as the budgets count them."""
    return estimate_tokens([text])[0]


def _section_lines(section: ResumeSection, name: str) -> list[PlacedLine]:
    more = section.total - len(section.ids) - len(section.condensed)
    lines = [PlacedLine(line, name, origin) for line, origin in zip(section.lines, section.origins, strict=True)]
    return [*lines, *([PlacedLine(f"(+{more} more)", name)] if more else [])]


def _trigger_line(names: Sequence[str]) -> list[str]:
    return [f"Triggers: {', '.join(map(inline_text, names))}"] if names else []


def _topic_line(topic: ResumeTopic) -> str:
    return f'{topic.id}: "{inline_text(topic.name)}" [{topic.members}]'


def _size(line: str) -> int:
    return tokens_of(f"{line}\n")


def _first(items: Sequence[Listed], text_of: Callable[[Listed], str], budget: int) -> list[Listed]:
    """The first items whose texts together fit the budget."""
    kept: list[Listed] = []
    for item in items:
        budget -= _size(text_of(item))
        if budget < 0:
            break
        kept.append(item)
    return kept
