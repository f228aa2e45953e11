"""The process of a GGUF embedding model: it dies, hangs and is replaced, and no caller fails. SPEC 4.1"""

import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from mnemo_daemon.errors import DamagedModelError, MissingModelError, UnsupportedModel
from mnemo_daemon.models import installation
from mnemo_daemon.models.catalogue import ModelManifest
from mnemo_daemon.models.embedders import gguf_embedding
from mnemo_daemon.models.embedders.gguf_embedding import GgufEmbedder
from tests.support.gguf_files import HEADS, random_bert, write_bert

VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *(chr(letter) for letter in range(ord("a"), ord("z") + 1)))
LIMIT_S = 120.0

PARENT = """
import sys
from pathlib import Path
from mnemo_daemon.models.catalogue import ModelCatalogue
from mnemo_daemon.models.embedders.embedding import load_embedder
embedder = load_embedder(ModelCatalogue(Path(sys.argv[1])).installed("letters"))
print("loaded", flush=True)
sys.stdin.read()
"""

ENDS_AT_ONCE = """
import pathlib, sys
with pathlib.Path({starts!r}).open("a") as starts:
    starts.write("x")
sys.exit("no memory")
"""


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> ModelManifest:
    folder = tmp_path_factory.mktemp("gguf")
    weights = random_bert(len(VOCABULARY))
    path = write_bert(folder / "letters.gguf", VOCABULARY, weights, heads=HEADS, tokens_max=64)
    return installation.import_path(path, folder / "models", allow_unverified=True)


@pytest.fixture
def embedder(manifest: ModelManifest) -> Iterator[GgufEmbedder]:
    embedder = GgufEmbedder(manifest)
    yield embedder
    embedder.close()


def workers(pid: int) -> list[int]:
    """The processes of embedding models that this one started."""
    started = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    found = []
    for each in (int(word) for some in started for word in some):
        with contextlib.suppress(OSError):  # others may end meanwhile
            if b"embedding_worker" in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(each)
    return found


def worker_of(_: GgufEmbedder) -> int:
    """The process of the only model that is loaded."""
    (pid,) = workers(os.getpid())
    return pid


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def test_the_file_says_what_the_model_is_and_its_process_does_as_it_says(
    manifest: ModelManifest, embedder: GgufEmbedder, tmp_path: Path
) -> None:
    assert (manifest.name, manifest.role, manifest.form, manifest.verified) == ("letters", "embedding", "gguf", False)
    assert (manifest.dimensions, manifest.tokens_max, manifest.pooling) == (32, 64, "mean")
    assert embedder.count_tokens(["", "a b c", "a b?"]) == [0, 3, 3]
    first = write_bert(
        tmp_path / "first.gguf", VOCABULARY, random_bert(len(VOCABULARY)), heads=HEADS, tokens_max=64, pooling="cls"
    )
    other = GgufEmbedder(installation.import_path(first, tmp_path / "models", allow_unverified=True))
    assert not np.allclose(other.encode_query("a b c"), embedder.encode_query("a b c"), atol=1e-3)
    assert other.space != embedder.space
    other.close()


def test_a_control_token_that_is_written_in_a_text_is_text(embedder: GgufEmbedder) -> None:
    assert embedder.count_tokens(["[SEP]"]) == [3]


def test_a_process_that_dies_is_replaced_within_the_call(embedder: GgufEmbedder) -> None:
    before = embedder.encode_query("a b c")
    first = worker_of(embedder)
    os.kill(first, signal.SIGKILL)
    assert np.array_equal(embedder.encode_query("a b c"), before)
    assert worker_of(embedder) != first
    os.kill(worker_of(embedder), signal.SIGSEGV)
    assert np.array_equal(embedder.encode_batch(["a b c"])[0][0], before)


def test_a_process_that_hangs_is_killed_and_the_text_has_no_vector(
    embedder: GgufEmbedder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected, hung = embedder.encode_query("a b c"), worker_of(embedder)
    with monkeypatch.context() as context, caplog.at_level(logging.WARNING):
        context.setattr(gguf_embedding, "LIMIT_S", 0.3)
        os.kill(hung, signal.SIGSTOP)
        assert np.isnan(embedder.encode_query("a b c")).all()
    assert "letters did not embed a text: it hung" in caplog.text
    assert is_gone(hung)
    assert np.array_equal(embedder.encode_query("a b c"), expected)


def test_a_process_that_cannot_start_is_not_started_again_for_each_text(
    manifest: ModelManifest, tmp_path: Path
) -> None:
    program, starts = tmp_path / "worker.py", tmp_path / "starts"
    real = [sys.executable, "-P", "-m", "mnemo_daemon.models.embedders.embedding_worker"]
    program.write_text(f"import os, sys\nos.execv({sys.executable!r}, [*{real!r}, *sys.argv[1:]])")
    embedder = GgufEmbedder(manifest, (sys.executable, str(program)))
    expected = embedder.encode_query("a b c")
    worker = worker_of(embedder)
    program.write_text(ENDS_AT_ONCE.format(starts=str(starts)))
    os.kill(worker, signal.SIGKILL)
    vectors = embedder.encode_batch(["a", "b", "c d e"])
    assert [vector.shape for vector in vectors] == [(1, 32)] * 3
    assert all(np.isnan(vector).all() for vector in vectors)
    assert embedder.count_tokens(["a b c d e"]) == [3], "estimated: four characters a token"
    assert starts.read_text() == "x"
    assert expected.shape == (32,)
    embedder.close()


def test_a_file_that_was_replaced_is_not_loaded(manifest: ModelManifest, tmp_path: Path) -> None:
    other = msgspec.structs.replace(manifest, weights_sha256="0" * 64)
    with pytest.raises(DamagedModelError, match=r"letters cannot be loaded: .* expected 0000"):
        GgufEmbedder(other)
    with pytest.raises(DamagedModelError, match="gives 32 numbers, not 31"):
        GgufEmbedder(msgspec.structs.replace(manifest, dimensions=31))
    assert workers(os.getpid()) == []


def test_without_the_extra_the_model_is_refused_with_what_to_install(
    manifest: ModelManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(UnsupportedModel, match=r"letters needs llama-cpp-python, .* pip install 'mnemod\[llm\]'"):
        GgufEmbedder(manifest)


def test_no_process_stays_behind(manifest: ModelManifest, embedder: GgufEmbedder) -> None:
    closed = worker_of(embedder)
    embedder.close()
    assert is_gone(closed)
    with pytest.raises(MissingModelError, match="letters has been closed"):
        embedder.encode_query("a")
    dropped = GgufEmbedder(manifest)
    pid = worker_of(dropped)
    del dropped
    gc.collect()
    assert is_gone(pid)


def test_the_process_ends_when_its_parent_is_killed(manifest: ModelManifest) -> None:
    folder = Path(manifest.folder).parent
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"loaded\n"
        (worker,) = workers(parent.pid)
        parent.kill()
        wait_until(lambda: is_gone(worker))
