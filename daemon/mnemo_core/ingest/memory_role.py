"""The role of a text among a person's memories: who they are, what they want, what was decided. SPEC 7.5, 9.6

A linear model of its words, as that of the kinds (`statement_kind`), of the kind, category and cues that rules find,
and of its vector, where it has one of the default model. It chooses what an agent is given at the start of a session,
and what may stand in a context unasked: an instruction is for every answer, a rule for certain subjects, people or
tasks. Fitted by `tests/bench/fit_roles.py`.
"""

import re
from itertools import takewhile
from typing import Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mnemo_core.ingest.classification import classify
from mnemo_core.ingest.memory_cues import CoreCategory, MemoryFacts, cues_of, describes_user
from mnemo_core.ingest.statement_kind import LinearTextModel, statement_kind
from mnemo_core.text import lexicon
from mnemo_core.text.languages import sentences
from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_core.text.statement_reading import read_statement
from mnemo_store.records import CATEGORIES

MemoryRole = Literal[
    "identity", "instruction", "rule", "taste", "constraint", "decision", "lesson", "goal", "blocker", "next",
    "fact", "appointment", "event", "question", "small", "answer", "script",
]  # fmt: skip
ROLES: Final[tuple[MemoryRole, ...]] = get_args(MemoryRole)
INSTRUCTION_ROLES: Final[tuple[MemoryRole, ...]] = ("instruction", "rule")
ROLE_ROWS: Final = 1 << 13  # of the table of weights of words
PROMPT_ROWS: Final = 1 << 12  # and of that of prompts
VECTOR_SCALE: Final = 4.0  # of a unit vector among the other features
DIMENSIONS: Final = 384  # of the vectors that there are weights for
_OPENING_CHARS = 400  # of a text, in which it may begin with thanks
_GO_ON = lexicon.words("classification", "go_on")
_CUES: Final[tuple[CoreCategory, ...]] = get_args(CoreCategory)
_FACTS = MemoryFacts(layer="working")

# "is there any help with money for my dad": asked without a mark
_ASKS = lazy_pattern(
    r"\A\W*(?:(?:is|are|was|were) (?:there|it|this|that|you|we|he|she|they|my|our|any)"
    r"|(?:do|does|did) (?:you|i|we|he|she|they|my|our|any\w*))\b",
    re.IGNORECASE,
)

_words = LinearTextModel("roles", ROLES, ROLE_ROWS)
_INSTRUCTIONS = [ROLES.index(role) for role in INSTRUCTION_ROLES]
_prompts = LinearTextModel("prompts", ("personal",), PROMPT_ROWS)


class FoundRole(NamedTuple):
    """The most probable role of a text, and its probability."""

    name: MemoryRole
    probability: float


def read_role(text: str, vector: NDArray[np.float32] | None = None) -> FoundRole:
    """The role of a text that no assistant said, whose replies alone are answers. vector: its unit vector (384,) of the
    default model; None where there is none."""
    said = sentences(text[:_OPENING_CHARS])
    opening = [*takewhile(says_nothing, said)]
    if 0 < len(opening) < len(said):
        text = text[text.index(said[len(opening)]) :]  # without thanks or a yes in front
    if _ASKS.match(text):
        return FoundRole("question", 1.0)
    scores = _words.scores(text, role_signs(text, vector))
    scores[ROLES.index("answer")] = -np.inf
    if describes_user(text):  # an allergy is no taste
        scores[[ROLES.index("taste"), ROLES.index("small")]] = -np.inf
    odds = np.exp(scores - scores.max())
    odds /= odds.sum()
    told = odds[_INSTRUCTIONS]
    if told.sum() > odds.max():  # which of the two it is matters less
        return FoundRole(INSTRUCTION_ROLES[int(np.argmax(told))], float(told.sum()))
    return FoundRole(ROLES[int(np.argmax(odds))], float(odds.max()))


def says_nothing(prompt: str) -> bool:
    """Return whether a prompt only agrees, thanks or asks to continue, so that no memory is relevant to it."""
    words = read_statement(prompt)
    return not words.is_question and not words.names and all(word in _GO_ON for word in words.plain)


def personal_odds(prompt: str, vector: NDArray[np.float32] | None) -> float:
    """The log-odds that a prompt is about the person's own life or work. vector: as of `read_role`. Fitted by
    `tests/bench/fit_prompts.py`."""
    return float(_prompts.scores(prompt, vector_signs(vector))[0])


def role_signs(text: str, vector: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """The features of a text besides its words: the log-odds of its kinds, its category, its cues, and its vector."""
    found, cues = classify(text, role="user"), cues_of(text, _FACTS)
    signs = [
        *(np.log(np.array(statement_kind(text).probabilities) + 1e-3) / 3).tolist(),
        *(found.category == each for each in CATEGORIES),
        found.form == "preference",
        *(cues.strong == each for each in _CUES),
        *(each in cues.weak for each in _CUES),
        bool(cues.barred),
    ]
    return np.concatenate((signs, vector_signs(vector)), dtype=np.float32)


def vector_signs(vector: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """The features of a text that its unit vector (384,) of the default model gives; zeros where there is none."""
    return np.zeros(DIMENSIONS, np.float32) if vector is None else vector * np.float32(VECTOR_SCALE)
