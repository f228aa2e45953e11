"""Turns that a model judges and condenses while the conversation goes on. SPEC 8 [T3, T4, T22]"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from mnemo_core.llm.summarize import CONDENSED_CHARACTERS, CondensedText
from mnemo_core.llm.tasks import AnyTask, TaskInputs
from mnemo_core.llm.triage import JUDGE_IMPORTANCE, ImportanceAnswer
from mnemo_daemon.models.language.task_runner import TaskResult, TaskRunner
from mnemo_daemon.sessions.turn_review import TurnReview
from tests.support.conversation_services import SCOPE, ConversationServices, conversation_services_in
from tests.support.samples import WAIT_SECONDS, quick_folder

LONG = "The ferry to Ringvaart leaves at seven from pier four, and the last one back is at ten. " * 5


class ScriptedTasks:
    """A runner whose model gives one verdict and one summary; None: there is no model."""

    def __init__(self, steps: int | None, happens: Callable[[], object] = lambda: None) -> None:
        self.steps = steps
        self.happens = happens
        self.asked: list[str] = []

    def may_ask(self, _task: AnyTask) -> bool:
        return self.steps is not None

    def run(self, task: AnyTask, inputs: TaskInputs, **_: object) -> TaskResult[Any]:
        self.asked.append(task.site)
        self.happens()
        if self.steps is None:
            return TaskResult(task.fallback(inputs), "fallback", "as scripted")
        answer = ImportanceAnswer(self.steps) if task is JUDGE_IMPORTANCE else CondensedText("In one sentence.")
        return TaskResult(answer, "llm", model="scripted")


@pytest.fixture
def talk() -> Iterator[ConversationServices]:
    with quick_folder() as folder, conversation_services_in(folder) as talk:
        yield talk


def reviewing(talk: ConversationServices, tasks: ScriptedTasks) -> TurnReview:
    return TurnReview(talk.services.store, talk.services.views, cast(TaskRunner, tasks))


def finish(review: TurnReview) -> None:
    while review.is_due():
        while review.run_slice():
            pass


def importance_of(talk: ConversationServices, memory_id: str) -> tuple[float, str]:
    memory = talk.services.memory(memory_id)
    return memory.importance, memory.importance_source


def test_T22_a_model_judges_a_turn_and_never_below_what_recall_shows(talk: ConversationServices) -> None:
    tasks = ScriptedTasks(8)
    review = reviewing(talk, tasks)
    (high,) = talk.say()
    finish(review)
    tasks.steps = 0
    (low,) = talk.say()
    finish(review)
    assert (importance_of(talk, high), importance_of(talk, low)) == ((0.8, "llm"), (0.2, "llm"))
    assert tasks.asked == ["judge_importance"] * 2


def test_a_turn_that_no_model_judges_keeps_one_half(talk: ConversationServices) -> None:
    tasks = ScriptedTasks(None)
    review = reviewing(talk, tasks)
    (turn,) = talk.say()
    finish(review)
    assert (importance_of(talk, turn), tasks.asked) == ((0.5, "rule"), [])
    tasks.steps = 3
    finish(review)
    assert importance_of(talk, turn) == (0.3, "llm"), "it is judged once there is a model"


def test_T4_a_verdict_before_the_turn_is_pushed_out_archives_it(talk: ConversationServices) -> None:
    review = reviewing(talk, ScriptedTasks(3))
    first, *_ = talk.say(20)
    finish(review)
    talk.say()
    talk.push_out()
    assert talk.place(first) == "archived"


def test_T3_T4_a_verdict_after_the_turn_was_pushed_out_finds_it_among_the_recent(talk: ConversationServices) -> None:
    """The model is asked while turns come in and move: nothing waits for it."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def hold() -> None:
        is_asked.set()
        assert may_answer.wait(WAIT_SECONDS)

    review = reviewing(talk, ScriptedTasks(3, hold))
    first, *_ = talk.say()
    assert review.run_slice()
    assert is_asked.wait(WAIT_SECONDS)
    talk.say(20)
    talk.push_out()
    assert (talk.place(first), importance_of(talk, first)) == ("recent", (0.5, "rule"))
    may_answer.set()
    finish(review)
    assert (talk.place(first), importance_of(talk, first)) == ("recent", (0.3, "llm"))


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_what_a_person_said_about_the_importance_is_never_overwritten(talk: ConversationServices, when: str) -> None:
    (turn,) = talk.say()
    edit = {"importance": 0.9, "importance_source": "user"}
    if when == "before":
        talk.services.edit(turn, **edit)
    review = reviewing(talk, ScriptedTasks(1, lambda: when == "meanwhile" and talk.services.edit(turn, **edit)))
    finish(review)
    assert importance_of(talk, turn) == (0.9, "user")


def test_a_verdict_about_another_text_is_dropped(talk: ConversationServices) -> None:
    (turn,) = talk.say()
    review = reviewing(talk, ScriptedTasks(1, lambda: talk.services.edit(turn, content="Another text.")))
    finish(review)
    assert importance_of(talk, turn) == (0.5, "rule")


def test_the_strength_of_a_turn_that_was_not_used_follows_its_judged_importance(talk: ConversationServices) -> None:
    (turn,) = talk.say()
    finish(reviewing(talk, ScriptedTasks(8)))
    assert talk.services.memories.get(turn).usage.strength == 0.8


# Summaries


def test_a_long_turn_gets_a_summary_when_it_is_pushed_out_and_a_short_one_is_its_own(
    talk: ConversationServices,
) -> None:
    long, short = talk.say(2)
    talk.services.edit(long, content=LONG)
    review = reviewing(talk, ScriptedTasks(5))
    finish(review)
    assert talk.summary(long) == ""
    talk.say(20)
    talk.push_out()
    finish(review)
    assert (talk.summary(long), talk.summary(short)) == ("In one sentence.", "")


def test_without_a_model_a_summary_is_of_whole_sentences_of_the_turn(talk: ConversationServices) -> None:
    (long,) = talk.say()
    talk.services.edit(long, content=LONG)
    review = reviewing(talk, ScriptedTasks(None))
    talk.tiers.end(SCOPE)
    finish(review)
    summary = talk.summary(long)
    assert 0 < len(summary) <= CONDENSED_CHARACTERS
    assert summary in LONG
    assert talk.place(long) == "registry"


def test_a_summary_is_made_again_after_the_turn_was_edited(talk: ConversationServices) -> None:
    (long,) = talk.say()
    talk.services.edit(long, content=LONG)
    talk.tiers.end(SCOPE)
    tasks = ScriptedTasks(5)
    review = reviewing(talk, tasks)
    finish(review)
    talk.services.edit(long, content="As of May: " + LONG)
    assert talk.summary(long) == ""
    finish(review)
    assert (talk.summary(long), tasks.asked) == ("In one sentence.", ["condense"] * 2)


def test_T21_what_a_stop_left_over_is_reviewed_after_the_next_start(talk: ConversationServices) -> None:
    first = reviewing(talk, ScriptedTasks(3))
    (turn,) = talk.say()
    first.close()
    finish(reviewing(talk, ScriptedTasks(4)))
    assert importance_of(talk, turn) == (0.4, "llm")
