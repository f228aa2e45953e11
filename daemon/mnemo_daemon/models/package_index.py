"""Fetches one wheel from the user's package index, as pip would, without pip. SPEC 4.3, PEP 503 and 691.

The user's own settings hold: those of pip (PIP_… variables and its configuration files), where they name no index those
of uv, and the usual variables for proxies and certificates. What was fetched is checked against the index's hash here;
the caller checks what is in it against the catalogue.
"""

import base64
import configparser
import contextlib
import hashlib
import html.parser
import http.client
import importlib.util
import json
import netrc
import os
import re
import ssl
import sys
import sysconfig
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from mnemo_core.text.lazy_patterns import lazy_pattern
from mnemo_daemon.errors import DownloadError

# Where pip's own source names the public index, and how. It has stood there since pip 10.
PIP_INDEX_MODULE = "_internal/models/index.py"
PIP_INDEX = lazy_pattern(r"^PyPI = PackageIndex\(\s*\"(https://[^\"\s]{1,200})\"", re.MULTILINE)
TIMEOUT_SECONDS = 15.0  # without a byte, as pip has it
ATTEMPTS = 5  # in a row that bring nothing new
PAUSE_SECONDS = 0.5  # before the second attempt; doubled for each further one
PIECE_BYTES = 1 << 18
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
OPTIONS = ("index-url", "extra-index-url", "find-links", "no-index", "proxy", "cert", "client-cert", "trusted-host",
           "timeout")  # fmt: skip

Progress = Callable[[int, int], None]  # bytes done, of how many (0: unknown)


@dataclass(frozen=True)
class IndexSettings:
    """The source of packages, and how to reach it."""

    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    proxy: str = ""  # empty: what the environment says
    cert: str = ""  # file or folder of certificates; empty: the system's
    client_cert: str = ""
    trusted_hosts: tuple[str, ...] = ()  # whose certificates are not checked
    timeout: float = TIMEOUT_SECONDS


class Link(NamedTuple):
    """A file that an index names."""

    url: str
    filename: str
    sha256: str  # empty: unknown


# Settings -----------------------------------------------------------------------------------------------------------


def read_settings(environ: Mapping[str, str]) -> IndexSettings:
    """The user's settings for pip, else for uv. DownloadError if pip's configuration cannot be read."""
    found = _read_configuration(_configuration_files(environ))
    for name in OPTIONS:
        if value := environ.get("PIP_" + name.upper().replace("-", "_"), ""):
            found[name] = value
    found.setdefault("timeout", environ.get("PIP_DEFAULT_TIMEOUT", ""))
    index = found.get("index-url") or _uv(environ, "UV_DEFAULT_INDEX", "UV_INDEX_URL") or public_index()
    extra = found.get("extra-index-url") or _uv(environ, "UV_INDEX", "UV_EXTRA_INDEX_URL")
    is_off = found.get("no-index", "").lower() in ("1", "true", "yes", "on")
    links = found.get("find-links") or environ.get("UV_FIND_LINKS", "").replace(",", " ")
    certificates = found.get("cert") or environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE") or ""
    try:
        timeout = float(found["timeout"] or TIMEOUT_SECONDS)
    except ValueError:
        timeout = TIMEOUT_SECONDS
    indexes = () if is_off else tuple(filter(None, (index, *extra.split())))
    return IndexSettings(
        indexes, tuple(links.split()), found.get("proxy", ""), certificates,
        found.get("client-cert", ""), tuple(found.get("trusted-host", "").split()), timeout,
    )  # fmt: skip


@cache
def public_index() -> str:
    """Return the index that the pip of this Python asks by default; "" where Python came without any copy of pip.

    pip need not be installed: Python bundles a wheel of it for new environments, or its distribution does.
    """
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


def _read_configuration(paths: Sequence[Path]) -> dict[str, str]:
    """The options in pip's files. As with pip, those in [download] win over those in [global], whatever the file."""
    parser = configparser.RawConfigParser()
    parser.optionxform = lambda optionstr: optionstr.lower().replace("_", "-")  # type: ignore[method-assign]
    for path in paths:
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as error:
            raise DownloadError(f"pip's configuration {path} cannot be read: {error}") from error
    sections = [parser[name] for name in ("global", "download") if name in parser]
    return {name: value for section in sections for name, value in section.items()}


# Fetching -----------------------------------------------------------------------------------------------------------


def fetch_wheel(requirement: str, folder: Path, settings: IndexSettings, progress: Progress | None = None) -> Path:
    """The wheel of NAME==VERSION that runs on every machine: downloaded to folder, or its place on this machine.

    The folders and pages of find-links come first, then each index. Raises DownloadError with the answer of each.
    """
    name, version = requirement.split("==")
    http_client, said = _Client(settings), list[str]()
    project = re.sub(r"[-_.]+", "-", name).lower()
    pages = [*settings.find_links, *(f"{index.rstrip('/')}/{project}/" for index in settings.indexes)]
    for page in pages:
        try:
            link = next((each for each in http_client.links(page) if _is_wanted(each.filename, project, version)), None)
            if link is not None:
                return http_client.fetch(link, folder, progress)
            said.append(f"{_shown(page)} does not have it")
        except (OSError, http.client.HTTPException, ValueError) as error:
            said.append(f"{_shown(page)}: {_reason(error)}")
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
        self._settings = settings
        self._openers = dict[bool, urllib.request.OpenerDirector]()

    def links(self, page: str) -> Iterator[Link]:
        """The links of a page of an index, or of find-links; a folder's wheels."""
        local = _local_path(page)
        if local is not None and local.is_dir() and not (local / "index.html").is_file():
            yield from (Link(path.as_uri(), path.name, "") for path in sorted(local.resolve().glob("*.whl")))
        elif local is not None:
            path = local / "index.html" if local.is_dir() else local
            yield from _links_of_html(path.resolve().as_uri(), path.read_text(encoding="utf-8", errors="replace"))
        else:
            with self._open(page, {"Accept": ACCEPT}) as answer:
                body, base = answer.read(), answer.geturl()
                is_json = answer.headers.get_content_type().endswith("+json")
            own = urllib.parse.urlsplit(page)
            for link in _links_of_json(base, body) if is_json else _links_of_html(base, body.decode(errors="replace")):
                yield link._replace(url=_with_credentials_of(own, link.url))

    def fetch(self, link: Link, folder: Path, progress: Progress | None) -> Path:
        """The whole file, with the hash that the index gives. A connection that breaks is resumed where it was."""
        local = _local_path(link.url)
        path = local or folder / link.filename
        if local is None:
            self._download(link.url, path, progress)
        if link.sha256:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != link.sha256:
                raise ValueError(f"{link.filename} has the sha256 {found}, and the index says {link.sha256}")
        return path

    def _download(self, url: str, path: Path, progress: Progress | None) -> None:
        failures = 0
        with path.open("wb") as file:
            while True:
                before = file.tell()
                try:
                    if self._continue(url, file, progress):
                        return
                    error: Exception = ConnectionError("the connection ended early")
                except (OSError, http.client.HTTPException) as failed:
                    if isinstance(failed, urllib.error.HTTPError):
                        if failed.code < 500 and failed.code != http.HTTPStatus.TOO_MANY_REQUESTS:
                            raise
                        failed.close()
                    error = failed
                failures = 1 if file.tell() > before else failures + 1
                if failures >= ATTEMPTS:
                    raise error
                time.sleep(PAUSE_SECONDS * 2 ** (failures - 1))

    def _continue(self, url: str, file: IO[bytes], progress: Progress | None) -> bool:
        """Continues a download; True if the file is whole now."""
        done = file.tell()
        with self._open(url, {"Range": f"bytes={done}-"} if done else {}) as answer:
            if done and answer.status != http.client.PARTIAL_CONTENT:  # it begins again
                done = file.seek(0)
                file.truncate()
            length = answer.headers.get("Content-Length")
            total = done + int(length) if length else 0
            while piece := answer.read(PIECE_BYTES):
                done += file.write(piece)
                if progress:
                    progress(done, total)
        return done >= total

    def _open(self, url: str, headers: dict[str, str]) -> "http.client.HTTPResponse":
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"{parts.scheme or 'this'} is no kind of address that can be asked; use https")
        host = parts.hostname or ""
        is_trusted = bool({host, f"{host}:{parts.port}"} & set(self._settings.trusted_hosts))
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        request = urllib.request.Request(bare, headers={"User-Agent": "mnemod", **headers})
        if credentials := _credentials(parts):
            # Not sent to another host after a redirect.
            request.add_unredirected_header("Authorization", credentials)
        answer: http.client.HTTPResponse = self._opener(is_trusted).open(request, timeout=self._settings.timeout)
        return answer

    def _opener(self, is_trusted: bool) -> urllib.request.OpenerDirector:
        if is_trusted not in self._openers:
            proxy = self._settings.proxy
            proxies = urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else None)
            https = urllib.request.HTTPSHandler(context=_tls_context(self._settings, is_trusted))
            self._openers[is_trusted] = urllib.request.build_opener(proxies, https)
        return self._openers[is_trusted]


def _tls_context(settings: IndexSettings, is_trusted: bool) -> ssl.SSLContext:
    try:
        if settings.cert:
            is_folder = Path(settings.cert).is_dir()
            context = ssl.create_default_context(
                cafile=None if is_folder else settings.cert, capath=settings.cert if is_folder else None
            )
        else:
            context = ssl.create_default_context()
            with contextlib.suppress(ImportError):  # for Pythons that find no certificates of the system
                import certifi

                context.load_verify_locations(certifi.where())
        if settings.client_cert:
            context.load_cert_chain(settings.client_cert)
    except OSError as error:
        raise DownloadError(f"the certificates that pip is to use cannot be read: {error}") from error
    if is_trusted:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _credentials(parts: urllib.parse.SplitResult) -> str:
    """The Authorization header: of the address itself, else of ~/.netrc; empty where there is none."""
    user, password = urllib.parse.unquote(parts.username or ""), urllib.parse.unquote(parts.password or "")
    if not user:
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            found = netrc.netrc(os.environ.get("NETRC")).authenticators(parts.hostname or "")
            user, _, password = found or ("", "", "")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""


def _with_credentials_of(page: urllib.parse.SplitResult, url: str) -> str:
    """The address with the page's user and password, where both are of one host."""
    parts = urllib.parse.urlsplit(url)
    is_same = (parts.hostname, parts.port) == (page.hostname, page.port)
    return parts._replace(netloc=page.netloc).geturl() if is_same else url


def _local_path(address: str) -> Path | None:
    """The target of a path or a file: address; None for what is elsewhere."""
    if address.startswith("file:"):
        return Path(urllib.request.url2pathname(urllib.parse.urlsplit(address).path))
    return None if "://" in address else Path(address).expanduser()


def _shown(address: str) -> str:
    """The address without user and password."""
    return re.sub(r"//[^/@]*@", "//", address)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        error.close()  # it is the answer too, and holds the connection
        return f"it answers {error.code} {error.reason}"
    return _shown(str(error.reason if isinstance(error, urllib.error.URLError) else error) or type(error).__name__)


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
