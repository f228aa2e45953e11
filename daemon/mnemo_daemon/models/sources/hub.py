"""Fetches the files of a model from the Hugging Face hub, as its own client would, without it. SPEC 4.3

The user's settings for the hub hold: HF_ENDPOINT, HF_TOKEN, and the usual variables for proxies and certificates. The
caller checks the files against the catalogue. Why not by huggingface_hub: adr/0008-privacy.md.
"""

import contextlib
import hashlib
import http.client
import importlib.util
import re
import urllib.error
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.errors import DownloadError, HashMismatch
from mnemo_daemon.models.catalogue import Model, hash_file
from mnemo_daemon.models.sources.downloads import (
    ConnectionSettings,
    HttpClient,
    Progress,
    describe_failure,
    hide_credentials,
    named_certificates,
)

PUBLIC_HUB = lazy_pattern(r"^_HF_DEFAULT_ENDPOINT = \"(https://[^\"\s]{1,200})\"", re.MULTILINE)
OTHER_FILE_BYTES_MAX = 64 << 20  # of a file next to the weights: a tokenizer of 260,000 words has up to 33 MB
OPTIONAL_FILES = ("config.json", "special_tokens_map.json")  # of a model of fastembed's list; not every one has them
SIZE_FACTOR = 4  # of weights whose size is known from that list, to that size: for one, it says half of it
LISTING_BYTES_MAX = 4 << 20
T = TypeVar("T")
REFUSALS = {
    401: "it wants to know who asks: set HF_TOKEN to a token that may read this model",
    403: "it refuses access: set HF_TOKEN to a token that may read this model, and accept the model's terms there",
    404: "it does not have it",
    429: "it has had too many requests: pull again later, or set HF_TOKEN",
}


@dataclass(frozen=True)
class HubSettings(ConnectionSettings):
    """The hub, and how to reach it."""

    endpoint: str = ""
    token: str = ""


def read_settings(environ: Mapping[str, str]) -> HubSettings:
    """The user's settings for the hub."""
    endpoint = environ.get("HF_ENDPOINT", "").rstrip("/") or public_hub()
    return HubSettings(endpoint, environ.get("HF_TOKEN", "").strip(), cert=named_certificates(environ))


@cache
def public_hub() -> str:
    """Return the hub that its own client asks by default; "" where that is not installed (tokenizers brings it). The
    address is read from the client's source, which is not imported."""
    found = importlib.util.find_spec("huggingface_hub")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        with contextlib.suppress(OSError):
            if named := PUBLIC_HUB.search(Path(folder, "constants.py").read_text(encoding="utf-8")):
                return named.group(1)
    return ""


def fetch_files(model: Model, folder: Path, settings: HubSettings, progress: Progress | None = None) -> str:
    """Complete the model's files in folder, where parts of them may be from an earlier call. Return their revision.

    The hash of a file that the catalogue does not know is compared with the one that the hub gives. Raises
    DownloadError, HashMismatch, or InstallationError for a file that cannot be written.
    """
    client = _HubClient(model, settings)
    listed, files = dict[str, _ListedFile](), dict(model.files)
    if model.unknown_hashes:
        client.fix_revision()
        listed = client.list_files()
        files |= {name: "" for name in OPTIONAL_FILES if name in listed and name not in files}
    for name, sha256 in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        is_weights = not name.endswith(".json")
        weights_max = model.size_bytes if model.weights_sha256 else model.size_bytes * SIZE_FACTOR
        client.download(name, path, progress, weights_max if is_weights else OTHER_FILE_BYTES_MAX)
        if not sha256:
            listed[name].check(name, path)
    return client.revision


class _LargeFile(msgspec.Struct):
    oid: str  # its sha256


class _ListedFile(msgspec.Struct):
    """A file as the hub lists it."""

    path: str
    oid: str = ""  # the hash that Git gives it
    lfs: _LargeFile | None = None

    def check(self, name: str, path: Path) -> None:
        """Raises HashMismatch unless the file has the hash that the hub gives."""
        if self.lfs is not None:
            found, expected = hash_file(path), self.lfs.oid
        else:
            data = path.read_bytes()
            blob = b"blob %d\0" % len(data) + data
            found, expected = hashlib.sha1(blob, usedforsecurity=False).hexdigest(), self.oid
        if found != expected:
            raise HashMismatch(f"{name} has the hash {found}, and the hub says {expected}")


class _Revision(msgspec.Struct):
    sha: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]


class _HubClient:
    """Gets the files of one model."""

    def __init__(self, model: Model, settings: HubSettings) -> None:
        """DownloadError where no hub is known."""
        if not settings.endpoint:
            raise DownloadError(f"{model.name} could not be fetched: no hub is set or known: set HF_ENDPOINT")
        self._model = model
        self.revision = model.hub_revision
        self._endpoint = settings.endpoint
        self._authorization = f"Bearer {settings.token}" if settings.token else ""
        self._http = HttpClient(settings, only_https=True)

    def download(self, name: str, path: Path, progress: Progress | None, bytes_max: int) -> None:
        """Complete the file of that name."""
        url = f"{self._endpoint}/{self._model.hub}/resolve/{self.revision}/{urllib.parse.quote(name)}"
        try:
            self._http.download(url, path, progress, authorization=self._authorization, bytes_max=bytes_max)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._failure(name, error) from error

    def fix_revision(self) -> None:
        """Replace the name of a branch by that of its newest revision, so that all files are of one."""
        if self.revision == "main":
            self.revision = self._ask(f"revision/{self.revision}", "the revision", _Revision).sha

    def list_files(self) -> dict[str, _ListedFile]:
        """The model's files as the hub lists them. DownloadError where one is missing whose hash is not known here."""
        found = self._ask(f"tree/{self.revision}?recursive=true", "the list of files", list[_ListedFile])
        listed = {each.path: each for each in found}
        if missing := set(self._model.unknown_hashes) - set(listed):
            raise self._failure(", ".join(sorted(missing)), ValueError("it does not list it"))
        return listed

    def _ask(self, path: str, what: str, kind: type[T]) -> T:
        """The hub's answer about the model at that path."""
        url = f"{self._endpoint}/api/models/{self._model.hub}/{path}"
        try:
            with self._http.open(url, {"Accept": "application/json"}, self._authorization) as answer:
                return msgspec.json.decode(answer.read(LISTING_BYTES_MAX), type=kind)
        except (OSError, http.client.HTTPException, ValueError, msgspec.DecodeError) as error:
            raise self._failure(what, error) from error

    def _failure(self, name: str, error: Exception) -> DownloadError:
        if isinstance(error, urllib.error.HTTPError) and error.code in REFUSALS:
            error.close()
            why = f"{REFUSALS[error.code]} ({error.code})"
        else:
            why = describe_failure(error)
        address = f"{hide_credentials(self._endpoint)}/{self._model.hub}/tree/{self.revision}"
        return DownloadError(f"{name} of {self._model.name} could not be fetched from {address}: {why}")
