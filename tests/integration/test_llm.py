"""The real llama.cpp with a real, small model: it answers, is stopped, is killed, and goes when its parent goes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemo_daemon.models.language.language_model import (
    AnswerTimeout,
    CallCancellation,
    LanguageModel,
    ModelFailureError,
    PromptTooLong,
)
from mnemo_daemon.models.language.llm_worker import NICENESS
from tests.support.running_daemon import has_ended

LOADED_S = 120.0
"""Far more than it takes: these tests share the machine's cores with others."""
TOO_MUCH_TO_READ = "word " * 3500
"""About 3,500 tokens: seconds of prompt processing on two cores, in which only the abort callback can stop."""
QUESTION = "Text: The key to the cellar hangs behind the kitchen door. Question: Where is the key to the cellar?"

PARENT = """
import sys
from pathlib import Path
from mnemo_daemon.models.language.language_model import LanguageModel
model = LanguageModel(Path(sys.argv[1]), allow_unknown=True)
model.answer("Hello", 1, 120)
print(model.status().pid, flush=True)
model.answer("word " * 3500, 500, 120)
"""


@pytest.fixture(scope="module")
def model(smollm_file: Path) -> Iterator[LanguageModel]:
    made = LanguageModel(smollm_file, allow_unknown=True)
    yield made
    made.close()


def is_gone(pid: int | None) -> bool:
    """True if no process has this id, not even as a zombie."""
    assert pid
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(is_so: Callable[[], bool], limit_s: float) -> None:
    until = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)


def test_it_answers_a_question_from_the_text_it_is_given(model: LanguageModel) -> None:
    answer = model.answer(QUESTION, 24, LOADED_S)
    assert "kitchen door" in answer.text
    assert not answer.cut
    assert 30 < answer.prompt_tokens < 100
    assert 5 < answer.answer_tokens <= 24


def test_the_same_question_gets_the_same_answer(model: LanguageModel) -> None:
    first = model.answer(QUESTION, 24, LOADED_S)
    model.answer("Name a colour.", 4, LOADED_S)
    assert model.answer(QUESTION, 24, LOADED_S).text == first.text


def test_an_answer_ends_with_its_tokens_and_says_that_it_was_cut(model: LanguageModel) -> None:
    answer = model.answer("Tell a long story about a ship.", 5, LOADED_S)
    assert answer.cut
    assert answer.answer_tokens == 5


def test_a_deadline_stops_it_in_the_middle_of_the_prompt_and_the_model_stays(model: LanguageModel) -> None:
    model.answer("Hello", 1, LOADED_S)
    pid = model.status().pid
    with pytest.raises(AnswerTimeout):
        model.answer(TOO_MUCH_TO_READ, 100, 0.5)
    assert "kitchen door" in model.answer(QUESTION, 24, LOADED_S).text
    assert model.status().pid == pid, "a worker that does not stop within a second of the deadline is killed"


def test_a_call_is_cancelled_in_the_middle_of_the_prompt_and_the_model_stays(model: LanguageModel) -> None:
    model.answer("Hello", 1, LOADED_S)
    pid = model.status().pid
    looks = iter(range(10))
    with pytest.raises(CallCancellation):
        model.answer(TOO_MUCH_TO_READ, 100, LOADED_S, is_cancelled=lambda: next(looks, None) is None)
    assert "kitchen door" in model.answer(QUESTION, 24, LOADED_S).text
    assert model.status().pid == pid


def test_the_head_of_a_prompt_is_read_once_even_when_others_come_between(model: LanguageModel) -> None:
    def ask(head: str) -> tuple[str, int]:
        answer = model.answer(QUESTION, 24, LOADED_S, head=head)
        return answer.text, answer.reused_tokens

    heads = ["Answer the question from the text.\n\n", "Answer in one word, in capitals.\n\n"]
    first = [ask(head) for head in heads]
    again = [ask(head) for head in heads]
    assert [reused for _, reused in first] == [0, 0]
    assert all(reused > 10 for _, reused in again)
    assert [text for text, _ in again] == [text for text, _ in first]


def test_a_prompt_beyond_the_context_is_refused_with_both_lengths(model: LanguageModel) -> None:
    # 4096 tokens of context less 100 for the answer; the tokens of the template are counted with the prompt.
    with pytest.raises(PromptTooLong, match=r"the prompt has 60\d\d tokens, and 3996 fit"):
        model.answer("word " * 6000, 100, LOADED_S)


def test_it_works_at_a_lower_priority_than_its_parent(model: LanguageModel) -> None:
    model.answer("Hello", 1, LOADED_S)
    pid = model.status().pid
    assert pid
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(own + NICENESS, 19)


def test_a_worker_killed_in_the_middle_of_an_answer_is_reported_and_replaced(model: LanguageModel) -> None:
    model.answer("Hello", 1, LOADED_S)
    pid = model.status().pid
    assert pid
    killer = threading.Timer(0.3, os.kill, [pid, signal.SIGKILL])
    killer.start()
    with pytest.raises(ModelFailureError, match="ended by SIGKILL"):
        model.answer(TOO_MUCH_TO_READ, 400, LOADED_S)
    killer.join()
    assert is_gone(pid)
    assert "kitchen door" in model.answer(QUESTION, 24, LOADED_S).text
    assert model.status().pid != pid


def test_a_stopped_worker_is_killed_after_the_deadline(model: LanguageModel) -> None:
    model.answer("Hello", 1, LOADED_S)
    pid = model.status().pid
    assert pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(AnswerTimeout, match="hung"):
        model.answer(QUESTION, 24, 0.5)
    assert is_gone(pid)


def test_a_memory_limit_that_the_model_does_not_fit_is_a_failure_and_not_a_crash(smollm_file: Path) -> None:
    small = LanguageModel(smollm_file, allow_unknown=True, memory_limit_bytes=160 * 1024 * 1024)
    try:
        with pytest.raises(ModelFailureError):
            small.answer("Hello", 1, LOADED_S)
        assert small.status().pid is None
    finally:
        small.close()


def test_closing_leaves_no_process_behind(smollm_file: Path) -> None:
    other = LanguageModel(smollm_file, allow_unknown=True)
    other.answer("Hello", 1, LOADED_S)
    pid = other.status().pid
    assert not is_gone(pid)
    other.close()
    assert is_gone(pid)


def test_when_its_parent_is_killed_in_the_middle_of_an_answer_the_worker_goes_too(smollm_file: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(smollm_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        worker = int(parent.stdout.readline())
        time.sleep(0.2)  # now it is busy with the long prompt
        assert not is_gone(worker)
        parent.kill()
    wait_until(lambda: has_ended(worker), 30.0)
