"""Downloads over HTTP, resumed where they break off, with the user's proxies, certificates and credentials. SPEC 4.3"""

import base64
import contextlib
import http.client
import ipaddress
import netrc
import os
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mnemo_daemon.errors import DownloadError, InstallationError

TIMEOUT_SECONDS = 15.0  # without a byte, as pip has it
ATTEMPTS = 5  # in a row that bring nothing new
PAUSE_SECONDS = 0.5  # before the second attempt; doubled for each further one
PIECE_BYTES = 1 << 18

Progress = Callable[[int, int], None]  # bytes done, of how many (0: unknown)


@dataclass(frozen=True, kw_only=True)
class ConnectionSettings:
    """The way to a server."""

    proxy: str = ""  # empty: what the environment says
    cert: str = ""  # file or folder of certificates; empty: the system's
    client_cert: str = ""
    trusted_hosts: tuple[str, ...] = ()  # whose certificates are not checked
    timeout: float = TIMEOUT_SECONDS


def named_certificates(environ: Mapping[str, str]) -> str:
    """The file or folder of certificates that the variables of other HTTP clients name, if any."""
    return environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE") or ""


class HttpClient:
    """Opens addresses, and downloads files from them."""

    def __init__(self, settings: ConnectionSettings, *, only_https: bool = False) -> None:
        """Opens no connection. only_https: refuse http, after a redirect too, but to this machine."""
        self._settings = settings
        self._only_https = only_https
        self._openers = dict[bool, urllib.request.OpenerDirector]()

    def open(self, url: str, headers: Mapping[str, str], authorization: str = "") -> "http.client.HTTPResponse":
        """The answer; its headers were read. authorization: without it, what the address or ~/.netrc says."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"{parts.scheme or 'this'} is no kind of address that can be asked; use https")
        if self._only_https:
            require_https(url)
        host = parts.hostname or ""
        is_trusted = bool({host, f"{host}:{parts.port}"} & set(self._settings.trusted_hosts))
        bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        request = urllib.request.Request(bare, headers={"User-Agent": "mnemod", **headers})
        if credentials := authorization or _credentials(parts):
            # Not sent to another host after a redirect.
            request.add_unredirected_header("Authorization", credentials)
        if is_trusted not in self._openers:
            proxy = self._settings.proxy
            handlers: list[urllib.request.BaseHandler] = [
                urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else None),
                urllib.request.HTTPSHandler(context=_tls_context(self._settings, is_trusted)),
            ]
            self._openers[is_trusted] = urllib.request.build_opener(
                *handlers, *([_HttpsRedirects()] if self._only_https else [])
            )
        answer: http.client.HTTPResponse = self._openers[is_trusted].open(request, timeout=self._settings.timeout)
        return answer

    def download(
        self, url: str, path: Path, progress: Progress | None, *, authorization: str = "", bytes_max: int | None = None
    ) -> None:
        """Complete the file at path, of which a part may be there, with what the address gives.

        Raises OSError or HTTPException for a connection that does not get it, ValueError for more than bytes_max, and
        InstallationError for a file that cannot be written.
        """
        failures = 0
        with path.open("ab") as file:
            while True:
                before = file.tell()
                try:
                    if self._continue(url, file, progress, authorization, bytes_max):
                        return
                    error: Exception = ConnectionError("the connection ended early")
                except (OSError, http.client.HTTPException) as failed:
                    if isinstance(failed, urllib.error.HTTPError):
                        if failed.code < 500 and failed.code != http.HTTPStatus.TOO_MANY_REQUESTS:
                            raise
                        failed.close()
                    error = failed
                failures = 1 if file.tell() > before else failures + 1
                if failures >= ATTEMPTS or _is_unreachable(error):
                    raise error
                time.sleep(PAUSE_SECONDS * 2 ** (failures - 1))

    def _continue(
        self, url: str, file: IO[bytes], progress: Progress | None, authorization: str, bytes_max: int | None
    ) -> bool:
        """Continues a download; True if the file is whole now."""
        done = file.tell()
        try:
            answer = self.open(url, {"Range": f"bytes={done}-"} if done else {}, authorization)
        except urllib.error.HTTPError as error:
            if (
                done and error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            ):  # nothing comes after what is here
                error.close()
                return True
            raise
        with answer:
            if done and answer.status != http.client.PARTIAL_CONTENT:  # it begins again
                file.truncate(0)
                done = file.seek(0)
            length = answer.headers.get("Content-Length")
            total = done + int(length) if length else 0
            while piece := answer.read(PIECE_BYTES):
                done += len(piece)
                if bytes_max is not None and done > bytes_max:
                    raise ValueError(f"it sends more than the {bytes_max} bytes of the file")
                _write(file, piece)
                if progress:
                    progress(done, total)
        return done >= total


def require_https(url: str) -> None:
    """Raises ValueError for an address that is not https, unless it is one of this machine."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    try:
        is_own = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_own = False
    if parts.scheme != "https" and not (is_own and parts.scheme == "http"):
        raise ValueError(f"{hide_credentials(url)} is not https, and nothing is fetched in the clear")


def hide_credentials(address: str) -> str:
    """Return the address without user and password."""
    return re.sub(r"//[^/@]*@", "//", address)


def describe_failure(error: Exception) -> str:
    """Return the error in words, without the user's password."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()  # it is the answer too, and holds the connection
        return f"it answers {error.code} {error.reason}"
    return hide_credentials(
        str(error.reason if isinstance(error, urllib.error.URLError) else error) or type(error).__name__
    )


class _HttpsRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https alone."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_unreachable(error: Exception) -> bool:
    """Return whether nobody is at the address, which another attempt does not change."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return isinstance(cause, socket.gaierror | ConnectionRefusedError | ssl.SSLCertVerificationError)


def _write(file: IO[bytes], piece: bytes) -> None:
    try:
        file.write(piece)
        file.flush()
    except OSError as error:
        raise InstallationError(f"{file.name} could not be written: {error.strerror}") from error


def _tls_context(settings: ConnectionSettings, is_trusted: bool) -> ssl.SSLContext:
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
        raise DownloadError(f"the certificates that are set cannot be read: {error}") from error
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
