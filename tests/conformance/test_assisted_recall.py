"""Recall with `rerank: true` and `expand: true`, by scripted models: what they drop, order, add and must not touch."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mnemo_daemon.assistance.assisted_recall import AssistedRecall
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from mnemo_daemon.models.language.language_model import LanguageModel
from mnemo_daemon.models.language.task_runner import CallLog, Level, TaskRunner
from mnemo_daemon.priority import QueryPriority
from mnemo_daemon.retrieval.question import Question, RecallOutcome
from mnemo_store.indexes.attributes import MemoryFilter
from tests.conformance.conftest import ModelOf
from tests.support.samples import sample_memory
from tests.support.store_services import StoreServices, put, services_in, simulated_services_in

FERRY = "The ferry to the island leaves at nine."
PAINT = "The ferry was painted red."
LUNCH = "There is a ferry in the novel that Mia reads at lunch."
DENTIST = "The tooth doctor expects me on Friday at ten."
ANNA = "Anna works at the zoo in Berlin."
KEY = "The key to the cellar hangs behind the kitchen door."
TEXTS = (FERRY, PAINT, LUNCH, DENTIST)
QUERY = "Which colour has the ferry?"


@pytest.fixture(params=["with vectors", "without an embedding model"])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreServices]:
    with simulated_services_in(tmp_path / "data", has_model=request.param == "with vectors") as services:
        put(services, *(sample_memory(number, text) for number, text in enumerate(TEXTS)))
        yield services


def ask(
    services: StoreServices,
    model: LanguageModel,
    query: str = QUERY,
    level: Level = "full",
    obstacle: str = "",
    **fields: Any,
) -> RecallOutcome:
    tasks = TaskRunner(lambda _: model, CallLog(services.store), lambda: level, grade_obstacle=lambda _: obstacle)
    assisted = AssistedRecall(services.recalling, tasks, QueryPriority())
    wanted = MemoryFilter(user_id="local", states=("active", "archived"), now=services.at)
    question = Question(query, wanted, **{"token_budget": None, "explain": True, **fields})
    return assisted.answer(question, lambda: False)


def contents(recalled: RecallOutcome) -> list[str]:
    return [hit.details.memory.content for hit in recalled.hits]


def scoring(scores: dict[str, int]) -> str:
    """The script of a model that gives each source the score of its text."""
    return f"""
ready()
while True:
    lines = [line for line in prompt().text.split("\\n") if line.startswith("Source")]
    scores = [score for line in lines for text, score in {scores!r}.items() if text in line]
    answer('{{"scores": %s}}' % scores)
"""


def answering(text: str) -> str:
    return f"ready()\nwhile True:\n    prompt()\n    answer({text!r})"


BEARS = {FERRY: 1, PAINT: 3, LUNCH: 0, DENTIST: 0}


def test_what_the_model_scores_0_is_dropped_and_the_rest_is_ordered_by_the_score(
    services: StoreServices, model_of: ModelOf
) -> None:
    recalled = ask(services, model_of(scoring(BEARS)), rerank=True)
    assert contents(recalled) == [PAINT, FERRY]
    assert (recalled.abstained, "llm" in recalled.degraded, recalled.reason) == (False, False, "")
    assert recalled.total_tokens == sum(hit.tokens for hit in recalled.hits) > 0
    assert recalled.trace is not None
    traced = {each.id: (each.rerank, each.answer, each.dropped) for each in recalled.trace.candidates}
    ids = [sample_memory(number, text).id for number, text in enumerate(TEXTS)]
    assert traced[ids[0]] == (1, 2, None)
    assert traced[ids[1]] == (3, 1, None)
    assert traced[ids[2]] == (0, None, "rerank")
    assert recalled.trace.dropped["rerank"] == sum(drop == "rerank" for _, _, drop in traced.values())
    assert "rerank" in recalled.trace.stages_ms


def test_an_order_that_was_requested_stays(services: StoreServices, model_of: ModelOf) -> None:
    recalled = ask(services, model_of(scoring(BEARS)), rerank=True, sort="recent")
    plain = [text for text in contents(ask(services, LanguageModel(None), sort="recent")) if text in (PAINT, FERRY)]
    assert contents(recalled) == plain


def test_E8_what_gets_no_score_comes_last(services: StoreServices, model_of: ModelOf) -> None:
    plain = contents(ask(services, LanguageModel(None)))
    recalled = ask(services, model_of(answering('{"scores": [1]}')), rerank=True)
    assert contents(recalled) == plain


def test_an_answer_is_empty_only_by_a_verdict_that_is_plausible(services: StoreServices, model_of: ModelOf) -> None:
    nothing = scoring(dict.fromkeys(TEXTS, 0))
    recalled = ask(
        services, model_of(nothing), rerank=True
    )  # PAINT has one of the two words, and the verdict is refused
    assert (recalled.degraded[-1:], "drops every source" in recalled.reason) == (("llm",), True)
    rule = ask(services, LanguageModel(None), rerank=True)
    assert sorted(contents(recalled)) == sorted(contents(rule))
    far = ask(services, model_of(nothing), "Who sails the ferry across the stormy strait tonight?", rerank=True)
    assert (far.hits, far.abstained, far.degraded[-1:] == ("llm",)) == ([], True, False)


FAILING = {
    "it dies": "ready()\nprompt()\nos.abort()",
    "it answers nonsense": answering('{"scores": ["high", 0.7]}'),
    "it gives too many scores": answering('{"scores": [3, 3, 3, 3, 3, 3, 3, 3, 3, 3]}'),
    "it drops the answer": answering('{"scores": [0, 0, 0, 0]}'),
}


@pytest.mark.parametrize("script", FAILING)
def test_a_model_that_fails_leaves_the_judgement_to_the_rule(
    services: StoreServices, model_of: ModelOf, script: str
) -> None:
    recalled = ask(services, model_of(FAILING[script]), "ferry red", rerank=True)
    assert contents(recalled) == contents(ask(services, LanguageModel(None), "ferry red", rerank=True))
    assert (recalled.degraded[-1:], recalled.reason != "") == (("llm",), True)
    assert PAINT in contents(recalled)


def test_where_no_model_may_be_asked_the_rule_judges_and_the_reason_says_so(
    services: StoreServices, model_of: ModelOf
) -> None:
    model = model_of(scoring(BEARS))
    for found, reason in (
        (ask(services, LanguageModel(None), rerank=True), "no language model is chosen"),
        (ask(services, model, rerank=True, level="off"), "are off"),
        (ask(services, model, rerank=True, obstacle="it failed the probes"), "it failed the probes"),
    ):
        assert reason in found.reason
        assert "llm" not in found.degraded
    assert model.status().state == "off"


def test_only_a_request_for_it_reaches_the_model(services: StoreServices, model_of: ModelOf) -> None:
    model = model_of(scoring(BEARS))
    ways: list[dict[str, Any]] = [{}, {"expand": "auto"}, {"expand": "false"}, {"cut": "gap"}, {"ranker": "rerank"}]
    assert [ask(services, model, **way).reason for way in ways] == [""] * len(ways)
    assert model.status().state == "off"


PHRASINGS = '{"phrasings": ["tooth doctor", "the doctor for teeth", "visit because of a tooth", "teeth doctor"]}'
DENTAL = "When do I see my dentist?"


def test_G38_words_of_other_phrasings_find_what_the_question_has_no_word_of(
    tmp_path: Path, model_of: ModelOf, minilm_folder: Path
) -> None:
    """By words alone, and where the model does not know the language of the question."""
    model, phrasings = model_of(answering(PHRASINGS)), msgspec.json.decode(PHRASINGS)["phrasings"]
    reading = EmbeddingService(ModelCatalogue(minilm_folder), threads=1)
    reading.refresh()
    for name, query in (("words", DENTAL), ("vectors", "Wann habe ich meinen Zahnarzttermin?")):
        with services_in(tmp_path / name, reading if name == "vectors" else None) as services:
            if name == "vectors":
                services.indexing.start()
            put(services, *(sample_memory(number, text) for number, text in enumerate((*TEXTS, ANNA, KEY))))
            assert contents(ask(services, model, query, expand="auto"))[:1] != [DENTIST]
            recalled = ask(services, model, query, expand="true")
            assert (contents(recalled)[:1], recalled.expanded) == ([DENTIST], tuple(phrasings))
            assert "words" in recalled.hits[0].channels
    reading.close()


def test_G38_phrasings_are_kept_only_where_they_do_better(services: StoreServices, model_of: ModelOf) -> None:
    query = "the tooth doctor expects me on Friday at ten"
    words = '{"phrasings": ["lunch novel", "mia reads", "painted red", "ferry island"]}'
    recalled = ask(services, model_of(answering(words)), query, expand="true")
    assert (recalled.expanded, contents(recalled)[:1]) == ((), [DENTIST])


@pytest.mark.parametrize(
    "text",
    ['{"phrasings": ["tooth 4711", "doctor", "friday", "visit"]}', '{"phrasings": ["tooth"]}', "nonsense"],
)
def test_G38_rejected_phrasings_leave_the_expansion_to_the_rule(
    services: StoreServices, model_of: ModelOf, text: str
) -> None:
    recalled = ask(services, model_of(answering(text)), DENTAL, expand="true")
    plain = ask(services, LanguageModel(None), DENTAL, expand="auto")
    assert (contents(recalled), recalled.expanded) == (contents(plain), plain.expanded)
    assert (recalled.degraded[-1:], recalled.reason != "") == (("llm",), True)


def test_a_model_that_never_answers_costs_its_deadline_and_no_answer(
    services: StoreServices, model_of: ModelOf
) -> None:
    began = time.monotonic()
    model = model_of("ready()\nprompt()\ntime.sleep(600)")
    tasks = TaskRunner(lambda _: model, CallLog(services.store), lambda: "full")
    assisted = AssistedRecall(services.recalling, tasks, QueryPriority())
    wanted = MemoryFilter(user_id="local", states=("active", "archived"), now=services.at)
    question = Question(QUERY, wanted, token_budget=None)
    recalled = services.recalling.answer(question)
    found = assisted.rerank_for_answer(question, recalled, began + 1.0, lambda: False)
    assert (contents(found), found.degraded[-1:]) == (contents(recalled), ("llm",))
