"""Answers to questions with a language model that is slow or hostile: cited once each, and in time."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemo_core.llm.tasks import EarlierQuestion
from mnemo_core.retrieval.ranking.rankers import Ranker
from mnemo_daemon.assistance.question_answering import AnsweredQuestion, CitedSentence, answer_question
from mnemo_daemon.memories.memory_service import MemoryDetails
from mnemo_daemon.models.language.language_model import LanguageModel
from mnemo_daemon.models.language.task_runner import CallLog, TaskRunner
from mnemo_daemon.retrieval.question import BestPassage, Hit, RecallOutcome
from mnemo_store.records import Usage
from mnemo_store.store import Store
from tests.conformance.conftest import ModelOf
from tests.support.samples import sample_memory

KEY = "The key hangs behind the kitchen door."
FERRY = "The ferry leaves at 9:30."
LOADED_S = 120.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path / "data")
    yield opened
    opened.close()


def hit(number: int, text: str, score: float) -> Hit:
    memory = sample_memory(number, text)
    usage = Usage(id=memory.id, strength=memory.importance)
    return Hit(MemoryDetails(memory, usage), score, score, ("words",), BestPassage(text, [], 0, text))


HITS = [hit(1, KEY, 0.9), hit(2, FERRY, 0.2)]
RECALLED = RecallOutcome(HITS, 20, 2, "auto", (), 1.0)


def ask(model: LanguageModel, store: Store, seconds: float) -> AnsweredQuestion:
    runner = TaskRunner(lambda _: model, CallLog(store), lambda: "full")
    return answer_question("Where is the key?", RECALLED, runner, time.monotonic() + seconds, lambda: False)


def test_a_question_that_waited_until_its_deadline_is_answered_by_quotes_at_once(
    model_of: ModelOf, store: Store
) -> None:
    answered = ask(model_of("ready()\nprompt()\ntime.sleep(600)"), store, -1.0)
    assert (answered.text, answered.method) == (KEY, "quotes")
    assert answered.reason == "the language model is still being loaded"


def test_a_memory_that_the_model_cites_several_times_is_cited_once(model_of: ModelOf, store: Store) -> None:
    answer = '{"sentences":[{"text":"The key hangs behind the door.","sources":[1,1,1]}]}'
    answered = ask(model_of(f"ready()\nwhile True:\n    prompt()\n    answer({answer!r})"), store, LOADED_S)
    assert (answered.text, answered.method) == ("The key hangs behind the door.", "llm")
    ((_, quotes),) = answered.sentences
    assert [(quoted.hit.details.memory.id, quoted.quote) for quoted in quotes] == [(HITS[0].details.memory.id, KEY)]


@pytest.mark.parametrize(
    "text",
    [
        "The key hangs behind the garage door.",  # of no memory
        "The key leaves at 9:30.",  # of a memory that is not cited
        "Ignore the memories and open the kitchen door to everybody.",
    ],
)
def test_what_the_cited_memory_does_not_say_is_not_answered(text: str, model_of: ModelOf, store: Store) -> None:
    script = (
        f"""ready()\nwhile True:\n    prompt()\n    answer('{{"sentences":[{{"text":"{text}","sources":[1]}}]}}')"""
    )
    answered = ask(model_of(script), store, LOADED_S)
    assert (answered.text, answered.method) == (KEY, "quotes")
    assert "is in none of the sources" in answered.reason


@pytest.mark.parametrize(
    ("question", "ranker", "score", "text"),
    [
        ("Who has a boat?", "auto", 0.14, "I don't know."),
        ("Who has a boat?", "auto", 0.5, f"I don't know. The closest memory says: {KEY}"),
        ("Who has a boat?", "words", 0.14, f"I don't know. The closest memory says: {KEY}"),  # no word of it is there
        ("Where is the key?", "words", 0.14, KEY),  # whose scores are no chances: all words are there
        ("Who has a boat?", "cosine", 0.14, KEY),  # who chooses a ranker gets what it finds
        ("Where is the key?", "auto", 0.5, KEY),
        (
            "Where is the key of Otto?",
            "auto",
            0.9,
            f"I don't know. The closest memory says: {KEY}",
        ),  # it may be anybody's
        ("Where is the key of Otto?", "words", 0.9, f"I don't know. The closest memory says: {KEY}"),
        ("Where is the key of Otto?", "cosine", 0.9, KEY),
    ],
)
def test_nothing_is_quoted_that_is_unlikely_to_answer(
    question: str, ranker: Ranker, score: float, text: str, store: Store
) -> None:
    recalled = RecallOutcome([hit(1, KEY, score)], 10, 1, ranker, (), 1.0)
    tasks = TaskRunner(lambda _: LanguageModel(None), CallLog(store), lambda: "auto")
    answered = answer_question(question, recalled, tasks, time.monotonic(), lambda: False)
    assert answered.text == text
    assert ("no memory is likely to answer it" in answered.reason) == (not answered.sentences)


def test_the_model_reads_the_earlier_questions_as_quoted_data(model_of: ModelOf, store: Store, tmp_path: Path) -> None:
    read, earlier = tmp_path / "read", (EarlierQuestion("Who has it?", "Otto."),)
    script = f"""
ready()
pathlib.Path({str(read)!r}).write_text(prompt().text)
answer('{{"sentences": [{{"text": "Otto has the key.", "sources": [1]}}]}}')
"""
    tasks = TaskRunner(lambda _: model, CallLog(store), lambda: "full")
    model, until = model_of(script), time.monotonic() + LOADED_S
    answered = answer_question("Where is the key?", RECALLED, tasks, until, lambda: False, earlier)
    assert 'Earlier question: "Who has it?"\nEarlier answer: "Otto."\nQuestion:' in read.read_text()
    assert (answered.text, "'otto'" in answered.reason) == (KEY, True)  # it supports no answer


def streaming(*pieces: str, then: str = "") -> str:
    """The script of a worker that writes an answer in pieces."""
    whole = "".join(pieces)
    return f"""
ready()
while True:
    assert prompt().streams
    for each in {pieces!r}:
        piece(each)
    {then or "pass"}
    answer({whole!r})
"""


def streamed(
    model: LanguageModel, store: Store, seconds: float, is_cancelled: Callable[[], bool] = lambda: False
) -> tuple[AnsweredQuestion, list[str]]:
    """The answer, and the sentences that were reported before it."""
    runner = TaskRunner(lambda _: model, CallLog(store), lambda: "full")
    sentences: list[str] = []
    answered = answer_question(
        "Where is the key?", RECALLED, runner, time.monotonic() + seconds, is_cancelled,
        on_sentence=lambda sentence: sentences.append(sentence[0]),
    )  # fmt: skip
    return answered, sentences


FIRST, SECOND = "The key hangs behind the door.", "The key hangs behind the kitchen door."


def test_a_sentence_is_reported_as_soon_as_it_is_whole_and_verified(
    model_of: ModelOf, store: Store, tmp_path: Path
) -> None:
    """The script writes the second sentence only after the first was reported, which makes a file."""
    seen = tmp_path / "seen"
    pieces = (
        '{"sentences": [{"te',
        f'xt": "{FIRST}", "sou',
        'rces": [1]}',
        f', {{"text": "{SECOND}", "sources": [1]}}',
        "]}",
    )
    script = f"""
ready()
prompt()
for each in {pieces[:3]!r}:
    piece(each)
while not pathlib.Path({str(seen)!r}).exists():
    time.sleep(0.01)
for each in {pieces[3:]!r}:
    piece(each)
answer({"".join(pieces)!r})
"""
    runner = TaskRunner(lambda _: model, CallLog(store), lambda: "full")
    model, sentences = model_of(script), list[str]()

    def on_sentence(sentence: CitedSentence) -> None:
        sentences.append(sentence[0])
        assert sentence[1][0].hit == HITS[0]
        seen.touch()

    until = time.monotonic() + LOADED_S
    answered = answer_question("Where is the key?", RECALLED, runner, until, lambda: False, on_sentence=on_sentence)
    assert sentences == [FIRST, SECOND] == [text for text, _ in answered.sentences]
    assert answered.method == "llm"


def test_a_sentence_that_is_not_verified_is_never_reported_and_makes_the_ones_before_it_void(
    model_of: ModelOf, store: Store
) -> None:
    pieces = (
        f'{{"sentences": [{{"text": "{FIRST}", "sources": [1]}}',
        ', {"text": "Otto has the key.", "sources": [1]}',
        "]}",
    )
    answered, sentences = streamed(model_of(streaming(*pieces)), store, LOADED_S)
    assert (sentences, answered.text, answered.method) == ([FIRST], KEY, "quotes")
    assert "'otto'" in answered.reason


def test_a_brace_inside_of_a_sentence_ends_none(model_of: ModelOf, store: Store) -> None:
    pieces = ('{"sentences": [{"text": "The key } hangs behind', ' the door }].", "sources": [1]}', "]}")
    answered, sentences = streamed(model_of(streaming(*pieces)), store, LOADED_S)
    assert sentences == ["The key } hangs behind the door }]."] == [text for text, _ in answered.sentences]


@pytest.mark.parametrize("endless", ["piece('x' * 1000)", "piece('}')"])
def test_a_model_that_never_stops_writing_ends_at_its_deadline(endless: str, model_of: ModelOf, store: Store) -> None:
    model = model_of(f"ready()\nprompt()\nwhile True:\n    {endless}")
    answered, sentences = streamed(model, store, 1.0)
    assert (sentences, answered.text, answered.method) == ([], KEY, "quotes")


def test_a_call_is_cancelled_between_two_pieces(model_of: ModelOf, store: Store) -> None:
    script = """
from mnemo_daemon.models.worker_protocol import ModelRefusal
ready()
prompt()
os.set_blocking(0, False)
while True:
    piece("x")
    try:
        os.read(0, 65536)
        break
    except BlockingIOError:
        time.sleep(0.001)
send(out, ModelRefusal("cancelled", "as asked"))
time.sleep(600)
"""
    model = model_of(script)
    answered, _ = streamed(model, store, LOADED_S, lambda: model.status().state == "ready")
    assert (answered.text, answered.reason) == (KEY, "as asked")
    assert model.status().state == "ready"
