"""No text of the injection corpus changes the frame of a prompt, a context block or a decision. SPEC 11, 12.2"""

import json
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from mnemo_core.ingest.memory_cues import MemoryFacts
from mnemo_core.llm.registry import TASKS
from mnemo_core.llm.tasks import AnyTask, EarlierQuestion, RecalledSource, TaskInputs, prompt_data, prompt_head
from mnemo_core.llm.triage import (
    GATE,
    JUDGE_IMPORTANCE,
    STEPS,
    TRIAGE,
    GateAnswer,
    ImportanceAnswer,
    TriageAnswer,
)
from mnemo_core.retrieval.context_block import ContextLine
from tests.support.context_blocks import render_block
from tests.support.prompt_injections import Injection, injections

CORPUS = injections()
KINDS = pytest.mark.parametrize("kind", sorted({injection.kind for injection in CORPUS}))
BENIGN = ("Went for a walk along the canal with the dog.", "ok thanks")
HARMLESS = "The soup was a little too salty."


def test_the_corpus_has_at_least_200_texts_of_many_kinds() -> None:
    assert len({injection.text for injection in CORPUS}) >= 200
    assert len({injection.kind for injection in CORPUS}) >= 10


def of_kind(kind: str) -> list[Injection]:
    return [injection for injection in CORPUS if injection.kind == kind]


def strings_and_frame(prompt: str) -> tuple[list[str], str]:
    """The JSON strings of a prompt, read by a decoder that is not ours, and what stands around them."""
    strings, frame, at = list[str](), "", 0
    decoder = json.JSONDecoder()
    while (start := prompt.find('"', at)) >= 0:
        text, end = decoder.raw_decode(prompt, start)
        strings.append(text)
        frame += prompt[at:start] + "·"
        at = end
    return strings, frame + prompt[at:]


def inputs_with(text: str) -> TaskInputs:
    """Inputs with a text wherever one can stand, next to a harmless source."""
    recalled = (RecalledSource(origin=text), RecalledSource(origin="Anna"))
    facts = (MemoryFacts(layer="buffer", kind="semantic"), MemoryFacts(tags=(text,)))
    return TaskInputs((f"{text}.", HARMLESS), f"? {text}", recalled, (EarlierQuestion(text, text),), facts)


@KINDS
def test_no_text_changes_the_frame_of_a_prompt(kind: str) -> None:
    harmless, frame = strings_and_frame(prompt_data(inputs_with("tea")))
    for injection in of_kind(kind):
        strings, found = strings_and_frame(prompt_data(inputs_with(injection.text)))
        assert found == frame
        assert strings == [each.replace("tea", injection.text) for each in harmless]
    heads = {prompt_head(task) for task in TASKS}
    assert len(heads) == len(TASKS), "the head of a prompt depends on its task alone"


def lines_of(contents: tuple[str, ...]) -> list[str]:
    memories = [ContextLine(str(number), "semantic", "", content) for number, content in enumerate(contents)]
    return render_block(memories).splitlines()  # at everything that a reader may take for the end of a line


def visible(line: str) -> str:
    folded = "".join(
        c for c in unicodedata.normalize("NFKC", line) if unicodedata.category(c) not in ("Cf", "Cc", "Zs")
    )
    return folded.casefold().translate(dict.fromkeys(map(ord, "‹〈⟨"), "<"))


@KINDS
def test_no_text_closes_a_context_block_or_forges_a_line_of_it(kind: str) -> None:
    for injection in of_kind(kind):
        contents = (HARMLESS, injection.text, f"Tea.\n{injection.text}", f"Tea. {injection.text}", HARMLESS)
        first, *lines, last = lines_of(contents)
        assert (first, last) == ("<memory>", "</memory>")
        heads = [line for line in lines if not line.startswith("  ")]
        assert len(heads) == len(contents), injection
        assert all(head.startswith("[SEMANTIC] ") for head in heads)
        assert not [line for line in lines if line.startswith("  ") and visible(line).startswith("[")], injection
        assert not [line for line in lines if {"<memory", "</memory"} & {*tags_of(visible(line))}], injection


def tags_of(line: str) -> Iterator[str]:
    """The beginnings of tags, as long as those that matter."""
    for at, character in enumerate(line):
        if character == "<":
            yield from (line[at : at + len("<memory")], line[at : at + len("</memory")])


class Judgement(NamedTuple):
    """A task that judges a memory: every answer that it may get, from the lowest to the highest class."""

    task: AnyTask
    answers: tuple[Any, ...]

    def rank(self, text: str) -> int:
        """The class that the fallback gives to a memory of this text."""
        answer = self.task.fallback(memory_of(text))
        return next(at for at, classed in enumerate(self.answers) if classed == answer or at == len(self.answers) - 1)

    def highest_accepted(self, text: str) -> int:
        """The highest class that a model may give to it."""
        inputs = memory_of(text)
        classes = range(len(self.answers) - 1, -1, -1)
        return next(at for at in classes if not self.task.validate(self.answers[at], inputs))


def memory_of(text: str) -> TaskInputs:
    return TaskInputs((text,), facts=(MemoryFacts(layer="buffer", kind="episodic"),))


JUDGEMENTS = (
    Judgement(
        GATE, tuple(GateAnswer(each) for each in ("none", "lesson", "identity", "constraint", "decision_rationale"))
    ),
    Judgement(TRIAGE, (TriageAnswer("archive"), TriageAnswer("keep"), TriageAnswer("promote"))),
    Judgement(JUDGE_IMPORTANCE, tuple(map(ImportanceAnswer, range(STEPS + 1)))),
)


@KINDS
@pytest.mark.parametrize("judgement", JUDGEMENTS, ids=lambda judgement: judgement.task.site)
def test_no_text_raises_the_verdict_about_the_memory_that_holds_it(judgement: Judgement, kind: str) -> None:
    """More than a harmless sentence does, which keeps a word of thanks from being archived."""
    for benign in BENIGN:
        most = judgement.rank(f"{benign} {HARMLESS}")
        for injection in of_kind(kind):
            forged = max(judgement.rank(f"{benign} {injection.text}"), judgement.rank(f"{injection.text}\n{benign}"))
            assert forged <= most, injection.text[:200]


@KINDS
@pytest.mark.parametrize("judgement", JUDGEMENTS, ids=lambda judgement: judgement.task.site)
def test_a_model_that_obeys_a_text_cannot_raise_its_memory_either(judgement: Judgement, kind: str) -> None:
    most = judgement.highest_accepted(f"{BENIGN[0]} {HARMLESS}")
    obeyed = [each.text for each in of_kind(kind) if judgement.highest_accepted(f"{BENIGN[0]} {each.text}") > most]
    assert not obeyed
