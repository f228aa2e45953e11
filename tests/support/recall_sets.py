"""The project's own labelled texts for recall, read from tests/fixtures/recall: conversations, beliefs, languages,
notes, and questions about things that were never stored.

Nothing of them comes from a benchmark. Times are in UTC.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mnemo_client.bench import datasets
from mnemo_client.protocol.choices import Kind

FOLDER = Path(__file__).parents[1] / "fixtures" / "recall"
NOTES = FOLDER / "notes"
UNSEEN = FOLDER / "unseen"  # on which nothing is fitted


class LabelledTurn(NamedTuple):
    id: str
    session: int
    speaker: str
    text: str
    at: datetime  # the session's time, one minute a turn


class LabelledConversation(NamedTuple):
    """is_dense: nearly every turn tells something, which people's talk does not."""

    name: str
    turns: list[LabelledTurn]
    questions: list[datasets.DatasetQuestion]
    is_dense: bool = False

    @property
    def speakers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(turn.speaker for turn in self.turns))


class Belief(NamedTuple):
    """replaces: the id of the older belief that it takes the place of. scope: "" for what holds everywhere."""

    id: str
    text: str
    kind: Kind
    at: datetime
    replaces: str = ""
    scope: str = ""


class BeliefQuestion(NamedTuple):
    """answers: the ids of what answers it; none: nothing of the set does."""

    text: str
    answers: tuple[str, ...]
    scope: str = ""


class BeliefSet(NamedTuple):
    name: str
    beliefs: list[Belief]
    questions: list[BeliefQuestion]

    def older(self, belief_id: str) -> list[str]:
        """The beliefs it replaced, directly and before that, the latest first."""
        replaced = {belief.id: belief.replaces for belief in self.beliefs}
        chain = []
        while belief_id := replaced[belief_id]:
            chain.append(belief_id)
        return chain


class LanguageSet(NamedTuple):
    """Texts of one language by id; questions in it and, about them, in others."""

    language: str
    texts: dict[str, str]
    questions: list[BeliefQuestion]


class NoteQuestion(NamedTuple):
    """says stands word for word in the chunk of `file` that answers it, under `heading`."""

    text: str
    file: str
    heading: str
    says: str


def conversations(folder: Path = FOLDER) -> list[LabelledConversation]:
    """Those that have questions."""
    found = [_conversation(path) for path in sorted((folder / "conversations").rglob("*.txt"))]
    return [each for each in found if each.questions]


def belief_sets(folder: Path = FOLDER) -> list[BeliefSet]:
    return [_belief_set(path) for path in sorted(folder.glob("beliefs-*.jsonl"))]


def asked_set(folder: Path = FOLDER) -> BeliefSet:
    """Memories, and questions for `ask` that they answer or do not answer."""
    return _belief_set(folder / "asked.jsonl")


def language_sets(folder: Path = FOLDER) -> list[LanguageSet]:
    texts: dict[str, dict[str, str]] = defaultdict(dict)
    questions: dict[str, list[BeliefQuestion]] = defaultdict(list)
    for line in _lines(folder / "languages.jsonl"):
        if "text" in line:
            texts[line["lang"]][line["id"]] = line["text"]
        else:
            questions[line["lang"]].append(BeliefQuestion(line["question"], tuple(line["answers"])))
    return [LanguageSet(language, texts[language], questions[language]) for language in texts]


def note_questions(folder: Path = FOLDER) -> list[NoteQuestion]:
    lines = _lines(folder / "notes-questions.jsonl")
    return [NoteQuestion(line["question"], line["file"], line["heading"], line["says"]) for line in lines]


class ProjectFact(NamedTuple):
    """A statement in a project's namespace, and a question of that project that it answers."""

    namespace: str
    text: str
    question: str


def project_facts(folder: Path = FOLDER) -> list[ProjectFact]:
    return [ProjectFact(**line) for line in _lines(folder / "projects.jsonl")]


def note_purposes(folder: Path = FOLDER) -> list[tuple[str, str]]:
    """(file, what it is for, in a line) of each of the notes."""
    return [(line["file"], line["purpose"]) for line in _lines(folder / "notes-purposes.jsonl")]


def absent(folder: Path = FOLDER) -> list[str]:
    """Questions about what no set holds."""
    return [line["question"] for line in _lines(folder / "absent.jsonl")]


def _conversation(path: Path) -> LabelledConversation:
    read = datasets.read_conversation(path)
    turns = [
        LabelledTurn(turn.id, int(turn.session), turn.speaker, turn.text, datetime.fromisoformat(turn.at))
        for turn in read.turns
    ]
    return LabelledConversation(path.stem, turns, read.questions, path.parent.name == "dense")


def _belief_set(path: Path) -> BeliefSet:
    beliefs: list[Belief] = []
    questions: list[BeliefQuestion] = []
    for line in _lines(path):
        if "text" in line:
            at = datetime.fromisoformat(line["at"]).replace(tzinfo=UTC)
            replaces, scope = line.get("replaces", ""), line.get("scope") or ""
            beliefs.append(Belief(line["id"], line["text"], line["kind"], at, replaces, scope))
        else:
            questions.append(BeliefQuestion(line["question"], tuple(line["answers"]), line.get("scope") or ""))
    return BeliefSet(path.stem, beliefs, questions)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)
