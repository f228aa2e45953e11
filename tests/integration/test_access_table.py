"""Other users and limited programs at a real daemon: what the access table grants them, and nothing more. SPEC 2.1, 13

The tests act as root, who alone can become other users: without root they fail and say so.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from mnemo_client.protocol.ingestion import PieceAnswer, Turn, TurnsRequest
from mnemo_client.protocol.retrieval import RecallRequest
from mnemo_daemon.api.daemon_routes import StatusReport
from mnemo_daemon.api.main_routes import Api
from mnemo_daemon.server import openapi
from mnemo_daemon.server.admission.access_table import AccessEntry, AccessTable
from mnemo_daemon.server.router import Route
from mnemo_daemon.server.sockets import Peer
from mnemo_daemon.services import Services
from tests.support.erasure_services import wait_until
from tests.support.http_application import RunningServer, parsed, until
from tests.support.running_daemon import RunningDaemon

READER, WRITER, ADMIN, STRANGER, BY_PROGRAM = 65534, 65533, 65532, 65531, 65530

CLIENT = """
import json, os, socket, sys
os.setgroups([]), os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
answers = []
for method, target, headers, body in json.load(sys.stdin):
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(sys.argv[2])
    except OSError as failed:
        answers.append([0, {"errno": failed.errno}])
        continue
    data = body.encode()
    lines = [f"{method} {target} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(data)}", *headers]
    try:
        client.sendall(("\\r\\n".join(lines) + "\\r\\n\\r\\n").encode() + data)
    except BrokenPipeError:
        pass  # refused before it was sent
    got = b""
    try:
        while piece := client.recv(65536):
            got += piece
    except ConnectionResetError:
        pass  # the end of an answer to what was refused unread
    head, _, text = got.partition(b"\\r\\n\\r\\n")
    if b"chunked" in head:
        text = b"{}"
    answers.append([int(head.split()[1]), json.loads(text)])
json.dump(answers, sys.stdout)
"""


class PeerRequest(NamedTuple):
    method: str
    target: str
    headers: Sequence[str] = ()
    body: str = ""


class PeerAnswer(NamedTuple):
    status: int
    body: dict[str, Any]

    @property
    def code(self) -> str:
        return str(self.body["error"]["code"]) if "error" in self.body else ""

    @property
    def message(self) -> str:
        return str(self.body["error"]["message"])


def answers_to(
    uid: int,
    path: Path,
    asks: Sequence[PeerRequest],
    python: str = sys.executable,
    environ: Mapping[str, str] | None = None,
) -> list[PeerAnswer]:
    """The answers to another user, each on a connection of its own."""
    ended = subprocess.run(
        [python, "-c", CLIENT, str(uid), str(path)], input=json.dumps(asks), capture_output=True, text=True, check=True,
        env={**os.environ, **(environ or {})},
    )  # fmt: skip
    return [PeerAnswer(status, body) for status, body in json.loads(ended.stdout)]


def answer_to(uid: int, path: Path, *ask: Any, **options: Any) -> PeerAnswer:
    return answers_to(uid, path, [PeerRequest(*ask)], **options)[0]


def post(target: str, *headers: str, **body: Any) -> PeerRequest:
    return PeerRequest("POST", target, headers, json.dumps(body))


class SharedDaemon(NamedTuple):
    daemon: RunningDaemon
    path: Path
    python: Path  # another program than the one that runs the tests


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedDaemon]:
    assert os.geteuid() == 0, "these tests become other users: run them as root"
    folder = Path(tempfile.mkdtemp(prefix="m"))
    folder.chmod(0o755)
    python = folder / "other-python"
    shutil.copy(Path(sys.executable).resolve(), python)
    daemon = RunningDaemon(folder / "data", {"MNEMO_MODELS_FOLDER": str(folder / "models")})
    daemon.folder.mkdir(mode=0o700)
    write_config(daemon, folder / "mnemo.sock", python)
    daemon.start()
    try:
        yield SharedDaemon(daemon, folder / "mnemo.sock", python)
    finally:
        daemon.stop()
        assert not (folder / "mnemo.sock").exists()
        shutil.rmtree(folder)


def write_config(daemon: RunningDaemon, path: Path, python: Path, extra: str = "") -> None:
    (daemon.folder / "config.toml").write_text(f"""
[access]
shared_socket = "{path}"
allow = [
  {{ user = {READER}, right = "read" }},
  {{ user = {WRITER}, right = "write" }},
  {{ user = {ADMIN}, right = "admin" }},
  {{ user = {BY_PROGRAM}, program = "{python}", right = "read", trust = "tool" }},
  {{ user = 0, program = "{python}", right = "write", trust = "agent" }},
  {extra}
]
""")
    (daemon.folder / "config.toml").chmod(0o600)


def every_route() -> tuple[Route, ...]:
    handlers = Api(cast(Services, None), cast(StatusReport, None))
    try:
        return openapi.with_document(handlers.routes(), "0")
    finally:
        handlers.close()


# Every route whose right is not that of its method, or that only a person may ask for.
OTHER_RIGHTS = {
    "POST /v1/recall": "read", "POST /v1/why": "read", "POST /v1/context": "read", "POST /v1/ask": "read",
    "POST /v1/answer": "read", "POST /v1/topics/expand": "read", "POST /v1/sessions/{id}/explain": "read",
    "GET /v1/config": "admin", "POST /v1/check": "admin", "POST /v1/notes/rescan": "admin",
    "POST /v1/topics/rebuild": "admin", "POST /mcp": "read",
}  # fmt: skip


def test_every_route_has_a_right_and_those_that_differ_from_their_method_are_known() -> None:
    for route in every_route():
        by_method = "read" if route.method == "GET" else "write"
        expected = OTHER_RIGHTS.get(
            f"{route.method} {route.path}", "admin" if route.operation.for_person else by_method
        )
        assert route.operation.needed_right == expected, f"{route.method} {route.path}"
        assert route.operation.for_person or not route.operation.for_owner


def test_each_route_is_open_to_those_rights_that_include_its_own_and_to_no_other(shared: SharedDaemon) -> None:
    """The parameter that no route has stops the request after its right was checked, before anything is done."""
    routes = every_route()
    asks = [PeerRequest(route.method, route.path.replace("{", "").replace("}", "") + "?none=1") for route in routes]
    for uid, right in ((READER, "read"), (WRITER, "write"), (ADMIN, "admin")):
        rank = ("read", "write", "admin").index
        for route, answer in zip(routes, answers_to(uid, shared.path, asks), strict=True):
            if rank(route.operation.needed_right) <= rank(right):
                assert answer.status == 400, f"{right}: {route.path}: {answer}"
                continue
            assert (answer.status, answer.code) == (403, "forbidden"), f"{right}: {route.path}"
            assert answer.message == (
                f"this needs the right `{route.operation.needed_right}`, and user-{uid} has `{right}`; "
                "the owner of this daemon can grant it by `access.allow` in config.toml"
            )


def test_a_user_without_an_entry_is_refused_on_the_shared_socket_and_cannot_open_the_owners(
    shared: SharedDaemon,
) -> None:
    answer = answer_to(STRANGER, shared.path, "GET", "/v1/health")
    assert (answer.status, answer.code) == (403, "forbidden")
    assert "`access.allow` in config.toml" in answer.message
    for uid in (STRANGER, ADMIN):
        assert answer_to(uid, shared.daemon.socket, "GET", "/v1/health") == PeerAnswer(0, {"errno": 13})


def test_another_users_word_has_the_trust_of_an_agent_whatever_it_says_of_itself(shared: SharedDaemon) -> None:
    stored, pinned = answers_to(WRITER, shared.path, [
        post("/v1/memories", "X-Mnemo-Door: cli", content="The ferry to Amrum leaves at nine.", importance=0.9),
        post("/v1/memories", content="The ferry to Sylt is a train.", pinned=True),
    ])  # fmt: skip
    assert stored.status == 201
    assert (stored.body["memory"]["trust"], stored.body["memory"]["importance_source"]) == ("agent", "llm")
    assert (pinned.status, pinned.code) == (422, "pinned")
    with shared.daemon.client() as owner:
        versions = owner.history(stored.body["memory"]["id"]).versions
        assert [version.by for version in versions] == [f"cli:user-{WRITER}"]
        kept = owner.remember("The ferry to Pellworm leaves at low tide.", pinned=True)
    edited = answer_to(WRITER, shared.path, "DELETE", f"/v1/memories/{kept.memory.id}")
    assert (edited.status, edited.code) == (422, "pinned")
    found = answers_to(READER, shared.path, [post("/v1/recall", query="ferry", top_k=10)])[0]
    assert {memory["content"][:16] for memory in found.body["memories"]} == {"The ferry to Amr", "The ferry to Pel"}


def test_another_user_never_sees_what_is_sensitive_not_even_by_its_tag(shared: SharedDaemon) -> None:
    with shared.daemon.client(entry_point="cli") as owner:
        secret = owner.remember("The safe opens with 4711.", tags=["sensitive"]).memory
    asks = [
        post("/v1/recall", query="safe", tags=["sensitive"]),
        post("/v1/context", query="safe", tags=["sensitive"]),
        PeerRequest("GET", "/v1/memories?tag=sensitive"),
        PeerRequest("GET", "/v1/resume?tag=sensitive"),
        PeerRequest("GET", "/v1/search?q=safe"),
        PeerRequest("GET", f"/v1/memories/{secret.id}"),
    ]
    for uid in (READER, ADMIN):
        *listed, by_id = answers_to(uid, shared.path, asks)
        assert {answer.status for answer in listed} == {200}
        assert "4711" not in json.dumps(listed)
        assert by_id.status == 404
    with shared.daemon.client() as owner:
        assert owner.get(secret.id).content == secret.content


def test_what_a_peer_that_may_only_read_finds_does_not_count_as_used(shared: SharedDaemon) -> None:
    with shared.daemon.client(entry_point="cli") as owner:
        kept = owner.remember("The attic hatch sticks in winter.", tags=["trigger:attic"]).memory
        asks = [
            post("/v1/recall", query="attic hatch"),
            post("/v1/context", query="attic hatch"),
            post("/v1/ask", question="when does the attic hatch stick?"),
            PeerRequest("GET", "/v1/triggers/attic"),
        ]
        assert [answer.status for answer in answers_to(READER, shared.path, asks)] == [200] * 4
        owner.recall(RecallRequest(query="attic hatch"))
        wait_until(lambda: bool(owner.get(kept.id).access_count))
        assert owner.get(kept.id).access_count == 1  # the owner's, recorded after those of the others would be


def test_what_a_peer_that_may_only_read_is_shown_is_news_when_somebody_else_says_it(shared: SharedDaemon) -> None:
    text = "The boathouse key hangs behind the blue door."
    with shared.daemon.client(entry_point="cli") as owner:
        kept = owner.remember(text).memory
        asks = [
            post("/v1/recall", query="boathouse key"),
            post("/v1/context", query="boathouse key", session_id="boats"),
            post("/v1/ask", question="where is the boathouse key?", session_id="boats"),
            PeerRequest("GET", "/v1/resume?session_id=boats"),
        ]
        shown = answers_to(READER, shared.path, asks)
        assert [text in json.dumps(answer.body) for answer in shown] == [True] * 4
        said = owner.turns(TurnsRequest(session_id="boats", turns=[Turn(role="user", content=text)])).results[0]
        assert isinstance(said, PieceAnswer)
        assert (said.outcome, said.reason) == ("duplicate", None)
        assert owner.get(kept.id).repetition_count == 1


def test_who_may_administer_runs_the_daemon_and_neither_erases_nor_copies_memories(shared: SharedDaemon) -> None:
    cycle, config, *refused, as_agent = answers_to(ADMIN, shared.path, [
        post("/v1/consolidate", dry_run=True),
        PeerRequest("GET", "/v1/config"),
        PeerRequest("GET", "/v1/export"),
        post("/v1/purge", filter={"tags": ["a"]}, dry_run=True),
        PeerRequest("DELETE", "/v1/trash"),
        post("/v1/reset"),
        post("/v1/notes/roots", path="/etc"),
        post("/v1/consolidate", "X-Mnemo-Agent: planner", dry_run=True),
    ])  # fmt: skip
    assert (cycle.status, config.status) == (200, 200)
    for answer in refused:
        assert (answer.status, answer.message) == (422, "only the owner of this daemon may ask for this")
    assert (as_agent.status, as_agent.code) == (422, "refused")
    assert "use the command line" in as_agent.message


def test_a_program_is_known_by_its_file_and_has_the_right_of_its_entry(shared: SharedDaemon) -> None:
    environ = {"PYTHONHOME": sys.base_prefix}
    other: dict[str, Any] = {"python": str(shared.python), "environ": environ}
    status = answer_to(BY_PROGRAM, shared.path, "GET", "/v1/status", **other)
    assert status.status == 200
    assert answer_to(BY_PROGRAM, shared.path, "GET", "/v1/status").status == 403
    own = answers_to(0, shared.daemon.socket, [
        post("/v1/memories", content="A limited program of the owner wrote this."), PeerRequest("GET", "/v1/config"),
    ], **other)  # fmt: skip
    assert (own[0].status, own[0].body["memory"]["trust"]) == (201, "agent")
    assert (own[1].status, own[1].code) == (403, "forbidden")
    assert "other-python has `write`" in own[1].message
    assert answer_to(0, shared.daemon.socket, "GET", "/v1/config").status == 200


def test_a_changed_table_holds_at_once_also_for_connections_that_are_open(shared: SharedDaemon) -> None:
    script = (
        "import os, socket, sys\n"
        f"os.setgid({READER}), os.setuid({READER})\n"
        "client = socket.socket(socket.AF_UNIX)\n"
        "client.settimeout(60)\n"
        "client.connect(sys.argv[1])\n"
        "for line in sys.stdin:\n"
        "    try: client.sendall(b'GET /v1/health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
        "    except BrokenPipeError: pass\n"
        "    print(client.recv(65536)[:12].decode(), flush=True)\n"
    )
    arguments = [sys.executable, "-c", script, str(shared.path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write("ask\n")
        assert client.stdout.readline() == "HTTP/1.1 200\n"
        assert shared.daemon.process is not None
        assert answer_to(STRANGER, shared.path, "GET", "/v1/health").status == 403
        write_config(shared.daemon, shared.path, shared.python, f'{{ user = {STRANGER}, right = "read" }}')
        text = (shared.daemon.folder / "config.toml").read_text()
        (shared.daemon.folder / "config.toml").write_text(text.replace(f'{{ user = {READER}, right = "read" }},', ""))
        shared.daemon.process.send_signal(signal.SIGHUP)
        until(lambda: answer_to(STRANGER, shared.path, "GET", "/v1/health").status == 200, 60.0)
        client.stdin.write("ask\n")
        assert client.stdout.readline() == "\n"  # the connection has ended
        client.stdin.close()
    assert answer_to(READER, shared.path, "GET", "/v1/health").status == 403
    write_config(shared.daemon, shared.path, shared.python)
    shared.daemon.process.send_signal(signal.SIGHUP)
    until(lambda: answer_to(READER, shared.path, "GET", "/v1/health").status == 200, 60.0)


def test_another_user_cannot_take_the_owners_connections(tmp_path: Path) -> None:
    ours = os.geteuid()
    uids = iter([ours + 1] * 65 + [ours])
    access = AccessTable([AccessEntry(user=ours + 1, right="read")])
    running = RunningServer(tmp_path, access=access, credentials=lambda _: Peer(next(uids)))
    open_ones: list[socket.socket] = []
    try:
        for number in range(64):
            open_ones.append(running.connect())
            until(lambda number=number: running.connections() == number + 1)  # type: ignore[misc]
        assert parsed(running.send(b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 503
        assert parsed(running.send(b"GET /v1/memories/1 HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200
    finally:
        for client in open_ones:
            client.close()
        running.stop()


@pytest.mark.parametrize(
    ("mode", "uid", "said"),
    [
        (0o777, 0, "run: chmod go-w {folder}"),
        (0o755, READER, "belongs to user 65534"),
        (None, 0, "does not exist; run: "),
    ],
)
def test_a_shared_socket_in_an_unsafe_folder_stops_the_start_and_leaves_no_socket(
    short_folder: Path, mode: int | None, uid: int, said: str
) -> None:
    folder = short_folder / "shared"
    if mode is not None:
        folder.mkdir()
        folder.chmod(mode)
        os.chown(folder, uid, 0)
    daemon = RunningDaemon(short_folder / "data", {"MNEMO_ACCESS_SHARED_SOCKET": str(folder / "mnemo.sock")})
    process = daemon.begin()
    assert process.wait(60) == 1
    assert said.format(folder=folder) in daemon.log.read_text()
    assert not daemon.socket.exists()
