"""The process of the page: who may ask it, what it passes on, and how it begins and ends. SPEC 18"""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mnemo_client.page.page_server import STATIC, _only_reads
from tests.support.page_process import ANSWER_SECONDS, PageProcess, served_page
from tests.support.running_daemon import RunningDaemon

TEXT = "The spare key is with Inês. <b>bold</b>"


@pytest.fixture(scope="module")
def page(daemon: RunningDaemon) -> Iterator[PageProcess]:
    with served_page(daemon) as page:
        page.sign_in()
        yield page


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + ANSWER_SECONDS
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(what)


# Who may ask


def test_the_secret_of_an_address_signs_one_browser_in_once(daemon: RunningDaemon) -> None:
    with served_page(daemon, "--read-only") as page:
        assert page.address.startswith(f"http://127.0.0.1:{page.port}/#secret=")
        assert page.ask("GET", "/v1/status").status == 401
        assert page.ask("POST", "/page/session", {"secret": "guessed"}).status == 401
        signed_in = page.ask("POST", "/page/session", {"secret": page.secret})
        assert signed_in.status == 200
        cookie = signed_in.headers["Set-Cookie"]
        assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
        again = page.ask("POST", "/page/session", {"secret": page.secret})
        assert (again.status, again.json()["error"]["code"]) == (401, "used_secret")
        assert page.ask("GET", "/v1/status", headers={"Cookie": cookie.split(";")[0]}).status == 200
        assert page.ask("GET", "/v1/status", headers={"Cookie": f"mnemo_{page.port}=guessed"}).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "memory.example:{port}"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://other.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Cookie": "mnemo_0=x"}, 401),
        ({"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}, 200),
    ],
    ids=str,
)
def test_another_site_is_refused_whatever_it_knows(page: PageProcess, headers: dict[str, str], status: int) -> None:
    sent = {name: value.replace("{port}", str(page.port)) for name, value in headers.items()}
    assert page.ask("GET", "/v1/status", headers=sent).status == status
    posted = page.ask("POST", "/v1/recall", {"query": "key", "dry": True}, headers=sent)
    assert posted.status == status


def test_static_files_hold_nothing_and_forbid_everything_from_elsewhere(page: PageProcess) -> None:
    for file in STATIC.rglob("*"):
        if file.suffix not in (".js", ".css", ".svg"):
            continue
        answer = page.ask("GET", f"/{file.relative_to(STATIC)}", headers={"Cookie": ""})
        assert (answer.status, answer.body) == (200, file.read_bytes())
        same = page.ask("GET", f"/{file.relative_to(STATIC)}", headers={"If-None-Match": answer.headers["ETag"]})
        assert (same.status, same.body) == (304, b"")
    shell = page.ask("GET", "/", headers={"Cookie": ""})
    assert shell.headers["Content-Security-Policy"].startswith("default-src 'self'; ")
    assert shell.headers["X-Frame-Options"] == "DENY"
    assert shell.headers["Referrer-Policy"] == "no-referrer"
    for outside in ("/../page_server.py", "/%2e%2e/page_server.py", "/static/app.js", "/etc/passwd"):
        assert page.ask("GET", outside).status == 404


# Passing on


def test_requests_are_those_of_a_person_at_the_page(page: PageProcess, daemon: RunningDaemon) -> None:
    stored = page.ask("POST", "/v1/memories", {"content": TEXT, "namespace": "passed"})
    assert stored.status == 201
    with daemon.client("passed") as client:
        memory = client.get(stored.json()["memory"]["id"])
        assert (memory.content, memory.source, memory.trust) == (TEXT, "page", "user")
        assert [version.by for version in client.history(memory.id).versions] == ["page"]
    found = page.ask("GET", "/v1/search?q=sp%C3%A1re+key&namespace=passed")
    assert [each["content"] for each in found.json()["memories"]] == [TEXT]
    assert found.headers["Cache-Control"] == "no-store"
    wrong = page.ask("POST", "/v1/recall", {"query": ""})
    assert (wrong.status, wrong.json()["error"]["field"]) == (400, "query")


def test_events_arrive_while_they_happen(page: PageProcess, daemon: RunningDaemon) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=ANSWER_SECONDS)
    connection.request("GET", "/v1/events?types=change&namespace=*", headers={"Cookie": page.cookie or ""})
    answer = connection.getresponse()
    lines: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(http.client.IncompleteRead):
            lines.extend(iter(answer.readline, b""))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    until(lambda: any(line.startswith(b"event: start") for line in lines), "no start")
    with daemon.client("events") as client:
        client.remember("An event for those who listen.")
    until(lambda: any(line.startswith(b"event: change") for line in lines), "no change")
    connection.sock.shutdown(socket.SHUT_RDWR)
    reader.join(ANSWER_SECONDS)
    answer.close()
    connection.close()


def test_without_the_daemon_the_page_says_so_and_goes_on_when_it_is_back(scratch_daemon: RunningDaemon) -> None:
    scratch_daemon.start()
    with served_page(scratch_daemon) as page:
        page.sign_in()
        assert page.ask("GET", "/v1/status").status == 200
        scratch_daemon.kill()
        gone = page.ask("GET", "/v1/status")
        assert (gone.status, gone.json()["error"]["code"]) == (503, "unreachable")
        assert page.ask("GET", "/app.js").status == 200
        scratch_daemon.start()
        assert page.ask("GET", "/v1/status").status == 200


def test_a_page_that_is_read_only_changes_nothing_and_exports_nothing(daemon: RunningDaemon) -> None:
    with served_page(daemon, "--read-only") as page:
        page.sign_in()
        assert page.ask("GET", "/page/info").json()["read_only"] is True
        for method, path, body in (
            ("POST", "/v1/memories", {"content": "written"}), ("DELETE", "/v1/memories?confirm=true", None),
            ("PATCH", "/v1/memories/0000", {"pinned": True}), ("POST", "/v1/undo", {}), ("GET", "/v1/export", None),
            ("POST", "/v1/unknown", {}), ("POST", "/v1/shutdown", {}), ("GET", "/v1/unknown", None),
        ):  # fmt: skip
            refused = page.ask(method, path, body)
            assert (refused.status, refused.json()["error"]["code"]) == (403, "read_only"), path
        assert page.ask("POST", "/v1/recall", {"query": "key", "dry": True}).status == 200
        assert page.ask("GET", "/v1/memories").status == 200
    assert _only_reads("POST", "/v1/sessions/x/explain")
    assert not _only_reads("POST", "/v1/sessions/x/chat")


def test_no_path_leads_around_the_routes(page: PageProcess) -> None:
    for path in ("/v1/x/../export", "/v1/./export", "/v1//export", "/v1/%2e%2e/page", "/v1/x/%2E/export", "/v1/"):
        refused = page.ask("GET", path)
        assert (refused.status, refused.json()["error"]["code"]) == (404, "no_route"), path


@pytest.mark.parametrize(
    "body",
    ['{"secret": "\\ud800"}', "[" * 2000, '"text"', "{" + " " * 5000 + "}"],
    ids=("surrogate", "deep", "text", "long"),
)
def test_a_bad_secret_is_refused_and_is_no_bug(page: PageProcess, body: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=ANSWER_SECONDS)
    connection.request("POST", "/page/session", body, {"Host": f"127.0.0.1:{page.port}"})
    answer = connection.getresponse()
    assert answer.status in (401, 413)
    assert b"error" in answer.read()
    connection.close()
    for headers in ({"Authorization": "Bearer \xe9"}, {"Cookie": f"mnemo_{page.port}=\xe9"}):
        assert page.ask("POST", "/page/address", {}, headers).status == 401


# Drafts and the editor


def test_a_draft_is_kept_until_it_is_stored_or_discarded(page: PageProcess) -> None:
    assert page.ask("GET", "/page/drafts/one").json() == {"text": None}
    page.ask("POST", "/page/drafts/one", {"text": "half a sent"})
    assert page.ask("GET", "/page/drafts/one").json() == {"text": "half a sent"}
    page.ask("POST", "/page/drafts/one", {"text": None})
    assert page.ask("GET", "/page/drafts/one").json() == {"text": None}


def test_a_note_opens_in_the_editor_at_its_line(started_daemon: RunningDaemon, tmp_path: Path) -> None:
    notes, words = tmp_path / "notes", tmp_path / "words"
    notes.mkdir()
    (notes / "garden.md").write_text("# Garden\n\n## Apples\n\nPrune the apple trees in February.\n")
    editor = tmp_path / "code"
    editor.write_text(f'#!/bin/sh\necho "$@" > {words}\n')
    editor.chmod(0o755)
    with started_daemon.client() as client:
        client.add_root(notes)
        until(lambda: client.search("prune apple").memories, "the note is not remembered")
        memory = client.search("prune apple").memories[0]
        other = client.remember("Not in a note.").memory
    assert memory.note is not None
    assert other is not None
    with served_page(started_daemon, environ={"VISUAL": str(editor)}) as page:
        page.sign_in()
        assert page.ask("POST", "/page/open", {"id": memory.id}).status == 200
        until(lambda: words.exists() and words.read_text(), "no editor")
        assert words.read_text().split() == ["--goto", f"{notes}/garden.md:{memory.note.lines[0]}"]
        assert page.ask("POST", "/page/open", {"id": other.id}).status == 404
        assert page.ask("POST", "/page/open", {"id": "../status"}).status == 400


# Beginning and end


def test_a_second_command_gives_a_new_address_of_the_first(daemon: RunningDaemon, page: PageProcess) -> None:
    command = [sys.executable, "-m", "mnemo_client.cli.main", "ui", "--no-open"]
    printed = subprocess.run(command, env=daemon.environ, capture_output=True, text=True, check=True)
    address = printed.stdout.strip()
    assert address.startswith(f"http://127.0.0.1:{page.port}/#secret=")
    assert address != page.address
    answer = page.ask("POST", "/page/session", {"secret": address.partition("=")[2]}, {"Cookie": ""})
    assert answer.status == 200
    assert page.ask("POST", "/page/address", {}, {"Authorization": "Bearer guessed"}).status == 401
    other = subprocess.run([*command, "--port", "1"], env=daemon.environ, capture_output=True, text=True, check=False)
    assert other.returncode == 2
    assert "is served at" in other.stderr


def test_a_port_that_is_taken_is_an_error_with_a_way_out(started_daemon: RunningDaemon, page: PageProcess) -> None:
    command = [sys.executable, "-m", "mnemo_client.cli.main", "ui", "--no-open", "--port", str(page.port)]
    failed = subprocess.run(command, env=started_daemon.environ, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert f"port {page.port} cannot be used" in failed.stderr
    assert "--port" in failed.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_told_to_and_leaves_no_record(started_daemon: RunningDaemon, number: int) -> None:
    with served_page(started_daemon) as page:
        record = started_daemon.folder / "run" / "page.json"
        assert json.loads(record.read_bytes())["pid"] == page.process.pid
        assert oct(os.stat(record).st_mode & 0o777) == "0o600"
        page.process.send_signal(number)
        assert page.process.wait(ANSWER_SECONDS) == 0
        assert not record.exists()
