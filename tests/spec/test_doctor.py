"""The checks of the doctor, each shown to find its fault, and the repairs of --fix. SPEC 14"""

import importlib.metadata
import io
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from mnemo_client.cli.context import CommandContext
from mnemo_client.cli.doctor import daemon_checks, machine_checks, place_checks
from mnemo_client.cli.doctor.doctor_checks import DoctorCheck, Examination
from mnemo_client.cli.doctor.examination import CHECKS, run_row
from mnemo_client.cli.doctor.support_bundle import Redactor, masked_log
from mnemo_client.cli.terminal import standard_terminal
from mnemo_client.errors import MnemoError, UnreachableError
from mnemo_client.protocol.ingestion import RememberAnswer
from mnemo_client.protocol.memories import DeleteAnswer
from mnemo_client.protocol.status import (
    ConfigAnswer,
    ConfigValue,
    JobsAnswer,
    JobStatus,
    ModelStatus,
    NetworkStatus,
    NotesRootStatus,
    NotesStatus,
    SkippedFile,
    StatusAnswer,
    ThreadStatus,
)
from tests.support.stub_daemon import ID, CommandLineUser, StubDaemon, recall_answer, recalled, status, view

pytestmark = pytest.mark.usefixtures("utc")


def examined(answer: StatusAnswer | None = None, home: Path | None = None) -> Examination:
    """The subject of the checks: a home of its own, and the status that a daemon would give."""
    environ = {"HOME": str(home or "/people/ines"), "SHELL": "/bin/bash"}
    if home is not None:
        environ |= {"MNEMO_DATA_DIR": str(home / "data"), "MNEMO_CONFIG": str(home / "config.toml"),
                    "XDG_CACHE_HOME": str(home / "cache")}  # fmt: skip
    context = CommandContext(SimpleNamespace(json=False), standard_terminal({}), environ, Path("/"), io.StringIO())
    made = Examination(context, error=None if answer else UnreachableError("no daemon listens"))
    made.status = answer
    return made


def row(name: str) -> Any:
    return next(each for each in CHECKS if each.name == name)


def outcome(name: str, seen: Examination) -> str:
    return str(row(name).run(seen)[0].outcome)


@pytest.mark.parametrize(
    ("mode", "outcome"), [(0o700, "ok"), (0o750, "fail"), (0o500, "ok" if os.getuid() == 0 else "fail")]
)
def test_the_doctor_wants_the_data_folder_private(tmp_path: Path, mode: int, outcome: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)
    (check,) = place_checks.check_data(examined(home=tmp_path))
    folder.chmod(0o700)
    assert check.outcome == outcome
    assert bool(check.fix) is (outcome != "ok")


def test_the_doctor_says_that_the_data_folder_went_while_in_use_and_puts_no_other_in_its_place(tmp_path: Path) -> None:
    reason = "the data folder was moved or deleted; put it back"
    models = {"embedding": ModelStatus("m", "ready")}
    seen = examined(status(state="degraded", reasons=[reason], models=models), tmp_path)
    (check,) = run_row(row("data folder"), seen, fixes=True)
    assert (check.outcome, check.fixed, (tmp_path / "data").exists()) == ("fail", "", False)
    assert check.fix == "put it back, or: mnemo export FILE; mnemo down"
    (check,) = row("store").run(seen)
    assert (check.found, check.fix) == (reason, "see: data folder")
    assert run_row(row("integrity"), seen) == []  # `mnemo repair` would be no help


def test_the_doctor_warns_of_files_that_could_not_be_read_and_not_of_pictures() -> None:
    root = NotesRootStatus(id="r", path="/n", namespace="default", state="watching", files=1, chunks=2, waiting=0)

    def found(**reasons: int) -> tuple[str, str]:
        by_reason = {f"not a kind of note: .{name}" if name != "locked" else name: reasons[name] for name in reasons}
        notes = NotesStatus(roots=[root], skipped_total=sum(reasons.values()), skipped_by_reason=by_reason)
        (check,) = daemon_checks.check_notes(examined(status(notes=notes)))
        return check.outcome, check.found

    assert found() == ("ok", "1 folder")
    assert found(jpg=3, bin=1) == ("ok", "1 folder, 4 files without text or of other kinds skipped")
    assert found(jpg=3, locked=1) == ("warn", "1 file could not be read")


def test_a_folder_or_note_that_may_not_be_read_has_the_change_of_its_mode_or_owner_for_a_fix() -> None:
    def fix(root: NotesRootStatus, *skipped: SkippedFile) -> str:
        notes = NotesStatus(roots=[root], skipped=list(skipped), skipped_total=len(skipped))
        (check,) = daemon_checks.check_notes(examined(status(notes=notes)))
        assert (check.outcome, "/n/a" in check.found) == ("warn", True)
        return check.fix

    root = NotesRootStatus(id="r", path="/n/a", namespace="default", state="watching", files=0, chunks=0, waiting=0)
    denied = "chmod u+rX /n/a; if it is not yours: sudo chown -R $USER /n/a"
    assert fix(root, SkippedFile("/n/b", "huge"), SkippedFile("/n/a", "cannot be opened: Permission denied")) == denied
    missing = msgspec.structs.replace(
        root, state="missing", reason="the folder cannot be opened: Permission denied; its"
    )
    assert fix(missing) == denied
    assert fix(msgspec.structs.replace(missing, reason="gone")) == "mount it, or: mnemo notes rm /n/a"


def test_the_doctor_names_each_fault_and_the_command_that_fixes_it() -> None:
    ill = status(
        version="0.0.9", models={"embedding": ModelStatus(name=None, state="absent")},
        views={"words": view("stale", 1.0), "vectors": view("building", 0.5)},
    )  # fmt: skip
    rows = (row for row in CHECKS if row.name in ("version", "model", "views", "notes"))
    checks = {check.name or row.name: check for row in rows for check in row.run(examined(ill))}
    assert checks["version"].outcome == "warn"
    assert checks["version"].fix == "mnemo down; mnemo up"
    assert (checks["model"].outcome, checks["model"].fix) == ("warn", "mnemo models pull all-MiniLM-L6-v2")
    assert checks["words"].outcome == "fail"
    assert checks["vectors"].outcome == "ok"  # there are none without a model, which has its own check
    assert checks["notes"].outcome == "ok"


def test_the_doctor_says_why_answers_are_not_read_and_what_to_do() -> None:
    def found(reader: ModelStatus) -> list[DoctorCheck]:
        models = {"embedding": ModelStatus("all-MiniLM-L6-v2", "ready"), "reader": reader}
        return list(row("model").run(examined(status(models=models))))

    (_, check) = found(ModelStatus("all-MiniLM-L6-v2", "failed", reason="Bad CRC-32", hint="install mnemod again"))
    assert (check.outcome, check.found) == ("warn", "the reader of answers: Bad CRC-32")
    assert check.fix == "install mnemod again"
    assert len(found(ModelStatus("all-MiniLM-L6-v2", "ready"))) == 1


def test_the_doctor_reports_threads_that_failed() -> None:
    quiet = ThreadStatus(failing=False, restarts=0)
    mended = ThreadStatus(failing=False, restarts=2, last_failure="IndexError: 5", failed_at=1)
    ill = ThreadStatus(failing=True, restarts=9, last_failure="KeyError: 7", failed_at=2)

    def found(**threads: ThreadStatus) -> DoctorCheck:
        (check,) = daemon_checks.check_threads(examined(status(threads=threads)))
        return check

    assert (found(notes=quiet).outcome, found().outcome) == ("ok", "ok")
    assert found(notes=quiet, house=mended).outcome == "warn"
    assert found(house=mended).found == "house was restarted 2 times and works again; last: IndexError: 5"
    assert (found(house=mended, notes=ill).outcome, found(notes=ill).found) == ("fail", "notes fails: KeyError: 7")
    assert found(notes=ill).fix.endswith("mnemod.log")


def test_the_doctor_prints_a_line_for_each_check_and_one_for_its_fix(
    person: CommandLineUser, stub_daemon: StubDaemon
) -> None:
    stub_daemon.stop()
    assert person.give("doctor") == 1
    assert f"fail  daemon         no daemon listens on {stub_daemon.path}\n" in person.out
    assert "→ start it with: mnemo up" in person.out
    assert person.give("doctor", "--json") == 1
    assert json.loads(person.out)["ok"] is False


def test_the_doctor_remembers_finds_and_removes(person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    kept: list[Any] = []

    def remember(asked: Any) -> Any:
        kept.append(asked.body)
        return msgspec.to_builtins(RememberAnswer(outcome="stored", memory=recalled(content=asked.body["content"])))

    stub_daemon.answers["POST /v1/memories"] = remember
    stub_daemon.say("POST /v1/recall", recall_answer(recalled()))
    stub_daemon.say(f"DELETE /v1/memories/{ID}", DeleteAnswer(deleted=1, id=ID))
    stub_daemon.say("GET /v1/status", status())
    person.give("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(person.out)["checks"]}
    assert checks["round trip"]["outcome"] == "ok"
    assert kept[0]["key"] == "doctor round trip"
    assert {asked.headers.get("x-namespace") for asked in stub_daemon.asked} == {"doctor"}
    stub_daemon.say("POST /v1/recall", recall_answer())
    person.give("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(person.out)["checks"]}
    assert checks["round trip"]["outcome"] == "fail"


# Each check finds its fault


def test_there_are_at_least_twenty_checks_and_each_has_its_own_name() -> None:
    names = [each.name for each in CHECKS]
    assert len(set(names)) == len(names) >= 20


def test_every_check_that_is_not_ok_names_its_fix(person: CommandLineUser, stub_daemon: StubDaemon) -> None:
    stub_daemon.stop()
    person.give("doctor", "--json")
    checks = json.loads(person.out)["checks"]
    assert len(checks) >= 20
    assert all(check["fix"] for check in checks if check["outcome"] != "ok"), checks


def test_the_kind_of_a_file_system_is_that_of_the_nearest_mount(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounts = "/dev/a / ext4 rw 0 0\nserver:/x /people/a\\040b nfs4 rw 0 0\ntmpfs /run tmpfs rw 0 0\n"
    kinds = {"/people/a b/data": "nfs4", "/people/a": "ext4", "/run/x": "tmpfs", "/runner": "ext4"}
    assert {path: machine_checks.file_system_of(Path(path), mounts) for path in kinds} == kinds
    table = tmp_path / "mounts"
    monkeypatch.setattr(machine_checks, "MOUNTS_FILE", table)
    seen = examined(home=tmp_path)
    for kind, expected in (("nfs", "fail"), ("fuse.sshfs", "fail"), ("tmpfs", "warn"), ("ext4", "ok"), ("apfs", "ok")):
        table.write_text(f"x / {kind} rw 0 0\n")
        assert outcome("file system", seen) == expected, kind


def test_a_missing_package_a_low_limit_and_a_wrong_clock_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import resource

    seen = examined(home=tmp_path)
    assert [outcome(name, seen) for name in ("python", "open files", "clock", "inodes")] == ["ok"] * 4
    required = ["no-such-package>=1", "x; extra == 'a'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: required)
    assert row("python").run(seen)[0].found == "missing: no-such-package"
    monkeypatch.setattr(machine_checks, "PYTHON_MIN", (99, 0))
    assert "too old" in row("python").run(seen)[0].found
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 256))
    assert outcome("open files", seen) == "warn"
    (tmp_path / "data" / "journal").mkdir(parents=True)
    file = tmp_path / "data" / "journal" / "long_term.jsonl"
    file.touch()
    os.utime(file, (time.time() + 3 * 86_400,) * 2)
    assert outcome("clock", seen) == "fail"
    monkeypatch.setattr(machine_checks, "FREE_INODES_WARN", 1 << 62)
    assert outcome("inodes", seen) == ("warn" if os.statvfs(tmp_path).f_files else "ok")


def test_a_service_whose_program_is_gone_is_found(tmp_path: Path) -> None:
    seen = examined(home=tmp_path)
    assert "not installed" in row("service").run(seen)[0].found
    unit = tmp_path / ".config" / "systemd" / "user" / "mnemod.service"
    unit.parent.mkdir(parents=True)
    unit.write_text('[Service]\nExecStart="/gone/bin/mnemod"\n')
    assert outcome("service", seen) == "fail"
    unit.write_text('[Service]\nExecStart="/bin/sh"\n')
    assert outcome("service", seen) == "ok"


def test_completion_is_reported_for_the_shell_in_use(tmp_path: Path) -> None:
    seen = examined(home=tmp_path)
    assert "not set up for bash" in row("completion").run(seen)[0].found
    (tmp_path / ".bashrc").write_text('eval "$(mnemo completion bash)"\n')
    assert row("completion").run(seen)[0].found == "set up for bash"


def test_a_socket_path_that_is_too_long_and_a_folder_that_others_can_replace_are_found(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)
    home.mkdir()
    assert outcome("socket path", examined(home=home)) == "fail"
    assert outcome("socket path", examined(home=tmp_path)) == "ok"
    shared = tmp_path / "shared"
    shared.mkdir()
    assert outcome("folders above", examined(home=shared)) == "ok"
    shared.chmod(0o777)
    assert outcome("folders above", examined(home=shared)) == "fail"


def test_a_changed_and_a_missing_file_of_a_model_are_found(tmp_path: Path) -> None:
    import hashlib

    seen = examined(home=tmp_path)
    folder = tmp_path / "cache" / "mnemo" / "models" / "mini"
    (folder / "f").mkdir(parents=True)
    (folder / "f" / "model.onnx").write_bytes(b"weights")
    files = {"model.onnx": {"sha256": hashlib.sha256(b"weights").hexdigest(), "size_bytes": 7}}
    (folder / "manifest.json").write_text(json.dumps({"name": "mini", "files_folder": "f", "files": files}))
    assert row("model files").run(seen)[0].found == "1 model complete"
    (folder / "f" / "model.onnx").write_bytes(b"Weights")
    assert "its hash is another one" in row("model files").run(seen)[0].found
    (folder / "f" / "model.onnx").unlink()
    check = row("model files").run(seen)[0]
    assert (check.outcome, check.fix) == ("fail", "mnemo models pull mini")


def test_a_process_that_holds_the_data_folder_and_does_not_answer_is_found(tmp_path: Path) -> None:
    import fcntl

    seen = examined(home=tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "lock").write_text("4711\n")
    assert outcome("lock", seen) == "ok"
    descriptor = os.open(tmp_path / "data", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    check = row("lock").run(seen)[0]
    os.close(descriptor)
    assert (check.outcome, "process 4711 holds" in check.found, check.fix.endswith("kill 4711")) == ("fail", True, True)


def test_wrong_settings_are_found_without_a_daemon(
    person: CommandLineUser, stub_daemon: StubDaemon, short_folder: Path
) -> None:
    stub_daemon.stop()
    config = short_folder / "wrong.toml"
    config.write_text("[recall]\ntop_k = 'many'\n")
    person.environ["MNEMO_CONFIG"] = str(config)
    person.give("doctor", "--json")
    found = {check["name"]: check for check in json.loads(person.out)["checks"]}
    assert found["settings"]["outcome"] == "fail"
    assert "top_k" in found["settings"]["found"]
    config.write_text("[recall\n")
    person.give("doctor", "--json")
    found = {check["name"]: check for check in json.loads(person.out)["checks"]}
    assert found["settings"]["found"].startswith(f"{config}:1: this is not TOML")
    assert found["settings"]["fix"] == "correct it there, then: mnemo up"
    first = "correct the settings, as said above, then: mnemo up"  # which refuses them otherwise
    assert (found["socket"]["fix"], found["daemon"]["fix"]) == (first, first)


def test_failing_jobs_old_backups_a_full_trash_and_waiting_writes_are_found(tmp_path: Path) -> None:
    ill = status(memories=5000, trash={"count": 9, "bytes": 10**9}, queue={"writes": 5000},
                 models={"llm": ModelStatus(name="big", state="failed", reason="no room")})  # fmt: skip
    seen = examined(ill, tmp_path)
    job = JobStatus(name="erasure", summary="", state="failing", reason="x", slice="", heavy=False, runs=0, slices=0,
                    started_at=None, finished_at=None, last_failure="OSError: 5")  # fmt: skip
    seen.jobs = JobsAnswer(jobs=[job])
    found = {name: outcome(name, seen) for name in ("jobs", "backups", "trash", "queue", "language model")}
    assert found == {"jobs": "fail", "backups": "warn", "trash": "warn", "queue": "warn", "language model": "fail"}
    made = tmp_path / "data" / "backups" / "one" / "backup.json"
    made.parent.mkdir(parents=True)
    made.touch()
    assert outcome("backups", seen) == "ok"
    os.utime(made, (time.time() - 40 * 86_400,) * 2)
    assert row("backups").run(seen)[0].found == "the newest is 40 days old"


def test_a_daemon_that_the_kernel_does_not_keep_from_the_network_is_reported_with_the_reason() -> None:
    (kept,) = row("network").run(examined(status(network=NetworkStatus(blocked=True))))
    assert kept.outcome == "ok"
    (free,) = row("network").run(examined(status(network=NetworkStatus(blocked=False, reason="it is switched off"))))
    assert (free.outcome, free.fix) == ("warn", "mnemo config daemon.network_block")
    assert "it is switched off" in free.found
    assert row("network").run(examined(status())) == []


def test_the_trash_is_kept_as_long_as_the_settings_say(tmp_path: Path) -> None:
    seen = examined(status())
    assert row("trash").run(seen)[0].found.endswith("kept for ever")
    seen.settings = ConfigAnswer(values=[ConfigValue(key="trash.keep_days", value=30, origin="x")], file="f")
    assert row("trash").run(seen)[0].found.endswith("kept 30 days")


# What --fix does


def repaired(name: str, home: Path) -> tuple[DoctorCheck, DoctorCheck]:
    """A check before and after --fix."""
    seen = examined(home=home)
    before = row(name).run(seen)[0]
    return before, run_row(row(name), seen, fixes=True)[0]


def test_fix_makes_folders_and_files_private_and_says_so(tmp_path: Path) -> None:
    data, run, models = tmp_path / "data", tmp_path / "data" / "run", tmp_path / "cache" / "mnemo" / "models"
    before, after = repaired("data folder", tmp_path)
    assert (before.outcome, after.outcome, after.fixed) == ("warn", "ok", f"created {data}")
    for folder in (run, models):
        folder.mkdir(parents=True)
    files = {"configuration": tmp_path / "config.toml", "log": run / "mnemod.log"}
    for file in files.values():
        file.touch()
    for name, path, mode in (
        ("data folder", data, 0o755), ("models folder", models, 0o777),
        ("configuration", files["configuration"], 0o644), ("log", files["log"], 0o666), ("log", run, 0o777),
    ):  # fmt: skip
        path.chmod(mode)
        before, after = repaired(name, tmp_path)
        assert before.outcome in ("warn", "fail"), name
        assert after.outcome == "ok", (name, after)
        assert str(path) in after.fixed
        assert repaired(name, tmp_path)[1].fixed == ""  # there is nothing left to do


def test_fix_removes_a_dead_socket_and_old_temporary_files(short_folder: Path) -> None:
    import socket

    run = short_folder / "data" / "run"
    run.mkdir(parents=True)
    for folder in (run, run.parent):
        folder.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(run / "mnemo.sock"))
    (run / "mnemo.sock").chmod(0o600)
    before, after = repaired("socket", short_folder)
    assert before.outcome == "warn"
    assert after.fixed.startswith("removed the socket")
    assert not (run / "mnemo.sock").exists()
    (run / "mnemo.sock").write_text("not a socket")
    before, after = repaired("socket", short_folder)
    assert (before.outcome, after.outcome, after.fixed) == ("fail", "fail", "")
    old, young = run / "last.json.17", run / "last.json.18"
    for file in (old, young):
        file.touch()
    os.utime(old, (time.time() - 7200,) * 2)
    before, after = repaired("leftovers", short_folder)
    assert (before.outcome, after.outcome, after.fixed) == ("warn", "ok", "deleted 1 temporary file")
    assert (old.exists(), young.exists()) == (False, True)


def test_without_fix_nothing_is_changed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    (check,) = run_row(row("data folder"), examined(home=tmp_path))
    assert (check.outcome, check.fixed) == ("fail", "")
    assert data.stat().st_mode & 0o777 == 0o755


def test_a_check_that_cannot_be_carried_out_is_a_failure_and_the_others_go_on() -> None:
    def raising(_: Examination) -> list[DoctorCheck]:
        raise MnemoError("the daemon went away", "mnemo up")

    broken = row("clock")._replace(run=raising)
    (check,) = run_row(broken, examined())
    assert (check.name, check.outcome, check.fix) == ("clock", "fail", "mnemo up")


# Redaction


def test_a_text_keeps_no_path_name_or_quotation() -> None:
    places: dict[str, Path | str] = {
        "DATA": "/people/ines/.local/share/mnemo",
        "NOTES-1": "/people/ines/My Secret Notes",
    }
    redactor = Redactor({"HOME": "/people/ines", "USER": "ines"}, places)
    shown = {
        "/people/ines/.local/share/mnemo": "<DATA>",
        "missing: /people/ines/My Secret Notes": "missing: <NOTES-1>",
        "~/private/plan.md": "~/…",
        "of user Ines on /srv/data": "of user USER on /…",
        "KeyError: 'the key is with Otto'": "KeyError: …",
        "ValueError: line 1\nThe key is with Otto": "ValueError: …",
        "DiskFull: the key is with Otto": "DiskFull: …",
        "zlib.error: the key is with Otto": "zlib.error: …",
        "there is no 'key of Otto": "there is no …",
        "/srv/The key, with Otto (his)/plan.md is missing": "/…",
        "access.allow[0].user: this machine has no user `otto`": "access.allow[0].user: this machine has no user …",
        "set `daemon.tcp_port`, or run `mnemo models pull`": "set `daemon.tcp_port`, or run `mnemo models pull`",
        "there is no setting 'x' here": "there is no setting … here",
        "up to 192,536 folders": "up to 192,536 folders",
    }
    assert {text: redactor.text(text) for text in shown} == shown


def test_a_log_line_keeps_the_words_of_the_program_alone() -> None:
    lines = [
        "2026-11-23 09:41:34,248 INFO open after 0.14 s: 48 changes",
        "2026-11-23 09:41:34,248 ERROR the store could not be opened: The key is with Otto.",
        "2026-11-23 09:41:34,248 INFO The key is with Otto.",
        "The key is with Otto.",
        "Traceback (most recent call last):",
        '  File "/people/ines/x/mnemo_store/store.py", line 12, in open',
        '    raise KeyError("The key is with Otto.")',
        "KeyError: 'The key is with Otto.'",
    ]
    shown = list(masked_log(lines))
    assert shown[0] == lines[0]
    assert shown[1] == "2026-11-23 09:41:34,248 ERROR the store could not be opened: …"
    assert shown[2:6] == [
        "2026-11-23 09:41:34,248 INFO … (21 characters)", "… (21 characters)", lines[4],
        "  File mnemo_store/store.py, line 12",
    ]  # fmt: skip
    assert shown[7] == "KeyError: …"
    assert not [line for line in shown if "Otto" in line or "ines" in line]
