"""With no model, a broken one, one that comes and one that goes: always an answer, and always said. SPEC 1, 4.2, 7.3"""

import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mnemo_client.client import Client
from mnemo_client.errors import RefusalError
from mnemo_client.protocol.status import ModelStatus
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, MANIFEST, ModelCatalogue
from mnemo_daemon.models.embedders.embedding import EmbeddingService
from tests.support.gguf_files import HEADS, random_bert, write_bert
from tests.support.running_daemon import RunningDaemon

ARRIVES_SECONDS_MAX = 20.0  # a busy machine; the daemon looks every 3 s
MEANT = "The ferry to the island leaves at seven in the morning."
ASKED = "when does the boat depart"  # no word in common with it but "the", which is none to the index


def install(models: Path, minilm_folder: Path) -> None:
    """The default model appears as an installation makes it appear: the manifest last."""
    home, source = models / DEFAULT_EMBEDDING, minilm_folder / DEFAULT_EMBEDDING
    shutil.copytree(source, home, ignore=shutil.ignore_patterns(MANIFEST), dirs_exist_ok=True)
    shutil.copy2(source / MANIFEST, home / "beside")
    (home / "beside").rename(home / MANIFEST)


def break_weights(models: Path) -> None:
    manifest = ModelCatalogue(models).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    with manifest.path().open("r+b") as weights:
        weights.seek(manifest.path().stat().st_size // 2)
        byte = weights.read(1)
        weights.seek(-1, os.SEEK_CUR)
        weights.write(bytes([byte[0] ^ 1]))


def until(client: Client, wanted: Callable[[ModelStatus], bool]) -> ModelStatus:
    """The model's status once it is as wanted."""
    deadline = time.monotonic() + ARRIVES_SECONDS_MAX
    while time.monotonic() < deadline:
        status = client.status().models["embedding"]
        if wanted(status):
            return status
        time.sleep(0.05)
    raise AssertionError(f"the model stays {status}")


@pytest.fixture
def models(short_folder: Path) -> Path:
    """The scratch daemon's own folder of models."""
    return short_folder / "models"


def test_without_a_model_it_starts_answers_by_words_and_says_so(started_daemon: RunningDaemon) -> None:
    with started_daemon.client() as client:
        stored = client.remember(MEANT, wait="indexed")
        assert (stored.indexed, stored.degraded) == (False, ["vectors"])
        answer = client.recall("ferry")
        assert [memory.content for memory in answer.memories] == [MEANT]
        assert (answer.degraded, answer.ranker) == (["vectors"], "words")
        assert client.recall(ASKED).memories == []
        assert client.context("ferry").degraded == ["vectors"]
        assert client.search("ferry").degraded == []  # words are all that was asked for
        status = until(client, lambda model: model.state == "absent")
        assert status.name == DEFAULT_EMBEDDING
        assert "mnemo models pull" in (status.hint or "")
        whole = client.status()
        assert whole.state == "degraded"
        assert "no embedding model" in whole.reasons[0]
        assert client.health().state == "degraded"


def test_a_model_that_arrives_is_taken_up_without_a_restart(
    scratch_daemon: RunningDaemon, models: Path, minilm_folder: Path
) -> None:
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.remember(MEANT)
        until(client, lambda model: model.state == "absent")
        install(models, minilm_folder)
        until(client, lambda model: model.state == "ready")
        scratch_daemon.wait_for_vectors(ARRIVES_SECONDS_MAX)
        answer = client.recall(ASKED)
        assert [memory.content for memory in answer.memories] == [MEANT]
        assert answer.degraded == []
        assert client.status().state == "ready"
        assert client.remember("Said with a model there.", wait="indexed").indexed is True


def test_a_broken_model_is_reported_while_words_still_answer_and_a_new_copy_repairs_it(
    scratch_daemon: RunningDaemon, models: Path, minilm_folder: Path
) -> None:
    install(models, minilm_folder)
    break_weights(models)
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.remember(MEANT)
        failed = until(client, lambda model: model.state == "failed")
        assert "is not the file that was installed" in (failed.reason or "")
        assert "install it again" in (failed.hint or "")
        answer = client.recall("ferry")
        assert ([memory.content for memory in answer.memories], answer.degraded) == ([MEANT], ["vectors"])
        whole = client.status()
        assert whole.state == "degraded"
        assert any("is not the file that was installed" in reason for reason in whole.reasons)
        shutil.rmtree(models / DEFAULT_EMBEDDING)
        install(models, minilm_folder)
        client.use_model(DEFAULT_EMBEDDING)  # as `mnemo models pull` does at its end
        until(client, lambda model: model.state == "ready")
        scratch_daemon.wait_for_vectors(ARRIVES_SECONDS_MAX)
        assert [memory.content for memory in client.recall(ASKED).memories] == [MEANT]


def test_a_model_that_is_removed_goes_on_until_the_next_start_and_then_words_answer(
    scratch_daemon: RunningDaemon, models: Path, minilm_folder: Path
) -> None:
    install(models, minilm_folder)
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.remember(MEANT, wait="indexed")
        shutil.rmtree(models / DEFAULT_EMBEDDING)
        assert [memory.content for memory in client.recall(ASKED).memories] == [MEANT]
    assert scratch_daemon.stop() == 0
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        until(client, lambda model: model.state == "absent")
        answer = client.recall("ferry")
        assert ([memory.content for memory in answer.memories], answer.degraded) == ([MEANT], ["vectors"])
        with pytest.raises(RefusalError) as refused:
            client.use_model(DEFAULT_EMBEDDING)
        assert "mnemo models pull" in str(refused.value)
        install(models, minilm_folder)
        until(client, lambda model: model.state == "ready")
        assert [memory.content for memory in client.recall(ASKED).memories] == [MEANT]


def test_many_who_wait_for_a_vector_that_cannot_come_hold_up_nobody(started_daemon: RunningDaemon) -> None:

    def wait_in_vain(number: int) -> bool:
        with started_daemon.client() as client:
            return client.remember(f"Waiting, number {number}.", wait="indexed").indexed

    def is_answered_meanwhile(client: Client, clients: ThreadPoolExecutor) -> bool:
        waiting = [clients.submit(wait_in_vain, number) for number in range(30)]
        client.recall("anything")
        client.status()
        answered_first = not all(one.done() for one in waiting)
        assert not any(one.result(timeout=60) for one in waiting)
        return answered_first

    with ThreadPoolExecutor(30) as clients, started_daemon.client() as client:
        # On a busy machine all may have waited in vain before the question's turn comes; that is not so every time.
        answered = any(is_answered_meanwhile(client, clients) for _ in range(10))
        assert answered, "an answer waited for those that wait for vectors"


def test_looking_for_a_model_again_and_again_never_blocks(tmp_path: Path) -> None:
    service = EmbeddingService(ModelCatalogue(tmp_path))

    def look() -> None:
        for _ in range(500):
            service.refresh()
            assert service.status().state in ("absent", "loading")

    looking = [threading.Thread(target=look, daemon=True) for _ in range(3)]
    for thread in looking:
        thread.start()
    for thread in looking:
        thread.join(20.0)
    assert not any(thread.is_alive() for thread in looking)
    service.close()


def test_a_model_of_ones_own_stays_in_use_after_a_restart(
    scratch_daemon: RunningDaemon, models: Path, tiny_source: Path
) -> None:
    installation.import_path(tiny_source, models, allow_unverified=True)
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.use_model("tiny-letters")
        until(client, lambda model: model.state == "ready")
        client.remember("a b c d", wait="indexed")
        before = client.recall("a b c d", dry=True, now=1_800_000_000_000).memories
    assert scratch_daemon.stop() == 0
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        assert until(client, lambda model: model.state == "ready").name == "tiny-letters"
        scratch_daemon.wait_for_vectors(ARRIVES_SECONDS_MAX)
        assert client.recall("a b c d", dry=True, now=1_800_000_000_000).memories == before


def test_a_model_in_a_gguf_file_takes_over_and_its_process_ends_with_the_daemon(
    scratch_daemon: RunningDaemon, models: Path, tiny_source: Path, tmp_path: Path
) -> None:
    installation.import_path(tiny_source, models, allow_unverified=True)
    letters = [chr(letter) for letter in range(ord("a"), ord("z") + 1)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters]
    file = write_bert(tmp_path / "letters.gguf", words, random_bert(len(words)), heads=HEADS, tokens_max=64)
    scratch_daemon.start()
    with scratch_daemon.client() as client:
        client.use_model("tiny-letters")
        until(client, lambda model: model.state == "ready")
        client.remember("a b c d", wait="indexed")
        installation.import_path(file, models, allow_unverified=True)
        client.use_model("letters")
        until(client, lambda model: model.name == "letters" and model.state == "ready")
        scratch_daemon.wait_for_vectors(ARRIVES_SECONDS_MAX)
        status = client.status().models["embedding"]
        assert (status.name, status.form, status.dimensions) == ("letters", "gguf", 32)
        answer = client.recall("a b c d", mode="semantic")
        assert [memory.content for memory in answer.memories] == ["a b c d"]
        assert not answer.degraded
    assert scratch_daemon.process is not None
    started = Path(f"/proc/{scratch_daemon.process.pid}/task").glob("*/children")
    (worker,) = [int(pid) for path in started for pid in path.read_text().split()]
    assert scratch_daemon.stop() == 0
    assert not Path(f"/proc/{worker}").exists()
