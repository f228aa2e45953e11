"""Fetches one wheel from the user's package index, as pip would, without pip. SPEC 4.3, PEP 503 and 691.

The user's own settings hold: those of pip (PIP_… variables and its configuration files), where they name no index those
of uv, and the usual variables for proxies and certificates. What was fetched is checked against the index's hash here;
the caller checks what is in it against the catalogue.
"""

import configparser
import contextlib
import hashlib
import html.parser
import http.client
import importlib.util
import json
import os
import re
import sys
import sysconfig
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.errors import DownloadError
from mnemo_daemon.models.sources.downloads import (
    TIMEOUT_SECONDS,
    ConnectionSettings,
    HttpClient,
    Progress,
    describe_failure,
    hide_credentials,
    named_certificates,
)

# Where pip's own source names the public index, and how. It has stood there since pip 10.
PIP_INDEX_MODULE = "_internal/models/index.py"
PIP_INDEX = lazy_pattern(r"^PyPI = PackageIndex\(\s*\"(https://[^\"\s]{1,200})\"", re.MULTILINE)
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
OPTIONS = ("index-url", "extra-index-url", "find-links", "no-index", "proxy", "cert", "client-cert", "trusted-host",
           "timeout")  # fmt: skip


@dataclass(frozen=True)
class IndexSettings(ConnectionSettings):
    """The source of packages, and how to reach it."""

    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()


class Link(NamedTuple):
    """A file that an index names."""

    url: str
    filename: str
    sha256: str  # empty: unknown


# Settings -----------------------------------------------------------------------------------------------------------


def read_settings(environ: Mapping[str, str]) -> IndexSettings:
    """The user's settings for pip, else for uv. DownloadError if pip's configuration cannot be read."""
    # The options in pip's files. As with pip, those in [download] win over those in [global], whatever the file.
    paths = _configuration_files(environ)
    parser = configparser.RawConfigParser()
    parser.optionxform = lambda optionstr: optionstr.lower().replace("_", "-")  # type: ignore[method-assign]
    for path in paths:
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as error:
            raise DownloadError(f"pip's configuration {path} cannot be read: {error}") from error
    sections = [parser[name] for name in ("global", "download") if name in parser]
    found = {name: value for section in sections for name, value in section.items()}
    for name in OPTIONS:
        if value := environ.get("PIP_" + name.upper().replace("-", "_"), ""):
            found[name] = value
    found.setdefault("timeout", environ.get("PIP_DEFAULT_TIMEOUT", ""))
    index = found.get("index-url") or _uv(environ, "UV_DEFAULT_INDEX", "UV_INDEX_URL") or public_index()
    extra = found.get("extra-index-url") or _uv(environ, "UV_INDEX", "UV_EXTRA_INDEX_URL")
    is_off = found.get("no-index", "").lower() in ("1", "true", "yes", "on")
    links = found.get("find-links") or environ.get("UV_FIND_LINKS", "").replace(",", " ")
    try:
        timeout = float(found["timeout"] or TIMEOUT_SECONDS)
    except ValueError:
        timeout = TIMEOUT_SECONDS
    indexes = () if is_off else tuple(filter(None, (index, *extra.split())))
    return IndexSettings(
        indexes, tuple(links.split()), proxy=found.get("proxy", ""),
        cert=found.get("cert") or named_certificates(environ), client_cert=found.get("client-cert", ""),
        trusted_hosts=tuple(found.get("trusted-host", "").split()), timeout=timeout,
    )  # fmt: skip


@cache
def public_index() -> str:
    """Return the index that the pip of this Python asks by default; "" where Python came without any copy of pip. pip
    need not be installed: Python bundles a wheel of it for new environments, or its distribution does."""
    for source in _sources_of_pip():
        if found := PIP_INDEX.search(source):
            return found.group(1).rstrip("/") + "/simple"
    return ""


def _sources_of_pip() -> Iterator[str]:
    """The module that names the index, of the pip that is installed and of those that are bundled."""
    installed = importlib.util.find_spec("pip")
    for folder in (installed.submodule_search_locations or ()) if installed is not None else ():
        with contextlib.suppress(OSError):
            yield Path(folder, PIP_INDEX_MODULE).read_text(encoding="utf-8")
    bundled = importlib.util.find_spec("ensurepip")
    folders = [Path(each, "_bundled") for each in (bundled.submodule_search_locations or ())] if bundled else []
    folders += [Path(each) for each in (sysconfig.get_config_var("WHEEL_PKG_DIR"), "/usr/share/python-wheels") if each]
    for wheel in (path for folder in folders for path in sorted(folder.glob("pip-*.whl"))):
        with contextlib.suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(wheel) as opened:
            yield opened.read(f"pip/{PIP_INDEX_MODULE}").decode()


def _uv(environ: Mapping[str, str], *names: str) -> str:
    """The first of uv's variables that is set; an entry may be NAME=URL."""
    value = next((environ[name] for name in names if environ.get(name)), "")
    return " ".join(re.sub(r"^[\w.-]+=(?=\w+:)", "", each) for each in value.split())


def _configuration_files(environ: Mapping[str, str]) -> list[Path]:
    """pip's files, later ones winning: everybody's, the user's, the environment's, and the one that is named."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    home = Path(environ.get("HOME") or Path.home())
    library = Path("Library", "Application Support", "pip", "pip.conf")
    if sys.platform == "darwin":
        shared = [Path("/") / library]
        own = [home / library] if (home / library.parent).is_dir() else [home / ".config" / "pip" / "pip.conf"]
    else:
        folders = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
        shared = [*(Path(each, "pip", "pip.conf") for each in folders), Path("/etc/pip.conf")]
        own = [Path(environ.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")]
    files = [*shared, home / ".pip" / "pip.conf", *own, Path(sys.prefix, "pip.conf")]
    return [*files, Path(named)] if named else files


# Fetching -----------------------------------------------------------------------------------------------------------


def fetch_wheel(requirement: str, folder: Path, settings: IndexSettings, progress: Progress | None = None) -> Path:
    """The wheel of NAME==VERSION that runs on every machine: downloaded to folder, or its place on this machine. The
    folders and pages of find-links come first, then each index. Raises DownloadError with the answer of each."""
    name, version = requirement.split("==")
    http_client, said = _Client(settings), list[str]()
    project = re.sub(r"[-_.]+", "-", name).lower()
    pages = [*settings.find_links, *(f"{index.rstrip('/')}/{project}/" for index in settings.indexes)]
    for page in pages:
        try:
            link = next((each for each in http_client.links(page) if _is_wanted(each.filename, project, version)), None)
            if link is not None:
                return http_client.fetch(link, folder, progress)
            said.append(f"{hide_credentials(page)} does not have it")
        except (OSError, http.client.HTTPException, ValueError) as error:
            said.append(f"{hide_credentials(page)}: {describe_failure(error)}")
    if not pages:
        said.append("no index is set or known, and find-links names nothing: set PIP_INDEX_URL")
    raise DownloadError(f"{requirement} could not be fetched: {'; '.join(said)}")


def _is_wanted(filename: str, project: str, version: str) -> bool:
    parts = filename.removesuffix(".whl").split("-")
    if not filename.endswith("-any.whl") or len(parts) < 5:
        return False
    return re.sub(r"[-_.]+", "-", parts[0]).lower() == project and parts[1] == version


class _Client:
    """Gets pages and files, over HTTP or from this machine."""

    def __init__(self, settings: IndexSettings) -> None:
        """Opens no connection."""
        self._http = HttpClient(settings)

    def links(self, page: str) -> Iterator[Link]:
        """The links of a page of an index, or of find-links; a folder's wheels."""
        local = _local_path(page)
        if local is not None and local.is_dir() and not (local / "index.html").is_file():
            yield from (Link(path.as_uri(), path.name, "") for path in sorted(local.resolve().glob("*.whl")))
        elif local is not None:
            path = local / "index.html" if local.is_dir() else local
            yield from _links_of_html(path.resolve().as_uri(), path.read_text(encoding="utf-8", errors="replace"))
        else:
            with self._http.open(page, {"Accept": ACCEPT}) as answer:
                body, base = answer.read(), answer.geturl()
                is_json = answer.headers.get_content_type().endswith("+json")
            own = urllib.parse.urlsplit(page)
            for link in _links_of_json(base, body) if is_json else _links_of_html(base, body.decode(errors="replace")):
                # The address with the page's user and password, where both are of one host.
                url = link.url
                parts = urllib.parse.urlsplit(url)
                is_same = (parts.hostname, parts.port) == (own.hostname, own.port)
                yield link._replace(url=parts._replace(netloc=own.netloc).geturl() if is_same else url)

    def fetch(self, link: Link, folder: Path, progress: Progress | None) -> Path:
        """The whole file, with the hash that the index gives. A connection that breaks is resumed where it was."""
        local = _local_path(link.url)
        path = local or folder / link.filename
        if local is None:
            path.unlink(missing_ok=True)  # a part that another index gave
            self._http.download(link.url, path, progress)
        if link.sha256:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != link.sha256:
                raise ValueError(f"{link.filename} has the sha256 {found}, and the index says {link.sha256}")
        return path


def _local_path(address: str) -> Path | None:
    """The target of a path or a file: address; None for what is elsewhere."""
    if address.startswith("file:"):
        return Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
    return None if "://" in address else Path(address).expanduser()


# Pages --------------------------------------------------------------------------------------------------------------


def _links_of_json(base: str, body: bytes) -> Iterator[Link]:
    for each in json.loads(body)["files"]:
        yield Link(urllib.parse.urljoin(base, each["url"]), each["filename"], each.get("hashes", {}).get("sha256", ""))


def _links_of_html(base: str, text: str) -> Iterator[Link]:
    page = _Page()
    page.feed(text)
    for href in page.hrefs:
        url, fragment = urllib.parse.urldefrag(urllib.parse.urljoin(base, href))
        name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2])
        yield Link(url, name, dict(urllib.parse.parse_qsl(fragment)).get("sha256", ""))


class _Page(html.parser.HTMLParser):
    """Collects where the links of a page lead."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hrefs += [value for name, value in attrs if tag == "a" and name == "href" and value]
