"""The ranker `rerank` with a cross-encoder: what it reads, what stands in for it, and what is said of that. SPEC 7.3"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnemo_client.client import Client
from mnemo_client.protocol.memories import NewMemory
from mnemo_client.protocol.retrieval import CandidateTrace, RecallAnswer
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue
from mnemo_daemon.models.cross_encoder import CrossEncoderService
from mnemo_daemon.retrieval.candidates.ranking_inputs import RERANKED_MAX
from mnemo_daemon.retrieval.question import RecallOutcome
from mnemo_daemon.retrieval.recall import Recall
from mnemo_daemon.settings import DEFAULT_RERANKER
from tests.support.cross_encoder_files import score_of, write_cross_encoder
from tests.support.running_daemon import running
from tests.support.samples import sample_id, sample_memory, write
from tests.support.store_services import StoreServices, put, simulated_services_in

QUESTION = "Where is the red house?"
TEXTS = ("A blue boat.", "The house.", "The red house is in the harbour.", "The red key.")
COMMON = (0, 2, 5, 2)  # the, is, red, house of the question; `the` is in the third text twice


@pytest.fixture(params=["with vectors", "without an embedding model"])
def services(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreServices]:
    with simulated_services_in(tmp_path / "data", has_model=request.param == "with vectors") as services:
        yield services


def say(services: StoreServices, *texts: str) -> None:
    put(services, *(sample_memory(number, text) for number, text in enumerate(texts)))


def read_by(services: StoreServices, tmp_path: Path, **fields: Any) -> CrossEncoderService:
    """Recalls with a cross-encoder from here on."""
    models = tmp_path / "models"
    source = write_cross_encoder(tmp_path / "source", **fields)
    installation.import_path(source, models, name=DEFAULT_RERANKER, allow_unverified=True)
    reranking = CrossEncoderService(ModelCatalogue(models))
    services.recalling.close()
    services.recalling = Recall(services.store, services.views, services.indexing, services.embedding, reranking)
    return reranking


def ask(services: StoreServices, query: str = QUESTION, **fields: Any) -> RecallOutcome:
    return services.recall(query, **{"ranker": "rerank", "explain": True, "expand": "false", **fields})


def traced(recalled: RecallOutcome) -> dict[str, CandidateTrace]:
    assert recalled.trace is not None
    return {each.id: each for each in recalled.trace.candidates}


def test_L21_its_scores_are_those_of_the_answer(services: StoreServices, tmp_path: Path) -> None:
    say(services, *TEXTS)
    read_by(services, tmp_path)
    recalled = ask(services)
    assert recalled.mode == "cross_encoder"
    # Without an embedding model only words find anything, and the first text has none of the question.
    scores = {
        TEXTS[place]: score_of(common) for place, common in enumerate(COMMON) if common or services.embedding.current()
    }
    found = {hit.details.memory.content: hit.score for hit in recalled.hits}
    assert found == pytest.approx(scores, abs=1e-6)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for each in traced(recalled).values():
        assert each.features["cross_encoder"] == each.adds["cross_encoder"] == pytest.approx(each.score, abs=1e-6)


def test_it_is_asked_by_the_ranker_rerank_alone(services: StoreServices, tmp_path: Path) -> None:
    say(services, *TEXTS)
    reranking = read_by(services, tmp_path, poison="house")
    for ranker in ("auto", "words", "hybrid"):
        assert ask(services, ranker=ranker).mode in (None, "hybrid", "deterministic")
    assert reranking.failure == ""


def test_of_many_it_reads_the_best_by_the_blend_and_the_others_come_behind(
    services: StoreServices, tmp_path: Path
) -> None:
    # The words are as good in all of them, and the importance is a fifth of the blend: by that the last are the best.
    count = RERANKED_MAX + 20
    put(
        services,
        *(sample_memory(number, f"The red boat {number}.", importance=(number + 1) / 100) for number in range(count)),
    )
    read_by(services, tmp_path)
    recalled = ask(services, "red boat", top_k=100, token_budget=None)
    read = {each.id for each in traced(recalled).values() if each.features["cross_encoder"] is not None}
    assert len(read) == RERANKED_MAX
    if services.embedding.current() is None:
        assert read == {sample_id(number) for number in range(20, count)}
    order = [hit.details.memory.id for hit in recalled.hits]
    assert len(order) == count
    assert set(order[:RERANKED_MAX]) == read
    assert all(hit.score > 0 for hit in recalled.hits)


def test_pages_neither_repeat_nor_skip(services: StoreServices, tmp_path: Path) -> None:
    # By words all are alike, and the later the better by the blend: what only a later page finds must not be read in
    # place of what the pages before showed. The cross-encoder likes those better that have `is` and `the`.
    put(
        services,
        *(
            sample_memory(
                number, f"Red house {number} {'is the' if number % 2 else 'of at'}.", importance=(number + 1) / 150
            )
            for number in range(150)
        ),
    )
    read_by(services, tmp_path)
    seen: list[str] = []
    while page := ask(services, top_k=20, offset=len(seen)).hits:
        seen += [hit.details.memory.id for hit in page]
    assert len(set(seen)) == len(seen) == 150


def test_as_of_another_time_it_reads_the_texts_of_then(services: StoreServices, tmp_path: Path) -> None:
    say(services, "The red house.")
    services.at = 2000
    write(services.store, sample_memory(0, "The red house is in the garden.", version=2))
    read_by(services, tmp_path)
    (then,) = ask(services, at=1500).hits
    (now,) = ask(services).hits
    assert (then.score, now.score) == pytest.approx((score_of(3), score_of(5)), abs=1e-6)


def test_a_failing_cross_encoder_is_reported_and_the_blend_replaces_it(services: StoreServices, tmp_path: Path) -> None:
    say(services, *TEXTS)
    reranking = read_by(services, tmp_path, poison="harbour")
    recalled = ask(services)
    assert recalled.mode == "blend"
    assert "reranker" in recalled.degraded
    assert "gives what is no number" in reranking.failure
    assert "reranker" not in ask(services, ranker="cosine").degraded
    services.trash(sample_id(2))
    healed = ask(services)
    assert (healed.mode, "reranker" in healed.degraded) == ("cross_encoder", False)


# Through a daemon, with the real embedding model


def offline(models: Path, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "mnemo_daemon.offline", *words],
        env={**os.environ, "MNEMO_MODELS_FOLDER": str(models)}, capture_output=True, text=True, check=True,
    )  # fmt: skip


def asked(client: Client) -> RecallAnswer:
    return client.recall(QUESTION, ranker="rerank", dry=True, top_k=4)


def test_a_daemon_loads_it_from_a_folder_and_reports_when_it_fails(short_folder: Path, minilm_folder: Path) -> None:
    models, source = short_folder / "models", write_cross_encoder(short_folder / "source")
    shutil.copytree(minilm_folder / DEFAULT_EMBEDDING, models / DEFAULT_EMBEDDING)
    bring = ("import", str(source), "--name", DEFAULT_RERANKER, "--allow-unverified")
    with running(short_folder / "data", {"MNEMO_MODELS_FOLDER": str(models)}) as daemon, daemon.client() as client:
        client.remember_many([NewMemory(content=text) for text in TEXTS])
        daemon.wait_for_vectors()
        assert (asked(client).mode, asked(client).degraded) == ("late", [])
        offline(models, *bring)
        (graph,) = (models / DEFAULT_RERANKER.replace("/", "--")).glob("**/model.onnx")
        graph.write_bytes(graph.read_bytes() + b" ")
        answer = asked(client)
        assert (answer.mode, answer.degraded) == ("late", ["reranker"])
        status = client.status()
        assert status.state == "degraded"
        assert any("reranker: onnx/model.onnx" in reason for reason in status.reasons), status.reasons
        offline(models, *bring)
        answer = asked(client)
        assert (answer.mode, answer.degraded) == ("cross_encoder", [])
        assert {memory.content: memory.score for memory in answer.memories} == pytest.approx(
            {text: score_of(common) for text, common in zip(TEXTS, COMMON, strict=True)}, abs=1e-6
        )
        assert client.status().state == "ready"
        (listed,) = [each for each in client.models().models if each.name == DEFAULT_RERANKER]
        assert (listed.role, listed.installed, listed.in_use) == ("reranker", True, True)
