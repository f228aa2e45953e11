"""The ranker `deterministic` ranks every memory in question by its formula. SPEC 7.3 [M3]"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_core.retrieval.ranking import lexical_ranker
from tests.support.samples import sample_memory
from tests.support.store_services import StoreServices, put, simulated_services_in

HOUR = 3_600_000
WORDS = ("the", "a", "zebra", "Boot", "naïve", "don't", "v2.1", "camelCase", "snake_case", "東京", "京都", "of", "8080")
COUNT = 260  # more than are read at once, and than a channel gives


@pytest.fixture(params=[False, True], ids=["without a model", "with vectors"])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreServices]:
    with simulated_services_in(tmp_path, has_model=request.param) as made:
        made.at = 1000 * HOUR
        yield made


def test_a_memory_that_shares_only_a_stop_word_is_found_by_its_score(services: StoreServices) -> None:
    put(services, sample_memory(1, "the boat is blue", user_id="local", importance=0.5, event_at=services.at))
    (hit,) = services.recall("the zebra", ranker="deterministic").hits
    assert hit.score == pytest.approx(0.75)


def test_a_memory_that_shares_no_word_is_ranked_by_freshness_and_importance(services: StoreServices) -> None:
    for number, importance in enumerate((0.1, 0.9, 0.5), 1):
        put(
            services,
            sample_memory(number, f"text {number}", user_id="local", importance=importance, event_at=services.at),
        )
    assert services.recalled("zebra", ranker="deterministic") == ["text 2", "text 3", "text 1"]


def some(chance: random.Random, at: int) -> list[tuple[str, float, int]]:
    """Texts, importances and times; of few kinds, so that many are nearly alike."""
    return [
        (
            " ".join([*chance.choices(WORDS, k=chance.randint(1, 6)), f"n{number}"]),
            chance.choice([0.0, 0.5, 1.0]),
            at - HOUR * chance.choice([0, 1, 10, 900]),
        )
        for number in range(COUNT)
    ]


@pytest.mark.parametrize(
    "query", ["the zebra", "a of the", "don't boot v2.1", "東京 8080", "snake case naive", "nothing"]
)
@pytest.mark.parametrize("top_k", [5, 50])
def test_the_best_are_those_of_all(services: StoreServices, query: str, top_k: int) -> None:
    rows = some(random.Random(3), services.at)
    memories = [
        sample_memory(number, text, user_id="local", importance=importance, event_at=at, state="active")
        for number, (text, importance, at) in enumerate(rows, 1)
    ]
    put(services, *memories)
    overlap = lexical_ranker.overlap(query, [text for text, _, _ in rows])
    scores = {
        text: 0.65 * share + 0.35 / (1 + (services.at - at) / HOUR) + 0.15 * importance
        for (text, importance, at), share in zip(rows, overlap.tolist(), strict=True)
    }
    found = services.recall(query, ranker="deterministic", top_k=top_k).hits
    wanted = sorted(scores.values(), reverse=True)[:top_k]
    assert [hit.score for hit in found] == pytest.approx(wanted, abs=1e-5)
    assert all(hit.score == pytest.approx(scores[hit.details.memory.content], abs=1e-5) for hit in found)
