"""The client: what it sends, what it makes of answers, and which error says what. SPEC 13, 16."""

import os
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec
import pytest
from platformdirs.macos import MacOS

from mnemo_client import connection
from mnemo_client.client import Client
from mnemo_client.errors import (
    InterruptedAnswerError,
    InvalidAnswerError,
    MnemoError,
    RefusalError,
    SocketPathError,
    StartError,
    UnreachableError,
    UsageError,
)
from mnemo_client.paths import config_file, data_folder, models_folder, socket_path
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import NewMemory, Patch
from mnemo_client.protocol.primitives import FailureAnswer
from mnemo_client.protocol.sessions import NewStep
from tests.support.stub_daemon import ID, StubDaemon, recall_answer, recalled


def memory() -> Any:
    return msgspec.to_builtins(recalled())


def test_a_remembered_text_is_sent_whole_and_its_outcome_returned(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("POST /v1/memories", {"outcome": "stored", "memory": memory()}, 201)
    with Client(stub_daemon.path, "work", entry_point="cli") as client:
        answer = client.remember("The key is with Ines.", tags=["home"], importance=0.8)
    assert answer.outcome == "stored"
    assert answer.memory.id == ID
    asked = stub_daemon.asked[0]
    assert asked.body == {"content": "The key is with Ines.", "tags": ["home"], "importance": 0.8}
    assert asked.headers["x-namespace"] == "work"
    assert asked.headers["x-mnemo-door"] == "cli"
    assert asked.headers["content-type"] == "application/json"


def test_a_namespace_in_the_body_goes_without_the_header_that_it_would_contradict(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("POST /v1/memories", {"outcome": "stored", "memory": memory()})
    with Client(stub_daemon.path, "work") as client:
        client.remember("x", namespace="other")
    assert stub_daemon.asked[0].body["namespace"] == "other"
    assert "x-namespace" not in stub_daemon.asked[0].headers


def test_names_that_are_not_ascii_travel_as_utf_8(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/memories", {"memories": []})
    with Client(stub_daemon.path, "Küche 台所", agent="Ägent") as client:
        client.list_memories()
    assert stub_daemon.asked[0].headers["x-namespace"] == "Küche 台所"
    assert stub_daemon.asked[0].headers["x-mnemo-agent"] == "Ägent"


def test_a_line_break_in_a_name_cannot_add_a_header(stub_daemon: StubDaemon) -> None:
    with Client(stub_daemon.path, "work\r\nX-Mnemo-Door: cli") as client, pytest.raises(UsageError, match="control"):
        client.status()
    assert stub_daemon.asked == []


def test_text_that_is_not_utf_8_is_wrong_usage_and_is_not_sent(stub_daemon: StubDaemon) -> None:
    with Client(stub_daemon.path) as client, pytest.raises(UsageError, match="UTF-8"):
        client.remember("bad \udcff byte")
    assert stub_daemon.asked == []


def test_filters_are_query_parameters_and_a_list_is_the_same_name_again(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/memories", {"memories": [memory()], "cursor": "c2"})
    with Client(stub_daemon.path) as client:
        page = client.list_memories(limit=10, cursor="c1", tags=["a b", "ü"], as_of=12, states=[])
    assert stub_daemon.asked[0].query == {"limit": ["10"], "cursor": ["c1"], "tag": ["a b", "ü"], "as_of": ["12"]}
    assert page.cursor == "c2"
    assert len(page.memories) == 1


def test_an_id_with_a_slash_stays_one_part_of_the_path(stub_daemon: StubDaemon) -> None:
    with Client(stub_daemon.path) as client, pytest.raises(RefusalError):
        client.get("../status")
    assert stub_daemon.asked[0].path == "/v1/memories/..%2Fstatus"


def test_one_connection_serves_many_requests(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/health", {"ok": True, "state": "ready", "version": "0.1.0"})
    with Client(stub_daemon.path) as client:
        for _ in range(3):
            assert client.health().ok
    assert [asked.connection for asked in stub_daemon.asked] == [1, 1, 1]


def test_a_connection_that_was_closed_meanwhile_is_opened_again_for_what_can_be_repeated(
    stub_daemon: StubDaemon,
) -> None:
    stub_daemon.say("GET /v1/health", {"ok": True, "state": "ready", "version": "0.1.0"})
    stub_daemon.say("POST /v1/recall", msgspec.to_builtins(recall_answer()))
    stub_daemon.say("POST /v1/memories", {"outcome": "stored", "memory": memory()})
    with Client(stub_daemon.path) as client:
        client.health()
        for ask in (client.health, lambda: client.recall("x"), lambda: client.remember("x", key="k")):
            stub_daemon.close_connections()
            ask()
    assert len({asked.connection for asked in stub_daemon.asked}) == 4


def test_a_write_without_a_key_or_number_is_never_sent_twice(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/health", {"ok": True, "state": "ready", "version": "0.1.0"})
    stub_daemon.say("POST /v1/memories", None, hang_up=True)
    stub_daemon.say("POST /v1/runs/r/steps", None, hang_up=True)
    with Client(stub_daemon.path) as client:
        client.health()
        with pytest.raises(InterruptedAnswerError, match="may or may not"):
            client.remember("x")
        client.health()
        with pytest.raises(InterruptedAnswerError, match="may or may not"):
            client.add_step("r", NewStep(action="x"))
    assert stub_daemon.paths() == [
        "GET /v1/health", "POST /v1/memories", "GET /v1/health", "POST /v1/runs/r/steps",
    ]  # fmt: skip


def test_a_write_without_a_key_goes_over_a_new_connection_after_a_pause(
    stub_daemon: StubDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_daemon.say("GET /v1/health", {"ok": True, "state": "ready", "version": "0.1.0"})
    stub_daemon.say("POST /v1/memories", {"outcome": "stored", "memory": memory()})
    with Client(stub_daemon.path) as client:
        client.health()
        stub_daemon.close_connections()
        monkeypatch.setattr(connection, "IDLE_SECONDS_MAX", -1.0)
        assert client.remember("x").outcome == "stored"


def test_a_daemon_that_hangs_up_on_every_try_is_tried_twice_at_most(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/status", None, hang_up=True)
    with Client(stub_daemon.path) as client:
        for _ in range(2):
            with pytest.raises(InterruptedAnswerError):
                client.status()
    assert stub_daemon.paths() == ["GET /v1/status"] * 2


def test_an_answer_cut_off_in_the_middle_is_an_interruption(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/health", {"ok": True, "state": "ready", "version": "0.1.0"}, hang_up=5)
    with Client(stub_daemon.path) as client, pytest.raises(InterruptedAnswerError, match="middle"):
        client.health()


def test_a_daemon_that_says_nothing_is_not_waited_for_without_end(stub_daemon: StubDaemon) -> None:
    import threading

    release = threading.Event()
    stub_daemon.answers["GET /v1/health"] = lambda asked: release.wait(5)
    with (
        Client(stub_daemon.path, timeout=0.05) as client,
        pytest.raises(InterruptedAnswerError, match=r"within 0\.05 seconds"),
    ):
        client.health()
    release.set()


def test_nobody_listening_is_unreachable_with_the_way_to_start_it(short_folder: Path) -> None:
    with Client(short_folder / "none.sock") as client, pytest.raises(UnreachableError) as caught:
        client.status()
    assert str(caught.value) == f"no daemon listens on {short_folder / 'none.sock'}"
    assert caught.value.hint == "start it with: mnemo up"
    assert "\nstart it with: mnemo up" in "".join(traceback.format_exception(caught.value))
    assert caught.value.exit_code == 4


def test_a_refusal_carries_code_field_status_and_when_to_come_back(stub_daemon: StubDaemon) -> None:
    error = {"code": "busy", "message": "too many writes are waiting", "field": "content", "hint": "later", "new": 1}
    stub_daemon.say("POST /v1/memories", {"error": error}, 429, headers={"Retry-After": "2"})
    with Client(stub_daemon.path) as client, pytest.raises(RefusalError) as caught:
        client.remember("x")
    refused = caught.value
    assert (refused.code, refused.field, refused.status, refused.retry_after) == ("busy", "content", 429, 2.0)
    assert (refused.message, refused.hint, refused.exit_code) == ("too many writes are waiting", "later", 1)
    assert refused.details["new"] == 1


@pytest.mark.parametrize(
    ("status", "message", "said", "code"),
    [
        (400, "wrong", "importance: wrong", 2),
        (400, "`importance` is given twice", "`importance` is given twice", 2),
        (404, "there is no change 7", "there is no change 7", 3),
        (409, "it is watched already", "it is watched already", 1),
        (422, "only a person can pin a memory", "only a person can pin a memory", 1),
    ],
)
def test_a_wrong_value_is_wrong_usage_and_names_its_field_and_other_refusals_are_sentences(
    status: int, message: str, said: str, code: int
) -> None:
    refused = RefusalError(status, {"code": "x", "message": message, "field": "importance"})
    assert (refused.message, refused.exit_code) == (said, code)


def test_a_missing_memory_ends_with_the_exit_code_for_nothing_found(stub_daemon: StubDaemon) -> None:
    stub_daemon.say(
        f"GET /v1/memories/{ID}", {"error": {"code": "not_found", "message": "there is no such memory"}}, 404
    )
    with Client(stub_daemon.path) as client, pytest.raises(RefusalError) as caught:
        client.get(ID)
    assert caught.value.exit_code == 3


def test_an_error_of_another_shape_is_still_an_error(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/status", b"<html>no</html>", 502)
    with Client(stub_daemon.path) as client, pytest.raises(RefusalError, match="answered 502"):
        client.status()


def test_an_answer_of_another_protocol_is_reported_as_unreadable(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/health", {"ok": "maybe"})
    with Client(stub_daemon.path) as client, pytest.raises(InvalidAnswerError, match="cannot be read"):
        client.health()


def test_a_listener_that_is_no_http_server_is_named(short_folder: Path) -> None:
    import socket
    import threading

    path = short_folder / "odd.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def speak() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"220 mail.example ready\r\n")

        thread = threading.Thread(target=speak)
        thread.start()
        with Client(path) as client, pytest.raises(InvalidAnswerError, match="not a mnemo daemon"):
            client.status()
        thread.join()


def test_fields_of_a_newer_daemon_are_ignored_and_kept_in_the_raw_answer(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/health", {"ok": True, "state": "ready", "version": "9", "mood": "good"})
    with Client(stub_daemon.path) as client:
        assert client.health().version == "9"
        assert msgspec.json.decode(client.last_body)["mood"] == "good"


def test_a_batch_answers_each_in_order_kept_or_refused(stub_daemon: StubDaemon) -> None:
    results = [
        {"error": {"code": "bad_value", "message": "no", "field": "tags"}},
        {"outcome": "stored", "memory": memory()},
    ]
    stub_daemon.say("POST /v1/memories/batch", {"results": results})
    with Client(stub_daemon.path) as client:
        first, second = client.remember_many([NewMemory(content="a"), NewMemory(content="b")])
    assert isinstance(first, FailureAnswer)
    assert first.error.field == "tags"
    assert isinstance(second, RememberAnswer)
    assert stub_daemon.asked[0].body == {"memories": [{"content": "a"}, {"content": "b"}]}


@pytest.mark.parametrize("chunked", [True, False])
def test_an_export_comes_line_by_line_and_leaves_the_connection_usable(stub_daemon: StubDaemon, chunked: bool) -> None:
    stub_daemon.say("GET /v1/export", b'{"a":1}\n{"b":2}\n{"c":3}\n', chunked=chunked)
    stub_daemon.say("GET /v1/health", {"ok": True, "state": "ready", "version": "0.1.0"})
    with Client(stub_daemon.path, "mine") as client:
        assert list(client.export()) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
        client.health()
    assert "x-namespace" not in stub_daemon.asked[0].headers  # everything, not what is in the client's own namespace
    assert [asked.connection for asked in stub_daemon.asked] == [1, 1]


def test_an_export_that_breaks_off_is_not_taken_for_whole(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/export", b'{"a":1}\n{"b":2}\n', chunked=True, hang_up=10)
    with Client(stub_daemon.path) as client, pytest.raises(InterruptedAnswerError, match="export"):
        list(client.export())


def test_an_export_whose_last_line_has_no_end_is_not_taken_for_whole(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/export", b'{"a":1}\n{"b":')
    with Client(stub_daemon.path) as client, pytest.raises(InterruptedAnswerError, match="export"):
        list(client.export())


def test_an_export_left_early_does_not_spoil_the_next_answer(stub_daemon: StubDaemon) -> None:
    stub_daemon.say("GET /v1/export", b'{"a":1}\n{"b":2}\n')
    stub_daemon.say("GET /v1/health", {"ok": True, "state": "ready", "version": "0.1.0"})
    with Client(stub_daemon.path) as client:
        lines = client.export()
        assert next(lines) == b'{"a":1}'
        lines.close()  # type: ignore[attr-defined]
        assert client.health().ok


def test_every_other_route_is_asked_as_the_protocol_says(stub_daemon: StubDaemon) -> None:
    refused: dict[str, Any] = {"error": {"code": "x", "message": "x"}}
    with Client(stub_daemon.path) as client:
        calls: list[tuple[str, Any]] = [
            ("PATCH /v1/memories/abcdef12", lambda: client.patch("abcdef12", Patch(importance=1.0))),
            ("DELETE /v1/memories/abcdef12", lambda: client.delete("abcdef12")),
            ("DELETE /v1/memories", lambda: client.delete_many(confirm=True, tags=["a"])),
            ("GET /v1/trash", client.trash),
            ("POST /v1/trash/abcdef12/restore", lambda: client.restore("abcdef12")),
            ("GET /v1/memories/abcdef12/history", lambda: client.history("abcdef12")),
            ("GET /v1/memories/abcdef12/edges", lambda: client.edges("abcdef12", limit=2)),
            ("POST /v1/undo", client.undo),
            ("POST /v1/recall", lambda: client.recall("q")),
            ("GET /v1/search", lambda: client.search("q", highlight=True)),
            ("GET /v1/recent", lambda: client.recent(limit=3)),
            ("POST /v1/context", lambda: client.context("q")),
            ("POST /v1/ask", lambda: client.ask("q")),
            ("GET /v1/llm/usage", lambda: client.llm_usage("3d")),
            ("GET /v1/config", client.config),
            ("POST /v1/shutdown", client.shutdown),
            ("GET /v1/models", client.models),
            ("POST /v1/models/use", lambda: client.use_model("m")),
            ("POST /v1/models/reindex", client.reindex),
            ("GET /v1/notes/status", client.notes_status),
            ("GET /v1/notes/roots", client.notes_roots),
            ("POST /v1/notes/roots", lambda: client.add_root("/n", "ns")),
            ("DELETE /v1/notes/roots", lambda: client.remove_root(id="r1")),
            ("POST /v1/notes/rescan", client.rescan),
        ]
        for route, call in calls:
            stub_daemon.say(route, refused, 400)
            with pytest.raises(RefusalError):
                call()
    assert stub_daemon.paths() == [route for route, _ in calls]
    bodies = {f"{asked.method} {asked.path}": asked.body for asked in stub_daemon.asked}
    assert bodies["PATCH /v1/memories/abcdef12"] == {"importance": 1.0}
    assert bodies["POST /v1/notes/roots"] == {"path": "/n", "namespace": "ns"}
    queries = {f"{asked.method} {asked.path}": asked.query for asked in stub_daemon.asked}
    assert queries["DELETE /v1/memories"] == {"tag": ["a"], "confirm": ["true"]}
    assert queries["GET /v1/search"] == {"q": ["q"], "highlight": ["true"]}
    assert queries["GET /v1/memories/abcdef12/edges"] == {"limit": ["2"]}
    assert queries["DELETE /v1/notes/roots"] == {"id": ["r1"]}


def test_every_error_has_its_exit_code() -> None:
    codes = {
        MnemoError: 1,
        UsageError: 2,
        SocketPathError: 2,
        UnreachableError: 4,
        StartError: 4,
        InterruptedAnswerError: 1,
    }
    assert {kind: kind("x").exit_code for kind in codes} == codes


# Where things are (SPEC 15)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"MNEMO_SOCKET": "/s/x.sock", "MNEMO_DATA_DIR": "/d", "XDG_RUNTIME_DIR": "/run/u"}, "/s/x.sock"),
        ({"MNEMO_DATA_DIR": "/d", "XDG_RUNTIME_DIR": "/run/u"}, "/d/run/mnemo.sock"),
        ({"XDG_RUNTIME_DIR": "/run/u", "HOME": "/h"}, "/run/u/mnemo/mnemo.sock"),
        ({"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/mnemo/run/mnemo.sock"),
        (
            {"XDG_DATA_HOME": "not/absolute", "XDG_RUNTIME_DIR": "", "HOME": "/h"},
            "/h/.local/share/mnemo/run/mnemo.sock",
        ),
    ],
)
def test_the_socket_is_where_the_environment_says(environ: dict[str, str], expected: str) -> None:
    assert str(socket_path(environ)) == expected


def test_a_socket_path_may_have_107_bytes_and_not_one_more() -> None:
    longest = "/" + "é" * 53  # 1 + 2 * 53 = 107 bytes in 54 characters
    assert str(socket_path({"MNEMO_SOCKET": longest})) == longest
    with pytest.raises(SocketPathError, match="108 bytes; the system allows 107"):
        socket_path({"MNEMO_SOCKET": longest + "x"})


def test_data_and_configuration_have_their_own_places() -> None:
    assert str(data_folder({"HOME": "/h"})) == "/h/.local/share/mnemo"
    assert str(config_file({"HOME": "/h"})) == "/h/.config/mnemo/config.toml"
    assert str(config_file({"MNEMO_CONFIG": "/c/my.toml", "HOME": "/h"})) == "/c/my.toml"
    assert str(config_file({"XDG_CONFIG_HOME": "/c", "HOME": "/h"})) == "/c/mnemo/config.toml"
    assert str(models_folder({"HOME": "/h"})) == "/h/.cache/mnemo/models"
    assert str(models_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"})) == "/c/mnemo/models"
    for variable in ("", "not/absolute", "~/c"):  # as the specification of these variables wants it
        assert str(models_folder({"XDG_CACHE_HOME": variable, "HOME": "/h"})) == "/h/.cache/mnemo/models"


def test_asking_for_a_folder_leaves_the_environment_as_it_was() -> None:
    before, values = os.environ, dict(os.environ)
    data_folder({"HOME": "/h"})
    assert os.environ is before
    assert dict(os.environ) == values


def test_on_macos_the_folders_are_those_that_they_always_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    for variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    found = MacOS("mnemo")
    assert found.user_data_dir == found.user_config_dir == "/h/Library/Application Support/mnemo"
    assert found.user_cache_dir == "/h/Library/Caches/mnemo"


def test_on_macos_a_store_in_the_library_folder_comes_before_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    environ = {"HOME": str(tmp_path), "XDG_DATA_HOME": "/x", "XDG_CACHE_HOME": "/c"}
    assert str(data_folder(environ)) == "/x/mnemo"
    old = tmp_path / "Library" / "Application Support" / "mnemo"
    old.mkdir(parents=True)
    assert data_folder(environ) == old
    assert config_file(environ) == old / "config.toml"
    assert str(models_folder(environ)) == "/c/mnemo/models"
